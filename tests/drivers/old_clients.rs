//! Clients of Bolt 4.4 to 4.1: hits in their own form, byte for byte what Neo4j sends them.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::drivers::NEO4J;
use crate::drivers::raw::{Raw, framed, neo4j, text};
use crate::support::bolt_bytes::structure;
use crate::support::cluster::OwnLabel;
use crate::support::environment;
use crate::support::lone::{Lone, Spec};

const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;
const FAILURE: u8 = 0x7F;

/// Connects at exactly this version, with or without the offer of date-times in UTC. Also the answer to HELLO.
async fn connect(addr: &str, (minor, offers_utc): (u8, bool)) -> (Raw, Value) {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let mut hello = vec![0x60, 0x60, 0xB0, 0x17, 0, 0, minor, 4];
    hello.resize(20, 0);
    stream.write_all(&hello).await.unwrap();
    let mut agreed = [0; 4];
    stream.read_exact(&mut agreed).await.unwrap();
    assert_eq!(agreed, [0, 0, minor, 4]);
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let pairs =
        [("user_agent", "old/4"), ("scheme", "basic"), ("principal", "neo4j"), ("credentials", &password)];
    let mut message = vec![0xB1, 0x01, 0xA4 + u8::from(offers_utc)];
    pairs.iter().for_each(|(name, value)| message.extend([text(name), text(value)].concat()));
    if offers_utc {
        message.extend([&text("patch_bolt")[..], &[0x91], &text("utc")].concat());
    }
    let mut raw = Raw(stream);
    raw.0.write_all(&framed(&message)).await.unwrap();
    let reply = raw.reply().await;
    assert_eq!(reply[1], SUCCESS, "{}", String::from_utf8_lossy(&reply));
    let (_, mut fields) = structure(&reply).unwrap();
    (raw, fields.remove(0))
}

/// The records of a statement as bytes, and the maps around them without times and bookmarks; also `Cache-Status`.
async fn ask(raw: &mut Raw, statement: &str) -> (Vec<Vec<u8>>, Vec<Value>, String) {
    raw.run(statement).await;
    let (mut records, mut maps, mut status) = (Vec::new(), Vec::new(), String::new());
    while maps.len() < 2 {
        let reply = raw.reply().await;
        if reply[1] == RECORD {
            records.push(reply);
            continue;
        }
        assert!([SUCCESS, FAILURE].contains(&reply[1]), "{statement}: {}", String::from_utf8_lossy(&reply));
        let is_failure = reply[1] == FAILURE;
        let mut map = structure(&reply).unwrap_or_else(|| panic!("{statement}: {reply:02X?}")).1.remove(0);
        let pairs = map.as_object_mut().unwrap();
        ["t_first", "t_last", "bookmark"].iter().for_each(|name| drop(pairs.remove(*name)));
        if let Some(text) = pairs.remove("hopcache") {
            text.as_str().unwrap().clone_into(&mut status);
        }
        maps.push(map);
        if is_failure {
            raw.send(&[0xB0, 0x0F]).await;
            while raw.reply().await[1] != SUCCESS {}
            break;
        }
    }
    (records, maps, status)
}

