//! Hints out of their limits are refused by name. Hints at their limits cannot lengthen an entry's life or make a node
//! refresh without end (threat: amplification by hints; F41).

use super::scripted_cluster::{ScriptedCluster, lines, ttl_s, versioned, with_header};

/// Hint, and the member that the refusal names.
const REFUSED: [(&str, &str); 10] = [
    ("degree=-1", "degree"),
    ("degree=0", "degree"),
    ("degree=1000000001", "degree"),
    ("degree=NaN", "degree"),
    ("volatility=1000000", "volatility"),
    ("volatility=-1.0", "volatility"),
    ("volatility=NaN", "volatility"),
    ("ttl=-1", "ttl"),
    ("ttl=315360001", "ttl"),
    // No number of RFC 9651 has an exponent.
    ("degree=1e9", "Hopcache-Hint"),
];

const ACCEPTED: [&str; 5] = [
    "degree=1000000000",
    "volatility=100",
    "ttl=315360000",
    "degree=1000000000, volatility=100, ttl=315360000",
    "degree=1, volatility=0.01",
];

async fn hints_keep_within_limits(mode: &str) {
    let entry = lines("60s", 0.5, "10m", &format!("[refresh]\nmin_ttl = \"1s\"\nmode = \"{mode}\""));
    let cluster = ScriptedCluster::start(1, entry, "").await;
    for (hint, member) in REFUSED {
        let reply =
            cluster.ask(&with_header("RETURN 'hints' AS what", &format!("hopcache-hint: {hint}"))).await;
        assert_eq!(reply.status, 400, "{hint}: {reply}");
        let message = reply.json()["errors"][0]["message"].to_string();
        assert!(message.contains(member), "{hint}: does not name {member}: {message}");
    }
    assert_eq!(cluster.neo4j.orders().count("hints"), 0, "a refused request runs nothing");
    for (at, hint) in ACCEPTED.into_iter().enumerate() {
        let (statement, _) = versioned(&format!("hint {at}"));
        let request = with_header(&statement, &format!("hopcache-hint: {hint}"));
        let first = cluster.ask(&request).await;
        assert!(first.header("cache-status").contains("; stored"), "{hint}: {first}");
        assert!(ttl_s(&first).unwrap() <= 60, "{hint}: {first}");
        for _ in 0..30 {
            let reply = cluster.ask(&request).await;
            assert!(reply.is_hit() && ttl_s(&reply).unwrap() <= 60, "{hint}: {reply}");
        }
        // A mean lead of at most 0.2 TTL: one hit of a new entry refreshes with a probability below e^-5.
        let runs = cluster.neo4j.orders().count(&statement);
        assert!(runs <= 4, "{mode}, {hint}: {runs} runs for 31 requests of a new entry");
    }
    let (statement, _) = versioned("hint none");
    let request = with_header(&statement, "hopcache-hint: ttl=0");
    for _ in 0..2 {
        let reply = cluster.ask(&request).await;
        assert!(reply.status == 202 && !reply.is_hit(), "ttl=0 was kept: {reply}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_adaptive_mode() {
    hints_keep_within_limits("adaptive").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_topology_sensitive_mode() {
    hints_keep_within_limits("topology_sensitive").await;
}
