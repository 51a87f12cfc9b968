//! Facts about a statement that are needed before it runs: whether it may write, and the names of its columns, which
//! the library tells only with the first row.
//!
//! A column has the name behind `AS`, or else the text of its expression, as in Neo4j. If the library would choose
//! another name, the expression gets a name of ours (`AS hopcache_3`) in the text that runs, and its own name back in
//! the result.
//!
//! It never decides that a statement *is* a read. It only decides which statements *run* as reads: in a read
//! transaction, in which the library itself refuses to write.

use std::fmt::Write as _;

use hopcache_core::result::StatementKind;

use crate::lexer::{Kind, Token, tokens};

/// Words that open a clause that writes, or that we cannot judge.
const WRITES: [&str; 9] = ["CREATE", "MERGE", "SET", "DELETE", "DETACH", "REMOVE", "DROP", "FOREACH", "LOAD"];
/// Words that a read begins with.
const READS: [&str; 5] = ["MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN"];

/// A statement ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PreparedStatement {
    /// The text for the library.
    pub(crate) text: String,
    /// Name of each column, and its name in the library.
    pub(crate) columns: Vec<Column>,
    /// The most that it may do.
    pub(crate) kind: StatementKind,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) library_name: String,
}

/// Why a statement is not given to the library. A client sees all of them as syntax errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StatementRefusal {
    #[error("Unexpected end of input: the statement is empty")]
    Empty,
    #[error("Query cannot conclude with {0} (must be a RETURN clause or an update clause)")]
    NoReturn(String),
    #[error("Multiple result columns with the same name are not supported")]
    SameName,
    #[error("All sub queries in an UNION must have the same return column names")]
    UnionNames,
    #[error("the embedded sample graph does not know {0}; run this statement on Neo4j")]
    Unknown(&'static str),
}

/// The most that `statement` may do. It is [`StatementKind::ReadWrite`] for any statement that is not understood.
pub(crate) fn kind(statement: &str) -> StatementKind {
    kind_of(&tokens(statement))
}

fn kind_of(tokens: &[Token<'_>]) -> StatementKind {
    let is_clause = |at: usize| at == 0 || !tokens[at - 1].is(".");
    let has = |word: &str| (0..tokens.len()).any(|at| tokens[at].is(word) && is_clause(at));
    let begins = tokens.first().is_some_and(|first| READS.iter().any(|word| first.is(word)));
    let schema = |token: &Token<'_>| token.is("INDEX") || token.is("CONSTRAINT");
    let changes = tokens.first().is_some_and(|first| first.is("CREATE") || first.is("DROP"));
    match () {
        () if changes && tokens.get(1).is_some_and(schema) => StatementKind::Schema,
        () if begins && !WRITES.iter().any(|word| has(word)) && !has("CALL") => StatementKind::Read,
        () if has("CALL") || has("RETURN") || !WRITES.iter().any(|word| has(word)) => {
            StatementKind::ReadWrite
        }
        () => StatementKind::Write,
    }
}

/// Finds columns and kind.
pub(crate) fn prepare(statement: &str) -> Result<PreparedStatement, StatementRefusal> {
    let tokens = tokens(statement);
    let kind = kind_of(&tokens);
    refuse_unknown(&tokens, kind)?;
    let mut columns: Option<Vec<Column>> = None;
    let mut edits: Vec<(usize, String)> = Vec::new();
    for branch in tokens.split(|token| token.depth == 0 && token.is("UNION")) {
        let found = match return_items(branch) {
            Some(items) => branch_columns(statement, &items, &mut edits)?,
            None if kind == StatementKind::Read => {
                return Err(StatementRefusal::NoReturn(
                    branch.first().map_or("", |token| token.text).to_uppercase(),
                ));
            }
            None => Vec::new(),
        };
        match &columns {
            None => columns = Some(found),
            Some(first) if first.iter().map(|one| &one.name).ne(found.iter().map(|one| &one.name)) => {
                return Err(StatementRefusal::UnionNames);
            }
            Some(_) => {}
        }
    }
    Ok(PreparedStatement { text: edited(statement, &edits), columns: columns.unwrap_or_default(), kind })
}

fn refuse_unknown(tokens: &[Token<'_>], kind: StatementKind) -> Result<(), StatementRefusal> {
    let first = tokens.first().ok_or(StatementRefusal::Empty)?;
    let is_call = |name: &str| tokens.windows(2).any(|pair| pair[0].is(name) && pair[1].is("("));
    match () {
        () if first.is("EXPLAIN") || first.is("PROFILE") => {
            Err(StatementRefusal::Unknown("EXPLAIN and PROFILE"))
        }
        () if kind == StatementKind::Schema => {
            Err(StatementRefusal::Unknown("commands that change the schema"))
        }
        () if tokens.iter().any(|token| token.kind == Kind::Word && token.is("CALL")) => {
            Err(StatementRefusal::Unknown("CALL: it has no procedures"))
        }
        // The library answers null for the number of a relationship.
        () if is_call("id") => {
            Err(StatementRefusal::Unknown("id(): compare nodes themselves, or the property id"))
        }
        () => Ok(()),
    }
}

/// The items of the last RETURN of one branch, split at its commas; `None` without a RETURN.
fn return_items<'t, 'a>(branch: &'t [Token<'a>]) -> Option<Vec<&'t [Token<'a>]>> {
    let plain = |at: usize| at == 0 || !(branch[at - 1].is(".") || branch[at - 1].is("AS"));
    let at_top = |at: usize, word: &str| branch[at].depth == 0 && branch[at].is(word) && plain(at);
    let returns = (0..branch.len()).rev().find(|at| at_top(*at, "RETURN"))?;
    let mut from = returns + 1;
    if branch.get(from).is_some_and(|token| token.is("DISTINCT")) {
        from += 1;
    }
    let ends = |at: &usize| ["ORDER", "SKIP", "LIMIT", ";"].iter().any(|word| at_top(*at, word));
    let to = (from..branch.len()).find(ends).unwrap_or(branch.len());
    let items = &branch[from.min(to)..to];
    Some(items.split(|token| token.depth == 0 && token.is(",")).collect())
}

