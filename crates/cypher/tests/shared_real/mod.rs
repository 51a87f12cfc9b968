//! Shared forms on a real Neo4j: two spellings of a random query that share a form have the same rows there, and so has the
//! form itself, run as a statement for one pair in four; the columns that the parser names are the server's. A changed query shares nothing,
//! and two queries that happen to share have the same rows.
//!
//! | variable | value |
//! |---|---|
//! | `HOPCACHE_TEST_SHARED_PAIRS` | how many pairs of spellings that share to run (100) |
//! | `HOPCACHE_TEST_SHARED_SEED` | the first query's seed (1) |
//!
//! Everything happens in transactions that are rolled back: the server keeps nothing.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use std::collections::BTreeMap;

use hopcache_cypher::forms::shared::SharedForm;
use hopcache_packstream::{Reader, Value};

use super::bolt::Bolt;
use super::shared_form::generate::{LABELS, Query};
use super::shared_form::random::Random;
use super::shared_form::{change, generate, spell};

/// The server plans each text, which takes longer than to run it.
const FORM_EVERY: usize = 4;
/// Pairs on one graph.
const PAIRS_ON_GRAPH: usize = 50;

#[derive(Debug, Default)]
struct Account {
    /// Pairs of spellings whose forms are equal, all of them run.
    shared: usize,
    /// Pairs of spellings with two forms.
    apart: usize,
    /// Pairs of spellings without a form.
    unread: usize,
    /// Shared pairs whose form was run as well: one in [`FORM_EVERY`].
    forms_run: usize,
    /// Shared pairs with at least one row.
    with_rows: usize,
    /// Shared pairs that the server refused, both of them.
    refused: usize,
    /// Queries with a change that are not shared with the query before it.
    changed_apart: usize,
    /// Queries with the form of an earlier query: the same query came again.
    met_again: usize,
    wrong: Vec<String>,
}

/// The columns and rows of a text, or the code of its failure.
type Answer = Result<(Vec<String>, Vec<String>), String>;

struct Graph {
    bolt: Bolt,
    statement: String,
    params: Value,
}

impl Graph {
    fn connect() -> Self {
        let params = Value::Map(vec![("p".to_owned(), Value::Int(2))]);
        Self { bolt: Bolt::connect(), statement: String::new(), params }
    }

    /// A new graph: 14 nodes, up to 40 relationships.
    fn make(&mut self, random: &mut Random) {
        let mut text = String::new();
        for node in 0..14 {
            let labels = [0, 1].map(|_| random.pick(&LABELS));
            let labels = if random.chance(40) { labels[..1].to_vec() } else { labels.to_vec() };
            let keys = random.pick(&[
                "x: @",
                "x: @, y: @",
                "x: @, y: @, s: 'a'",
                "y: @, s: \"it's\"",
                "x: @, s: 'n'",
            ]);
            let keys = keys.split('@').map(ToOwned::to_owned).collect::<Vec<_>>();
            let keys = keys.iter().enumerate().map(|(at, part)| {
                if at + 1 == keys.len() { part.clone() } else { format!("{part}{}", random.below(4)) }
            });
            text += &format!("CREATE (n{node}:{} {{{}}}) ", labels.join(":"), keys.collect::<String>());
        }
        for _ in 0..24 + random.below(17) {
            let (from, to) = (random.below(14), random.below(14));
            text += &format!(
                "CREATE (n{from})-[:{} {{x: {}}}]->(n{to}) ",
                random.pick(&generate::KINDS),
                random.below(3)
            );
        }
        self.statement = text;
        self.bolt.send(0x13, &[]);
        if self.bolt.receive()[1] != 0x70 {
            self.bolt.send(0x0F, &[]);
            self.bolt.receive();
        }
        self.begin();
    }

    fn begin(&mut self) {
        self.bolt.send(0x11, &[Value::Map(vec![])]);
        assert_eq!(self.bolt.receive()[1], 0x70);
        assert!(!self.bolt.run(&self.statement, self.params.clone()).failed);
    }

    /// A failure ends the transaction, and the same graph is made again.
    fn answer(&mut self, text: &str, is_ordered: bool) -> Answer {
        let run = self.bolt.run(&format!("CYPHER replan=skip {text}"), self.params.clone());
        if run.failed {
            self.begin();
            return Err(run.end.get("code").and_then(Value::as_str).unwrap_or("no code").to_owned());
        }
        let (mut reader, mut rows) = (Reader::new(&run.records), Vec::new());
        while !reader.is_empty() {
            rows.push(format!("{:?}", reader.value().unwrap()));
        }
        if !is_ordered {
            rows.sort();
        }
        Ok((run.fields, rows))
    }
}

