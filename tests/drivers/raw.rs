//! A client that sends any bytes, also those that no driver sends.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::support::lone::{Lone, Spec};
use crate::support::process::NodeProcess;
use crate::support::{environment, say, until};

/// A connection that has agreed on 5.4 and is logged on.
pub struct Raw(pub TcpStream);

impl Raw {
    pub async fn connect(node: &NodeProcess) -> Self {
        Self::connect_to(node.addrs.bolt).await
    }

    pub async fn connect_to(addr: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream
            .write_all(&[0x60, 0x60, 0xB0, 0x17, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            .await
            .unwrap();
        let mut agreed = [0; 4];
        stream.read_exact(&mut agreed).await.unwrap();
        assert_eq!(agreed, [0, 0, 4, 5]);
        Self(stream)
    }

    pub async fn logged_on(node: &NodeProcess) -> Self {
        Self::logged_on_to(node.addrs.bolt).await
    }

    /// At the Neo4j behind the nodes.
    pub async fn at_neo4j() -> Self {
        Self::logged_on_to(neo4j().parse().unwrap()).await
    }

    pub async fn logged_on_to(addr: SocketAddr) -> Self {
        let mut raw = Self::connect_to(addr).await;
        let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
        // Neo4j itself refuses a HELLO of 5.3 or later without it.
        let agent = [&text("bolt_agent")[..], &[0xA1], &text("product"), &text("raw/1")].concat();
        raw.send(&[&[0xB1, 0x01, 0xA2][..], &text("user_agent"), &text("raw"), &agent].concat()).await;
        let auth = [("scheme", "basic"), ("principal", "neo4j"), ("credentials", &password)];
        let pairs: Vec<u8> =
            auth.iter().flat_map(|(name, value)| [text(name), text(value)].concat()).collect();
        raw.send(&[&[0xB1, 0x6A, 0xA3][..], &pairs].concat()).await;
        assert_eq!((raw.reply().await[1], raw.reply().await[1]), (0x70, 0x70));
        raw
    }

    pub async fn send(&mut self, message: &[u8]) {
        self.0.write_all(&framed(message)).await.unwrap();
    }

    /// BEGIN with this tag in its metadata, RUN and PULL of a statement.
    pub async fn begin_and_run(&mut self, tag: &str, statement: &str) {
        let metadata = [&text("tx_metadata")[..], &[0xA1], &text("tag"), &text(tag)].concat();
        self.send(&[&[0xB1, 0x11, 0xA1][..], &metadata].concat()).await;
        self.run(statement).await;
    }

    /// RUN and PULL.
    pub async fn run(&mut self, statement: &str) {
        self.send(&[&[0xB3, 0x10][..], &text(statement), &[0xA0, 0xA0]].concat()).await;
        self.send(&[0xB1, 0x3F, 0xA1, 0x81, b'n', 0xFF]).await;
    }

    /// RUN with a bookmark, and PULL.
    pub async fn run_after(&mut self, statement: &str, bookmark: &str) {
        let extra = [&[0xA1][..], &text("bookmarks"), &[0x91], &text(bookmark)].concat();
        self.send(&[&[0xB3, 0x10][..], &text(statement), &[0xA0], &extra].concat()).await;
        self.send(&[0xB1, 0x3F, 0xA1, 0x81, b'n', 0xFF]).await;
    }

    /// The next message that is no NOOP.
    pub async fn reply(&mut self) -> Vec<u8> {
        let mut message = Vec::new();
        loop {
            let len = self.0.read_u16().await.expect("a reply");
            if len == 0 && !message.is_empty() {
                return message;
            }
            let start = message.len();
            message.resize(start + usize::from(len), 0);
            self.0.read_exact(&mut message[start..]).await.unwrap();
        }
    }

    pub async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), self.0.read_to_end(&mut rest)).await;
        read.is_ok()
    }
}

/// Where the Neo4j behind the nodes speaks Bolt.
pub fn neo4j() -> String {
    let address = environment("HOPCACHE_TEST_NEO4J_BOLT");
    address.trim_start_matches("bolt://").trim_end_matches('/').to_owned()
}

/// A message in one chunk.
pub fn framed(message: &[u8]) -> Vec<u8> {
    [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], message, &[0, 0]].concat()
}

pub fn text(text: &str) -> Vec<u8> {
    let len = u16::try_from(text.len()).unwrap().to_be_bytes();
    [&[0xD1][..], &len, text.as_bytes()].concat()
}

