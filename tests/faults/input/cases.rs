//! The rows: one for each kind of bad input, with the required answer.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::support::environment;

pub(super) const QUERY: &str = "/db/neo4j/query/v2";
pub(super) const PLAIN: &str = "application/json";
pub(super) const TYPED: &str = "application/vnd.neo4j.query";
/// `core::limits::STATEMENT_BYTES_MAX`.
pub(super) const STATEMENT_BYTES_MAX: usize = 1 << 20;

/// The required answer of a row.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    /// Status and body as Neo4j's own.
    AsNeo4j,
    /// Hopcache's own refusal: status, code, and names in the message.
    Own(u16, &'static str, &'static str),
}
pub(super) use Expected::{AsNeo4j, Own};

pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) request: Vec<u8>,
    pub(super) expected: Expected,
}

pub(super) fn login() -> String {
    let login = format!("neo4j:{}", environment("HOPCACHE_TEST_NEO4J_PASSWORD"));
    base64::engine::general_purpose::STANDARD.encode(login)
}

/// A POST of any bytes.
pub(super) fn post(path: &str, kind: &str, authorization: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: t\r\ncontent-type: {kind}\r\naccept: application/json\r\n{authorization}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.to_vec()].concat()
}

pub(super) fn query(body: impl AsRef<[u8]>) -> Vec<u8> {
    post(QUERY, PLAIN, &format!("authorization: Basic {}\r\n", login()), body.as_ref())
}

pub(super) fn typed(body: impl AsRef<[u8]>) -> Vec<u8> {
    post(QUERY, TYPED, &format!("authorization: Basic {}\r\n", login()), body.as_ref())
}

pub(super) fn statement(text: &str) -> Vec<u8> {
    query(json!({ "statement": text }).to_string())
}

pub(super) fn as_neo4j(name: &'static str, request: Vec<u8>) -> Row {
    Row { name, request, expected: AsNeo4j }
}

/// Depth 10,000 of one bracket, as the parameter `p`.
pub(super) fn deep(open: &str, close: &str) -> String {
    let (open, close) = (open.repeat(10_000), close.repeat(10_000));
    format!("{{\"statement\":\"RETURN $p AS p\",\"parameters\":{{\"p\":{open}1{close}}}}}")
}

pub(super) fn no_json() -> Vec<Row> {
    // Neo4j's reader takes these two for characters. Hopcache always refuses bytes that are no UTF-8.
    let no_utf8 = Own(400, "Neo.ClientError.Request.Invalid", "Bad Request");
    vec![
        as_neo4j("cut JSON", query("{\"statement\":")),
        as_neo4j("no JSON", query("RETURN 1")),
        as_neo4j("single quotes", query("{'statement': 'RETURN 1 AS x'}")),
        as_neo4j("a comma too many", query("{\"statement\":\"RETURN 1 AS x\",}")),
        as_neo4j("an array", query("[{\"statement\":\"RETURN 1 AS x\"}]")),
        as_neo4j("nothing", query("")),
        as_neo4j("NaN", query("{\"statement\":\"RETURN $p\",\"parameters\":{\"p\":NaN}}")),
        as_neo4j("invalid UTF-8", query(b"{\"statement\":\"RETURN '\xff\xfe' AS x\"}")),
        Row {
            name: "overlong UTF-8",
            request: query(b"{\"statement\":\"RETURN '\xc0\xaf' AS x\"}"),
            expected: no_utf8,
        },
        Row {
            name: "a surrogate in UTF-8",
            request: query(b"{\"statement\":\"RETURN '\xed\xa0\x80' AS x\"}"),
            expected: no_utf8,
        },
        as_neo4j("NUL in a string", query("{\"statement\":\"RETURN '\0' AS x\"}")),
        as_neo4j("NUL between members", query("{\"statement\":\"RETURN 1 AS x\"\0}")),
        as_neo4j("NULs alone", query([0; 64])),
    ]
}

