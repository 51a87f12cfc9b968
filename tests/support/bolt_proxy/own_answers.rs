//! Runs that the proxy answers itself, as a server would that has what this one lacks. Decides no row: a test does.

use serde_json::{Value, json};

use super::super::bolt_bytes::{chunked, single_field};

const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;

/// The rows of a run with these parameters; each has one value for each field.
type Rows = Box<dyn Fn(&Value) -> Vec<Value> + Send>;

struct Answer {
    part: String,
    fields: &'static [&'static str],
    rows: Rows,
}

/// The answers of a test, by a part of the statement.
#[derive(Default)]
pub(super) struct OwnAnswers(Vec<Answer>);

impl OwnAnswers {
    pub(super) fn add(&mut self, part: &str, fields: &'static [&'static str], rows: Rows) {
        self.0.push(Answer { part: part.to_owned(), fields, rows });
    }

    /// The answers to RUN and to PULL, if the proxy has them.
    pub(super) fn to(&self, statement: &str, params: &Value) -> Option<[Vec<u8>; 2]> {
        let answer = self.0.iter().find(|answer| statement.contains(&answer.part))?;
        let begin = chunked(&single_field(SUCCESS, &json!({ "fields": answer.fields })));
        let rows = (answer.rows)(params);
        let records = rows.iter().flat_map(|row| chunked(&single_field(RECORD, row)));
        // What returns nothing is administration, which this server lacks.
        let end = match answer.fields {
            [] => json!({"type": "w", "stats": {"system-updates": 1}}),
            _ => json!({"type": "r"}),
        };
        let end = chunked(&single_field(SUCCESS, &end));
        Some([begin, records.chain(end).collect()])
    }
}
