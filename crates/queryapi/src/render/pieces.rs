//! An answer in pieces, of a result that is still being read: its head, its records as they come, and its end. Together they are
//! the bytes of [`super::answer`].

use hopcache_packstream::{Reader, Value};

use super::answer::no_bookmarks;
use super::{RenderError, ResponseForm, ResultView, begin, end, record, refuse};

/// An answer whose records are not over.
#[derive(Debug)]
pub struct Pieces {
    form: ResponseForm,
    is_first: bool,
    is_over: bool,
}

impl Pieces {
    /// Begins an answer with these columns.
    #[must_use]
    pub fn begin(fields: &[String], form: ResponseForm, out: &mut Vec<u8>) -> Self {
        begin(out, fields);
        Self { form, is_first: true, is_over: false }
    }

    /// Whether the answer has ended, because a value has a type that the encoding does not have. As at the server, an error stands
    /// behind the values before it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Appends records until `out` has `bytes_max` bytes, one record at least. Returns how many bytes of `records` are done.
    ///
    /// # Errors
    /// As [`super::render_within`]. The caller drops the answer then: it has no valid end.
    pub fn records(
        &mut self,
        records: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, RenderError> {
        let mut reader = Reader::new(records);
        while !reader.is_empty() {
            if let Some(refused) = record(out, &mut reader, &mut self.is_first, self.form.encoding)? {
                refuse(out, &refused);
                self.is_over = true;
                return Ok(records.len());
            }
            if out.len() >= bytes_max {
                break;
            }
        }
        Ok(records.len() - reader.rest().len())
    }

    /// Appends the end of a result that is whole.
    ///
    /// # Errors
    /// As [`super::render_within`].
    pub fn end(
        self,
        (kind, summary): (Option<&str>, &Value),
        bookmark: Option<&str>,
        out: &mut Vec<u8>,
    ) -> Result<(), RenderError> {
        let bookmarks: Vec<String> = bookmark.map(ToOwned::to_owned).into_iter().collect();
        let view =
            ResultView { kind, fields: &[], records: &[], summary, bookmarks: &bookmarks, errors: &[] };
        end(out, &view, self.form)?;
        if bookmarks.is_empty() {
            no_bookmarks(out);
        }
        Ok(())
    }

    /// Appends the end of a result that has failed behind its records: the code and the message of the failure.
    pub fn fail(self, code: &str, message: &str, out: &mut Vec<u8>) {
        super::fail(out, &[(code.to_owned(), message.to_owned())]);
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::encode;

    use super::super::{Counters, Encoding, Times, answer, render};
    use super::*;

    fn rows(count: i64) -> Vec<u8> {
        let row = |n: i64| encode(&Value::List(vec![Value::Int(n), Value::from("text")]));
        (0..count).flat_map(row).collect()
    }

    fn names() -> Vec<String> {
        vec!["n".to_owned(), "text".to_owned()]
    }

    fn view_of<'a>(fields: &'a [String], records: &'a [u8]) -> ResultView<'a> {
        ResultView { kind: None, fields, records, summary: &Value::Null, bookmarks: &[], errors: &[] }
    }

    /// Each form, in pieces of any length, with and without a bookmark.
    #[test]
    fn pieces_are_the_bytes_of_the_whole_answer() {
        let notes = Value::List(vec![Value::Map(vec![("code".to_owned(), Value::from("Neo.Note"))])]);
        let summary = Value::Map(vec![
            ("notifications".to_owned(), notes),
            ("t_first".to_owned(), Value::Int(3)),
            ("t_last".to_owned(), Value::Int(4)),
        ]);
        for count in [0, 1, 40] {
            let (records, fields) = (rows(count), names());
            for (encoding, bookmark) in
                [(Encoding::Plain, None), (Encoding::Typed, Some("FB:abc")), (Encoding::TypedV12, None)]
            {
                let form = ResponseForm { encoding, counters: Counters::Include, times: Times::Include };
                let view = ResultView { kind: Some("r"), summary: &summary, ..view_of(&fields, &records) };
                let whole = answer(&view, form, bookmark, usize::MAX).unwrap();
                for bytes_max in [1, 100, 10_000] {
                    let mut written = Vec::new();
                    let mut pieces = Pieces::begin(&fields, form, &mut written);
                    let mut left = &records[..];
                    while !left.is_empty() {
                        let mut piece = Vec::new();
                        let done = pieces.records(left, bytes_max, &mut piece).unwrap();
                        assert!(done > 0 && piece.len() < bytes_max + 100);
                        written.extend_from_slice(&piece);
                        left = &left[done..];
                    }
                    pieces.end((Some("r"), &summary), bookmark, &mut written).unwrap();
                    assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&whole));
                }
            }
        }
    }

    #[test]
    fn a_failure_stands_behind_the_records_as_in_a_whole_body() {
        let form = ResponseForm { encoding: Encoding::Plain, counters: Counters::Omit, times: Times::Omit };
        let (records, fields) = (rows(2), names());
        let failures = [("Neo.ClientError.Statement.ArithmeticError".to_owned(), "/ by zero".to_owned())];
        let view = ResultView { errors: &failures, ..view_of(&fields, &records) };
        let mut written = Vec::new();
        let mut pieces = Pieces::begin(&fields, form, &mut written);
        assert_eq!(pieces.records(&records, usize::MAX, &mut written), Ok(records.len()));
        assert!(!pieces.is_over());
        pieces.fail(&failures[0].0, &failures[0].1, &mut written);
        assert_eq!(written, render(&view, form).unwrap());
    }

    /// As in a whole body: the values before it, then an error, and nothing behind it.
    #[test]
    fn a_type_that_the_encoding_lacks_ends_the_answer() {
        let form = ResponseForm { encoding: Encoding::Typed, counters: Counters::Omit, times: Times::Omit };
        let uuid = {
            let mut writer = hopcache_packstream::Writer::new();
            writer.list(1);
            writer.uuid([7; 16]);
            writer.into_bytes()
        };
        let records =
            [encode(&Value::List(vec![Value::Int(1)])), uuid, encode(&Value::List(vec![Value::Int(2)]))];
        let (records, fields) = (records.concat(), vec!["v".to_owned()]);
        let view = view_of(&fields, &records);
        let mut written = Vec::new();
        let mut pieces = Pieces::begin(&fields, form, &mut written);
        assert_eq!(pieces.records(&records, usize::MAX, &mut written), Ok(records.len()));
        assert!(pieces.is_over());
        assert_eq!(written, answer(&view, form, None, usize::MAX).unwrap());
    }
}