pub(super) fn wrong_types() -> Vec<Row> {
    let member =
        |name: &str, value: Value| query(json!({"statement": "RETURN 1 AS x", name: value}).to_string());
    let of_type = |kind: &str, value: &str| {
        typed(format!(
            "{{\"statement\":\"RETURN $p AS p\",\"parameters\":{{\"p\":{{\"$type\":\"{kind}\",\"_value\":{value}}}}}}}"
        ))
    };
    vec![
        as_neo4j("statement: a list", query("{\"statement\":[\"RETURN 1\"]}")),
        as_neo4j("statement: an object", query("{\"statement\":{\"a\":1}}")),
        as_neo4j("statement: null", query("{\"statement\":null}")),
        as_neo4j("parameters: a list", member("parameters", json!([1]))),
        as_neo4j("parameters: text", member("parameters", json!("p"))),
        as_neo4j("includeCounters: an object", member("includeCounters", json!({}))),
        as_neo4j("bookmarks: text", member("bookmarks", json!("FB:x"))),
        as_neo4j("maxExecutionTime: words", member("maxExecutionTime", json!("soon"))),
        as_neo4j("maxExecutionTime: huge", member("maxExecutionTime", json!(1_u64 << 40))),
        as_neo4j("accessMode: 7", member("accessMode", json!(7))),
        as_neo4j("an unknown field", member("params", json!({}))),
        as_neo4j("an unknown type", of_type("Blob", "\"x\"")),
        as_neo4j("a date that is none", of_type("Date", "\"2024-02-30\"")),
        as_neo4j("base64 that is none", of_type("Base64", "\"%%%\"")),
        as_neo4j("an integer that is none", of_type("Integer", "\"1.5\"")),
        as_neo4j("a value without its type", typed("{\"statement\":\"RETURN 1\",\"parameters\":{\"p\":1}}")),
        as_neo4j("an integer of 65 bits", member("parameters", json!({"p": u64::MAX}))),
    ]
}

pub(super) fn sizes_and_depths() -> Vec<Row> {
    let large = format!("RETURN 1 AS x{}", " ".repeat(STATEMENT_BYTES_MAX - 12));
    let too_large = Own(413, "Hopcache.ClientError.RequestTooLarge", "statement");
    // Refused by its head: `node.message_max` is 64 MiB.
    let announced = String::from_utf8(query("")).unwrap_or_default();
    let announced = announced.replace("content-length: 0", &format!("content-length: {}", (64 << 20) + 1));
    // Neo4j closes the connection at a thousand levels, without a word.
    let too_deep = Own(400, "Neo.ClientError.Request.Invalid", "Bad Request");
    let list = "{\"$type\":\"List\",\"_value\":[";
    vec![
        Row { name: "a statement of 1 MiB + 1", request: statement(&large), expected: too_large },
        Row {
            name: "a body of 64 MiB + 1",
            request: announced.into_bytes(),
            expected: Own(413, "Hopcache.ClientError.RequestTooLarge", "body"),
        },
        Row { name: "10,000 lists", request: query(deep("[", "]")), expected: too_deep },
        Row { name: "10,000 maps", request: query(deep("{\"a\":", "}")), expected: too_deep },
        Row { name: "10,000 typed lists", request: typed(deep(list, "]}")), expected: too_deep },
        Row { name: "10,000 lists, none closed", request: query(deep("[", "")), expected: too_deep },
        // 10,000 open brackets would take Neo4j's parser half a minute. A test below asks the admin listener for
        // hopcache's own reading of them.
        as_neo4j("10,000 brackets in the statement", {
            statement(&format!("RETURN 1{} AS x", ")]}".repeat(3_334)))
        }),
    ]
}

pub(super) fn at_run_time(unique: &str) -> Vec<Row> {
    let basic = |user: &str| {
        let login = base64::engine::general_purpose::STANDARD.encode(format!("{user}:wrong-password"));
        post(QUERY, PLAIN, &format!("authorization: Basic {login}\r\n"), b"{\"statement\":\"RETURN 1 AS x\"}")
    };
    let login = format!("authorization: Basic {}\r\n", login());
    let one = b"{\"statement\":\"RETURN 1 AS x\"}";
    let halves =
        |text: &str| query(format!("{{\"statement\":\"{text}\",\"parameters\":{{\"p\\u0000\":1}}}}"));
    vec![
        as_neo4j("no credentials", post(QUERY, PLAIN, "", one)),
        as_neo4j("credentials that are none", post(QUERY, PLAIN, "authorization: Basic %%%\r\n", one)),
        as_neo4j("wrong credentials", basic(&format!("Nobody{unique}"))),
        as_neo4j("an unknown database", post("/db/hc-nowhere/query/v2", PLAIN, &login, one)),
        as_neo4j("a syntax error", statement("RETRUN 1")),
        as_neo4j("NUL in Cypher", query("{\"statement\":\"RETURN 1\\u0000 AS x\"}")),
        as_neo4j("half a surrogate pair in Cypher", query("{\"statement\":\"RETURN \\ud83d AS x\"}")),
        as_neo4j("NUL in a parameter's name", halves("RETURN $p AS x")),
        as_neo4j("no such function", statement("RETURN no.such(1) AS x")),
        as_neo4j("a run-time error at once", statement("RETURN 1/0 AS x")),
        as_neo4j("a run-time error in mid-stream", statement("UNWIND range(10,0,-1) AS x RETURN 1/x")),
        as_neo4j(
            "a run-time error after 5,000 rows",
            statement("UNWIND range(5000,0,-1) AS x RETURN 1/x AS y"),
        ),
        as_neo4j("a constraint's violation", statement(&format!("CREATE (:{unique} {{v: 1}})"))),
    ]
}

