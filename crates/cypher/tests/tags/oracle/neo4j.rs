//! This test's own graph on the server, and results in a form that can be compared.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hopcache_core::bookmark::Bookmark;
use hopcache_cypher::tags::Counters;
use hopcache_packstream::{Reader, Value, decode, encode_canonical};

use super::super::super::bolt::Bolt;
use super::random::Random;
use super::reads::Read;

/// The rows of a result; sorted unless the read promises an order.
#[derive(Debug, Clone)]
pub struct Rows {
    rows: Vec<String>,
    /// As the server sent them.
    pub records: Vec<u8>,
}

impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows
    }
}

impl Rows {
    fn of(records: &[u8], read: &Read) -> Self {
        let mut reader = Reader::new(records);
        let mut rows = Vec::new();
        while !reader.is_empty() {
            let Value::List(columns) = reader.value().unwrap() else { panic!("a record is no list") };
            rows.push(format!("{:?}", columns.into_iter().map(without_order).collect::<Vec<_>>()));
        }
        if !read.is_ordered {
            rows.sort();
        }
        Self { rows, records: records.to_vec() }
    }
}

/// A row of a bulk upsert: a node's number, and a key with its value.
fn row(uid: i64, key: &str, value: i64) -> Value {
    let entry = |key: &str, value| (key.to_owned(), Value::Int(value));
    let inner = Value::Map(vec![entry(key, value)]);
    Value::Map(vec![entry("uid", uid), entry(key, value), ("props".to_owned(), inner)])
}

/// One test of this program at a time: [`super::ids`] counts the writes of the whole server.
static TURN: Mutex<()> = Mutex::new(());

pub struct Graph {
    bolt: Bolt,
    _turn: MutexGuard<'static, ()>,
    params: Value,
    packed: Vec<u8>,
}

impl Graph {
    /// Waits until no other test has a graph.
    pub fn connect() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // Other runs of this test on the same server have another graph.
        let own = RandomState::new().build_hasher().finish();
        let text = |key: &str, value: &str| (key.to_owned(), Value::from(value));
        let labels = Value::List(vec!["LB".into(), "LC".into()]);
        let props = Value::Map(vec![("x".to_owned(), Value::Int(7)), ("uid".to_owned(), Value::Int(900))]);
        let params = Value::Map(
            [
                text("g", &format!("{own:x}")),
                text("label", "LA"),
                ("labels".to_owned(), labels),
                text("type", "TR"),
                text("key", "x"),
                ("props".to_owned(), props),
                ("rows".to_owned(), Value::List(vec![row(3, "x", 5), row(77, "y", 6), row(4, "x", 8)])),
            ]
            .into_iter()
            .chain(anchors())
            .collect(),
        );
        // Neo4j 2026 refuses a map with a key twice. Of an older server the last value counts, as here.
        let packed = encode_canonical(&params);
        Self { bolt: Bolt::connect(), _turn: turn, params: decode(&packed).unwrap(), packed }
    }

    /// What no other graph has: its nodes have it as `g`.
    pub fn own(&self) -> &str {
        self.params.get("g").and_then(Value::as_str).unwrap()
    }

    /// One PackStream map.
    pub fn params(&self) -> &[u8] {
        &self.packed
    }

    pub fn wipe(&mut self) {
        self.write("MATCH (n {g: $g}) DETACH DELETE n").unwrap();
    }

    /// A new graph of 8 to 15 nodes and up to 25 relationships. Some nodes have no label, some no relationship.
    pub fn make(&mut self, random: &mut Random) {
        self.wipe();
        let nodes = 8 + random.below(8);
        let mut text = String::new();
        for uid in 0..nodes {
            let labels = random.text(&["", ":@L", ":@L", ":@L:@L", ":@L:@L:@L"]);
            let keys = random.text(&["", ", @K: @V", ", x: @V, y: @V", ", x: @V, y: @V, z: @V, w: @V"]);
            text += &format!("CREATE (n{uid}{labels} {{g: $g, uid: {uid}{keys}}}) ");
        }
        for _ in 0..10 + random.below(16) {
            let (from, to) = (random.below(nodes), random.below(nodes));
            let inside = random.text(&[":@T", ":@T {@K: @V}", ":@T {x: @V, y: @V}"]);
            text += &format!("CREATE (n{from})-[{inside}]->(n{to}) ");
        }
        self.write(&text).unwrap();
    }

    /// A new graph of 5 to 12 nodes for anchors: ids that are not unique, missing, or of other types.
    pub fn make_for_anchors(&mut self, random: &mut Random) {
        self.wipe();
        let nodes = 5 + random.below(8);
        let mut text = String::new();
        for uid in 0..nodes {
            let labels = random.text(&[":@L", ":@L", ":@L:@L", ""]);
            let ids =
                ["", ", id: 1", ", id: 2", ", id: 3", ", id: 1.0", ", id: '1'", ", id: true", ", id: [1]"];
            let (usual, any) = (ids[1 + random.below(3)], ids[random.below(ids.len())]);
            let id = random.pick(&[usual, any]);
            let keys = random.text(&["", ", t: @V", ", t: @V, x: @V", ", x: @V, y: @V"]);
            text += &format!("CREATE (n{uid}{labels} {{g: $g, uid: {uid}{id}{keys}}}) ");
        }
        for _ in 0..6 + random.below(12) {
            let (from, to) = (random.below(nodes), random.below(nodes));
            let inside = random.text(&[":@T", ":@T {@K: @V}", ":@T {id: @V}"]);
            text += &format!("CREATE (n{from})-[{inside}]->(n{to}) ");
        }
        self.write(&text).unwrap();
    }

    /// The strings in the first column of a result.
    pub fn strings(&mut self, statement: &str) -> Vec<String> {
        let run = self.bolt.run(statement, self.params.clone());
        assert!(!run.failed, "{:?}", run.end);
        let (mut reader, mut strings) = (Reader::new(&run.records), Vec::new());
        while !reader.is_empty() {
            let Value::List(columns) = reader.value().unwrap() else { panic!("a record is no list") };
            strings.push(columns[0].as_str().unwrap().to_owned());
        }
        strings
    }

    /// The id of the last transaction of the database.
    pub fn last_id(&mut self) -> u64 {
        self.begin();
        self.bolt.send(0x12, &[]);
        let end = decode(&self.bolt.receive()[2..]).unwrap();
        let bookmark = Bookmark::parse(end.get("bookmark").and_then(Value::as_str).unwrap()).unwrap();
        bookmark.positions()[0].id.0
    }

    pub fn begin(&mut self) {
        self.bolt.send(0x11, &[Value::Map(vec![])]);
        assert_eq!(self.bolt.receive()[1], 0x70);
    }

    pub fn rollback(&mut self) {
        self.bolt.send(0x13, &[]);
        assert_eq!(self.bolt.receive()[1], 0x70);
    }

    /// The rows of a read, or the message of its failure. A failure ends the transaction.
    pub fn rows(&mut self, read: &Read) -> Result<Rows, String> {
        let run = self.bolt.run(&planned_once(&read.text), self.params.clone());
        if run.failed { Err(message(&run.end)) } else { Ok(Rows::of(&run.records, read)) }
    }

    /// Runs the reads, sent all at once, and takes the transaction back. After one that fails all others are `None`.
    pub fn rows_and_rollback(&mut self, reads: &[&Read]) -> Vec<Option<Rows>> {
        for read in reads {
            let text = Value::from(planned_once(&read.text).as_str());
            self.bolt.send(0x10, &[text, self.params.clone(), Value::Map(vec![])]);
            self.bolt.send(0x3F, &[Value::Map(vec![("n".into(), Value::Int(-1))])]);
        }
        self.bolt.send(0x13, &[]);
        let results = reads.iter().map(|read| self.answer(read)).collect();
        if self.bolt.receive()[1] != 0x70 {
            self.bolt.send(0x0F, &[]);
            assert_eq!(self.bolt.receive()[1], 0x70);
        }
        results
    }

    fn answer(&mut self, read: &Read) -> Option<Rows> {
        let started = self.bolt.receive()[1] == 0x70;
        let mut records = Vec::new();
        loop {
            let message = self.bolt.receive();
            match message[1] {
                0x71 => records.extend_from_slice(&message[2..]),
                end => return (started && end == 0x70).then(|| Rows::of(&records, read)),
            }
        }
    }

    /// Lets the server plan a write, so that its run takes little time.
    pub fn plan(&mut self, write: &str) {
        self.bolt.run(&format!("CYPHER replan=skip EXPLAIN {write}"), self.params.clone());
    }

    /// Runs a write. A failure ends the transaction.
    pub fn write(&mut self, write: &str) -> Result<Counters, String> {
        let run = self.bolt.run(&planned_once(write), self.params.clone());
        if run.failed {
            return Err(message(&run.end));
        }
        let stats = match run.end.get("stats") {
            Some(Value::Map(stats)) => stats.as_slice(),
            _ => &[],
        };
        let counts = stats.iter().filter_map(|(name, count)| Some((name.as_str(), count.as_int()?)));
        Ok(Counters::of(counts))
    }
}

