//! The fast reject: whether a text certainly is no cacheable read. [`TextVerdict::Write`] and
//! [`TextVerdict::Bypass`] are final; [`TextVerdict::PerhapsRead`] is only permission to ask the server, the
//! authority on reads and writes: by a run in READ mode, or by `EXPLAIN`.
//!
//! The server does not distinguish volatile from deterministic functions, so this module alone decides that, by lists
//! of harmless names. A function or procedure on no list makes a text a bypass. Wrongly accepted reads are excluded by
//! construction; wrong rejections happen only where noted.

mod calls;
mod clock;
mod names;
mod words;

use std::ops::Range;

use hopcache_core::name_glob::{NameGlob, NameGlobs};

use crate::checks::schema::tokens_show_schema;
use crate::forms::normal::without_end;
use crate::lexer::{Token, TokenKind, Trouble, tokens};
use crate::syntax::Prefix;

/// Functions and procedures that the operator vouches for, beyond the lists of this crate: their results may be cached. A function
/// of the lists that changes by itself stays volatile, whatever the operator allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    functions: NameGlobs,
    procedures: NameGlobs,
}

impl Allowed {
    /// Those whose names fit. The case of letters counts for procedures alone, as at Neo4j.
    #[must_use]
    pub fn new(functions: &[NameGlob], procedures: &[NameGlob]) -> Self {
        let functions = functions.iter().map(NameGlob::lowered).collect();
        Self { functions, procedures: procedures.iter().cloned().collect() }
    }
}

/// The verdict from the tokens of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextVerdict {
    /// Nothing excludes a read: ask the server.
    PerhapsRead,
    /// As `PerhapsRead` for parameters without a clock in them: a temporal function takes a value, and
    /// `date({timezone: 'Z'})` is today. [`TextVerdict::with_params`] decides.
    PerhapsReadOfParams,
    /// It has a clause that writes.
    Write,
    /// It is not cached, for this reason.
    Bypass(BypassReason),
}

hopcache_core::words! {
    /// The reason why a possible read is not cached. A closed list: it labels metrics.
    #[derive(serde::Serialize, serde::Deserialize)]
    pub enum BypassReason {
        /// Indexes, constraints, databases, users, roles, servers: not data.
        Schema = "schema",
        /// `SHOW`, `TERMINATE`, `START`, `STOP`, `GRANT` and their like.
        Administration = "administration",
        /// `EXPLAIN` or `PROFILE`.
        Plan = "plan",
        /// `CYPHER` with an option or a language that this reader does not know.
        Prefix = "prefix",
        /// An explicit `USE`.
        Use = "use",
        /// `LOAD CSV`.
        LoadCsv = "load-csv",
        /// `CALL { … } IN TRANSACTIONS`.
        InTransactions = "in-transactions",
        /// A function that answers differently each time, such as `rand()` or `date()`.
        VolatileFunction = "volatile-function",
        /// A function that is not known to be deterministic: user-defined, or newer than this list.
        UnknownFunction = "unknown-function",
        /// A procedure that is not on the list of allowed ones.
        Procedure = "procedure",
        /// A string, comment or name that does not end.
        Unterminated = "unterminated",
        /// `\uXXXX` where it could be syntax.
        UnicodeEscape = "unicode-escape",
        /// Syntax, numbers or characters that are not known: newer than Cypher 5, or not Cypher's.
        Unreadable = "unreadable",
        /// More than one statement.
        ManyStatements = "many-statements",
        /// Its first word begins no known read.
        UnknownStart = "unknown-start",
    }
}

impl TextVerdict {
    /// The verdict from the tokens of `text`. Takes time linear in the length of the text.
    #[must_use]
    pub fn of(text: &str, allowed: &Allowed) -> Self {
        Self::of_tokens(text, &tokens(text).collect::<Vec<_>>(), allowed)
    }

    /// The same, from its tokens.
    pub(crate) fn of_tokens(text: &str, tokens: &[Token], allowed: &Allowed) -> Self {
        if let Some(reason) = tokens.iter().find_map(trouble) {
            return Self::Bypass(reason);
        }
        let prefix = Prefix::of(text, tokens);
        if let Some((reason, _)) = of_prefix(&prefix) {
            return Self::Bypass(reason);
        }
        if tokens_show_schema(text, tokens) {
            return Self::PerhapsRead;
        }
        // As in the normal form: texts that share a form must share the verdict.
        let tokens = without_end(&tokens[prefix.tokens..]);
        let texts: Vec<&str> = tokens.iter().map(|token| token.text(text)).collect();
        let view = View { tokens, texts: &texts };
        judge(view, allowed).0
    }

