//! What is said of a prefetched entry, between nodes: bytes in, bytes out. Whatever cannot be read is as if nothing had
//! been said: nodes of other versions are asked too.

use hopcache_core::limits::PREFETCH_BECAUSE_BYTES_MAX;
use hopcache_core::node::NodeName;
use hopcache_learning::gain::CandidateKind;
use hopcache_packstream::{Reader, Token, Writer};

use super::PrefetchedView;

pub(crate) fn write(view: Option<&PrefetchedView>, writer: &mut Writer) {
    let Some(view) = view else { return writer.null() };
    writer.list(5);
    writer.string(cut(&view.because));
    writer.string(view.by.as_str());
    writer.int(i64::try_from(view.kind.place()).unwrap_or(-1));
    writer.float(view.p);
    writer.bool(view.is_used);
}

pub(crate) fn read(reader: &mut Reader<'_>) -> Option<PrefetchedView> {
    let Ok(Token::List(5)) = reader.token() else { return None };
    let because = cut(reader.key().ok()?).to_owned();
    let by = NodeName::new(reader.key().ok()?).ok()?;
    let place = usize::try_from(reader.value().ok()?.as_int()?).ok()?;
    let kind = *CandidateKind::ALL.get(place)?;
    let Ok(Token::Float(p)) = reader.token() else { return None };
    let is_used = reader.value().ok()?.as_bool()?;
    Some(PrefetchedView { because, by, kind, p, is_used })
}

/// No more than people read.
fn cut(text: &str) -> &str {
    let end = (0..=PREFETCH_BECAUSE_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(view: Option<&PrefetchedView>) -> Vec<u8> {
        let mut writer = Writer::new();
        write(view, &mut writer);
        writer.into_bytes()
    }

    /// I13: any cut is nothing said; a long text is cut where a character ends.
    #[test]
    fn it_comes_back_as_it_went_or_not_at_all() {
        let by = NodeName::new("node-b").unwrap();
        let because = "MATCH (p:Person {id: $id}) RETURN p".to_owned();
        let view = PrefetchedView { because, by, kind: CandidateKind::Template, p: 0.62, is_used: true };
        let whole = written(Some(&view));
        assert_eq!(read(&mut Reader::new(&whole)), Some(view.clone()));
        for len in 0..whole.len() {
            assert_eq!(read(&mut Reader::new(&whole[..len])), None, "{len}");
        }
        assert_eq!(read(&mut Reader::new(&written(None))), None);
        let long = PrefetchedView { because: "é".repeat(PREFETCH_BECAUSE_BYTES_MAX), ..view };
        let read = read(&mut Reader::new(&written(Some(&long)))).unwrap();
        assert_eq!(read.because.len(), PREFETCH_BECAUSE_BYTES_MAX & !1);
    }
}