/// F33, I13: each is refused or closed, and the node serves on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_driver_sends_ends_its_connection_and_nothing_else() {
    let node = Lone::start(&Spec::on("memory:")).await;
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 2, 0], b"SSH-2.0\r\n", &[0; 20]] {
        let mut stream = TcpStream::connect(node.addrs.bolt).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        assert!(Raw(stream).is_closed().await, "{bytes:?}");
    }
    // A message before the log-on that is too large, a list that claims 4 GiB, and a request out of its state.
    let large = [0xFF, 0xFF].repeat(4);
    let claim = framed(&[0xB1, 0x01, 0xD6, 0xFF, 0xFF, 0xFF, 0xFF]);
    let early = framed(&[&[0xB3, 0x10][..], &text("RETURN 1"), &[0xA0, 0xA0]].concat());
    for bytes in [large, claim, early] {
        let mut raw = Raw::connect(&node).await;
        raw.0.write_all(&bytes).await.unwrap();
        assert_eq!(raw.reply().await[1], 0x7F, "{bytes:02X?}");
        assert!(raw.is_closed().await);
    }
    let mut raw = Raw::logged_on(&node).await;
    raw.run("RETURN 1").await;
    let kinds = [raw.reply().await[1], raw.reply().await[1], raw.reply().await[1]];
    assert_eq!(kinds, [0x70, 0x71, 0x70], "the node serves on");
}

/// A field that is wrong is a FAILURE that RESET recovers from, with Neo4j's code, through the node as at Neo4j.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reset_recovers_from_a_wrong_field() {
    let node = Lone::start(&Spec::on("memory:")).await;
    let pull = |extra: &[u8]| [&[0xB1, 0x3F][..], extra].concat();
    let read = [&[0xB3, 0x10][..], &text("RETURN 1"), &[0xA0, 0xA0]].concat();
    let write = [&[0xB3, 0x10][..], &text("CREATE (n) DELETE n RETURN 1"), &[0xA0, 0xA0]].concat();
    let begin = vec![0xB1, 0x11, 0xA0];
    let wrongs = [
        vec![read.clone(), pull(&[0xA1, 0x81, b'n', 0x00])],
        vec![write.clone(), pull(&[0xA1, 0x81, b'n', 0xFE])],
        vec![read.clone(), pull(&[0xA0])],
        vec![begin, write, pull(&[0xA1, 0x81, b'n', 0x81, b'x'])],
        vec![vec![0xB3, 0x10, 0x01, 0xA0, 0xA0]],
        vec![vec![0xB1, 0x54, 0x81, b'x']],
    ];
    for wrong in wrongs {
        for raw in [&mut Raw::at_neo4j().await, &mut Raw::logged_on(&node).await] {
            for (at, message) in wrong.iter().enumerate() {
                raw.send(message).await;
                let reply = raw.reply().await;
                let is_last = at + 1 == wrong.len();
                assert_eq!(reply[1], if is_last { 0x7F } else { 0x70 }, "{wrong:02X?}: {reply:02X?}");
                let is_invalid = String::from_utf8_lossy(&reply).contains("Neo.ClientError.Request.Invalid");
                assert_eq!(is_invalid, is_last, "{reply:02X?}");
            }
            raw.send(&[0xB0, 0x0F]).await;
            assert_eq!(raw.reply().await[1], 0x70, "RESET");
            raw.run("RETURN 1").await;
            let kinds = [raw.reply().await[1], raw.reply().await[1], raw.reply().await[1]];
            assert_eq!(kinds, [0x70, 0x71, 0x70], "{wrong:02X?}: the connection works on");
        }
    }
}

/// A transaction that has not reached Neo4j keeps its time as well: its COMMIT fails as at Neo4j, its ROLLBACK succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_after_the_transactions_time_fails() {
    const TIMED_OUT: &str = "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration";
    let node = Lone::start(&Spec::on("memory:")).await;
    // 200 ms.
    let begin = [&[0xB1, 0x11, 0xA1][..], &text("tx_timeout"), &[0xC9, 0x00, 0xC8]].concat();
    let mut sessions = [
        (Raw::at_neo4j().await, 0x12),
        (Raw::logged_on(&node).await, 0x12),
        (Raw::logged_on(&node).await, 0x13),
    ];
    for (raw, _) in &mut sessions {
        raw.send(&begin).await;
        assert_eq!(raw.reply().await[1], 0x70);
    }
    // tidy: the time of the transactions, and Neo4j's interval between two looks for such
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    for (raw, end) in &mut sessions {
        raw.send(&[0xB0, *end]).await;
        let reply = raw.reply().await;
        let is_commit = *end == 0x12;
        assert_eq!(reply[1], if is_commit { 0x7F } else { 0x70 }, "{reply:02X?}");
        assert_eq!(String::from_utf8_lossy(&reply).contains(TIMED_OUT), is_commit, "{reply:02X?}");
        raw.send(&[0xB0, 0x0F]).await;
        assert_eq!(raw.reply().await[1], 0x70, "RESET");
    }
}