/// The order of a result is promised where all of its columns are ordered by.
fn is_ordered(query: &Query) -> bool {
    !query.last.order.is_empty()
}

fn names(form: &SharedForm) -> Vec<String> {
    form.columns().iter().map(ToString::to_string).collect()
}

impl Account {
    /// Runs both texts, and perhaps their form.
    fn compare(
        &mut self,
        graph: &mut Graph,
        (one, other): (&str, &str),
        (is_ordered, runs_form): (bool, bool),
    ) {
        let forms = [one, other].map(|text| SharedForm::of(text).unwrap());
        let answers = [one, other].map(|text| graph.answer(text, is_ordered));
        let of_form =
            if runs_form { graph.answer(forms[0].as_str(), is_ordered) } else { answers[0].clone() };
        self.forms_run += usize::from(runs_form);
        let rows = |answer: &Answer| answer.as_ref().map(|(_, rows)| rows.clone()).map_err(Clone::clone);
        let columns_hold = answers
            .iter()
            .zip(&forms)
            .all(|(answer, form)| answer.as_ref().map_or(true, |(columns, _)| *columns == names(form)));
        let is_same = rows(&answers[0]) == rows(&answers[1]) && rows(&answers[0]) == rows(&of_form);
        if !is_same || !columns_hold {
            self.wrong.push(format!("{one}\n{other}\n{}\n{answers:?}\n{of_form:?}", forms[0].as_str()));
        }
        match &answers[0] {
            Ok((_, rows)) => self.with_rows += usize::from(!rows.is_empty()),
            Err(_) => self.refused += 1,
        }
    }
}

#[test]
fn spellings_that_share_a_form_have_the_same_rows() {
    let number =
        |name: &str, default: usize| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (pairs, first) = (number("HOPCACHE_TEST_SHARED_PAIRS", 100), number("HOPCACHE_TEST_SHARED_SEED", 1));
    let (mut graph, mut account) = (Graph::connect(), Account::default());
    graph.begin_empty();
    let mut seen: BTreeMap<String, (Query, String)> = BTreeMap::new();
    for seed in first.. {
        if account.shared >= pairs || account.wrong.len() > 5 {
            break;
        }
        let mut random = Random::new(seed as u64);
        if (seed - first).is_multiple_of(PAIRS_ON_GRAPH) {
            graph.make(&mut random);
        }
        let query = generate::query(&mut random);
        let [one, other] = [(); 2].map(|()| spell::spell(&query, &mut random));
        let changed = spell::spell(&change::changed(&query, &mut random), &mut random);
        let (Some(form), Some(second)) = (SharedForm::of(&one), SharedForm::of(&other)) else {
            account.unread += 1;
            continue;
        };
        match SharedForm::of(&changed) {
            Some(third) if third.as_str() == form.as_str() => {
                account.wrong.push(format!("shared with a changed query\n{one}\n{changed}"));
            }
            _ => account.changed_apart += 1,
        }
        if let Some((earlier, text)) = seen.get(form.as_str()) {
            account.met_again += 1;
            if *earlier != query {
                account.compare(
                    &mut graph,
                    (text, &one),
                    (is_ordered(&query), account.shared.is_multiple_of(FORM_EVERY)),
                );
            }
        }
        if form.as_str() == second.as_str() {
            account.shared += 1;
            account.compare(
                &mut graph,
                (&one, &other),
                (is_ordered(&query), account.shared.is_multiple_of(FORM_EVERY)),
            );
        } else {
            account.apart += 1;
        }
        seen.insert(form.as_str().to_owned(), (query, one));
    }
    eprintln!("{account:#?}");
    assert!(account.wrong.is_empty(), "{} wrong\n{}", account.wrong.len(), account.wrong.join("\n\n"));
    // Otherwise the generator has stopped to make what it is for.
    assert!(account.with_rows * 4 > account.shared, "{account:?}");
    assert!(account.refused * 10 < account.shared, "{account:?}");
    assert!((account.apart + account.unread) * 4 < account.shared, "{account:?}");
}

impl Graph {
    /// A transaction that [`Graph::make`] can roll back.
    fn begin_empty(&mut self) {
        self.bolt.send(0x11, &[Value::Map(vec![])]);
        assert_eq!(self.bolt.receive()[1], 0x70);
    }
}