fn branch_columns(
    statement: &str,
    items: &[&[Token<'_>]],
    edits: &mut Vec<(usize, String)>,
) -> Result<Vec<Column>, StatementRefusal> {
    let mut columns: Vec<Column> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let column = column(statement, index, item, edits)?;
        if columns.iter().any(|other| other.name == column.name) {
            return Err(StatementRefusal::SameName);
        }
        columns.push(column);
    }
    Ok(columns)
}

fn column(
    statement: &str,
    index: usize,
    item: &[Token<'_>],
    edits: &mut Vec<(usize, String)>,
) -> Result<Column, StatementRefusal> {
    let same = |name: &str| Column { name: name.to_owned(), library_name: name.to_owned() };
    match item {
        // Nothing between two commas: the library names the error.
        [] => Ok(same("")),
        [star] if star.is("*") => Err(StatementRefusal::Unknown("RETURN *: name the columns")),
        [one] if is_variable(one) => Ok(same(one.text)),
        [.., before, alias, name]
            if alias.is("AS") && !before.is(".") && matches!(name.kind, Kind::Word | Kind::Quoted) =>
        {
            Ok(same(name.text.trim_matches('`')))
        }
        [first, .., last] | [first @ last] => {
            let text = &statement[first.start..last.end()];
            let library_name = format!("hopcache_{index}");
            edits.push((last.end(), format!(" AS {library_name}")));
            let text =
                if item.len() == 1 && first.kind == Kind::Quoted { text.trim_matches('`') } else { text };
            Ok(Column { name: text.to_owned(), library_name })
        }
    }
}

fn is_variable(token: &Token<'_>) -> bool {
    let literal = ["true", "false", "null"].iter().any(|word| token.is(word));
    let named = token.text.starts_with(|first: char| first.is_alphabetic() || first == '_');
    token.kind == Kind::Word && named && !literal
}

fn edited(statement: &str, edits: &[(usize, String)]) -> String {
    let mut text = String::with_capacity(statement.len() + edits.len() * 16);
    let mut from = 0;
    for (at, insert) in edits {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{insert}", &statement[from..*at]);
        from = *at;
    }
    text.push_str(&statement[from..]);
    text
}

#[cfg(test)]
mod tests;
