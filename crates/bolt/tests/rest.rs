//! Results that a run leaves open, against a scripted server: no record is lost between the tap and the rest.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::support::{
    DISCARD, PULL, RUN, Step, columns, failure, greeted, kept, open, play, record, serve, statement, success,
};
use hopcache_bolt::{Auth, Connection, Left, Piece, RecordPlace, RecordTap, Run, RunFault};
use hopcache_packstream::Value;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Keeps what it sees.
struct Tap {
    seen: Vec<u8>,
    takes_rest: bool,
}

impl RecordTap for Tap {
    fn begin(&mut self, fields: &[String], _: &Value) {
        assert_eq!(fields, ["n"]);
    }

    fn record(&mut self, list: &[u8]) {
        self.seen.extend_from_slice(list);
    }

    fn pause(&mut self) {}

    fn takes_rest(&self) -> bool {
        self.takes_rest
    }
}

struct Unbounded;

impl hopcache_bolt::Room for Unbounded {
    fn free_bytes(&self) -> usize {
        usize::MAX
    }

    fn widen(&self, _: usize) -> std::pin::Pin<Box<dyn Future<Output = Option<usize>> + Send + '_>> {
        Box::pin(std::future::ready(None))
    }
}

fn rows(numbers: std::ops::Range<i64>) -> Vec<u8> {
    numbers.flat_map(|n| record(vec![Value::Int(n)])).collect()
}

fn lists(numbers: std::ops::Range<i64>) -> Vec<u8> {
    numbers.flat_map(|n| kept(vec![Value::Int(n)])).collect()
}

fn more() -> Vec<u8> {
    success(&[("has_more", Value::Bool(true))])
}

fn end() -> Vec<u8> {
    success(&[("type", "r".into()), ("bookmark", "b1".into()), ("t_last", Value::Int(3))])
}

/// Room for ten small records.
fn small(timeout: Duration) -> Run<'static> {
    Run { bytes_max: 20, timeout, ..statement("RETURN n") }
}

#[tokio::test]
async fn the_rest_follows_what_the_tap_has_seen() {
    let mut script = greeted();
    script.extend([Step::Expect(RUN), Step::Expect(PULL)]);
    script.push(Step::Send([columns(&["n"]), rows(0..30), more()].concat()));
    script.extend([Step::Expect(PULL), Step::Send([rows(30..40), more()].concat())]);
    script.extend([Step::Expect(PULL), Step::Send([rows(40..45), end()].concat())]);
    script.extend([Step::Expect(RUN), Step::Expect(PULL), Step::Send([columns(&["n"]), end()].concat())]);
    let (address, _server) = serve(script).await;
    let mut connection = open(&address).await;
    let mut tap = Tap { seen: Vec::new(), takes_rest: true };
    let run = small(Duration::from_secs(20));
    let error = connection.run_tapped(&run, &Unbounded, &mut tap).await.unwrap_err();
    assert_eq!(error.fault, RunFault::TooLarge { limit_bytes: 20 });
    assert!(connection.has_open_result() && !connection.is_ready());
    assert_eq!(tap.seen, lists(0..11), "the record that is too many was seen too");
    let mut rest = tap.seen;
    let ended = loop {
        match connection.rest(Left::Pulled, &Unbounded).await.unwrap() {
            Piece::Records(records) => rest.extend(records),
            Piece::End(ended) => break ended,
        }
    };
    assert_eq!(rest, lists(0..45));
    assert_eq!((ended.statement_type.as_deref(), ended.bookmark.as_deref()), (Some("r"), Some("b1")));
    assert_eq!(ended.summary.get("t_last"), Some(&Value::Int(3)));
    assert!(connection.is_ready());
    assert!(connection.run(&statement("RETURN n")).await.is_ok(), "it can be used again");
    assert_eq!(connection.rest(Left::Pulled, &Unbounded).await.unwrap_err().fault, RunFault::NotReady);
}

#[tokio::test]
async fn a_rest_that_nobody_wants_is_discarded_at_the_server() {
    let mut script = greeted();
    script.extend([Step::Expect(RUN), Step::Expect(PULL)]);
    script.push(Step::Send([columns(&["n"]), rows(0..30), more()].concat()));
    script.extend([Step::Expect(DISCARD), Step::Send(end())]);
    let (address, _server) = serve(script).await;
    let mut connection = open(&address).await;
    let mut tap = Tap { seen: Vec::new(), takes_rest: true };
    connection.run_tapped(&small(Duration::from_secs(20)), &Unbounded, &mut tap).await.unwrap_err();
    assert!(matches!(connection.rest(Left::Discarded, &Unbounded).await, Ok(Piece::End(_))));
    assert!(connection.is_ready());
}

