//! Time, memory and bytes of one statement (I9, I10), and the state after a bound was met.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hopcache_core::time::Millis;
use hopcache_embedded::{EmbeddedOrigin, Sample, Settings};
use hopcache_engine::ports::{AccessMode, Origin, OriginFault};
use hopcache_packstream::Value;

use crate::support::{block_on, code, rows_of, run_of, shared, try_run};

/// A statement that ends only when its thread does: 10^6 rows that cost no memory (about a second).
const LONG: &str = "UNWIND range(1, 1000) AS a UNWIND range(1, 1000) AS b RETURN sum(a * b) AS s";

fn small(workers: usize, queue_wait_ms: u64) -> EmbeddedOrigin {
    let settings = Settings { workers, queue_wait_ms: Millis(queue_wait_ms), ..Settings::default() };
    EmbeddedOrigin::start(settings).unwrap()
}

/// FNV-1a over every list in its order.
fn digest(sample: &Sample) -> u64 {
    let text = format!("{sample:?}");
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |digest: u64, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

#[test]
fn the_sample_is_always_the_same_graph() {
    let begun = Instant::now();
    drop(small(4, 1));
    println!("generated, loaded and started in {:?}", begun.elapsed());
    let sample = Sample::generate();
    assert_eq!(sample, Sample::generate());
    let sizes = (sample.persons.len(), sample.knows.len(), sample.posts.len(), sample.tags.len());
    assert_eq!(sizes, (2_000, 5_994, 3_000, 40));
    assert_eq!(
        digest(&sample),
        12_949_252_227_103_392_869,
        "a change of the sample is a change of documented behaviour"
    );
    let degree = |id| sample.knows.iter().filter(|(from, to, _)| *from == id || *to == id).count();
    assert!(degree(0) > 100, "person 0 is a hub, not one of {}", degree(0));
}

#[test]
fn a_late_statement_is_given_up_at_once_and_its_slot_comes_back() {
    let origin = small(1, 60_000);
    let mut late = run_of(LONG, &[], AccessMode::Read);
    late.timeout_ms = Millis(20);
    assert_eq!(try_run(&origin, &late), Err(OriginFault::TimedOut));
    // The statement's thread is still busy, so it was not waited for.
    assert_eq!((origin.abandoned(), origin.in_flight()), (1, 0));
    // The only worker is lost; its replacement answers while it is still busy.
    let quick = run_of("RETURN 1 AS x", &[], AccessMode::Read);
    assert_eq!(rows_of(&try_run(&origin, &quick).unwrap()), [[Value::Int(1)]]);
}

#[test]
fn a_dropped_run_gives_its_slot_back() {
    let origin = small(1, 60_000);
    let long = run_of(LONG, &[], AccessMode::Read);
    let cut = block_on(async { tokio::time::timeout(Duration::from_millis(20), origin.run(&long)).await });
    assert!(cut.is_err());
    assert_eq!((origin.abandoned(), origin.in_flight()), (1, 0));
    let quick = run_of("RETURN 1 AS x", &[], AccessMode::Read);
    assert_eq!(try_run(&origin, &quick).unwrap().rows, 1);
}

#[test]
fn a_late_write_is_not_committed() {
    let origin = small(1, 60_000);
    let mut late = run_of(
        "UNWIND range(1, 200) AS a UNWIND range(1, 100) AS b CREATE (:Late {a: a, b: b})",
        &[],
        AccessMode::Write,
    );
    late.timeout_ms = Millis(5);
    assert_eq!(try_run(&origin, &late), Err(OriginFault::TimedOut));
    let count = run_of("MATCH (n:Late) RETURN count(n) AS c", &[], AccessMode::Read);
    assert_eq!(rows_of(&try_run(&origin, &count).unwrap()), [[Value::Int(0)]]);
    // A write waits for the abandoned one's transaction, and then goes on.
    let deadline = Instant::now() + Duration::from_secs(60);
    while origin.abandoned() > 0 {
        assert!(Instant::now() < deadline, "the abandoned thread never ended");
        std::thread::yield_now();
    }
    assert_eq!(rows_of(&try_run(&origin, &count).unwrap()), [[Value::Int(0)]]);
    let again = run_of("CREATE (n:Late) RETURN 1 AS x", &[], AccessMode::Write);
    assert_eq!(try_run(&origin, &again).unwrap().rows, 1);
}

#[test]
fn a_run_without_a_worker_in_time_is_overloaded() {
    let origin = Arc::new(small(1, 10));
    block_on(async {
        let busy = run_of(LONG, &[], AccessMode::Read);
        let second = run_of("RETURN 1 AS x", &[], AccessMode::Read);
        let (first, second) = tokio::join!(biased; origin.run(&busy), origin.run(&second));
        assert_eq!(first.unwrap().rows, 1);
        assert_eq!(second.unwrap_err().kind, OriginFault::Overloaded);
    });
}

#[test]
fn a_large_result_is_too_large() {
    let mut run = run_of("MATCH (p:Person) RETURN p.name AS name", &[], AccessMode::Read);
    run.bytes_max = 1_000;
    assert_eq!(try_run(shared(), &run), Err(OriginFault::TooLarge { limit_bytes: 1_000 }));
}

/// Peak resident memory of this process, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
}

/// Statements that would take gigabytes or hours fail by a bound of memory, rows or work instead.
#[test]
fn statements_that_explode_are_refused_within_bounded_memory() {
    let cases = [
        ("MATCH (a:Person {id: 0})-[:KNOWS*1..12]-(b) RETURN count(b) AS c", AccessMode::Read),
        ("MATCH p = (a:Person {id: 0})-[:KNOWS*1..12]-(b) RETURN p", AccessMode::Read),
        ("MATCH (a:Person)-[:KNOWS*1..12]-(b) RETURN a, b", AccessMode::Read),
        ("MATCH (a:Person), (b:Person) RETURN a, b", AccessMode::Read),
        ("MATCH (a:Person), (b:Person), (c:Person) RETURN count(*) AS c", AccessMode::Read),
        ("RETURN range(1, 100000000) AS r", AccessMode::Read),
        ("UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b CREATE (:X {a: a})", AccessMode::Write),
    ];
    let origin = small(1, 60_000);
    for (statement, mode) in cases {
        let begun = Instant::now();
        let code = code(&origin, &run_of(statement, &[], mode));
        println!("{:?} {} MB {statement}", begun.elapsed(), peak_bytes() >> 20);
        assert!(
            code == "Neo.TransientError.General.MemoryPoolOutOfMemoryError" || code.contains("ArgumentError"),
            "{statement}: {code}"
        );
        assert!(peak_bytes() < 1 << 30, "{statement}: {} MB", peak_bytes() >> 20);
    }
}