/// Statements of every value type, and of summaries.
fn statements(label: &str) -> Vec<String> {
    let mut all: Vec<String> = [
        "null AS a, true AS b, -9223372036854775808 AS c, 1.5 AS d, 'text' AS e, [1, [2, {k: [3]}]] AS f, {a: 1} AS g",
        "date('2024-02-29') AS a, time('12:00:00.000000001+02:00') AS b, localtime('23:59') AS c, localdatetime('1815-12-10T12:00') AS d, duration('P1Y2M3DT4H5.5S') AS e",
        "datetime('2024-07-01T12:00:00+02:00') AS a, datetime('1900-01-01T00:00:00.123456789-11:30') AS b, datetime('2024-07-01T12:00Z') AS c",
        "datetime('2024-07-01T12:00:00[Europe/Berlin]') AS a, datetime('1850-01-01T00:00:00[Europe/Stockholm]') AS b, datetime('2150-07-01T00:00:00[America/New_York]') AS c",
        "datetime({epochSeconds: 1729987200, timezone: 'Europe/Berlin'}) AS before, datetime({epochSeconds: 1729990800, timezone: 'Europe/Berlin'}) AS after",
        "[datetime('2024-07-01T12:00:00+02:00'), {at: datetime('2024-01-01T12:00:00[Asia/Kolkata]')}] AS nested",
        "point({x: 1.5, y: 2}) AS a, point({x: 1, y: 2, z: 3}) AS b, point({latitude: 1, longitude: 2}) AS c",
        "1 / 0 AS failure",
    ]
    .iter()
    .map(|text| format!("RETURN {text}"))
    .collect();
    all.extend([
        format!("MATCH (n:{label}) RETURN n ORDER BY n.n"),
        format!("MATCH (:{label})-[r]->(:{label}) RETURN r ORDER BY r.n"),
        format!("MATCH p = (:{label} {{n: 1}})-[*2]->() RETURN p, nodes(p) AS n, relationships(p) AS r, [p, {{p: p}}] AS l"),
        format!("MATCH (n:{label}) RETURN collect(n) AS all, {{node: head(collect(n))}} AS map"),
        // A notification: no such label.
        format!("MATCH (n:{label}Missing) RETURN n"),
        "RETURN".to_owned(),
    ]);
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_clients_get_from_the_cache_what_neo4j_sends_them() {
    let _alone = NEO4J.write().await;
    let label = OwnLabel::new("Old");
    let node = Lone::start(&Spec { prefetches: false, ..Spec::on("memory:") }).await;
    let mut writer = Raw::at_neo4j().await;
    let at = "at: datetime('2024-07-01T12:00:00[Europe/Berlin]'), off: datetime('2024-07-01T12:00+05:30')";
    writer
        .run(&format!(
            "CREATE (:{0} {{n: 1, {at}}})-[:TO {{n: 1, {at}}}]->(b:{0} {{n: 2}}), (b)<-[:BACK {{n: 2}}]-(:{0} {{n: 3}}), (b)-[:ON {{n: 3}}]->(:{0}:More {{n: 4, list: [1, 2]}})",
            label.0
        ))
        .await;
    while writer.reply().await.get(1) != Some(&SUCCESS) {}
    writer.reply().await;
    let through = node.addrs.bolt.to_string();
    for version in
        [(4, true), (4, false), (3, true), (3, false), (2, true), (2, false), (1, true), (1, false)]
    {
        let (mut direct, expected) = connect(&neo4j(), version).await;
        let (mut cached, hello) = connect(&through, version).await;
        assert_eq!(hello.get("patch_bolt"), expected.get("patch_bolt"), "{version:?}");
        for statement in statements(&label.0) {
            let (records, maps, _) = ask(&mut direct, &statement).await;
            let is_failure = maps.last().is_some_and(|map| map.get("code").is_some());
            for is_second in [false, true] {
                let (seen, seen_maps, status) = ask(&mut cached, &statement).await;
                assert_eq!(seen_maps, maps, "{version:?} {statement}");
                assert_eq!(seen, records, "{version:?} {statement}");
                assert!(
                    !is_second || is_failure || status.contains("; hit"),
                    "{version:?} {statement}: {status}"
                );
            }
        }
    }
    let old = node.count("cache_bypass_total", "reason=\"old-bolt\"").await;
    assert_eq!(old, 0.0);
}

/// Clients below 4.3 ask for a routing table by a statement. It leads to the node, and not past it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_routing_table_by_a_statement_leads_to_the_node() {
    let node = Lone::start(&Spec::on("memory:")).await;
    let through = node.addrs.bolt.to_string();
    for (minor, procedure) in [(1, "dbms.routing"), (2, "dbms.routing"), (2, "dbms.cluster.routing")] {
        let call = format!("CALL {procedure}.getRoutingTable($context, $database)");
        let context = [&text("context")[..], &[0xA1], &text("address"), &text(&through)].concat();
        let params = [&[0xA2][..], &context, &text("database"), &[0xC0]].concat();
        let extra = [&[0xA1][..], &text("db"), &text("system")].concat();
        let run = [&[0xB3, 0x10][..], &text(&call), &params, &extra].concat();
        for at in [&neo4j(), &through] {
            let (mut raw, _) = connect(at, (minor, false)).await;
            raw.send(&run).await;
            raw.send(&[0xB1, 0x3F, 0xA1, 0x81, b'n', 0xFF]).await;
            let replies = [raw.reply().await, raw.reply().await, raw.reply().await];
            let shown = replies.each_ref().map(|reply| String::from_utf8_lossy(reply).into_owned());
            assert_eq!(replies.each_ref().map(|reply| reply[1]), [SUCCESS, RECORD, SUCCESS], "{shown:?}");
            assert!(shown[0].contains("ttl") && shown[0].contains("servers"), "{shown:?}");
            assert_eq!(shown[1].matches(&through).count(), 3, "{at}: {shown:?}");
            let address = neo4j();
            assert!(at == &address || !shown[1].contains(&address), "{shown:?}");
        }
    }
}

/// Parameters in a form that Bolt 5 does not have: Neo4j itself answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_date_times_in_parameters_pass_through() {
    let _alone = NEO4J.write().await;
    let node = Lone::start(&Spec { prefetches: false, ..Spec::on("memory:") }).await;
    let (mut raw, _) = connect(&node.addrs.bolt.to_string(), (4, false)).await;
    // {at: legacy date-time of 3,600 s local at +01:00}
    let params = [&[0xA1][..], &text("at"), &[0xB3, 0x46, 0xC9, 0x0E, 0x10, 0, 0xC9, 0x0E, 0x10]].concat();
    let run =
        [&[0xB3, 0x10][..], &text("RETURN $at.epochSeconds AS s, $at AS at"), &params, &[0xA0]].concat();
    raw.send(&run).await;
    raw.send(&[0xB1, 0x3F, 0xA1, 0x81, b'n', 0xFF]).await;
    assert_eq!(raw.reply().await[1], SUCCESS);
    let record = raw.reply().await;
    assert_eq!(record, [0xB1, RECORD, 0x92, 0, 0xB3, 0x46, 0xC9, 0x0E, 0x10, 0, 0xC9, 0x0E, 0x10]);
    assert_eq!(raw.reply().await[1], SUCCESS);
    assert_eq!(node.count("cache_bypass_total", "reason=\"old-bolt\"").await, 1.0);
}