const RULES: &[(&str, &str)] = &[
    ("MATCH (n:ZzA) RETURN `n`, n . x AS `a``b`", "MATCH (m:ZzA) RETURN m AS n, m.x"),
    (
        "UNWIND [2, 1] AS n RETURN n AS m, count(*) AS c ORDER BY n",
        "UNWIND [2, 1] AS x RETURN x AS y, count(*) ORDER BY x",
    ),
    ("MATCH (n:ZzA) RETURN n.x AS a ORDER BY n.x, id(n)", "MATCH (k:ZzA) RETURN k.x ORDER BY k.x, id(k)"),
    (
        "MATCH (n:ZzA) RETURN n.x, count(*) ORDER BY count(*), n.x",
        "MATCH (n:ZzA) RETURN n.x AS n, count(*) AS c ORDER BY count(*), n.x",
    ),
    (
        "MATCH (n:ZzA) RETURN n.x AS a, count(*) AS b ORDER BY count(*), n.x",
        "MATCH (m:ZzA) RETURN m.x, count(*) ORDER BY count(*), m.x",
    ),
    ("MATCH (n:ZzA) RETURN DISTINCT n.x ORDER BY n.x", "MATCH (n:ZzA) RETURN DISTINCT n.x AS x ORDER BY n.x"),
    (
        "MATCH (n:ZzA) WITH n.x AS a, n WHERE n.y = 1 RETURN a",
        "MATCH (m:ZzA) WITH m.x AS b, m WHERE m.y = 1 RETURN b",
    ),
    (
        "MATCH (n:ZzA) WITH n.x AS a WHERE n.y > 0 RETURN a",
        "MATCH (m:ZzA) WITH m.x AS b WHERE m.y > 0 RETURN b AS m",
    ),
    (
        "MATCH (a:ZzA) WITH count(a) AS c MATCH (a:ZzB) RETURN a, c",
        "MATCH (x:ZzA) WITH count(x) AS a MATCH (c:ZzB) RETURN c, a",
    ),
    (
        "MATCH (a:ZzA)-[r:ZZR]->(a) RETURN r, 1 - 1, [1, 2][0], {a: a}.a.x",
        "MATCH (b)<-[a:ZZR]-(b:ZzA) RETURN a, 1 - 1, [1, 2][0], {a: b}.a.x",
    ),
    ("MATCH (a:ZzA)-[*0..2]-(b:ZzB) RETURN count(*)", "MATCH (b:ZzB)-[*0..2]-(a:ZzA) RETURN count(*)"),
    (
        "MATCH p = (a:ZzA)-[r*1..2]->(b) RETURN p, r, length(p)",
        "MATCH q = (x:ZzA)-[p*1..2]->(r) RETURN q, p, length(q)",
    ),
    (
        "MATCH (n:ZzA) WHERE n.x = 1 AND n.s <> 'a' AND n:ZzB RETURN n",
        "MATCH (n:ZzA) WHERE n:ZzB AND n.s <> 'a' AND n.x = 1 RETURN n",
    ),
    (
        "OPTIONAL MATCH (n:ZzNone) WHERE n.x IN [1, null] AND n.y IS NULL RETURN n",
        "OPTIONAL MATCH (m:ZzNone) WHERE m.y IS NULL AND m.x IN [1, null] RETURN m",
    ),
    (
        "MATCH (n:ZzA) RETURN CASE n.x WHEN 1 THEN 'a' WHEN 2 THEN 'b' END, n.x STARTS WITH 'a', NOT n.x = 1 OR n.y = 2",
        "MATCH (m:ZzA) RETURN CASE m.x WHEN 1 THEN 'a' WHEN 2 THEN 'b' END AS c, m.x STARTS WITH 'a' AS d, NOT m.x = 1 OR m.y = 2 AS e",
    ),
    (
        "WITH 1 AS count, 2 AS user, 3 AS node RETURN count(count), user, node",
        "WITH 1 AS a, 2 AS b, 3 AS c RETURN count(a), b, c",
    ),
    ("RETURN $p, $ p, $`p`", "RETURN $p AS a, $p AS b, $`p` AS c"),
];

/// Texts with one form whose equality rests on a rule of Neo4j that no random query meets.
#[test]
fn pairs_of_the_rules_have_the_same_rows() {
    let (mut graph, mut account) = (Graph::connect(), Account::default());
    graph.begin_empty();
    graph.make(&mut Random::new(7));
    for (one, other) in RULES {
        let forms = [one, other].map(|text| SharedForm::of(text).map(|form| form.as_str().to_owned()));
        if forms[0].is_none() || forms[0] != forms[1] {
            account.apart += 1;
            eprintln!("not shared:\n{one}\n{other}\n{forms:?}");
            continue;
        }
        account.shared += 1;
        account.compare(&mut graph, (one, other), (one.contains("ORDER BY"), true));
    }
    assert!(account.wrong.is_empty(), "{}", account.wrong.join("\n\n"));
    // One has an alias that hides a variable, before ORDER BY.
    assert_eq!((account.refused, account.shared, account.apart), (0, 16, 1), "{account:?}");
}
