//! A Redis that wants a password, refuses it, or grants too little; and the documented rights, on a real ACL user.

use std::time::{Duration, Instant};

use super::{WAIT_MAX, asks};
use crate::support::lone::{Lone, Spec};
use crate::support::redis::{Options, RedisServer};
use crate::support::tcp_proxy::TcpProxy;
use crate::support::{say, until};

const PAGE: &str = include_str!("../../../docs/operating/redis.md");
const LOG_ON: &str = "refuses this node's log-on";

/// Sends requests for some seconds and returns their number. None may fail.
async fn keep_asking(node: &Lone, test: &str, span: Duration) -> usize {
    let until = Instant::now() + span;
    let mut asked = 0;
    while Instant::now() < until {
        let reply = node.ask(&asks(test, asked).1).await;
        assert_eq!(reply.value(), format!("{test} {asked}."), "{reply}");
        asked += 1;
    }
    asked
}

/// A wrong password, a missing one, and a disabled user: the log says once what to do, there is no storm of
/// connections, and the node serves. When the password is right, the node uses the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_log_on_is_told_once_and_not_hammered() {
    let redis = RedisServer::with(Options::args(&["--requirepass", "the right one"])).await;
    for (at, credentials) in [":wrong@", ""].into_iter().enumerate() {
        let wire = TcpProxy::start(redis.addr()).await;
        let node = Lone::start(&Spec::on(&format!("redis://{credentials}{}", wire.addr()))).await;
        node.wait_until_degraded("store").await;
        until("it says why", WAIT_MAX, async || {
            let why = node.ready().await["why"]["store"].to_string();
            why.contains(LOG_ON) && why.contains("store.uri")
        })
        .await;
        let (before, from) = (wire.connects(), Instant::now());
        let asked = keep_asking(&node, &format!("log-on {at}"), Duration::from_secs(2)).await;
        let (connects, took) = (wire.connects() - before, from.elapsed());
        // Five failures open the breaker, which lets one call through each 500 ms. Without it every request and
        // poll would connect.
        let bound = 6 + 2 * (took.as_millis() as u64).div_ceil(500);
        assert!(connects <= bound, "{connects} connections in {took:?} for {asked} requests");
        assert_eq!(node.log_count(LOG_ON), 1, "{}", node.log());
        assert!(
            !node.log().contains("wrong@") && !node.log().contains(":wrong"),
            "the password is in the log"
        );
        say(&format!(
            "AUTH {credentials:?}: {asked} requests in {} ms answered, {connects} connects, logged once",
            took.as_millis()
        ));
        assert_eq!(redis.tell_as("the right one", "CONFIG SET requirepass wrong"), "+OK");
        if at == 1 {
            assert_eq!(redis.tell_as("wrong", "ACL SETUSER default nopass"), "+OK");
        }
        node.wait_until_well().await;
        assert_eq!(node.log_count("the store answers again"), 1, "{}", node.log());
        assert!(node.ask(&asks("log-on after", at).1).await.header("cache-status").contains("; stored"));
        if at == 0 {
            assert_eq!(redis.tell_as("wrong", "CONFIG SET requirepass \"the right one\""), "+OK");
        }
    }
}

/// The lines of docs/operating/redis.md, for a real user: everything works, and Redis denied nothing (`ACL LOG` is empty).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_acl_is_enough_and_nothing_is_denied() {
    let redis = RedisServer::start().await;
    let lines = PAGE.lines().filter(|line| line.starts_with("ACL SETUSER hopcache"));
    let lines: Vec<String> = lines.map(|line| line.replace(">PASSWORD", ">secret")).collect();
    let first = lines.first().unwrap();
    assert!(first.contains("-@all") && first.contains("~hopcache:v5:*"), "{first}");
    for line in &lines {
        assert_eq!(redis.tell(line), "+OK", "{line}");
    }
    let address = redis.addr();
    let mut node = Lone::start(&Spec::on(&format!("redis://hopcache:secret@{address}"))).await;
    let (statement, request) = asks("acl", 0);
    assert!(node.ask(&request).await.header("cache-status").contains("; stored"));
    redis.committed().await;
    node.again().await;
    assert!(node.ask(&request).await.is_hit());
    let explained = node.explain(&statement, &serde_json::json!({})).await;
    assert_eq!(explained["entry"]["stored_by"], "node-a", "{explained}");
    for scope in ["{\"database\": \"neo4j\"}", "{\"all\": true}"] {
        node.ask(&request).await;
        redis.committed().await;
        let purged = node.order("/admin/v1/purge", &serde_json::from_str(scope).unwrap()).await;
        assert_eq!(purged["entries"], 1, "{purged}");
    }
    // Full, so that the ping that asks whether it still is runs under the ACL as well.
    assert_eq!(redis.tell("CONFIG SET maxmemory 1"), "+OK");
    node.ask(&asks("acl", 1).1).await;
    node.wait_until_degraded("store").await;
    assert_eq!(redis.tell("CONFIG SET maxmemory 0"), "+OK");
    node.wait_until_well().await;
    assert_eq!(redis.tell("ACL LOG"), "*0", "Redis denied something");
    say("ACL of docs/operating/redis.md: store, read, explain, purge, ping: nothing denied");

    // Without the scripts' commands: the log names the list of commands.
    assert_eq!(
        redis.tell("ACL SETUSER weak on >secret ~hopcache:v5:* -@all +evalsha +eval +ping +info"),
        "+OK"
    );
    let weak = Lone::start(&Spec::on(&format!("redis://weak:secret@{address}"))).await;
    assert_eq!(weak.ask(&asks("acl weak", 0).1).await.value(), "acl weak 0.");
    let why = weak.wait_until_degraded("store").await;
    assert!(why.contains("docs/operating/redis.md"), "{why}");
    until("Redis denied", WAIT_MAX, async || redis.tell("ACL LOG") != "*0").await;
    assert_eq!(weak.log_count("denies commands"), 1, "{}", weak.log());
    assert_eq!(redis.tell("ACL SETUSER weak +@all"), "+OK");
    weak.wait_until_well().await;
}
