//! The body of `POST /db/{db}/query/v2`: the statement to run, and its options.
//!
//! The server decides which bodies are accepted, scalar coercions included, and the status, code and message of every
//! refusal (tests/differential.rs compares). Two differences are deliberate: nesting beyond [`DEPTH_MAX`] is a 400
//! (the server closes the connection at about a thousand levels), and bodies in UTF-16 or UTF-32 are refused (the
//! server reads them).

mod duration;
mod lex;
mod newer;
mod number;
mod point;
mod temporal;
mod values;
mod vector;

use hopcache_packstream::{DEPTH_MAX, Value, encode_canonical};

pub use crate::render::Encoding;
use lex::{Lexer, Token};

/// Access mode that the client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessMode {
    /// The server refuses writes.
    Read,
    /// The server accepts any statement.
    Write,
}

/// A request, parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRequest {
    /// Statement text, never empty.
    pub statement: String,
    /// Parameters: one PackStream map in canonical form ([`encode_canonical`]).
    pub parameters: Vec<u8>,
    /// Access mode, if the client named one.
    pub access_mode: Option<AccessMode>,
    /// Bookmarks to wait for. The origin judges their content.
    pub bookmarks: Vec<String>,
    /// User to act as. A blank name counts as absent.
    pub impersonated_user: Option<String>,
    /// Whether the answer shows counters.
    pub include_counters: bool,
    /// Longest run in seconds that the client wants. Zero and less count as absent.
    pub max_execution_time_s: Option<u64>,
    /// What only a newer server knows.
    pub newer: NewerMembers,
}

/// A request of an explicit transaction, parsed. Each may come without a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct TransactionRequest {
    /// Statement text. The server tells an empty one from an absent one.
    pub statement: Option<String>,
    /// Parameters as in [`QueryRequest`]. The server refuses an integer that is too large only when it runs the
    /// statement.
    pub parameters: Result<Vec<u8>, RequestError>,
    /// Access mode, if the client named one.
    pub access_mode: Option<AccessMode>,
    /// Bookmarks to wait for.
    pub bookmarks: Vec<String>,
    /// User to act as. A blank name counts as absent.
    pub impersonated_user: Option<String>,
    /// Whether the answer shows counters.
    pub include_counters: bool,
    /// Longest time of the transaction in seconds that the client wants. Zero and less count as absent.
    pub max_execution_time_s: Option<u64>,
    /// The kind of the transaction, as text that only the server understands.
    pub transaction_type: Option<String>,
    /// What only a newer server knows.
    pub newer: NewerMembers,
}

/// Members of a request that an older server refuses ([`crate::Generation::has_times`]).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewerMembers {
    /// `notificationsFilter`, as the options of Bolt that say the same; none if it filters nothing.
    pub notifications: Option<Value>,
    /// `txMetadata`, a map.
    pub tx_metadata: Option<Value>,
    /// The first such member that the request has, also with the value null.
    pub named: Option<&'static str>,
}

/// Why text is not JSON, or does not have the shape of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Ends too early.
    #[error("the JSON ends too early")]
    Cut,
    /// Not JSON at this byte.
    #[error("not JSON at byte {0}")]
    Syntax(usize),
    /// JSON of a type that does not fit here.
    #[error("a value of the wrong type")]
    Type,
    /// The type is right, but the value is not allowed here.
    #[error("a value out of range or of unknown form")]
    Range,
    /// Nested too deep.
    #[error("nested deeper than {DEPTH_MAX} levels")]
    Depth,
    /// More values than are read of one body.
    #[error("too many values: send them in several requests")]
    Long,
    /// An integer beyond 64 bits.
    #[error("an integer beyond 64 bits")]
    BigInteger,
}

/// Why a body is refused. The text is for logs; the client gets [`RequestError::code`] and [`RequestError::message`],
/// as from the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not UTF-8.
    #[error("body: not UTF-8 behind byte {0}; send UTF-8")]
    Utf8(usize),
    /// The body is the JSON value null.
    #[error("body: null; send an object")]
    Null,
    /// The body as a whole is not an object.
    #[error("body: {0}; send one JSON object")]
    Body(Malformed),
    /// A member that the API does not have.
    #[error("{0}: unknown member; remove it")]
    Unknown(String),
    /// A member with a value that it cannot have.
    #[error("{field}: {reason}")]
    Field {
        /// Name of the member; for a parameter `parameters.<name>`.
        field: String,
        /// The fault.
        reason: Malformed,
    },
    /// No statement.
    #[error("statement: missing or empty")]
    NoStatement,
}

