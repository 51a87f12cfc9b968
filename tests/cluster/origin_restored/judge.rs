//! Judges the answers of a restore: which are of before it, which are older than a write that was acknowledged before they were
//! asked for, and how they were marked.

use std::fmt;
use std::time::{Duration, Instant};

use super::load::{Answer, GENERATION};

/// Until when Neo4j was what.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Neo4j is told to end.
    pub stops: Instant,
    /// The restored Neo4j is started.
    pub starts: Instant,
    /// It has answered.
    pub up: Instant,
}

/// Some answers, counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    pub answers: usize,
    pub hits: usize,
    pub proved: usize,
    pub stale: usize,
}

impl Count {
    pub fn of<'a>(answers: impl Iterator<Item = &'a Answer>) -> Self {
        answers.fold(Self::default(), |count, answer| Self {
            answers: count.answers + 1,
            hits: count.hits + usize::from(answer.is_hit()),
            proved: count.proved + usize::from(answer.is_proved()),
            stale: count.stale + usize::from(answer.is_stale()),
        })
    }
}

impl fmt::Display for Count {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answers, hits, proved, stale } = self;
        write!(out, "{answers} answers ({hits} hits, {proved} proved, {stale} stale-if-error)")
    }
}

/// What came of a restore.
#[derive(Debug)]
pub struct Judged {
    pub before: Count,
    pub down: Count,
    pub after: Count,
    /// Of writes that the restore has undone, asked for after it was up.
    pub undone: Count,
    /// From when it was up to when the last of these was asked for.
    pub noticed: Duration,
    /// Older than a write that was acknowledged before, and not marked as stale.
    pub old: Vec<Answer>,
}

impl Judged {
    pub fn of(answers: &[Answer], times: Times) -> Self {
        let generation_before = answers.iter().map(|answer| answer.generation).min().unwrap_or_default();
        let is_undone = |answer: &&Answer| {
            answer.asked >= times.up && answer.value / GENERATION == generation_before && answer.value > 0
        };
        let last = answers.iter().filter(is_undone).map(|answer| answer.asked).max();
        let old = answers.iter().filter(|answer| is_old(answer, times)).cloned().collect();
        Self {
            before: Count::of(answers.iter().filter(|answer| answer.answered < times.stops)),
            down: Count::of(answers.iter().filter(|a| a.answered >= times.stops && a.asked < times.up)),
            after: Count::of(answers.iter().filter(|answer| answer.asked >= times.up)),
            undone: Count::of(answers.iter().filter(is_undone)),
            noticed: last.map_or(Duration::ZERO, |last| last - times.up),
            old,
        }
    }
}

/// An answer that was under way while Neo4j was put back may be of either numbering.
fn is_old(answer: &Answer, times: Times) -> bool {
    let was_under_way = answer.asked <= times.starts && answer.answered >= times.starts;
    answer.value < answer.least && !answer.is_stale() && !was_under_way
}

impl fmt::Display for Judged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, down, after, undone, noticed, old } = self;
        write!(
            out,
            "before: {before}; while Neo4j was away: {down}; after: {after}, of them of writes that are undone: {undone}, the last asked for {} ms after Neo4j was up; older than an acknowledged write: {}",
            noticed.as_millis(),
            old.len()
        )
    }
}