    /// The verdict with the parameters known: `params` is a PackStream map. A parameter that mentions a
    /// `timezone` (in any case, as Neo4j reads it), or the string that means "no argument", may be a clock.
    #[must_use]
    pub fn with_params(self, params: &[u8]) -> Self {
        match self {
            Self::PerhapsReadOfParams if clock::is_in(params) => Self::Bypass(BypassReason::VolatileFunction),
            Self::PerhapsReadOfParams => Self::PerhapsRead,
            other => other,
        }
    }

    /// Whether nothing excludes a read.
    #[must_use]
    pub const fn may_read(self) -> bool {
        matches!(self, Self::PerhapsRead | Self::PerhapsReadOfParams)
    }

    /// The verdict in one word, for `explain` and the golden table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PerhapsRead => "perhaps-read",
            Self::PerhapsReadOfParams => "perhaps-read-of-params",
            Self::Write => "write",
            Self::Bypass(reason) => reason.as_str(),
        }
    }
}

/// Whether the first clause of a statement, or of its normal form, is `MATCH` or `OPTIONAL MATCH`.
#[must_use]
pub fn begins_with_match(text: &str) -> bool {
    let mut words = tokens(text).map(|token| token.text(text));
    let first = words.next().unwrap_or_default();
    let clause =
        if first.eq_ignore_ascii_case("OPTIONAL") { words.next().unwrap_or_default() } else { first };
    clause.eq_ignore_ascii_case("MATCH")
}

/// Whether `word` is a keyword that can stand behind a variable, so that the word before it may be one.
#[must_use]
pub fn may_follow_variable(word: &str) -> bool {
    names::AFTER_VARIABLE.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// Whether each function that `text` calls is on a list of this crate. Another one may do something outside of the graph, so a statement
/// with it is not run again unasked. False of a text that this lexer does not read.
///
/// ```
/// use hopcache_cypher::verdict::calls_known_functions;
///
/// assert!(calls_known_functions("USE a MATCH (n) WHERE rand() < 0.1 RETURN date(), apoc.text.join(n.names, ' ')"));
/// assert!(!calls_known_functions("MATCH (n) RETURN date(), mine.send(n)"));
/// ```
#[must_use]
pub fn calls_known_functions(text: &str) -> bool {
    let tokens: Vec<Token> = tokens(text).collect();
    if tokens.iter().any(|token| trouble(token).is_some()) {
        return false;
    }
    let texts: Vec<&str> = tokens.iter().map(|token| token.text(text)).collect();
    calls::knows_functions(View { tokens: &tokens, texts: &texts })
}

/// Plain data: the function, the procedure or the keyword that decides a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decider {
    /// As it is written, without spaces and backticks.
    pub name: String,
    /// Whether it is called with arguments.
    pub has_arguments: bool,
}

/// The name in `text` that decides its verdict; `None` if no name decides. If parameters decide
/// ([`TextVerdict::with_params`]), it is the first function that takes one. For people only, so requests do not pay for it.
#[must_use]
pub fn decided_by(text: &str, allowed: &Allowed) -> Option<Decider> {
    let tokens: Vec<Token> = tokens(text).collect();
    if tokens.iter().any(|token| trouble(token).is_some()) {
        return None;
    }
    let prefix = Prefix::of(text, &tokens);
    if let Some((_, place)) = of_prefix(&prefix) {
        return Some(Decider { name: tokens[place].text(text).to_owned(), has_arguments: false });
    }
    if tokens_show_schema(text, &tokens) {
        return None;
    }
    let tokens = without_end(&tokens[prefix.tokens..]);
    let texts: Vec<&str> = tokens.iter().map(|token| token.text(text)).collect();
    let view = View { tokens, texts: &texts };
    let Range { start, end } = judge(view, allowed).1?;
    let name = Some(view.chain(start, end)).filter(|name| !name.is_empty())?;
    Some(Decider { name, has_arguments: view.is(end, '(') && !view.is(end + 1, ')') })
}

