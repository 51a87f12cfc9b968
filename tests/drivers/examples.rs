//! The examples of the folder `examples`, each by its one command: its `run.sh` starts `hopcache dev` and a service, asks
//! the service, and prints what happened.
//!
//! Spring costs more than the others, to install and to start: it runs with `HOPCACHE_TEST_DRIVERS=all`, which
//! `cargo xtask drivers versions` sets.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::drivers::install::lines;
use crate::support::process::{ports_in_a_row, program};

/// Of three nodes, four ports each with a distance of ten, and of the service behind them.
const PORTS: u16 = 25;
/// A start on a busy machine takes less, in seconds.
const START_MAX: &str = "300";

const SERVICES: [&str; 2] = ["fastapi", "node"];
const SLOW_SERVICE: &str = "spring";
const LOOP: &str = "graphrag";

/// The services, and the slow one too if `HOPCACHE_TEST_DRIVERS` asks for all.
fn tested_services() -> Vec<&'static str> {
    let asks_for_all = std::env::var("HOPCACHE_TEST_DRIVERS").is_ok_and(|which| which == "all");
    SERVICES.into_iter().chain(asks_for_all.then_some(SLOW_SERVICE)).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Runs an example to its end; the lines that it prints. It fails when something is not as the example expects it.
fn run(example: &str) -> Vec<String> {
    let base = ports_in_a_row(PORTS);
    let service = base + PORTS - 1;
    let mut run = Command::new(folder().join(example).join("run.sh"));
    for name in ["NEO4J_URI", "NEO4J_USER", "NEO4J_PASSWORD", "HOPCACHE_ADMIN"] {
        run.env_remove(name);
    }
    run.env("HOPCACHE_BIN", program())
        .env("EXAMPLES_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples"))
        .env("EXAMPLES_BASE_PORT", base.to_string())
        .env("EXAMPLES_PORT", service.to_string())
        .env("EXAMPLES_WAIT", START_MAX);
    lines(&mut run)
}

/// Of each request that the script has sent to the service: what the cache did.
fn verdicts(lines: &[String]) -> Vec<&str> {
    let is_request =
        |line: &&String| ["GET ", "PUT ", "DELETE "].iter().any(|method| line.starts_with(method));
    lines.iter().filter(is_request).filter_map(|line| line.split_whitespace().nth(3)).collect()
}

/// A read is a miss first and a hit then. What a write has changed is a miss, and shows the change: the script compares.
fn serves_people(example: &str) {
    let lines = run(example);
    let expected = [
        ["miss", "hit"],    // a person
        ["miss", "hit"],    // the friends
        ["miss", "hit"],    // suggestions
        ["bypass", "miss"], // a new friend
        ["bypass", "miss"], // the friend goes
    ];
    assert_eq!(verdicts(&lines), expected.concat(), "{example}: {lines:#?}");
    assert_eq!(lines.last(), Some(&format!("{example}: 10 requests, all as expected")));
}

/// Of a round of the GraphRAG loop: how many graph reads, and how many of them the cache answered.
fn round(lines: &[String], number: usize) -> (u64, u64) {
    let start = format!("round {number}: ");
    let told = lines.iter().find_map(|line| line.strip_prefix(&start)).expect("a line for each round");
    let numbers: Vec<u64> = told.split(' ').filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1])
}

#[test]
fn each_service_is_answered_by_the_cache() {
    tested_services().into_iter().for_each(serves_people);
}

/// Questions share entities, so the first round has hits. The second round repeats the first one.
#[test]
fn the_graphrag_loop_is_answered_by_the_cache() {
    let lines = run(LOOP);
    let ((reads, hits), again) = (round(&lines, 1), round(&lines, 2));
    assert!(hits > 0 && hits < reads, "{hits} of {reads}: {lines:#?}");
    assert_eq!(again, (reads, reads), "{lines:#?}");
    assert_eq!(lines.last().map(String::as_str), Some("graphrag: all as expected"));
}

/// An example without a test would break unseen.
#[test]
fn every_example_is_tested() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("run.sh").exists())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let mut tested = [&SERVICES[..], &[SLOW_SERVICE, LOOP]].concat();
    tested.sort_unstable();
    assert_eq!(names, tested);
}

/// `load.py --draw` makes the picture from the table alone, so whoever has the table can check the picture: also each that is kept.
#[test]
fn a_load_picture_is_drawn_from_its_table() {
    let draw = |table: &Path| {
        let out =
            lines(Command::new("python3").arg(folder().join("fastapi/load.py")).arg("--draw").arg(table));
        (out, std::fs::read_to_string(table.with_extension("svg")).unwrap())
    };
    let scratch = tempfile::tempdir().unwrap();
    let table = scratch.path().join("load.csv");
    let mut rows = "side,figure,at,value\nboth,about,,2 clients\nafter,share of hits,,0.93\n".to_owned();
    for (side, rate, ms) in [("before", 100, 10), ("after", 300, 3)] {
        rows += &format!(
            "{side},requests in second,0,{rate}\n{side},requests in second,1,{rate}\n{side},failed,,0\n"
        );
        for percentile in ["50", "75", "90", "95", "99", "99.9"] {
            rows += &format!("{side},read ms at percentile,{percentile},{ms}\n");
        }
    }
    std::fs::write(&table, rows).unwrap();
    let (told, drawing) = draw(&table);
    assert_eq!(
        told[1],
        "Hopcache before Neo4j: 300 requests/s; reads P50 3.0 ms, P90 3.0 ms, P99 3.0 ms; 93% hits; 0 failed"
    );
    assert!(
        drawing.contains("2 clients")
            && drawing.contains(&told[0])
            && drawing.matches("<polyline").count() == 4
    );
    let runs = std::fs::read_dir(folder().join("../docs/benchmarks")).unwrap();
    for kept in runs.map(|run| run.unwrap().path().join("load.csv")).filter(|table| table.exists()) {
        std::fs::copy(&kept, &table).unwrap();
        let (_, drawing) = draw(&table);
        assert_eq!(
            std::fs::read_to_string(kept.with_extension("svg")).unwrap(),
            drawing,
            "{}",
            kept.display()
        );
    }
}
