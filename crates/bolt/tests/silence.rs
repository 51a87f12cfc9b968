//! A server that works sends NOOPs, at a pace that its answer to HELLO implies. One that sends nothing for longer is gone.

use std::time::Duration;

use hopcache_bolt::server::Version;
use hopcache_bolt::{Auth, Connection, Options, Relay, RelayOptions, Run, RunFault};
use hopcache_packstream::Value;
use tokio::time::Instant;

use super::support::{
    GOODBYE, HELLO, LOGON, PULL, RESET, RUN, Step, columns, options, play, record, serve, statement, success,
};

/// Handshake, HELLO and LOGON; the answer to HELLO has these hints.
fn greeted(hints: Value) -> Vec<Step> {
    let hello = success(&[("server", "Neo4j/5.26.0".into()), ("hints", hints)]);
    vec![
        Step::Handshake(Version::new(5, 4)),
        Step::Expect(HELLO),
        Step::Expect(LOGON),
        Step::Send(hello),
        Step::Send(success(&[])),
    ]
}

fn hint(seconds: i64) -> Value {
    Value::Map(vec![("connection.recv_timeout_seconds".to_owned(), Value::Int(seconds))])
}

/// A connection in memory to a server that plays this script.
async fn open(script: Vec<Step>, options: &Options) -> Connection {
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(play(far, script));
    Connection::open_piped(near, &Auth::None, options).await.unwrap()
}

const MINUTES: Duration = Duration::from_secs(10 * 60);

fn long(text: &str) -> Run<'_> {
    Run { timeout: MINUTES, server_timeout: None, ..statement(text) }
}

/// How a run ended, and after how many seconds.
async fn ended(connection: &mut Connection) -> (RunFault, u64) {
    let begun = Instant::now();
    let error = connection.run(&long("RETURN 1")).await.unwrap_err();
    (error.fault, begun.elapsed().as_secs())
}

fn silent_for(seconds: u64) -> RunFault {
    RunFault::Cut(format!("nothing came from it for {seconds} s"))
}

/// NOOPs come for 30 s, then nothing.
#[tokio::test(start_paused = true)]
async fn a_run_ends_when_its_server_is_silent_for_longer_than_it_has_said() {
    let mut script = greeted(hint(4));
    script.extend([Step::Expect(RUN), Step::Expect(PULL)]);
    for _ in 0..10 {
        script.extend([Step::Pause(Duration::from_secs(3)), Step::Send(vec![0, 0])]);
    }
    script.push(Step::Deaf);
    let mut connection = open(script, &options()).await;
    assert_eq!(ended(&mut connection).await, (silent_for(4), 34));
    assert!(!connection.is_ready());
}

/// Also between two records, and at the bytes of half a message.
#[tokio::test(start_paused = true)]
async fn a_result_ends_when_its_server_falls_silent_in_it() {
    let one = record(vec![1.into()]);
    let mut script = greeted(hint(120));
    script.extend([Step::Expect(RUN), Step::Expect(PULL), Step::Send(columns(&["n"]))]);
    script.extend([Step::Pause(Duration::from_secs(100)), Step::Send(one.clone())]);
    script.extend([Step::Pause(Duration::from_secs(100)), Step::Send(one[..3].to_vec()), Step::Deaf]);
    assert_eq!(ended(&mut open(script, &options()).await).await, (silent_for(120), 320));
}

/// Neo4j with its keep-alive turned off sends neither.
#[tokio::test(start_paused = true)]
async fn without_a_hint_the_bound_is_the_callers() {
    for hints in [Value::Null, Value::Map(Vec::new()), hint(0), hint(-1)] {
        let mut script = greeted(hints);
        script.extend([Step::Expect(RUN), Step::Expect(PULL), Step::Deaf]);
        let options = Options { silence_max: Duration::from_secs(77), ..options() };
        assert_eq!(ended(&mut open(script, &options).await).await, (silent_for(77), 77));
    }
}

/// A front passes it on to its own clients.
#[tokio::test]
async fn the_servers_hint_is_known_without_a_log_on() {
    for (hints, told) in [(hint(20), Some(Duration::from_secs(20))), (Value::Null, None)] {
        let hello = success(&[("server", "Neo4j/5.26.0".into()), ("hints", hints)]);
        let script = vec![
            Step::Handshake(Version::new(5, 8)),
            Step::Expect(HELLO),
            Step::Send(hello),
            Step::Expect(GOODBYE),
        ];
        let (address, _server) = serve(script).await;
        let options = RelayOptions {
            user_agent: "test".to_owned(),
            connect_timeout: options().connect_timeout,
            reset_timeout: options().exchange_timeout,
            silence_max: options().silence_max,
            roots: options().roots,
            routed: None,
        };
        assert_eq!(Relay::look(&address, &options).await.unwrap().recv_timeout, told);
    }
}

/// The time between two exchanges is no silence: nothing is expected then.
#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_not_silent() {
    let answer = [columns(&["n"]), success(&[])].concat();
    let mut script = greeted(hint(4));
    for _ in 0..2 {
        script.extend([Step::Expect(RUN), Step::Expect(PULL), Step::Pause(Duration::from_secs(3))]);
        script.push(Step::Send(answer.clone()));
    }
    script.push(Step::Deaf);
    let mut connection = open(script, &options()).await;
    assert!(connection.run(&long("RETURN 1")).await.is_ok());
    tokio::time::advance(MINUTES).await;
    assert!(connection.run(&long("RETURN 1")).await.is_ok());
}

/// A connection that died without a word looks alive, until it is asked.
#[tokio::test(start_paused = true)]
async fn a_dead_connection_does_not_answer() {
    let mut script = greeted(hint(120));
    script.extend([Step::Expect(RESET), Step::Send(success(&[])), Step::Expect(RESET), Step::Deaf]);
    let mut connection = open(script, &options()).await;
    assert!(connection.is_answered().await && connection.is_ready());
    let asked = Instant::now();
    assert!(connection.is_alive().await, "as far as this side knows");
    assert!(!connection.is_answered().await);
    assert_eq!(asked.elapsed(), options().exchange_timeout);
    assert!(!connection.is_ready());
}