/// The verdict, and the tokens that decide it.
fn judge(view: View<'_>, allowed: &Allowed) -> (TextVerdict, Option<Range<usize>>) {
    match whole(view) {
        Some((verdict, index)) => (verdict, Some(index..index + 1)),
        None => calls::judge(view, allowed),
    }
}

/// The reason why a text with this prefix is not cached, if there is one, and the place of the token that decides it.
fn of_prefix(prefix: &Prefix) -> Option<(BypassReason, usize)> {
    let plan = prefix.plan.map(|place| (BypassReason::Plan, place));
    plan.or_else(|| prefix.unknown.map(|place| (BypassReason::Prefix, place)))
}

fn trouble(token: &Token) -> Option<BypassReason> {
    match token.kind {
        TokenKind::Trouble(Trouble::Unterminated) => Some(BypassReason::Unterminated),
        TokenKind::Trouble(Trouble::UnicodeEscape) => Some(BypassReason::UnicodeEscape),
        TokenKind::Trouble(_) => Some(BypassReason::Unreadable),
        _ => None,
    }
}

/// Verdicts on the text as a whole and on its clauses, each with the token that decides it.
fn whole(view: View<'_>) -> Option<(TextVerdict, usize)> {
    if let Some(verdict) = words::start(view) {
        return Some((verdict, 0));
    }
    let mut sight = words::Sight::default();
    let mut bypass = None;
    for index in 0..view.tokens.len() {
        if view.tokens[index].is(';') && index + 1 < view.tokens.len() {
            return Some((TextVerdict::Bypass(BypassReason::ManyStatements), index));
        }
        // A write is a write, whatever else the text contains.
        match sight.clause(view, index) {
            Some(TextVerdict::Write) => return Some((TextVerdict::Write, index)),
            found => bypass = bypass.or(found.map(|verdict| (verdict, index))),
        }
    }
    bypass
}

/// Tokens and their texts; out of range is "no token".
#[derive(Clone, Copy)]
struct View<'a> {
    tokens: &'a [Token],
    texts: &'a [&'a str],
}

impl<'a> View<'a> {
    fn is(self, index: usize, punct: char) -> bool {
        self.tokens.get(index).is_some_and(|token| token.is(punct))
    }

    /// The unquoted word at `index`.
    fn word(self, index: usize) -> Option<&'a str> {
        let token = self.tokens.get(index)?;
        if token.kind == TokenKind::Word { self.texts.get(index).copied() } else { None }
    }

    fn is_word(self, index: usize, word: &str) -> bool {
        self.word(index).is_some_and(|text| text.eq_ignore_ascii_case(word))
    }

    fn is_any_word(self, index: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(index, word))
    }

    /// Whether the token is a name or keyword, quoted or not.
    fn is_name(self, index: usize) -> bool {
        let kind = self.tokens.get(index).map(|token| token.kind);
        matches!(kind, Some(TokenKind::Word | TokenKind::QuotedWord))
    }

    /// Whether the token is where only a name can be: after `.`, `:` or `$`.
    fn is_qualified(self, index: usize) -> bool {
        index
            .checked_sub(1)
            .is_some_and(|before| self.is(before, '.') || self.is(before, ':') || self.is(before, '$'))
    }

    /// The name at `index` without its backticks.
    fn name(self, index: usize) -> Option<String> {
        let text = self.texts.get(index)?;
        match self.tokens.get(index)?.kind {
            TokenKind::Word => Some((*text).to_owned()),
            TokenKind::QuotedWord => text.get(1..text.len() - 1).map(|inside| inside.replace("``", "`")),
            _ => None,
        }
    }

    /// The index after `a.b.c`, which begins at `index`.
    fn chain_end(self, mut index: usize) -> usize {
        while self.is(index + 1, '.') && self.is_name(index + 2) {
            index += 2;
        }
        index + 1
    }

    /// `a.b.c` in `start..end`, without spaces and backticks.
    fn chain(self, start: usize, end: usize) -> String {
        let parts = (start..end).step_by(2).filter_map(|index| self.name(index));
        parts.collect::<Vec<_>>().join(".")
    }

    /// The same as Neo4j looks functions up: lowered by Unicode's rules, where the Kelvin sign is a k.
    fn lowered_chain(self, start: usize, end: usize) -> String {
        self.chain(start, end).to_lowercase()
    }
}
