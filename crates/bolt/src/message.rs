//! Bolt messages as bytes, both ways, without framing. Decides nothing about order or state.

use std::time::Duration;

use bytes::Bytes;
use hopcache_packstream::{DecodeError, Reader, Token, Value, Writer, decode};
use secrecy::ExposeSecret;

use crate::auth::Auth;
use crate::error::Failure;
use crate::run::{Mode, Run};
use crate::server::Version;

/// Message signatures (Bolt documentation, "Message specification").
mod signature {
    pub(super) const HELLO: u8 = 0x01;
    pub(super) const GOODBYE: u8 = 0x02;
    pub(super) const RESET: u8 = 0x0F;
    pub(super) const RUN: u8 = 0x10;
    pub(super) const BEGIN: u8 = 0x11;
    pub(super) const COMMIT: u8 = 0x12;
    pub(super) const DISCARD: u8 = 0x2F;
    pub(super) const PULL: u8 = 0x3F;
    pub(super) const ROUTE: u8 = 0x66;
    pub(super) const LOGON: u8 = 0x6A;
    pub(super) const LOGOFF: u8 = 0x6B;
    pub(super) const SUCCESS: u8 = 0x70;
    pub(super) const RECORD: u8 = 0x71;
    pub(super) const IGNORED: u8 = 0x7E;
    pub(super) const FAILURE: u8 = 0x7F;
}

/// HELLO from Bolt 5.0 on; before LOGON existed it carries the credentials. `routed` is the address that the user gave, if it
/// names a cluster.
pub(crate) fn hello(version: Version, user_agent: &str, auth: &Auth, routed: Option<&str>) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(signature::HELLO, 1);
    let credentials = if version.has_logon() { Vec::new() } else { auth_pairs(auth) };
    let agent = usize::from(version.at_least(5, 3));
    writer.map(1 + agent + usize::from(routed.is_some()) + credentials.len());
    writer.string("user_agent");
    writer.string(user_agent);
    if let Some(address) = routed {
        write_routing(&mut writer, address);
    }
    if agent == 1 {
        writer.string("bolt_agent");
        writer.map(1);
        writer.string("product");
        writer.string(concat!("hopcache-bolt/", env!("CARGO_PKG_VERSION")));
    }
    write_pairs(&mut writer, &credentials);
    writer.into_bytes()
}

/// The hint in the answer to HELLO: for how long a client waits for any bytes, NOOPs included, while it expects some.
/// `None` if the server gives none.
pub(crate) fn recv_timeout(hello: &Value) -> Option<Duration> {
    let seconds = hello.get("hints")?.get("connection.recv_timeout_seconds")?.as_int()?;
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// The routing context of HELLO. A member that gets one may pass a statement on to another member.
pub(crate) fn write_routing(writer: &mut Writer, address: &str) {
    writer.string("routing");
    writer.map(1);
    write_pairs(writer, &[("address", address)]);
}

/// ROUTE from Bolt 4.4 on, without bookmarks. No database is the user's home database.
pub(crate) fn route(address: &str, database: Option<&str>, impersonated: Option<&str>) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(signature::ROUTE, 3);
    writer.map(1);
    write_pairs(&mut writer, &[("address", address)]);
    writer.list(0);
    let named = [("db", database), ("imp_user", impersonated)];
    let named: Vec<_> = named.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
    writer.map(named.len());
    write_pairs(&mut writer, &named);
    writer.into_bytes()
}

pub(crate) fn logon(auth: &Auth) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(signature::LOGON, 1);
    let pairs = auth_pairs(auth);
    writer.map(pairs.len());
    write_pairs(&mut writer, &pairs);
    writer.into_bytes()
}

pub(crate) fn logoff() -> Vec<u8> {
    bare(signature::LOGOFF)
}

pub(crate) fn reset() -> Vec<u8> {
    bare(signature::RESET)
}

pub(crate) fn goodbye() -> Vec<u8> {
    bare(signature::GOODBYE)
}

