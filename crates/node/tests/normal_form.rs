//! I5, on the real server: texts with equal normal forms get equal answers, column names included, and a normal form
//! is itself a text with that answer. The test only reads, and touches no data of the server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;

use hopcache_cypher::forms::normal::NormalForm;
use hopcache_cypher::lexer::tokens;
use serde_json::{Value, json};

/// Pairs that must share a normal form, and so an answer.
const SHARED: [(&str, &str); 16] = [
    ("RETURN 1 AS x", " RETURN\n1\tAS x ;"),
    ("RETURN 1 AS x", "/* a */ RETURN /* b */ 1 // c\n AS x // d"),
    ("RETURN 1+1", "RETURN  1+1 ;"),
    ("RETURN 1 + 1", "RETURN /* lead */ 1 + 1 /* trail */"),
    ("RETURN 1 + 1, 2", "RETURN 1 + 1 ,\n 2"),
    ("UNWIND [1, 2] AS x RETURN x", "UNWIND[1,2]AS x\u{a0}RETURN x"),
    ("WITH {a: 1} AS m RETURN m.a ORDER BY m.a", "WITH { a: 1 } AS  m RETURN m.a  ORDER  BY  m.a"),
    ("RETURN 1 AS x UNION RETURN 2 AS x", "RETURN 1  AS x\nUNION\nRETURN 2 AS  x"),
    ("RETURN CASE WHEN true THEN 1 ELSE 2 END AS x", "RETURN CASE  WHEN true\nTHEN 1 ELSE 2  END AS x"),
    ("CALL { RETURN 1 AS x } RETURN x", "CALL{RETURN 1 AS x}RETURN x"),
    ("RETURN COUNT { RETURN 1 AS a } AS c", "RETURN COUNT{  RETURN  1 AS a  } AS c"),
    ("RETURN [x IN [1, 2] | x + 1] AS l", "RETURN [ x  IN[1,2] | x +  1 ]AS l"),
    ("WITH 1 AS a RETURN *", "WITH  1 AS a\nRETURN  * ;"),
    ("RETURN DISTINCT 1 AS x LIMIT 1", "RETURN  DISTINCT 1  AS x  LIMIT  1"),
    ("WITH 5 AS limit RETURN limit LIMIT 1", "WITH 5 AS  limit\nRETURN  limit LIMIT 1"),
    ("WITH 5 AS as RETURN as ORDER BY as", "WITH  5 AS as\nRETURN  as ORDER BY as"),
];

/// Pairs whose columns have different names, so that they must not share a normal form.
const APART: [(&str, &str); 12] = [
    ("RETURN 1+1", "RETURN 1 + 1"),
    ("RETURN 1 + 1", "RETURN 1 /* c */ + 1"),
    ("RETURN 1 + 1", "RETURN 1\n+\n1"),
    ("WITH {a: 1} AS m RETURN m.a", "WITH {a: 1} AS m RETURN m . a"),
    ("RETURN count(*)", "RETURN count( * )"),
    ("RETURN DISTINCT 1 + 1", "RETURN DISTINCT 1  + 1"),
    ("RETURN CASE WHEN true THEN 1 END", "RETURN CASE WHEN true  THEN 1 END"),
    ("RETURN COUNT { RETURN 1 AS a }", "RETURN COUNT {  RETURN 1 AS a  }"),
    ("WITH 5 AS limit RETURN limit + 1", "WITH 5 AS limit RETURN limit  + 1"),
    ("WITH 5 AS return RETURN return + 1", "WITH 5 AS return RETURN return  + 1"),
    ("RETURN 1 + 1 UNION RETURN 2 AS `1 + 1`", "RETURN 1  + 1 UNION RETURN 2 AS `1  + 1`"),
    ("RETURN 'a' AS x", "RETURN 'A' AS x"),
];