/// Wrong requests to the admin listener: their status, and names in the problem's text.
pub(super) fn admin_rows() -> Vec<(&'static str, Vec<u8>, u16, &'static str)> {
    let explain = |body: &[u8]| post("/admin/v1/explain", PLAIN, "", body);
    let purge = |body: &[u8]| post("/admin/v1/purge", PLAIN, "", body);
    let invalidate = |body: &[u8]| post("/admin/v1/invalidate", PLAIN, "", body);
    let text = |body: String| explain(body.as_bytes());
    vec![
        ("cut JSON", explain(b"{\"statement\":"), 400, "EOF"),
        ("no JSON", purge(b"all"), 400, "line 1"),
        ("nothing", purge(b""), 400, "EOF"),
        ("a list", purge(b"[1]"), 400, "invalid"),
        ("an unknown field", explain(b"{\"statement\":\"RETURN 1\",\"stmt\":1}"), 400, "stmt"),
        ("no statement", explain(b"{\"database\":\"neo4j\"}"), 400, "statement"),
        ("an empty statement", explain(b"{\"statement\":\"\"}"), 400, "statement"),
        ("a statement of a wrong type", explain(b"{\"statement\":[1]}"), 400, "expected a string"),
        (
            "parameters of a wrong type",
            explain(b"{\"statement\":\"x\",\"parameters\":1}"),
            400,
            "expected a map",
        ),
        ("a field twice", explain(b"{\"statement\":\"x\",\"statement\":\"y\"}"), 400, "statement"),
        ("invalid UTF-8", explain(b"{\"statement\":\"\xff\"}"), 400, "invalid unicode"),
        ("half a surrogate pair", explain(b"{\"statement\":\"\\ud800\"}"), 400, "hex escape"),
        ("NULs", purge(&[0; 32]), 400, "line 1"),
        ("10,000 lists", text(deep("[", "]")), 400, "recursion"),
        ("10,000 maps", text(deep("{\"a\":", "}")), 400, "recursion"),
        (
            "a statement of 1 MiB + 1",
            text(json!({"statement": "x".repeat(STATEMENT_BYTES_MAX + 1)}).to_string()),
            400,
            "statement",
        ),
        ("a body of 5 MiB", purge(&vec![b' '; 5 << 20]), 413, "4194304"),
        ("a key that is none", purge(b"{\"query_key\":\"zz\"}"), 400, "query_key"),
        ("two scopes", purge(b"{\"all\":true,\"database\":\"neo4j\"}"), 400, "exactly one"),
        ("not all", purge(b"{\"all\":false}"), 400, "exactly one"),
        ("nothing that was touched", invalidate(b"{\"database\":\"neo4j\"}"), 400, "labels, types, keys"),
        (
            "anything, and a label",
            invalidate(b"{\"database\":\"neo4j\",\"anything\":true,\"labels\":[\"A\"]}"),
            400,
            "not both",
        ),
        ("no database", invalidate(b"{\"anything\":true}"), 400, "database"),
        ("labels of a wrong type", invalidate(b"{\"labels\":\"A\"}"), 400, "expected a sequence"),
        (
            "too many keys",
            invalidate(json!({"database": "neo4j", "keys": vec!["k"; 65]}).to_string().as_bytes()),
            400,
            "64",
        ),
        (
            "a number beyond doubles",
            explain(b"{\"statement\":\"x\",\"parameters\":{\"p\":1e400}}"),
            400,
            "range",
        ),
        ("no such path", post("/admin/v1/explode", PLAIN, "", b"{}"), 404, "no such path"),
        ("no such method", post("/metrics", PLAIN, "", b"{}"), 405, "no such method"),
    ]
}
