//! The request in a client's message. This file reads the message's own fields; the caller decides whether they make
//! sense together.

use bytes::Bytes;
use hopcache_packstream::{DecodeError, Reader, Token, Value};

/// Which request a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// HELLO: names the client, and has its credentials below 5.1.
    Hello,
    /// LOGON: brings credentials.
    Logon,
    /// LOGOFF: ends the log-on.
    Logoff,
    /// TELEMETRY: names a function of the driver.
    Telemetry,
    /// Asks for a routing table.
    Route,
    /// Runs a statement.
    Run,
    /// Asks for records.
    Pull,
    /// Drops records.
    Discard,
    /// BEGIN: begins a transaction.
    Begin,
    /// Commits it.
    Commit,
    /// Rolls it back.
    Rollback,
    /// RESET: ends everything that is under way.
    Reset,
    /// GOODBYE: the client leaves.
    Goodbye,
}

impl Kind {
    /// Every request.
    pub const ALL: [Self; 13] = [
        Self::Hello,
        Self::Logon,
        Self::Logoff,
        Self::Telemetry,
        Self::Route,
        Self::Run,
        Self::Pull,
        Self::Discard,
        Self::Begin,
        Self::Commit,
        Self::Rollback,
        Self::Reset,
        Self::Goodbye,
    ];

    /// Its signature byte, and how many fields it has.
    #[must_use]
    pub const fn signature(self) -> (u8, usize) {
        match self {
            Self::Hello => (0x01, 1),
            Self::Goodbye => (0x02, 0),
            Self::Reset => (0x0F, 0),
            Self::Run => (0x10, 3),
            Self::Begin => (0x11, 1),
            Self::Commit => (0x12, 0),
            Self::Rollback => (0x13, 0),
            Self::Discard => (0x2F, 1),
            Self::Pull => (0x3F, 1),
            Self::Telemetry => (0x54, 1),
            Self::Route => (0x66, 3),
            Self::Logon => (0x6A, 1),
            Self::Logoff => (0x6B, 0),
        }
    }

    /// Its name in the specification.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hello => "HELLO",
            Self::Logon => "LOGON",
            Self::Logoff => "LOGOFF",
            Self::Telemetry => "TELEMETRY",
            Self::Route => "ROUTE",
            Self::Run => "RUN",
            Self::Pull => "PULL",
            Self::Discard => "DISCARD",
            Self::Begin => "BEGIN",
            Self::Commit => "COMMIT",
            Self::Rollback => "ROLLBACK",
            Self::Reset => "RESET",
            Self::Goodbye => "GOODBYE",
        }
    }

    fn of(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.signature().0 == tag)
    }
}

/// Bytes of a message besides statement and parameters. Options are bookmarks, metadata and filters. They are decoded, and a
/// decoded list of small numbers takes 40 times its bytes. Neo4j has no such bound; a thousand bookmarks fit.
pub const OPTIONS_BYTES_MAX: usize = 128 << 10;

/// A whole message of known kind. Its fields are not read yet: a message may have megabytes, and its receiver decides when,
/// and where, it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedMessage {
    /// The message, without chunks.
    pub message: Bytes,
    /// The kind that its first bytes say.
    pub kind: Kind,
}

impl ReceivedMessage {
    /// Reads no more than the first bytes.
    ///
    /// # Errors
    /// [`BadRequest::Unknown`], [`BadRequest::PackStream`].
    pub fn new(message: Bytes) -> Result<Self, BadRequest> {
        let (kind, fields) = signature_of(&mut Reader::new(&message), &message)?;
        if fields != kind.signature().1 {
            return Err(BadRequest::Fields(kind.name(), fields));
        }
        Ok(Self { message, kind })
    }

    /// Reads the fields.
    ///
    /// # Errors
    /// [`BadRequest`].
    pub fn read(&self) -> Result<Request, BadRequest> {
        Request::read(&self.message)
    }
}

/// A request with its fields.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// HELLO with its map.
    Hello(Value),
    /// LOGON with its map.
    Logon(Value),
    /// LOGOFF.
    Logoff,
    /// TELEMETRY. The named function changes nothing.
    Telemetry,
    /// ROUTE.
    Route {
        /// The routing context, a map.
        context: Value,
        /// Bookmarks, a list.
        bookmarks: Value,
        /// Database and impersonated user: from 4.4 a map, in 4.3 the database or null.
        extra: Value,
    },
    /// RUN.
    Run {
        /// Cypher text.
        statement: String,
        /// Parameters: the bytes of one PackStream map.
        params: Bytes,
        /// Everything else.
        extra: ExtraBytes,
    },
    /// BEGIN with its map.
    Begin(ExtraBytes),
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// PULL.
    Pull(Take),
    /// DISCARD.
    Discard(Take),
    /// RESET.
    Reset,
    /// GOODBYE.
    Goodbye,
}

/// The map of RUN or BEGIN as the client sent it. A request can wait for long, and a decoded map takes up to 40 times its
/// bytes: whoever needs the values decodes them for a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraBytes(Bytes);