impl RequestError {
    /// HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        if *self == Self::Null { 500 } else { 400 }
    }

    /// Code in the body.
    #[must_use]
    pub fn code(&self) -> &'static str {
        if self.is_big_integer() { "N/A" } else { "Neo.ClientError.Request.Invalid" }
    }

    /// Message in the body.
    #[must_use]
    pub fn message(&self) -> &'static str {
        match self {
            Self::Null => "Request failed.",
            Self::NoStatement => "statement cannot be null or empty",
            _ if self.is_big_integer() => "Unable to convert java.math.BigInteger to Neo4j Value.",
            _ => "Bad Request",
        }
    }

    fn is_big_integer(&self) -> bool {
        matches!(self, Self::Field { reason: Malformed::BigInteger, .. })
    }
}

/// Reads a body whose parameters are written in `encoding`.
///
/// # Errors
/// [`RequestError`], which names the member.
pub fn parse(body: &[u8], encoding: Encoding) -> Result<QueryRequest, RequestError> {
    let request = parse_in_transaction(body, encoding)?;
    let statement = request.statement.filter(|statement| !statement.is_empty());
    Ok(QueryRequest {
        statement: statement.ok_or(RequestError::NoStatement)?,
        parameters: request.parameters?,
        access_mode: request.access_mode,
        bookmarks: request.bookmarks,
        impersonated_user: request.impersonated_user,
        include_counters: request.include_counters,
        max_execution_time_s: request.max_execution_time_s,
        newer: request.newer,
    })
}

/// Like [`parse`], for an explicit transaction: the statement may be empty or absent, and so may the whole body.
///
/// # Errors
/// [`RequestError`], which names the member.
pub fn parse_in_transaction(body: &[u8], encoding: Encoding) -> Result<TransactionRequest, RequestError> {
    let mut draft = Draft::default();
    if body.is_empty() {
        return Ok(draft.finish());
    }
    let text = std::str::from_utf8(body).map_err(|error| RequestError::Utf8(error.valid_up_to()))?;
    let mut lexer = Lexer::new(text.strip_prefix('\u{FEFF}').unwrap_or(text));
    match lexer.next().map_err(RequestError::Body)? {
        Token::MapStart => draft.members(&mut lexer, encoding)?,
        // The server builds a request from bare text as well: the text is the statement.
        Token::Text(statement) => draft.statement = Some(statement),
        Token::Null => return Err(RequestError::Null),
        _ => return Err(RequestError::Body(Malformed::Type)),
    }
    Ok(draft.finish())
}

#[derive(Default)]
struct Draft {
    statement: Option<String>,
    parameters: Vec<(String, Value)>,
    /// An integer without a PackStream form is an error only if the request is otherwise whole.
    too_big: Option<String>,
    access_mode: Option<AccessMode>,
    bookmarks: Vec<String>,
    impersonated_user: Option<String>,
    include_counters: bool,
    max_execution_time_s: Option<u64>,
    transaction_type: Option<String>,
    newer: NewerMembers,
}

impl Draft {
    fn members(&mut self, lexer: &mut Lexer<'_>, encoding: Encoding) -> Result<(), RequestError> {
        if lexer.peek() == Some(b'}') {
            return Ok(());
        }
        loop {
            let Token::Text(name) = lexer.next().map_err(RequestError::Body)? else {
                return Err(RequestError::Body(Malformed::Type));
            };
            if lexer.next() != Ok(Token::Colon) {
                return Err(RequestError::Body(Malformed::Type));
            }
            self.member(&name, lexer, encoding)?;
            match lexer.next().map_err(RequestError::Body)? {
                Token::Comma => {}
                Token::MapEnd => return Ok(()),
                _ => return Err(RequestError::Body(Malformed::Type)),
            }
        }
    }

    /// Reads one member. A repeated member replaces the earlier one.
    fn member(&mut self, name: &str, lexer: &mut Lexer<'_>, encoding: Encoding) -> Result<(), RequestError> {
        if name == "parameters" {
            return self.read_parameters(lexer, encoding);
        }
        let in_field = |reason| RequestError::Field { field: name.to_owned(), reason };
        match name {
            "statement" => self.statement = scalar_text(lexer).map_err(in_field)?,
            "accessMode" => self.access_mode = access_mode(lexer).map_err(in_field)?,
            "bookmarks" => self.bookmarks = bookmarks(lexer).map_err(in_field)?,
            "impersonatedUser" => {
                let user = scalar_text(lexer).map_err(in_field)?;
                self.impersonated_user =
                    user.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
            }
            "includeCounters" => self.include_counters = flag(lexer).map_err(in_field)?,
            "maxExecutionTime" => self.max_execution_time_s = seconds(lexer).map_err(in_field)?,
            // For explicit transactions only. Elsewhere the server accepts any text and ignores it.
            "txType" => self.transaction_type = scalar_text(lexer).map_err(in_field)?,
            "notificationsFilter" => {
                self.newer.named.get_or_insert("notificationsFilter");
                self.newer.notifications = newer::notifications_filter(lexer).map_err(in_field)?;
            }
            "txMetadata" => {
                self.newer.named.get_or_insert("txMetadata");
                self.newer.tx_metadata = newer::tx_metadata(lexer).map_err(in_field)?;
            }
            _ => return Err(RequestError::Unknown(name.to_owned())),
        }
        Ok(())
    }