/// BEGIN of a transaction that runs nothing, in read mode and without bookmarks.
pub(crate) fn begin(database: Option<&str>, impersonated: Option<&str>) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(signature::BEGIN, 1);
    let named = [("db", database), ("imp_user", impersonated)];
    let named: Vec<_> = named.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
    writer.map(1 + named.len());
    write_pairs(&mut writer, &[("mode", "r")]);
    write_pairs(&mut writer, &named);
    writer.into_bytes()
}

pub(crate) fn commit() -> Vec<u8> {
    bare(signature::COMMIT)
}

/// PULL of at most `rows` records of the last RUN.
pub(crate) fn pull(rows: u32) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(signature::PULL, 1);
    writer.map(1);
    writer.string("n");
    writer.int(i64::from(rows));
    writer.into_bytes()
}

/// DISCARD of all records that are left of the last RUN.
pub(crate) fn discard_all() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(signature::DISCARD, 1);
    writer.map(1);
    writer.string("n");
    writer.int(-1);
    writer.into_bytes()
}

pub(crate) fn run(run: &Run<'_>) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(signature::RUN, 3);
    writer.string(run.statement);
    writer.raw(run.params);
    write_options(&mut writer, run);
    writer.into_bytes()
}

/// BEGIN with the options of a run.
pub(crate) fn begin_of(run: &Run<'_>) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(signature::BEGIN, 1);
    write_options(&mut writer, run);
    writer.into_bytes()
}

fn write_options(writer: &mut Writer, run: &Run<'_>) {
    let present = [
        run.server_timeout.is_some(),
        run.mode == Mode::Read,
        run.database.is_some(),
        run.impersonated.is_some(),
        !run.bookmarks.is_empty(),
        !run.metadata.is_empty(),
    ];
    writer.map(present.into_iter().filter(|part| *part).count());
    if let Some(timeout) = run.server_timeout {
        writer.string("tx_timeout");
        writer.int(tx_timeout_ms(timeout));
    }
    if run.mode == Mode::Read {
        write_pairs(writer, &[("mode", "r")]);
    }
    if let Some(database) = run.database {
        write_pairs(writer, &[("db", database)]);
    }
    if let Some(user) = run.impersonated {
        write_pairs(writer, &[("imp_user", user)]);
    }
    if !run.bookmarks.is_empty() {
        writer.string("bookmarks");
        writer.list(run.bookmarks.len());
        run.bookmarks.iter().for_each(|bookmark| writer.string(bookmark));
    }
    if !run.metadata.is_empty() {
        writer.string("tx_metadata");
        writer.map(run.metadata.len());
        for (name, value) in run.metadata {
            writer.string(name);
            writer.value(value);
        }
    }
}

/// Zero would mean "no timeout" to the server.
fn tx_timeout_ms(timeout: Duration) -> i64 {
    i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX).max(1)
}

pub(crate) fn auth_pairs(auth: &Auth) -> Vec<(&str, &str)> {
    match auth {
        Auth::None => vec![("scheme", "none")],
        Auth::Basic { user, password } => {
            vec![("scheme", "basic"), ("principal", user), ("credentials", password.expose_secret())]
        }
        Auth::Bearer { token } => vec![("scheme", "bearer"), ("credentials", token.expose_secret())],
    }
}

fn write_pairs(writer: &mut Writer, pairs: &[(&str, &str)]) {
    for (name, text) in pairs {
        writer.string(name);
        writer.string(text);
    }
}

pub(crate) fn bare(tag: u8) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(tag, 0);
    writer.into_bytes()
}

/// A message of the server.
#[derive(Debug, PartialEq)]
pub(crate) enum Response<'a> {
    /// Success, with a map.
    Success(Value),
    /// Failure. The server ignores everything until RESET.
    Failure(Failure),
    /// The server ignored the message, because an earlier one failed.
    Ignored,
    /// One record: the bytes of one well-formed PackStream list, and how many values it has.
    Record { list: &'a [u8], values: usize },
}

