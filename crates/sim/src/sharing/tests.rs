//! The simulation shares lessons, is bounded, and repeats by its seed (DESIGN "Prefetch", issue 7 must-show 1 and 6).
#![allow(clippy::unwrap_used, reason = "test code")]

use super::{Allowed, Setting, each_node, measure, share};

const SMALL: Setting =
    Setting { nodes: 3, sessions_per_s: 5, patterns: 10, lost_percent: 0, seconds: 3, trials: 4, seed: 1 };

/// Negative control: without pieces and pulls only the teacher predicts.
#[test]
fn three_nodes_teach_each_other() {
    let measured = measure(&SMALL).unwrap();
    assert_eq!(measured.predicted_ms.len(), 4, "{measured:?}");
    assert!(measured.predicted_ms.iter().all(|took_ms| *took_ms <= 2_000), "{measured:?}");
    assert!(measured.heard_share > 0.99 && measured.pages.mean > 0.5, "{measured:?}");
    assert_eq!(measured.false_deaths, 0);
    let alone = measure(&Setting { sessions_per_s: 0, trials: 0, ..SMALL }).unwrap();
    assert!(alone.sent_bytes.mean > 100.0 && alone.pieces.mean + alone.pull_bytes.mean == 0.0, "{alone:?}");
    assert!(measured.sent_bytes.mean > 2.0 * alone.sent_bytes.mean, "learning takes bytes");
}

/// Must-show 6: with many more lessons than room, each figure stays within the limits.
#[test]
fn a_crowd_of_sessions_stays_within_what_is_allowed() {
    let crowd = Setting { nodes: 5, sessions_per_s: 200, patterns: 256, trials: 0, seconds: 2, ..SMALL };
    let (measured, allowed) = (measure(&crowd).unwrap(), Allowed::with(5, 0));
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let [new, passed_on, datagrams] =
        [allowed.new_bytes, allowed.passed_on_bytes, allowed.datagram_bytes].map(|bytes| bytes as f64);
    assert!(measured.untold_most > 100, "there is more to tell: {measured:?}");
    assert!(measured.piece_bytes.most <= new && measured.piece_bytes.mean > new / 2.0, "{measured:?}");
    assert!(measured.sent_bytes.mean <= datagrams.min(passed_on), "{measured:?}");
    assert!(measured.sent_bytes.mean > datagrams / 2.0, "the room is used: {measured:?}");
}

#[test]
fn a_seed_decides_all() {
    let lossy = Setting { lost_percent: 30, ..SMALL };
    assert_eq!(measure(&lossy), measure(&lossy));
    assert_ne!(measure(&lossy), measure(&Setting { seed: 2, ..lossy }));
}

#[test]
fn figures_are_of_each_node_and_second() {
    let figure = each_node([10, 30, 20].into_iter(), 2);
    assert_eq!((figure.mean, figure.most), (10.0, 15.0));
    assert_eq!(each_node(std::iter::empty(), 2).mean, 0.0);
    assert_eq!((share(3, 4), share(0, 0)), (0.75, 0.0));
}