/// The values of anchors, as parameters of several forms.
fn anchors() -> Vec<(String, Value)> {
    let map = |entries: &[(&str, Value)]| {
        Value::Map(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
    };
    let row = |id: i64, x: i64| map(&[("id", Value::Int(id)), ("x", Value::Int(x)), ("t", Value::Int(id))]);
    let items = |ids: &[i64]| Value::List(ids.iter().copied().map(Value::Int).collect());
    let more = vec![Value::Int(1), Value::from("1"), Value::Null];
    let entries = map(&[
        ("p1", Value::Int(1)),
        ("p2", Value::Int(2)),
        ("p3", Value::Int(3)),
        ("f1", Value::Float(1.0)),
        ("s1", Value::from("1")),
        ("null", Value::Null),
        ("some", items(&[1, 2])),
        ("mixed", Value::List(more)),
        ("many", items(&(1..100).collect::<Vec<_>>())),
        ("row", map(&[("id", Value::Int(2)), ("props", row(3, 5))])),
        ("pairs", Value::List(vec![row(1, 5), row(3, 6)])),
    ]);
    if let Value::Map(entries) = entries { entries } else { Vec::new() }
}

/// The server plans a statement again when the graph has changed much. In these small graphs every write changes much.
fn planned_once(statement: &str) -> String {
    format!("CYPHER replan=skip {statement}")
}

fn message(end: &Value) -> String {
    end.get("message").and_then(Value::as_str).unwrap_or("no message").to_owned()
}

/// The value without the orders that Neo4j does not promise: of `collect()`, `labels()`, `keys()`.
fn without_order(value: Value) -> Value {
    match value {
        Value::List(items) => {
            let mut items: Vec<Value> = items.into_iter().map(without_order).collect();
            items.sort_by_key(|item| format!("{item:?}"));
            Value::List(items)
        }
        Value::Map(mut entries) => {
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Map(entries.into_iter().map(|(key, value)| (key, without_order(value))).collect())
        }
        Value::Struct { tag, fields } => {
            Value::Struct { tag, fields: fields.into_iter().map(without_order).collect() }
        }
        other => other,
    }
}