/// Reads one message. It checks that a record is well-formed and does not turn it into values.
pub(crate) fn read(message: &[u8]) -> Result<Response<'_>, String> {
    let mut reader = Reader::new(message);
    let wrong = |error: hopcache_packstream::DecodeError| error.to_string();
    let response = match reader.token().map_err(wrong)? {
        Token::Struct { tag: signature::SUCCESS, len: 1 } => Response::Success(read_map(&mut reader)?),
        Token::Struct { tag: signature::FAILURE, len: 1 } => {
            let failure = to_failure(&read_map(&mut reader)?);
            Response::Failure(Failure { as_sent: Bytes::copy_from_slice(message), ..failure })
        }
        Token::Struct { tag: signature::IGNORED, len } => {
            for _ in 0..len {
                reader.skip().map_err(wrong)?;
            }
            Response::Ignored
        }
        Token::Struct { tag: signature::RECORD, len: 1 } => {
            let Token::List(values) = reader.clone().token().map_err(wrong)? else {
                return Err("a record that is not a list".to_owned());
            };
            Response::Record { list: reader.skip().map_err(wrong)?, values }
        }
        Token::Struct { tag, len } => return Err(format!("unexpected message 0x{tag:02X} of {len} parts")),
        _ => return Err("a message that is not a structure".to_owned()),
    };
    match reader.rest().len() {
        0 => Ok(response),
        left => Err(format!("{left} bytes behind the end of a message")),
    }
}