impl ExtraBytes {
    fn read(kind: Kind, reader: &mut Reader<'_>, message: &Bytes) -> Result<Self, BadRequest> {
        map_of(&mut reader.clone(), kind, "extra is not a map")?;
        Ok(Self(message.slice_ref(reader.skip()?)))
    }

    /// The map.
    #[must_use]
    pub fn decoded(&self) -> Value {
        // It was decoded once, when the request was read.
        Reader::new(&self.0).value().unwrap_or_else(|_| Value::Map(Vec::new()))
    }
}

/// The result and the number of records of PULL or DISCARD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Take {
    /// At most this many records. `None`: all.
    pub records_max: Option<u64>,
    /// The result's number in its transaction. `None`: of the last RUN.
    pub qid: Option<i64>,
}

/// Why a message is not a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// The bytes are not PackStream.
    #[error("the message is not PackStream: {0}")]
    PackStream(#[from] DecodeError),
    /// Not a structure, or a structure that is not a request.
    #[error("0x{0:02X} is not a request of a client")]
    Unknown(u8),
    /// The wrong number of fields.
    #[error("{0} has {1} fields")]
    Fields(&'static str, usize),
    /// A field of the wrong type or out of range.
    #[error("{0}: {1}")]
    Field(&'static str, &'static str),
    /// Options that are too long to be decoded.
    #[error("{name}: the options have {bytes} bytes, and at most {OPTIONS_BYTES_MAX} are read")]
    Options {
        /// The request.
        name: &'static str,
        /// Bytes of the options.
        bytes: usize,
    },
    /// Bytes behind the end.
    #[error("{0} bytes behind the end of a message")]
    Trailing(usize),
}

impl Request {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::Logon(_) => Kind::Logon,
            Self::Logoff => Kind::Logoff,
            Self::Telemetry => Kind::Telemetry,
            Self::Route { .. } => Kind::Route,
            Self::Run { .. } => Kind::Run,
            Self::Begin(_) => Kind::Begin,
            Self::Commit => Kind::Commit,
            Self::Rollback => Kind::Rollback,
            Self::Pull(_) => Kind::Pull,
            Self::Discard(_) => Kind::Discard,
            Self::Reset => Kind::Reset,
            Self::Goodbye => Kind::Goodbye,
        }
    }

    /// Reads a whole message.
    ///
    /// # Errors
    /// [`BadRequest`].
    pub fn read(message: &Bytes) -> Result<Self, BadRequest> {
        let mut reader = Reader::new(message);
        let (kind, len) = signature_of(&mut reader, message)?;
        if len != kind.signature().1 {
            return Err(BadRequest::Fields(kind.name(), len));
        }
        let request = Self::fields(kind, &mut reader, message)?;
        match reader.rest().len() {
            0 => Ok(request),
            left => Err(BadRequest::Trailing(left)),
        }
    }

    fn fields(kind: Kind, reader: &mut Reader<'_>, message: &Bytes) -> Result<Self, BadRequest> {
        let map = |reader: &mut Reader<'_>, what| map_of(reader, kind, what);
        if kind != Kind::Run {
            check_options(kind, reader)?;
        }
        Ok(match kind {
            Kind::Hello => Self::Hello(map(reader, "extra is not a map")?),
            Kind::Logon => Self::Logon(map(reader, "auth is not a map")?),
            Kind::Begin => Self::Begin(ExtraBytes::read(kind, reader, message)?),
            Kind::Pull => Self::Pull(take(kind, &map(reader, "extra is not a map")?)?),
            Kind::Discard => Self::Discard(take(kind, &map(reader, "extra is not a map")?)?),
            Kind::Telemetry => match reader.value()? {
                Value::Int(0..=3) => Self::Telemetry,
                _ => return Err(BadRequest::Field(kind.name(), "api is not a number from 0 to 3")),
            },
            Kind::Run => Self::Run {
                statement: match reader.value()? {
                    Value::String(text) => text,
                    _ => return Err(BadRequest::Field(kind.name(), "query is not a string")),
                },
                params: match reader.clone().token()? {
                    Token::Map(_) => message.slice_ref(reader.skip()?),
                    _ => return Err(BadRequest::Field(kind.name(), "parameters is not a map")),
                },
                extra: {
                    check_options(kind, reader)?;
                    ExtraBytes::read(kind, reader, message)?
                },
            },
            Kind::Route => Self::Route {
                context: map(reader, "routing is not a map")?,
                bookmarks: reader.value()?,
                extra: reader.value()?,
            },
            Kind::Logoff => Self::Logoff,
            Kind::Commit => Self::Commit,
            Kind::Rollback => Self::Rollback,
            Kind::Reset => Self::Reset,
            Kind::Goodbye => Self::Goodbye,
        })
    }
}

/// Kind and number of fields, from the first bytes of a message.
fn signature_of(reader: &mut Reader<'_>, message: &[u8]) -> Result<(Kind, usize), BadRequest> {
    match reader.token()? {
        Token::Struct { tag, len } => Ok((Kind::of(tag).ok_or(BadRequest::Unknown(tag))?, len)),
        _ => Err(BadRequest::Unknown(message.first().copied().unwrap_or(0))),
    }
}