#[tokio::test]
async fn a_failure_behind_the_rest_is_told_as_it_came() {
    let mut script = greeted();
    script.extend([Step::Expect(RUN), Step::Expect(PULL)]);
    script.push(Step::Send([columns(&["n"]), rows(0..30), failure("Neo.ClientError.Statement.X")].concat()));
    let (address, _server) = serve(script).await;
    let mut connection = open(&address).await;
    let mut tap = Tap { seen: Vec::new(), takes_rest: true };
    connection.run_tapped(&small(Duration::from_secs(20)), &Unbounded, &mut tap).await.unwrap_err();
    assert!(matches!(connection.rest(Left::Pulled, &Unbounded).await, Ok(Piece::Records(_))));
    let fault = connection.rest(Left::Pulled, &Unbounded).await.unwrap_err().fault;
    let RunFault::Failed(failed) = fault else { panic!("{fault:?}") };
    assert_eq!(failed.code, "Neo.ClientError.Statement.X");
    assert_eq!(failed.as_sent[..2], [0xB1, 0x7F]);
    assert!(!connection.is_ready());
}

/// How many records a PULL asks for.
fn asked(request: &[u8]) -> Value {
    hopcache_packstream::decode(&request[2..]).unwrap().get("n").unwrap().clone()
}

/// A far server costs a round trip for each PULL. Only what is long is asked for in small parts, while the run goes on and behind it.
#[tokio::test]
async fn what_is_short_is_pulled_in_larger_parts() {
    let long = record(vec![Value::from("x".repeat(40_000).as_str())]);
    for (row, taken, next) in [(rows(0..1), false, 2_000), (rows(0..1), true, 2_000), (long, true, 1_000)] {
        let batch = row.repeat(1_000);
        let mut script = greeted();
        script.extend([Step::Expect(RUN), Step::Expect(PULL)]);
        script.push(Step::Send([columns(&["n"]), batch.clone(), more()].concat()));
        script.extend([Step::Expect(PULL), Step::Send([batch, end()].concat())]);
        let (address, server) = serve(script).await;
        let mut connection = open(&address).await;
        let mut tap = Tap { seen: Vec::new(), takes_rest: taken };
        let bytes_max = if taken { 20 } else { usize::MAX };
        let run = Run { bytes_max, ..statement("RETURN n") };
        let ended = connection.run_tapped(&run, &Unbounded, &mut tap).await;
        assert_eq!(ended.is_err(), taken);
        while taken && matches!(connection.rest(Left::Pulled, &Unbounded).await, Ok(Piece::Records(_))) {}
        drop(connection);
        let requests = server.await.unwrap();
        let pulls: Vec<_> =
            requests.iter().filter(|request| request[1] == PULL).map(|pull| asked(pull)).collect();
        assert_eq!(pulls, [Value::Int(1_000), Value::Int(next)]);
    }
}

/// A record of many bytes is copied nowhere: who takes the rest gets it as a piece of its own, in its place.
#[tokio::test]
async fn a_large_record_is_a_piece_of_its_own() {
    let text = |first: char| vec![Value::from(first.to_string().repeat(100_000).as_str())];
    let answer = [
        columns(&["n"]),
        rows(0..2),
        record(text('a')),
        rows(2..4),
        record(text('b')),
        record(text('c')),
        rows(4..5),
        end(),
    ];
    for left in [Left::Pulled, Left::Discarded] {
        let mut script = greeted();
        script.extend([Step::Expect(RUN), Step::Expect(PULL), Step::Send(answer.concat()), Step::Hang]);
        let (address, _server) = serve(script).await;
        let mut connection = open(&address).await;
        let mut tap = Tap { seen: Vec::new(), takes_rest: true };
        let error = connection.run_tapped(&small(DAY), &Unbounded, &mut tap).await.unwrap_err();
        assert_eq!(error.fault, RunFault::TooLarge { limit_bytes: 20 });
        assert_eq!(tap.seen, lists(0..2), "it is left to who takes the rest");
        let (mut rest, mut own) = (Vec::new(), 0);
        while let Piece::Records(records) = connection.rest(left, &Unbounded).await.unwrap() {
            own +=
                usize::from([kept(text('a')), kept(text('b')), kept(text('c'))].contains(&records.to_vec()));
            rest.extend(records);
        }
        let all = [kept(text('a')), lists(2..4), kept(text('b')), kept(text('c')), lists(4..5)].concat();
        assert_eq!((rest, own), if left == Left::Pulled { (all, 3) } else { (Vec::new(), 0) });
        assert!(connection.is_ready());
    }
}