/// The map of a SUCCESS or FAILURE. A value that nests too deep is left out, and so is no reason to take the end of a statement for a
/// failure: the plan of 500 operators has 1,000 levels.
pub(crate) fn read_map(reader: &mut Reader<'_>) -> Result<Value, String> {
    let start = reader.clone();
    match reader.value() {
        Ok(map @ Value::Map(_)) => Ok(map),
        Ok(_) => Err("metadata that is not a map".to_owned()),
        Err(DecodeError::Depth) => {
            *reader = start;
            read_shallow(reader).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn read_shallow(reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
    let Token::Map(pairs) = reader.token()? else { return Err(DecodeError::Depth) };
    let mut map = Vec::new();
    for _ in 0..pairs {
        let name = reader.key()?.to_owned();
        match decode(reader.skip()?) {
            Ok(value) => map.push((name, value)),
            Err(DecodeError::Depth) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Value::Map(map))
}

pub(crate) fn to_failure(metadata: &Value) -> Failure {
    let text = |name| metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let code = failure_code(metadata).unwrap_or_default().to_owned();
    Failure { code, message: text("message"), as_sent: Bytes::new() }
}

/// The code in the metadata of a FAILURE of Neo4j. From 5.7 on it has another name.
#[must_use]
pub fn failure_code(metadata: &Value) -> Option<&str> {
    metadata.get("code").or_else(|| metadata.get("neo4j_code")).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G3: the profile of 500 operators. The statement was committed, and its end is no failure.
    #[test]
    fn what_nests_too_deep_is_left_out_of_a_summary() {
        let deep = [vec![0x91; hopcache_packstream::DEPTH_MAX + 1], vec![0xC0]].concat();
        let message = [&[0xB1, 0x70, 0xA2, 0x81, b'p'], &deep[..], &[0x81, b't', 0x81, b'r']].concat();
        let Ok(Response::Success(summary)) = read(&message) else { panic!("no SUCCESS") };
        assert_eq!(summary, Value::Map(vec![("t".to_owned(), Value::from("r"))]));
        assert!(read(&message[..message.len() - 1]).is_err(), "cut");
    }

    fn sample() -> Run<'static> {
        Run {
            statement: "RETURN 1",
            params: &[0xA0],
            database: None,
            mode: Mode::Write,
            timeout: Duration::ZERO,
            server_timeout: Some(Duration::ZERO),
            bookmarks: &[],
            metadata: &[],
            impersonated: None,
            bytes_max: 1,
        }
    }

    fn extra_of(message: &[u8]) -> Value {
        let mut reader = Reader::new(message);
        assert_eq!(reader.token(), Ok(Token::Struct { tag: 0x10, len: 3 }));
        reader.skip().unwrap();
        reader.skip().unwrap();
        let extra = reader.value().unwrap();
        assert!(reader.is_empty());
        extra
    }

    #[test]
    fn a_bare_run_carries_only_a_timeout_which_is_never_zero() {
        let extra = extra_of(&run(&sample()));
        assert_eq!(extra, Value::Map(vec![("tx_timeout".to_owned(), Value::Int(1))]));
    }

    #[test]
    fn a_run_without_a_limit_at_the_server_names_none() {
        let extra = extra_of(&run(&Run { server_timeout: None, ..sample() }));
        assert_eq!(extra, Value::Map(vec![]));
    }

    #[test]
    fn a_full_run_carries_everything_it_was_given() {
        let bookmarks = ["b1".to_owned(), "b2".to_owned()];
        let full = Run {
            database: Some("neo4j"),
            mode: Mode::Read,
            server_timeout: Some(Duration::from_secs(2)),
            bookmarks: &bookmarks,
            metadata: &[("traceparent".to_owned(), "00-1-2-01".into()), ("n".to_owned(), Value::Int(7))],
            impersonated: Some("other"),
            ..sample()
        };
        let extra = extra_of(&run(&full));
        assert_eq!(extra.get("tx_timeout"), Some(&Value::Int(2000)));
        assert_eq!(extra.get("mode"), Some(&Value::from("r")));
        assert_eq!(extra.get("db"), Some(&Value::from("neo4j")));
        assert_eq!(extra.get("imp_user"), Some(&Value::from("other")));
        assert_eq!(extra.get("bookmarks").and_then(Value::as_list).map(<[Value]>::len), Some(2));
        let metadata = extra.get("tx_metadata").and_then(|map| map.get("traceparent"));
        assert_eq!(metadata, Some(&Value::from("00-1-2-01")));
    }

    #[test]
    fn hello_carries_credentials_only_where_there_is_no_logon() {
        let auth = Auth::Bearer { token: "sesame".to_owned().into() };
        let map = |message: &[u8]| Reader::new(&message[2..]).value().unwrap();
        let hello = |major, minor| map(&hello(Version::new(major, minor), "ua", &auth, None));
        assert_eq!(hello(5, 0).get("credentials"), Some(&Value::from("sesame")));
        assert_eq!(hello(5, 0).get("bolt_agent"), None);
        for (major, minor) in [(5, 1), (6, 0), (6, 1)] {
            assert_eq!(hello(major, minor).get("credentials"), None);
        }
        assert!(hello(5, 3).get("bolt_agent").is_some() && hello(6, 0).get("bolt_agent").is_some());
        let routed = map(&super::hello(Version::new(5, 3), "ua", &auth, Some("db:7687")));
        assert_eq!(routed.get("routing").and_then(|map| map.get("address")), Some(&Value::from("db:7687")));
        assert_eq!(hello(5, 3).get("routing"), None);
        assert_eq!(map(&logon(&auth)).get("scheme"), Some(&Value::from("bearer")));
    }

    #[test]
    fn a_record_is_kept_as_sent() {
        // An integer in a longer form than needed: the record keeps the server's bytes.
        let message = [0xB1, 0x71, 0x92, 0xC9, 0x00, 0x01, 0xC0];
        assert_eq!(read(&message), Ok(Response::Record { list: &message[2..], values: 2 }));
    }

    #[test]
    fn messages_of_the_wrong_shape_are_refused() {
        for message in [
            &[][..],
            &[0xC0],                         // no structure
            &[0xB1, 0x70, 0x90],             // SUCCESS of a list
            &[0xB0, 0x70],                   // SUCCESS of nothing
            &[0xB1, 0x71, 0xA0],             // RECORD of a map
            &[0xB1, 0x71, 0x91],             // RECORD cut
            &[0xB1, 0x71, 0x90, 0x00],       // something behind it
            &[0xB1, 0x10, 0xA0],             // a request
            &[0xB1, 0x71, 0x91, 0xD6, 0xFF], // length cut
        ] {
            assert!(read(message).is_err(), "{message:02X?}");
        }
    }
}