/// Whether what is left of a message may be decoded.
fn check_options(kind: Kind, reader: &Reader<'_>) -> Result<(), BadRequest> {
    match reader.rest().len() {
        0..=OPTIONS_BYTES_MAX => Ok(()),
        bytes => Err(BadRequest::Options { name: kind.name(), bytes }),
    }
}

fn map_of(reader: &mut Reader<'_>, kind: Kind, what: &'static str) -> Result<Value, BadRequest> {
    match reader.value()? {
        map @ Value::Map(_) => Ok(map),
        _ => Err(BadRequest::Field(kind.name(), what)),
    }
}

fn take(kind: Kind, extra: &Value) -> Result<Take, BadRequest> {
    let records_max = match extra.get("n") {
        Some(Value::Int(-1)) => None,
        Some(Value::Int(count @ 1..)) => Some(count.unsigned_abs()),
        _ => return Err(BadRequest::Field(kind.name(), "n has to be -1 or a positive number")),
    };
    let qid = match extra.get("qid") {
        None | Some(Value::Null | Value::Int(-1)) => None,
        Some(Value::Int(qid)) => Some(*qid),
        Some(_) => return Err(BadRequest::Field(kind.name(), "qid is not a number")),
    };
    Ok(Take { records_max, qid })
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::{Writer, encode};
    use proptest::prelude::*;

    use super::*;

    fn message(tag: u8, fields: &[Value]) -> Bytes {
        let mut writer = Writer::new();
        writer.structure(tag, fields.len());
        fields.iter().for_each(|field| writer.value(field));
        writer.into_bytes().into()
    }

    fn map(pairs: &[(&str, Value)]) -> Value {
        Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    #[test]
    fn a_run_keeps_the_bytes_of_its_parameters() {
        let params = map(&[("b", Value::Int(1)), ("a", Value::Null)]);
        let extra = map(&[("mode", "r".into())]);
        let bytes = message(0x10, &["RETURN 1".into(), params.clone(), extra.clone()]);
        let Ok(Request::Run { statement, params: kept, extra: read }) = Request::read(&bytes) else {
            unreachable!()
        };
        assert_eq!((statement.as_str(), &kept[..]), ("RETURN 1", &encode(&params)[..]));
        assert_eq!((&read.0[..], read.decoded()), (&encode(&extra)[..], extra));
    }

    #[test]
    fn pulls_say_how_many_of_which() {
        let pull = |pairs: &[(&str, Value)]| Request::read(&message(0x3F, &[map(pairs)]));
        let taken = |records_max, qid| Ok(Request::Pull(Take { records_max, qid }));
        assert_eq!(pull(&[("n", Value::Int(-1))]), taken(None, None));
        assert_eq!(pull(&[("n", Value::Int(1000)), ("qid", Value::Int(-1))]), taken(Some(1000), None));
        assert_eq!(pull(&[("n", Value::Int(1)), ("qid", Value::Int(3))]), taken(Some(1), Some(3)));
        for wrong in [&[][..], &[("n", Value::Int(0))], &[("n", Value::Int(-2))], &[("n", "1".into())]] {
            assert!(matches!(pull(wrong), Err(BadRequest::Field("PULL", _))), "{wrong:?}");
        }
    }

    #[test]
    fn every_request_has_its_signature_and_its_fields() {
        let empty = map(&[]);
        for kind in Kind::ALL {
            let (tag, fields) = kind.signature();
            let parts: Vec<Value> = match kind {
                Kind::Run => vec!["RETURN 1".into(), empty.clone(), empty.clone()],
                Kind::Route => vec![empty.clone(), Value::List(Vec::new()), empty.clone()],
                Kind::Telemetry => vec![Value::Int(2)],
                Kind::Pull | Kind::Discard => vec![map(&[("n", Value::Int(-1))])],
                _ => vec![empty.clone(); fields],
            };
            assert_eq!(Request::read(&message(tag, &parts)).map(|request| request.kind()), Ok(kind));
            let more = [&parts[..], &[Value::Null]].concat();
            assert_eq!(Request::read(&message(tag, &more)), Err(BadRequest::Fields(kind.name(), fields + 1)));
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (bytes, error) in [
            (&[0xC0][..], BadRequest::Unknown(0xC0)),
            (&[0xB0, 0x70], BadRequest::Unknown(0x70)),
            (&[0xB0, 0x0F, 0x01], BadRequest::Trailing(1)),
            (&[], BadRequest::PackStream(DecodeError::Truncated)),
            (&[0xB1, 0x01, 0xD6, 0xFF, 0xFF, 0xFF, 0xFF], BadRequest::PackStream(DecodeError::Truncated)),
        ] {
            assert_eq!(Request::read(&Bytes::copy_from_slice(bytes)), Err(error), "{bytes:02X?}");
        }
    }

    proptest! {
        /// I13.
        #[test]
        fn any_bytes_are_a_request_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Request::read(&bytes.into());
        }
    }
}
