//! An answer in pieces, of a result that is still being read: its head, its records as they come, and its end. Together they are
//! the bytes of [`super::answer`].

use hopcache_packstream::{Reader, Value};

use super::answer::no_bookmarks;
use super::large_record::LargeRecord;
use super::{RenderError, ResponseForm, ResultView, begin, end, record, refuse};

/// A record of more packed bytes is written in pieces itself. In one go its JSON may be thirty times as large.
const LARGE_RECORD_BYTES: usize = 32 << 10;

/// An answer whose records are not over.
#[derive(Debug)]
pub struct Pieces {
    form: ResponseForm,
    is_first: bool,
    is_over: bool,
    /// A record of which some pieces are written.
    large: Option<Box<LargeRecord>>,
    /// Whether the last record is whole.
    is_whole: bool,
}

impl Pieces {
    /// Begins an answer with these columns.
    #[must_use]
    pub fn begin(fields: &[String], form: ResponseForm, out: &mut Vec<u8>) -> Self {
        begin(out, fields);
        Self { form, is_first: true, is_over: false, large: None, is_whole: true }
    }

    /// Whether the answer has ended, because a value has a type that the encoding does not have. As at the server, an error stands
    /// behind the values before it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether no record is written in part.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Appends records until `out` has about `bytes_max` bytes. Returns how many bytes of `records` are done: those of whole records.
    /// The caller gives the others again, from the same place on: a large record goes on where its last piece has ended.
    ///
    /// # Errors
    /// As [`super::render_within`]. Then `out` has nothing of the record that is wrong, and [`Pieces::fail`] ends the answer, unless
    /// pieces of the record went before ([`Pieces::is_whole`]): such an answer has no valid end, and the caller drops it.
    pub fn records(
        &mut self,
        records: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, RenderError> {
        let mut done = 0;
        while done < records.len() {
            let left = &records[done..];
            done += match self.record(left, bytes_max, out)? {
                Written::Whole(len) => len,
                Written::Part => return Ok(done),
                Written::Refused(refused) => {
                    refuse(out, &refused);
                    self.is_over = true;
                    return Ok(records.len());
                }
            };
            if out.len() >= bytes_max {
                break;
            }
        }
        Ok(done)
    }

    /// Appends the first of `records`, or the next piece of it.
    fn record(
        &mut self,
        records: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<Written, RenderError> {
        let encoding = self.form.encoding;
        let mut large = match self.large.take() {
            Some(begun) => begun,
            None if !is_large(records)? => {
                let (mut reader, before) = (Reader::new(records), out.len());
                let refused = record(out, &mut reader, &mut self.is_first, encoding)
                    .inspect_err(|_| out.truncate(before))?;
                return Ok(
                    refused.map_or(Written::Whole(records.len() - reader.rest().len()), Written::Refused)
                );
            }
            None => {
                let begun = Box::new(LargeRecord::begin(records, encoding)?);
                if !std::mem::take(&mut self.is_first) {
                    out.push(b',');
                }
                begun
            }
        };
        self.is_whole = false;
        if !large.write(records, bytes_max, out)? {
            self.large = Some(large);
            return Ok(Written::Part);
        }
        self.is_whole = true;
        Ok(large.refused.map_or(Written::Whole(large.len), Written::Refused))
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

/// How far a record was written.
enum Written {
    /// All of its bytes, which are so many.
    Whole(usize),
    /// A piece.
    Part,
    /// The values before one of this type, which the encoding does not have.
    Refused(String),
}

/// Whether the first of `records` is large.
fn is_large(records: &[u8]) -> Result<bool, RenderError> {
    Ok(records.len() > LARGE_RECORD_BYTES && Reader::new(records).skip()?.len() > LARGE_RECORD_BYTES)
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::{DEPTH_MAX, DecodeError, Writer, encode, tag};

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

    /// The answer in pieces of so many bytes. Also the longest of them.
    fn in_pieces(records: &[u8], form: ResponseForm, bytes_max: usize) -> (Vec<u8>, usize) {
        let mut written = Vec::new();
        let mut pieces = Pieces::begin(&names(), form, &mut written);
        let (mut left, mut longest) = (records, 0);
        while !left.is_empty() {
            let mut piece = Vec::new();
            let done = pieces.records(left, bytes_max, &mut piece).unwrap();
            assert!(!piece.is_empty(), "no piece is empty");
            longest = longest.max(piece.len());
            written.extend_from_slice(&piece);
            left = &left[done..];
        }
        if !pieces.is_over() {
            pieces.end((None, &Value::Null), None, &mut written).unwrap();
        }
        (written, longest)
    }

    /// A record with every kind of value that may be large, some of them nested, and characters of each length at the places
    /// where a text is cut.
    fn large_record() -> Vec<u8> {
        let node = |writer: &mut Writer, id: i64| {
            writer.structure(tag::NODE, 4);
            writer.int(id);
            writer.list(2);
            writer.string("A\"B");
            writer.string(&"l".repeat(20_000));
            writer.map(3);
            writer.string("zz");
            writer.string(&"ä\u{1F600}€\n".repeat(5_000));
            writer.string("a");
            writer.int(7);
            writer.string("m");
            writer.list(2);
            writer.bool(true);
            writer.null();
            writer.string(&format!("4:x:{id}"));
        };
        let kind = |writer: &mut Writer, id: &str| {
            writer.string("KNOWS");
            writer.map(1);
            writer.string("since");
            writer.structure(tag::DATE, 1);
            writer.int(18_000);
            writer.string(id);
        };
        let mut writer = Writer::new();
        writer.list(6);
        writer.list(30_000);
        for n in 0..30_000 {
            writer.bool(n % 2 == 0);
        }
        writer.bytes(&[0xA5; 40_001]);
        node(&mut writer, 1);
        writer.structure(tag::RELATIONSHIP, 8);
        for id in [1, 2, 3] {
            writer.int(id);
        }
        kind(&mut writer, "5:x:1");
        writer.string("4:x:2");
        writer.string("4:x:3");
        writer.structure(tag::PATH, 3);
        writer.list(2);
        node(&mut writer, 1);
        node(&mut writer, 2);
        writer.list(1);
        writer.structure(tag::UNBOUND_RELATIONSHIP, 4);
        writer.int(9);
        kind(&mut writer, "5:x:9");
        writer.list(4);
        for index in [1, 1, -1, 0] {
            writer.int(index);
        }
        writer.map(2_000);
        for n in 0..2_000 {
            writer.string(&format!("key {n}"));
            writer.float(f64::from(n) / 3.0);
        }
        writer.into_bytes()
    }

    /// Shows where two long texts part.
    fn assert_same(written: &[u8], whole: &[u8], encoding: Encoding) {
        let same = written.iter().zip(whole).take_while(|(ours, theirs)| ours == theirs).count();
        let shown = |text: &[u8]| {
            let around = same.saturating_sub(60)..(same + 60).min(text.len());
            String::from_utf8_lossy(&text[around]).into_owned()
        };
        assert!(written == whole, "{encoding:?} at {same}:\n{}\n{}", shown(written), shown(whole));
    }

    /// However large the values of a record are, its pieces are not, and they are the bytes of the whole answer.
    #[test]
    fn a_large_record_is_written_in_small_pieces() {
        let records = [rows(3), large_record(), rows(2), large_record()].concat();
        for encoding in Encoding::ALL {
            let form = ResponseForm { encoding, counters: Counters::Omit, times: Times::Omit };
            let whole = answer(&view_of(&names(), &records), form, None, usize::MAX).unwrap();
            assert!(whole.len() > 1_000_000, "{} bytes", whole.len());
            for bytes_max in [1, 1_000, 64 << 10] {
                let (written, longest) = in_pieces(&records, form, bytes_max);
                assert_same(&written, &whole, encoding);
                assert!(longest < bytes_max + (80 << 10), "{encoding:?}: {longest} bytes in one piece");
            }
        }
    }

    /// As in a whole answer: wherever such a value stands in a large record, the values before the one that has it are there.
    #[test]
    fn a_large_record_ends_before_a_type_that_the_encoding_lacks() {
        let text = encode(&Value::from("x".repeat(50_000).as_str()));
        let unsupported = encode(&Value::List(vec![Value::Int(1), Value::from("NEW")]));
        let mut writer = Writer::new();
        writer.list(1);
        writer.structure(tag::UNSUPPORTED, 4);
        writer.string("NEW");
        writer.int(9);
        writer.int(9);
        writer.map(0);
        let unsupported_inside = writer.into_bytes();
        let mut writer = Writer::new();
        writer.map(1);
        writer.string("id");
        writer.uuid([7; 16]);
        let uuid_inside = writer.into_bytes();
        for inside in [unsupported, unsupported_inside, uuid_inside] {
            let record = [&[0x93][..], &text, &inside, &text].concat();
            let records = [rows(1), record, rows(1)].concat();
            for encoding in Encoding::ALL {
                let form = ResponseForm { encoding, counters: Counters::Omit, times: Times::Omit };
                let whole = answer(&view_of(&names(), &records), form, None, usize::MAX).unwrap();
                assert_same(&in_pieces(&records, form, 1_000).0, &whole, encoding);
            }
        }
    }

    /// What nests deeper than JSON is written ends the answer with an error behind the records before it, whatever the size of its record.
    #[test]
    fn a_record_that_is_too_deep_ends_the_answer_well() {
        let form = ResponseForm { encoding: Encoding::Plain, counters: Counters::Omit, times: Times::Omit };
        // The first of two values of a row is on the second level.
        for (lists, is_too_deep) in [(DEPTH_MAX - 2, false), (DEPTH_MAX - 1, true), (2 * DEPTH_MAX, true)] {
            for text_bytes in [4, 50_000] {
                let deep = [vec![0x91; lists], vec![0x01]].concat();
                let text = encode(&Value::from("x".repeat(text_bytes).as_str()));
                let records = [rows(2), [&[0x92][..], &text, &deep].concat(), rows(1)].concat();
                let whole = answer(&view_of(&names(), &records), form, None, usize::MAX);
                assert_eq!(whole.is_err(), is_too_deep, "{lists} {text_bytes}");
                let mut written = Vec::new();
                let mut pieces = Pieces::begin(&names(), form, &mut written);
                let (mut left, mut wrong) = (&records[..], None);
                while !left.is_empty() && wrong.is_none() {
                    let mut piece = Vec::new();
                    match pieces.records(left, 1_000, &mut piece) {
                        Ok(done) => left = &left[done..],
                        Err(error) => wrong = Some(error),
                    }
                    written.extend(piece);
                }
                assert_eq!(wrong.is_some(), is_too_deep, "{lists} {text_bytes}");
                if !is_too_deep {
                    continue;
                }
                assert!(matches!(wrong, Some(RenderError::PackStream(DecodeError::Depth))));
                assert!(pieces.is_whole());
                pieces.fail("Code", "too deep", &mut written);
                let expected = br#"{"data":{"fields":["n","text"],"values":[[0,"text"],[1,"text"]]},"errors":[{"code":"Code","message":"too deep"}]}"#;
                assert_same(&written, expected, form.encoding);
            }
        }
    }

    /// Bytes that are no result give no answer, as in one go.
    #[test]
    fn a_broken_large_record_is_an_error() {
        let form = ResponseForm { encoding: Encoding::Plain, counters: Counters::Omit, times: Times::Omit };
        let record = large_record();
        let mut pieces = Pieces::begin(&names(), form, &mut Vec::new());
        let cut = &record[..record.len() - 1];
        assert!(matches!(pieces.records(cut, 1_000, &mut Vec::new()), Err(RenderError::PackStream(_))));
    }
}
