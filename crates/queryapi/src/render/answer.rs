//! Whole answers of the Query API: a result with its bookmarks member, and a form's number between nodes.

use super::{Counters, Encoding, End, RenderError, ResponseForm, ResultView, Times, body};

/// The bookmarks member of an answer without a bookmark. It is always there, as in the server's own answers.
const NO_BOOKMARKS: &[u8] = b",\"bookmarks\":[]}";
/// How that member begins.
const BOOKMARKS: &[u8] = b",\"bookmarks\":[";
/// The member's own length is below this: servers' bookmarks have some tens of bytes, and a node's at most 400.
const TAIL_BYTES_MAX: usize = 4 << 10;

impl ResponseForm {
    /// Its number between nodes of a cluster: below [`ResponseForm::COUNT`], and never changed.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        let encoding = Encoding::ALL.iter().position(|known| *known == self.encoding);
        let encoding = encoding.and_then(|at| u8::try_from(at).ok()).unwrap_or(0);
        let times = u8::from(self.times == Times::Include);
        encoding << 2 | times << 1 | u8::from(self.counters == Counters::Include)
    }

    /// The form of a number, if it is one.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        let encoding = *Encoding::ALL.get(usize::from(byte >> 2))?;
        let times = if byte & 2 == 0 { Times::Omit } else { Times::Include };
        let counters = if byte & 1 == 0 { Counters::Omit } else { Counters::Include };
        Some(Self { encoding, counters, times })
    }

    /// How many forms there are.
    pub const COUNT: u8 = 20;
}

/// The body of a whole answer. `view.bookmarks` is replaced by `bookmark`.
///
/// # Errors
/// As [`super::render_within`].
pub fn answer(
    view: &ResultView<'_>,
    form: ResponseForm,
    bookmark: Option<&str>,
    limit_bytes: usize,
) -> Result<Vec<u8>, RenderError> {
    let bookmarks: Vec<String> = bookmark.map(ToOwned::to_owned).into_iter().collect();
    let (mut body, end) = body(&ResultView { bookmarks: &bookmarks, ..*view }, form, limit_bytes)?;
    if end == End::Whole && bookmarks.is_empty() {
        no_bookmarks(&mut body);
    }
    Ok(body)
}

/// Adds the bookmarks member of an answer without a bookmark to a body that has ended.
pub(super) fn no_bookmarks(body: &mut Vec<u8>) {
    if body.pop() == Some(b'}') {
        body.extend_from_slice(NO_BOOKMARKS);
    }
}

/// Replaces the bookmark of a written answer, or adds one to an answer without. Nothing if the bookmark is not plain
/// ASCII.
#[must_use]
pub fn with_bookmark(body: &[u8], bookmark: &str) -> Option<Vec<u8>> {
    // The last member. A bookmark has no quotes, so nothing behind its name looks like the name.
    let tail_at = body.len().saturating_sub(TAIL_BYTES_MAX);
    let (_, tail) = body.split_at(tail_at);
    let member_at = tail.windows(BOOKMARKS.len()).rposition(|part| part == BOOKMARKS)?;
    let (head, _) = body.split_at(tail_at + member_at + BOOKMARKS.len());
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    bookmark.bytes().all(is_plain).then(|| [head, b"\"", bookmark.as_bytes(), b"\"]}"].concat())
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::Value;

    use super::*;

    #[test]
    fn a_form_has_the_same_number_on_every_node() {
        for byte in 0..ResponseForm::COUNT {
            assert_eq!(ResponseForm::from_byte(byte).map(ResponseForm::to_byte), Some(byte));
        }
        assert_eq!(ResponseForm::from_byte(ResponseForm::COUNT), None);
    }

    #[test]
    fn a_bookmark_can_be_added_later() {
        let form = ResponseForm { encoding: Encoding::Plain, counters: Counters::Omit, times: Times::Omit };
        let view = ResultView {
            kind: None,
            fields: &["n".to_owned()],
            records: &[0x91, 0x01],
            summary: &Value::Map(Vec::new()),
            bookmarks: &[],
            errors: &[],
        };
        let without = answer(&view, form, None, 1 << 10).unwrap();
        let with = answer(&view, form, Some("FB:abc"), 1 << 10).unwrap();
        assert_eq!(without, br#"{"data":{"fields":["n"],"values":[[1]]},"bookmarks":[]}"#);
        assert_eq!(with_bookmark(&without, "FB:abc").unwrap(), with);
        assert_eq!(with_bookmark(&with, "FB:abc").unwrap(), with);
        let other = answer(&view, form, Some("FB:longer"), 1 << 10).unwrap();
        assert_eq!(with_bookmark(&with, "FB:longer").unwrap(), other);
        assert_eq!(with_bookmark(&without, "\""), None);
    }
}
