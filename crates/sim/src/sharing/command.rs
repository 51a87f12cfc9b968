//! `hopcache-sim sharing`: runs the settings of a command line on several threads, and prints a line of CSV for each.
//!
//! `hopcache-bench prefetch gossip --simulated` starts it, and reads the columns by their names.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::{Allowed, EachNode, Measured, Setting, measure};

/// How it is called.
pub const USAGE: &str = "hopcache-sim sharing [--nodes N,…] [--sessions S,…] [--patterns P,…] [--lost PERCENT,…] [--seconds T] [--trials N] [--seed S] [--threads T]";

const COLUMNS: &str = "nodes,sessions_per_s,patterns,lost_percent,seconds,seed,sent_bytes,sent_bytes_most,datagrams,pieces,piece_bytes,piece_bytes_most,heard_share,pull_bytes,pull_bytes_most,pages,datagram_bytes_most,digest_bytes_most,page_bytes_most,untold_most,false_deaths,trials,predicted,half_p50_ms,all_p50_ms,all_p99_ms,all_max_ms,allowed_new_bytes,allowed_passed_on_bytes,allowed_datagram_bytes,allowed_pull_bytes";

struct Options {
    settings: Vec<Setting>,
    threads: usize,
}

/// Runs what the arguments say; whether they could be read, and every setting could be measured.
///
/// # Errors
/// Where `out` cannot be written to.
pub fn run(args: impl Iterator<Item = String>, out: &mut impl Write) -> std::io::Result<bool> {
    let Some(Options { settings, threads }) = options(args) else {
        writeln!(out, "{USAGE}")?;
        return Ok(false);
    };
    writeln!(out, "{COLUMNS}")?;
    let next = AtomicUsize::new(0);
    let (tell, told) = mpsc::channel::<(Setting, Option<Measured>)>();
    let mut are_all = true;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (next, tell, settings) = (&next, tell.clone(), &settings);
            scope.spawn(move || {
                while let Some(setting) = settings.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if tell.send((*setting, measure(setting))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        for (setting, measured) in told {
            are_all &= measured.is_some();
            if let Some(measured) = measured {
                writeln!(out, "{}", row(&setting, &measured))?;
                out.flush()?;
            }
        }
        Ok(are_all)
    })
}

fn options(mut args: impl Iterator<Item = String>) -> Option<Options> {
    let (mut nodes, mut sessions, mut patterns) =
        (vec![3, 5, 10, 20, 50, 100], vec![0, 1, 5, 50], vec![10, 256]);
    let (mut lost, mut seconds, mut trials, mut seed) = (vec![0], 20, 40, 1);
    let mut threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    while let Some(name) = args.next() {
        let value = args.next()?;
        match name.as_str() {
            "--nodes" => nodes = list(&value)?,
            "--sessions" => sessions = list(&value)?,
            "--patterns" => patterns = list(&value)?,
            "--lost" => lost = list(&value)?,
            "--seconds" => seconds = value.parse().ok()?,
            "--trials" => trials = value.parse().ok()?,
            "--seed" => seed = value.parse().ok()?,
            "--threads" => threads = value.parse().ok().filter(|threads| *threads > 0)?,
            _ => return None,
        }
    }
    let mut settings = Vec::new();
    for nodes in nodes {
        for lost_percent in &lost {
            for sessions_per_s in &sessions {
                // Without sessions there are no patterns to tell apart.
                let patterns = if *sessions_per_s == 0 { &[0][..] } else { &patterns[..] };
                settings.extend(patterns.iter().map(|patterns| Setting {
                    nodes,
                    sessions_per_s: *sessions_per_s,
                    patterns: *patterns,
                    lost_percent: *lost_percent,
                    seconds,
                    trials: if *sessions_per_s == 0 { 0 } else { trials },
                    seed,
                }));
            }
        }
    }
    // The longest first, so that no thread is left with one of them at the end.
    settings.sort_by_key(|setting| std::cmp::Reverse((setting.nodes, setting.sessions_per_s)));
    Some(Options { settings, threads })
}

fn list<T: std::str::FromStr>(text: &str) -> Option<Vec<T>> {
    text.split(',').map(|each| each.parse().ok()).collect()
}

fn row(setting: &Setting, measured: &Measured) -> String {
    let Setting { nodes, sessions_per_s, patterns, lost_percent, seconds, trials, seed } = setting;
    let Allowed { new_bytes, passed_on_bytes, datagram_bytes, pull_bytes } =
        Allowed::with(*nodes, *lost_percent);
    let both = |figure: EachNode| format!("{:.1},{:.1}", figure.mean, figure.most);
    let last = |per_mille| at(&measured.predicted_ms, per_mille);
    [
        format!("{nodes},{sessions_per_s},{patterns},{lost_percent},{seconds},{seed}"),
        both(measured.sent_bytes),
        format!("{:.2},{:.2}", measured.datagrams.mean, measured.pieces.mean),
        both(measured.piece_bytes),
        format!("{:.4}", measured.heard_share),
        both(measured.pull_bytes),
        format!("{:.3}", measured.pages.mean),
        format!("{},{}", measured.datagram_bytes_most, measured.digest_bytes_most),
        format!("{},{},{}", measured.page_bytes_most, measured.untold_most, measured.false_deaths),
        format!("{trials},{},{}", measured.predicted_ms.len(), at(&measured.half_ms, 500)),
        format!("{},{},{}", last(500), last(990), last(1_000)),
        format!("{new_bytes},{passed_on_bytes},{datagram_bytes},{pull_bytes}"),
    ]
    .join(",")
}

/// Nearest rank; of nothing, 0.
fn at(sorted: &[u64], per_mille: usize) -> u64 {
    let rank = (sorted.len() * per_mille).div_ceil(1_000);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> impl Iterator<Item = String> {
        text.split(' ').map(str::to_owned).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn ranks_are_the_nearest() {
        let times: Vec<u64> = (1..=40).collect();
        assert_eq!([500, 990, 1_000].map(|per_mille| at(&times, per_mille)), [20, 40, 40]);
        assert_eq!((at(&[], 500), at(&[7], 10)), (0, 7));
    }

    #[test]
    fn membership_alone_is_one_setting_whatever_the_patterns() {
        let found = options(words("--nodes 3,5 --sessions 0,1 --patterns 10,256 --lost 0,30")).unwrap();
        assert_eq!(found.settings.len(), 2 * 2 * (1 + 2));
        assert_eq!(found.settings.iter().filter(|setting| setting.sessions_per_s == 0).count(), 4);
        assert!(options(words("--nodes three")).is_none() && options(words("--nodes")).is_none());
    }

    #[test]
    fn a_row_has_a_figure_for_each_column() {
        let setting = options(words("--nodes 3 --sessions 1 --patterns 10")).unwrap().settings[0];
        let row = row(&setting, &Measured::default());
        assert_eq!(row.split(',').count(), COLUMNS.split(',').count());
        assert!(row.split(',').all(|figure| figure.parse::<f64>().is_ok()), "{row}");
    }
}
