//! Bodies of requests in explicit transactions: a result with the transaction's own member, and the bodies without a
//! result. The members have the server's order.

use super::{End, RenderError, ResponseForm, ResultView, answer, body, strings};
use crate::json;

/// An open transaction, as its client sees it.
#[derive(Debug, Clone, Copy)]
pub struct OpenTransaction<'a> {
    /// Its name in paths.
    pub id: &'a str,
    /// When it expires: UTC, in seconds, as RFC 3339 writes it.
    pub expires: &'a str,
}

/// What follows a result.
#[derive(Debug, Clone, Copy)]
pub enum Behind<'a> {
    /// The transaction stays open.
    Open(OpenTransaction<'a>),
    /// It is committed, with this bookmark.
    Committed(Option<&'a str>),
}

/// The body of a statement's result in a transaction. `view` has no bookmarks and no errors.
///
/// # Errors
/// As [`super::render_within`].
pub fn in_transaction(
    view: &ResultView<'_>,
    form: ResponseForm,
    behind: Behind<'_>,
    limit_bytes: usize,
) -> Result<Vec<u8>, RenderError> {
    let transaction = match behind {
        Behind::Committed(bookmark) => return answer(view, form, bookmark, limit_bytes),
        Behind::Open(transaction) => transaction,
    };
    let (mut body, end) = body(view, form, limit_bytes)?;
    if end == End::Whole && body.pop() == Some(b'}') {
        body.push(b',');
        transaction_member(&mut body, transaction);
        body.push(b'}');
    }
    Ok(body)
}

/// The body without a result.
#[must_use]
pub fn without_result(behind: Behind<'_>) -> Vec<u8> {
    let mut body = b"{".to_vec();
    match behind {
        Behind::Open(transaction) => transaction_member(&mut body, transaction),
        Behind::Committed(bookmark) => {
            body.extend_from_slice(b"\"bookmarks\":");
            let bookmarks: Vec<String> = bookmark.map(ToOwned::to_owned).into_iter().collect();
            strings(&mut body, &bookmarks);
        }
    }
    body.push(b'}');
    body
}

fn transaction_member(out: &mut Vec<u8>, transaction: OpenTransaction<'_>) {
    out.extend_from_slice(b"\"transaction\":{\"id\":");
    json::string(out, transaction.id);
    out.extend_from_slice(b",\"expires\":");
    json::string(out, transaction.expires);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::Value;

    use super::super::{Counters, Encoding, Times};
    use super::*;

    const OPEN: OpenTransaction<'_> = OpenTransaction { id: "e0a8", expires: "2026-11-23T05:00:30Z" };

    #[test]
    fn bodies_have_the_servers_members_in_its_order() {
        let form = ResponseForm { encoding: Encoding::Plain, counters: Counters::Omit, times: Times::Omit };
        let view = ResultView {
            kind: None,
            fields: &["n".to_owned()],
            records: &[0x91, 0x01],
            summary: &Value::Map(Vec::new()),
            bookmarks: &[],
            errors: &[],
        };
        let text = |body: Result<Vec<u8>, RenderError>| String::from_utf8(body.unwrap()).unwrap();
        let transaction = r#""transaction":{"id":"e0a8","expires":"2026-11-23T05:00:30Z"}"#;
        let data = r#""data":{"fields":["n"],"values":[[1]]}"#;
        let open = in_transaction(&view, form, Behind::Open(OPEN), 1 << 10);
        assert_eq!(text(open), format!("{{{data},{transaction}}}"));
        let committed = in_transaction(&view, form, Behind::Committed(Some("FB:a")), 1 << 10);
        assert_eq!(text(committed), format!(r#"{{{data},"bookmarks":["FB:a"]}}"#));
        assert_eq!(text(Ok(without_result(Behind::Open(OPEN)))), format!("{{{transaction}}}"));
        assert_eq!(text(Ok(without_result(Behind::Committed(Some("FB:a"))))), r#"{"bookmarks":["FB:a"]}"#);
        assert_eq!(text(Ok(without_result(Behind::Committed(None)))), r#"{"bookmarks":[]}"#);
    }
}
