//! neo4rs, which speaks Bolt 4.1.

use neo4rs::{Graph, Node, query};

use crate::drivers::NEO4J;
use crate::support::cluster::OwnLabel;
use crate::support::environment;
use crate::support::lone::{Lone, Spec};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_client_reads_from_the_cache_and_writes_through_it() {
    let _writes = NEO4J.read().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let own = OwnLabel::new("Rust");
    let label = &own.0;
    let node = Lone::start(&Spec::on("memory:")).await;
    let graph = Graph::new(format!("bolt://{}", node.addrs.bolt), "neo4j", &password).unwrap();
    let create = query(&format!(
        "UNWIND range(1, 3) AS n CREATE (:{label} {{n: n, at: datetime('2024-07-01T12:00Z')}})"
    ));
    graph.run(create).await.unwrap();
    for _ in 0..2 {
        assert_eq!(node.count("cache_hit_total", "").await, 0.0);
        let mut rows =
            graph.execute(query(&format!("MATCH (n:{label}) RETURN n ORDER BY n.n"))).await.unwrap();
        let mut seen = Vec::new();
        while let Some(row) = rows.next().await.unwrap() {
            let found: Node = row.get("n").unwrap();
            assert_eq!(found.labels(), [label.as_str()]);
            seen.push(found.get::<i64>("n").unwrap());
        }
        assert_eq!(seen, [1, 2, 3]);
    }
    assert_eq!(node.count("cache_hit_total", "").await, 1.0);
    assert!(node.count("hopcache_requests_total", "class=\"hit\",status=\"202\",front=\"bolt\"").await > 0.0);
    let mut transaction = graph.start_txn().await.unwrap();
    transaction.run(query(&format!("MATCH (n:{label}) DETACH DELETE n"))).await.unwrap();
    transaction.rollback().await.unwrap();
    let mut rows = graph.execute(query(&format!("MATCH (n:{label}) RETURN count(n) AS n"))).await.unwrap();
    assert_eq!(rows.next().await.unwrap().unwrap().get::<i64>("n").unwrap(), 3, "rolled back");
}