/// Room for so many bytes of large records.
struct Room(Arc<AtomicUsize>);

struct Place(Arc<AtomicUsize>, usize);

impl hopcache_bolt::Room for Room {
    fn free_bytes(&self) -> usize {
        usize::MAX
    }

    fn widen(&self, _: usize) -> std::pin::Pin<Box<dyn Future<Output = Option<usize>> + Send + '_>> {
        Box::pin(std::future::ready(None))
    }

    fn record(&self) -> Box<dyn RecordPlace> {
        Box::new(Place(Arc::clone(&self.0), 0))
    }
}

impl RecordPlace for Place {
    fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes - self.1;
        let took = self.0.fetch_update(Relaxed, Relaxed, |free| free.checked_sub(more)).is_ok();
        self.1 += if took { more } else { 0 };
        took
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_add(self.1, Relaxed);
    }
}

/// I9: a large record has its place from when it is asked for, before it is read, until nobody holds it. One that finds no room ends the
/// result. Behind small ones it waits at the server: otherwise clients that ask for nothing would hold all the room.
#[tokio::test]
async fn a_large_record_is_counted_from_when_it_is_asked_for() {
    const MIB: usize = 1 << 20;
    let text = |bytes: usize| record(vec![Value::from("x".repeat(bytes).as_str())]);
    for (free, pieces) in [(8 * MIB, 4), (3 * MIB, 3), (2 * MIB, 0)] {
        let answer =
            [columns(&["n"]), rows(0..2), text(5 * MIB / 2), rows(2..4), text(MIB / 2), text(5 * MIB), end()];
        let mut script = greeted();
        script.extend([Step::Expect(RUN), Step::Expect(PULL), Step::Send(answer.concat()), Step::Hang]);
        let (address, _server) = serve(script).await;
        let mut connection = open(&address).await;
        let mut tap = Tap { seen: Vec::new(), takes_rest: true };
        let left = Arc::new(AtomicUsize::new(free));
        let room = Room(Arc::clone(&left));
        let error = connection.run_tapped(&small(DAY), &room, &mut tap).await.unwrap_err();
        assert_eq!(
            (error.fault, connection.has_open_result()),
            (RunFault::TooLarge { limit_bytes: 20 }, true)
        );
        assert_eq!(left.load(Relaxed), free, "what nobody has asked for takes no place");
        let mut came = 0;
        let ended = loop {
            match connection.rest(Left::Pulled, &room).await {
                Ok(Piece::Records(records)) => {
                    let held = (records.len().next_multiple_of(MIB), left.load(Relaxed));
                    assert_eq!(held.1, free - if records.len() > MIB { held.0 } else { 0 });
                    came += 1;
                }
                ended => break ended,
            }
        };
        assert_eq!(came, pieces);
        match ended {
            Ok(_) => assert_eq!(pieces, 4),
            Err(error) => assert_eq!((error.fault, pieces < 4), (RunFault::NoRoom, true)),
        }
        assert_eq!(left.load(Relaxed), free);
    }
}

/// No room is needed for what the run itself has room for, and for what is discarded.
#[tokio::test]
async fn a_large_record_that_is_kept_or_dropped_takes_no_place() {
    const MIB: usize = 1 << 20;
    let text = |bytes: usize| record(vec![Value::from("x".repeat(bytes).as_str())]);
    let answer = || [columns(&["n"]), text(5 * MIB / 2), text(3 * MIB)].concat();
    let nothing = Room(Arc::new(AtomicUsize::new(0)));
    let taking = || Tap { seen: Vec::new(), takes_rest: true };
    let script = |rest: Vec<Step>| [greeted(), vec![Step::Expect(RUN), Step::Expect(PULL)], rest].concat();
    let (address, _server) = serve(script(vec![Step::Send([answer(), end()].concat()), Step::Hang])).await;
    let mut connection = open(&address).await;
    let run = Run { bytes_max: 8 * MIB, ..small(DAY) };
    assert_eq!(connection.run_tapped(&run, &nothing, &mut taking()).await.unwrap().rows, 2);
    for discarded in [text(5 * MIB), text(70 * MIB)] {
        let rest = [answer(), discarded, rows(0..2), more()].concat();
        let (address, _server) =
            serve(script(vec![Step::Send(rest), Step::Expect(DISCARD), Step::Send(end()), Step::Hang])).await;
        let mut connection = open(&address).await;
        let error = connection.run_tapped(&small(DAY), &nothing, &mut taking()).await.unwrap_err();
        assert_eq!(error.fault, RunFault::TooLarge { limit_bytes: 20 });
        assert!(matches!(connection.rest(Left::Discarded, &nothing).await, Ok(Piece::End(_))));
        assert!(connection.is_ready());
    }
}