    fn read_parameters(&mut self, lexer: &mut Lexer<'_>, encoding: Encoding) -> Result<(), RequestError> {
        self.parameters.clear();
        self.too_big = None;
        let field = |reason| RequestError::Field { field: "parameters".to_owned(), reason };
        match lexer.next().map_err(field)? {
            Token::Null => return Ok(()),
            Token::MapStart => {}
            _ => return Err(field(Malformed::Type)),
        }
        if lexer.peek() == Some(b'}') {
            lexer.next().map_err(field)?;
            return Ok(());
        }
        loop {
            let name = values::key(lexer).map_err(field)?;
            let mut reader = values::Values::new(lexer, encoding);
            let value = reader
                .value(1)
                .map_err(|reason| RequestError::Field { field: format!("parameters.{name}"), reason })?;
            if reader.saw_big_integer() {
                self.too_big.get_or_insert_with(|| name.clone());
            }
            self.parameters.push((name, value));
            match lexer.next().map_err(field)? {
                Token::Comma => {}
                Token::MapEnd => return Ok(()),
                _ => return Err(field(Malformed::Type)),
            }
        }
    }

    fn finish(self) -> TransactionRequest {
        let parameters = match self.too_big {
            Some(name) => Err(RequestError::Field {
                field: format!("parameters.{name}"),
                reason: Malformed::BigInteger,
            }),
            None => Ok(encode_canonical(&Value::Map(self.parameters))),
        };
        TransactionRequest {
            statement: self.statement,
            parameters,
            access_mode: self.access_mode,
            bookmarks: self.bookmarks,
            impersonated_user: self.impersonated_user,
            include_counters: self.include_counters,
            max_execution_time_s: self.max_execution_time_s,
            transaction_type: self.transaction_type,
            newer: self.newer,
        }
    }
}

/// Text, or any other scalar as it is spelled.
fn scalar_text(lexer: &mut Lexer<'_>) -> Result<Option<String>, Malformed> {
    Ok(match lexer.next()? {
        Token::Null => None,
        Token::Text(text) => Some(text),
        Token::Number(text) => Some(text.to_owned()),
        Token::Bool(flag) => Some(flag.to_string()),
        _ => return Err(Malformed::Type),
    })
}

fn access_mode(lexer: &mut Lexer<'_>) -> Result<Option<AccessMode>, Malformed> {
    let name = match lexer.next()? {
        Token::Null => return Ok(None),
        Token::Text(name) => name,
        Token::Number(ordinal) => ordinal.to_owned(),
        _ => return Err(Malformed::Type),
    };
    // The server's enum has WRITE first, and its reader takes ordinals.
    match name.to_ascii_uppercase().as_str() {
        "READ" | "1" => Ok(Some(AccessMode::Read)),
        "WRITE" | "0" => Ok(Some(AccessMode::Write)),
        _ => Err(Malformed::Range),
    }
}

fn bookmarks(lexer: &mut Lexer<'_>) -> Result<Vec<String>, Malformed> {
    match lexer.next()? {
        Token::Null => return Ok(Vec::new()),
        Token::ListStart => {}
        _ => return Err(Malformed::Type),
    }
    let mut bookmarks = Vec::new();
    if lexer.peek() == Some(b']') {
        lexer.next()?;
        return Ok(bookmarks);
    }
    loop {
        bookmarks.extend(scalar_text(lexer)?);
        match lexer.next()? {
            Token::Comma => {}
            Token::ListEnd => return Ok(bookmarks),
            _ => return Err(Malformed::Type),
        }
    }
}

fn flag(lexer: &mut Lexer<'_>) -> Result<bool, Malformed> {
    match lexer.next()? {
        Token::Null => Ok(false),
        Token::Bool(flag) => Ok(flag),
        Token::Number(number) if number::is_integer(number) => Ok(number::integer(number)? != 0),
        Token::Text(text) => match text.trim() {
            "true" | "True" | "TRUE" => Ok(true),
            "" | "false" | "False" | "FALSE" => Ok(false),
            _ => Err(Malformed::Range),
        },
        _ => Err(Malformed::Type),
    }
}

/// A Java `int` of seconds; a fraction is cut off.
fn seconds(lexer: &mut Lexer<'_>) -> Result<Option<u64>, Malformed> {
    let whole = match lexer.next()? {
        Token::Null => return Ok(None),
        Token::Number(number) if number::is_integer(number) => {
            i32::try_from(number::integer(number).map_err(|_| Malformed::Range)?)
                .map_err(|_| Malformed::Range)?
        }
        Token::Number(number) => number::truncated(number)?,
        Token::Text(text) if text.trim().is_empty() => 0,
        Token::Text(text) => text.trim().parse().map_err(|_| Malformed::Range)?,
        _ => return Err(Malformed::Type),
    };
    Ok(u64::try_from(whole).ok().filter(|seconds| *seconds > 0))
}