/// Texts in which every gap between two tokens is changed in turn.
const BASES: [&str; 14] = [
    "WITH {x: 1, y: [1, 2]} AS m RETURN m . x , m.y[0..1] AS y , m {.x, z: 2 * 3}",
    "UNWIND [3, 1] AS x RETURN x + 1 AS y , - x ORDER BY x DESC SKIP 0 LIMIT 5 ;",
    "RETURN CASE WHEN 1 < 2 THEN 'a b' ELSE \"c\" END , 2 <> 3 AS d",
    "CALL { RETURN 1 + 1 AS x UNION ALL RETURN 2 AS x } RETURN x , x % 2",
    "RETURN COUNT { UNWIND [1, 2] AS z RETURN z } , COLLECT { RETURN 1 AS a } AS c",
    "WITH 5 AS limit, 6 AS order RETURN limit , order + 1 AS by LIMIT 1",
    "WITH 1 AS as, 2 AS return RETURN as AS as , return",
    "RETURN DISTINCT 1 + 1 , [x IN range(1, 3) WHERE x > 1 | x ^ 2]",
    "MATCH (n :ZzNormal {a: 1}) - [r :R *1..2] -> (m) WHERE n.x =~ 'a' RETURN n , m . x",
    "RETURN 1 UNION RETURN 1",
    "WITH 1 AS `a b` , 'x' AS union RETURN `a b` , union + 'y' UNION RETURN 1 AS `a b` , 2 AS `union + 'y'`",
    "RETURN reduce(s = 0, x IN [1, 2] | s + x) , all(x IN [1] WHERE x = 1) , date('2024-01-01') . year",
    "WITH [1, 2] AS l UNWIND l AS x WITH x , count(*) AS c WHERE c >= 1 RETURN x , c , x IS NOT NULL",
    "CALL db.labels() YIELD label WITH label WHERE label = 'ZzNone' RETURN label , size( label )",
];

struct Server {
    client: reqwest::Client,
    url: String,
    password: String,
}

impl Server {
    fn from_environment() -> Self {
        // Another test of this process may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = format!("{}/db/neo4j/query/v2", needed("HOPCACHE_TEST_NEO4J_HTTP"));
        Self { client: reqwest::Client::new(), url, password: needed("HOPCACHE_TEST_NEO4J_PASSWORD") }
    }

    /// Columns, values and error codes, but not messages and notifications: they quote positions.
    async fn answer(&self, text: &str) -> (Value, Vec<Value>) {
        let request = self.client.post(&self.url).basic_auth("neo4j", Some(&self.password));
        let request = request.header("Accept", "application/json").json(&json!({ "statement": text }));
        let mut body: Value = request.send().await.unwrap().json().await.unwrap();
        let codes = body["errors"].as_array().into_iter().flatten().map(|error| error["code"].clone());
        let codes = codes.collect();
        (body["data"].take(), codes)
    }
}

fn needed(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run cargo xtask test"))
}

#[tokio::test]
async fn equal_normal_forms_have_equal_answers() {
    let server = Server::from_environment();
    for (left, right) in SHARED {
        assert_eq!(NormalForm::of(left).as_str(), NormalForm::of(right).as_str());
        let answer = server.answer(left).await;
        assert!(answer.1.is_empty(), "{left}: {answer:?}");
        assert_eq!(answer, server.answer(right).await, "{left:?} and {right:?}");
    }
}

#[tokio::test]
async fn different_columns_have_different_normal_forms() {
    let server = Server::from_environment();
    for (left, right) in APART {
        assert_ne!(NormalForm::of(left), NormalForm::of(right), "{left:?} and {right:?}");
        assert_ne!(server.answer(left).await, server.answer(right).await, "{left:?} and {right:?}");
    }
}

/// Changes each gap of each base in turn. Texts with the same normal form must have the same answer, and the normal
/// form as a text must have it too.
#[tokio::test]
async fn no_change_of_a_gap_breaks_the_rule() {
    let server = Server::from_environment();
    let mut forms: BTreeMap<NormalForm, Vec<String>> = BTreeMap::new();
    for base in BASES {
        for text in variants(base) {
            forms.entry(NormalForm::of(&text)).or_default().push(text);
        }
    }
    let variants: usize = forms.values().map(Vec::len).sum();
    assert!(forms.len() * 3 < variants * 2, "{} forms of {variants} texts: nothing is shared", forms.len());
    for (form, texts) in forms {
        let expected = server.answer(form.as_str()).await;
        for text in texts {
            assert_eq!(
                server.answer(&text).await,
                expected,
                "{text:?} and its normal form {:?}",
                form.as_str()
            );
        }
    }
}

/// The base; each gap lengthened, commented, and closed, one at a time.
fn variants(base: &str) -> Vec<String> {
    let mut texts = vec![base.to_owned(), format!("\n{base} // end")];
    let tokens: Vec<_> = tokens(base).collect();
    for pair in tokens.windows(2) {
        for gap in ["  ", "/* x */\n", ""] {
            texts.push(format!("{}{gap}{}", &base[..pair[0].end], &base[pair[1].start..]));
        }
    }
    texts
}