/// Room that comes late.
struct LateRoom(Duration);

impl hopcache_bolt::Room for LateRoom {
    fn free_bytes(&self) -> usize {
        100
    }

    fn widen(&self, _: usize) -> std::pin::Pin<Box<dyn Future<Output = Option<usize>> + Send + '_>> {
        Box::pin(async {
            // tidy: a wait for room, on a paused clock
            tokio::time::sleep(self.0).await;
            Some(usize::MAX)
        })
    }
}

/// While this node waits for room it does not read, and Neo4j holds what comes: the next PULL asks for no more then.
#[tokio::test(start_paused = true)]
async fn a_pull_does_not_grow_while_its_records_wait_for_room() {
    for (late_ms, next) in [(40, 2_000), (60, 1_000)] {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let batch = rows(0..1).repeat(1_000);
        let server = tokio::spawn(async move {
            let mut script = greeted();
            script.extend([Step::Expect(RUN), Step::Expect(PULL)]);
            script.push(Step::Send([columns(&["n"]), batch[..batch.len() / 2].to_vec()].concat()));
            script.push(Step::Pause(Duration::from_millis(100)));
            script.push(Step::Send([batch[batch.len() / 2..].to_vec(), more()].concat()));
            script.extend([Step::Expect(PULL), Step::Send(end()), Step::Hang]);
            play(theirs, script).await
        });
        let mut connection =
            Connection::open_piped(ours, &Auth::None, &super::support::options()).await.unwrap();
        let run = statement("RETURN n");
        connection.run_in(&run, &LateRoom(Duration::from_millis(late_ms))).await.unwrap();
        drop(connection);
        let requests = server.await.unwrap();
        let pulls = requests.iter().filter(|request| request[1] == PULL).map(|pull| asked(pull));
        assert_eq!(pulls.collect::<Vec<_>>(), [Value::Int(1_000), Value::Int(next)], "{late_ms} of 100 ms");
    }
}

/// A statement that brings a record now and then: before its time is over its client takes it.
#[tokio::test(start_paused = true)]
async fn a_result_that_is_long_under_way_is_left_open() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let opening = [columns(&["n"]), rows(0..1)].concat();
    let server = tokio::spawn(async move {
        let mut script = greeted();
        script.extend([Step::Expect(RUN), Step::Expect(PULL), Step::Send(opening)]);
        for n in 1..9 {
            script.extend([Step::Pause(Duration::from_millis(1_500)), Step::Send(rows(n..n + 1))]);
        }
        script.extend([Step::Send(end()), Step::Hang]);
        play(theirs, script).await
    });
    let mut connection = Connection::open_piped(ours, &Auth::None, &super::support::options()).await.unwrap();
    let mut tap = Tap { seen: Vec::new(), takes_rest: true };
    let run = Run { timeout: Duration::from_secs(10), ..statement("RETURN n") };
    let error = connection.run_tapped(&run, &Unbounded, &mut tap).await.unwrap_err();
    assert_eq!(error.fault, RunFault::TimedOut);
    assert_eq!(tap.seen, lists(0..7), "those of the first nine of ten seconds");
    let mut rest = tap.seen;
    while let Piece::Records(records) = connection.rest(Left::Pulled, &Unbounded).await.unwrap() {
        rest.extend(records);
    }
    assert_eq!(rest, lists(0..9), "past the run's own time");
    drop(connection);
    server.await.unwrap();
}

#[tokio::test]
async fn without_a_taker_nothing_stays_open() {
    let answer = [columns(&["n"]), rows(0..30), end()].concat();
    let (address, _server) = serve(super::support::run_answered(answer)).await;
    let mut connection = open(&address).await;
    let mut tap = Tap { seen: Vec::new(), takes_rest: false };
    let error =
        connection.run_tapped(&small(Duration::from_secs(20)), &Unbounded, &mut tap).await.unwrap_err();
    assert_eq!(error.fault, RunFault::TooLarge { limit_bytes: 20 });
    assert!(!connection.has_open_result() && !connection.is_ready());
}