/// RESET overtakes: it ends the statement at Neo4j and is answered at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_ends_the_running_statement_at_neo4j() {
    let node = Lone::start(&Spec::on("memory:")).await;
    let mut raw = Raw::logged_on(&node).await;
    let tag = format!("reset {}", node.addrs.bolt);
    // Twelve nested loops of a hundred: no end within any test. A volatile function keeps it from the cache; `leaving` has
    // those that the cache runs.
    let loops: String = (0..12).map(|n| format!("UNWIND range(1, 100) AS a{n} ")).collect();
    raw.run(&format!("{loops} WITH a0 WHERE rand() > 2 RETURN '{tag}' AS tag")).await;
    let mut watcher = Raw::logged_on(&node).await;
    until("Neo4j runs it", Duration::from_secs(20), async || is_running(&mut watcher, &tag).await).await;
    let began = Instant::now();
    raw.send(&[0xB0, 0x0F]).await;
    let mut last = raw.reply().await[1];
    let mut replies = vec![last];
    while replies.len() < 3 {
        last = raw.reply().await[1];
        replies.push(last);
    }
    assert_eq!(last, 0x70, "RESET is answered: {replies:02X?}");
    let answered = began.elapsed();
    assert!(!is_running(&mut watcher, &tag).await, "it runs on at Neo4j");
    say(&format!(
        "RESET: answered after {answered:?}, gone from SHOW TRANSACTIONS after {:?}",
        began.elapsed()
    ));
    raw.run("RETURN 1").await;
    assert_eq!(raw.reply().await[1], 0x70, "the connection works on");
}

/// Whether a transaction with this text runs at Neo4j, by Neo4j's own word.
pub async fn is_running(raw: &mut Raw, tag: &str) -> bool {
    let show = "SHOW TRANSACTIONS YIELD currentQuery WHERE currentQuery CONTAINS $tag AND NOT currentQuery STARTS WITH 'SHOW' \
                RETURN count(*) AS n";
    raw.send(&[&[0xB3, 0x10][..], &text(show), &[0xA1], &text("tag"), &text(tag), &[0xA0]].concat()).await;
    raw.send(&[0xB1, 0x3F, 0xA1, 0x81, b'n', 0xFF]).await;
    assert_eq!(raw.reply().await[1], 0x70);
    let record = raw.reply().await;
    assert_eq!(raw.reply().await[1], 0x70);
    record[3] > 0
}

/// RUN with parameters and options, each a packed map, and PULL. Returns the replies up to the end of the result, or a failure.
async fn outcome(raw: &mut Raw, statement: &str, params: &[u8], extra: &[u8]) -> Vec<Vec<u8>> {
    raw.send(&[&[0xB3, 0x10][..], &text(statement), params, extra].concat()).await;
    raw.send(&[0xB1, 0x3F, 0xA1, 0x81, b'n', 0xFF]).await;
    let mut replies = Vec::new();
    while replies.len() < 3 && replies.last().is_none_or(|reply: &Vec<u8>| reply[1] != 0x7F) {
        replies.push(raw.reply().await);
    }
    replies
}

/// G3: a client's own limit ends a read with Neo4j's code and message, by itself and in a transaction, so no driver repeats it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clients_limit_is_told_as_by_neo4j() {
    const CODE: &str = "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration";
    const WORDS: &str = "has not completed within the timeout specified at its start by the client.";
    let node = Lone::start(&Spec::on("memory:")).await;
    let loops: String = (0..12).map(|n| format!("UNWIND range(1, 100) AS a{n} ")).collect();
    let slow = format!("{loops} RETURN count(*) AS n");
    // 200 ms, for reading.
    let limits = [&[0xA2][..], &text("tx_timeout"), &[0xC9, 0x00, 0xC8], &text("mode"), &text("r")].concat();
    for raw in [&mut Raw::at_neo4j().await, &mut Raw::logged_on(&node).await] {
        for in_transaction in [false, true] {
            if in_transaction {
                raw.send(&[&[0xB1, 0x11][..], &limits].concat()).await;
                assert_eq!(raw.reply().await[1], 0x70);
            }
            let extra = if in_transaction { &[0xA0][..] } else { &limits };
            let replies = outcome(raw, &slow, &[0xA0], extra).await;
            let last = String::from_utf8_lossy(replies.last().unwrap()).into_owned();
            assert!(last.contains(CODE) && last.contains(WORDS), "{in_transaction}: {last}");
            raw.send(&[0xB0, 0x0F]).await;
            while raw.reply().await[1] != 0x70 {}
        }
    }
}

/// G3: a value comes back as deep as from Neo4j, and the connection works on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deep_value_comes_back_as_from_neo4j() {
    let node = Lone::start(&Spec::on("memory:")).await;
    let (neo4j, ours) = (&mut Raw::at_neo4j().await, &mut Raw::logged_on(&node).await);
    let read = [&[0xA1][..], &text("mode"), &text("r")].concat();
    let wrapped = format!("WITH $d AS x {} RETURN x", "WITH [x] AS x ".repeat(40));
    for (statement, levels) in [("RETURN $d AS x", 130), ("RETURN $d AS x", 900), (&*wrapped, 980)] {
        let params = [&[0xA1, 0x81, b'd'][..], &vec![0x91; levels], &[0x01]].concat();
        let expected = outcome(neo4j, statement, &params, &read).await;
        assert_eq!(expected[1][1], 0x71, "{levels}: {:02X?}", &expected[0]);
        // From a run, and from the cache.
        for _ in 0..2 {
            let replies = outcome(ours, statement, &params, &read).await;
            assert_eq!(replies[1], expected[1], "{levels}");
        }
    }
    ours.run("RETURN 1").await;
    assert_eq!([ours.reply().await[1], ours.reply().await[1], ours.reply().await[1]], [0x70, 0x71, 0x70]);
}
