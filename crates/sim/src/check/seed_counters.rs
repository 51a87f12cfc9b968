//! Counts over the facts of a seed: answers, runs, and the faults that really occurred.

use std::collections::BTreeMap;

use hopcache_engine::outcome::{Class, Detail};

use crate::check::Ground;
use crate::check::record::{Fact, Record, RunEnd, ServedAnswer, Want, What};
use crate::world::subject::{Subject, USUAL};

/// Sums over one seed.
#[derive(Default)]
pub(crate) struct SeedCounters {
    pub(crate) answers: u64,
    pub(crate) near: u64,
    pub(crate) runs: u64,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    cut: std::collections::BTreeSet<(usize, usize)>,
    /// Ways cut since the last look.
    just_cut: Vec<(usize, usize)>,
    /// The latest forward that each node began to serve.
    hops: BTreeMap<usize, u32>,
    spared: Spared,
}

/// Hits of entries that are older than a write. The write had its answer before the request came, and has not touched what
/// the entry depends on.
#[derive(Default)]
struct Spared {
    /// For each usual statement, the newest version that was answered and has not touched it.
    elsewhere: [u32; USUAL],
    /// The same as it was when a request came, for requests that have no answer yet.
    asked: BTreeMap<u32, u32>,
}

impl Spared {
    /// The coverage's word for a fact.
    fn covered(&mut self, what: &What) -> Option<&'static str> {
        match what {
            What::WriteEnded { version: Some(version), touches, .. } => {
                for (statement, newest) in self.elsewhere.iter_mut().enumerate() {
                    if !touches.has(statement) {
                        *newest = (*newest).max(*version);
                    }
                }
                None
            }
            What::Asked { ask, subject, .. } => {
                let elsewhere = self.elsewhere.get(Subject::at(*subject).statement);
                self.asked.insert(*ask, elsewhere.copied().unwrap_or(0));
                None
            }
            What::Answered { ask, served } => {
                let elsewhere = self.asked.remove(ask)?;
                // A marked answer may be older than a write that has touched it.
                let is_hit = served.how.class == Class::Hit && served.how.detail.is_none();
                (is_hit && served.report?.version < elsewhere).then_some(match served {
                    ServedAnswer { is_near: true, .. } => "near hit after a write elsewhere",
                    ServedAnswer { is_from_afar: true, .. } => "owner's hit after a write elsewhere",
                    _ => "hit after a write elsewhere",
                })
            }
            _ => None,
        }
    }
}

/// The coverage's word for a proved answer.
fn covered_by_proof(what: &What, ground: &Ground) -> Option<&'static str> {
    let What::Answered { ask, served } = what else { return None };
    if !served.how.is_proved {
        return None;
    }
    Some(match served {
        ServedAnswer { is_near: true, .. } => "proved near hit",
        ServedAnswer { is_from_afar: true, .. } => "owner's proved hit",
        _ if matches!(ground.asks.get(ask)?.want, Want::After(_)) => "proved hit with a bookmark",
        _ => "proved hit",
    })
}

/// The coverage's word for a proved answer that is past its TTL.
fn outlived_by_proof(what: &What, ground: &Ground) -> Option<&'static str> {
    let What::Answered { ask, served } = what else { return None };
    let (ask, run) = (ground.asks.get(ask)?, ground.runs.get(&served.report?.run)?);
    let (soft, physical, _) = run.lives?;
    let age = ask.at.since(run.began);
    match (served.how.is_proved, served.is_near) {
        (false, _) if age > physical && served.how.detail.is_none() => Some("served by age after a proof"),
        (true, _) if age > physical => Some("proved past its grace"),
        (true, _) if age > soft => Some("proved past its TTL"),
        _ => None,
    }
}

impl SeedCounters {
    /// Counts facts, for the summary and for the coverage.
    pub(crate) fn count(&mut self, facts: &[Fact], record: &Record, ground: &Ground) {
        for fact in facts {
            let words = [
                self.covered(&fact.what),
                self.spared.covered(&fact.what),
                covered_by_proof(&fact.what, ground),
                outlived_by_proof(&fact.what, ground),
            ];
            words.into_iter().flatten().for_each(|word| record.cover(word));
            let word = match &fact.what {
                What::Answered { served, .. } => {
                    self.answers += 1;
                    self.near += u64::from(served.is_near);
                    if served.how.detail != Some(Detail::StaleIfError) {
                        continue;
                    }
                    "stale-if-error served"
                }
                What::RunBegan { .. } => {
                    self.runs += 1;
                    continue;
                }
                What::Left { .. } => "client left",
                What::StoreSaid { silent: true, .. } => "store command unanswered",
                What::StoreSaid { .. } => "store command refused",
                What::StoreLost { .. } => "store lost everything",
                What::StoreFellBack { .. } => "store fell back",
                What::StoreJumped { .. } => "store clock jumped",
                What::StoreIs { mode: "up" } | What::StoreLink { is_cut: false, .. } => continue,
                What::StoreIs { .. } => "store out",
                What::StoreLink { .. } => "node cut from store",
                What::RunEnded { end, .. } if *end != RunEnd::Whole => "run failed",
                What::Power { power: "paused", .. } => "node paused",
                What::Power { power: "killed", .. } => "node killed",
                What::Power { power: "restarted", .. } => "node restarted",
                What::Power { power: "joined", .. } => "node joined",
                What::Power { power: "left", .. } => "node left",
                What::Link { is_cut: true, .. } => "way cut",
                What::PurgeBegan { .. } => "purge",
                What::MemoryForgotten { .. } => "memory forgotten",
                _ => continue,
            };
            *self.faults.entry(word).or_default() += 1;
        }
        // Only now: an act that cuts both ways cuts one after the other.
        for (from, to) in std::mem::take(&mut self.just_cut) {
            let both = self.cut.contains(&(from, to)) && self.cut.contains(&(to, from));
            record.cover(if both { "way cut both" } else { "way cut one" });
        }
    }

    /// The coverage's word for a fact.
    fn covered(&mut self, what: &What) -> Option<&'static str> {
        Some(match what {
            What::Left { .. } => "client left",
            What::StoreSaid { silent: true, .. } => "store command unanswered",
            What::StoreSaid { .. } => "store command refused",
            What::StoreLost { .. } => "store lost everything",
            What::StoreFellBack { .. } => "store fell back",
            What::StoreJumped { by_ms, .. } if *by_ms > 0 => "store clock ahead",
            What::StoreJumped { .. } => "store clock back",
            What::StoreIs { mode: "up" } | What::StoreLink { is_cut: false, .. } => return None,
            What::StoreIs { .. } => "store out",
            What::StoreLink { .. } => "node cut from store",
            What::RunEnded { end: RunEnd::Cut, .. } => "run cut",
            What::RunEnded { end: RunEnd::Panic, .. } => "run panicked",
            What::RunEnded { end: RunEnd::Failed | RunEnd::Away, .. } => "run failed",
            What::Power { power: "paused", .. } => "node paused",
            What::Power { power: "killed", .. } => "node killed",
            What::Power { power: "restarted", .. } => "node restarted",
            What::Power { power: "joined", .. } => "node joined",
            What::Power { power: "draining", .. } => "node drained",
            What::Power { power: "left", .. } => "node left",
            What::GossipLink { is_cut: true, .. } => "gossip only cut",
            What::MajorityHealed { .. } => "majority healed",
            What::Reset { .. } => "message reset",
            What::Link { from, to, is_cut } => {
                self.link((*from, *to), *is_cut);
                return None;
            }
            What::ServeBegan { hop, by, .. } => {
                let latest = self.hops.entry(by.node).or_default();
                let is_late = *hop < *latest;
                *latest = (*latest).max(*hop);
                return is_late.then_some("message overtaken");
            }
            What::Restored { .. } => "database restored",
            What::RightsChanged => "rights changed",
            What::Spared { .. } => "write without its ids",
            What::PurgeBegan { .. } => "purge",
            What::MemoryForgotten { .. } => "memory forgotten",
            What::Wordless { .. } => "no word on a statement",
            _ => return None,
        })
    }

    fn link(&mut self, way: (usize, usize), is_cut: bool) {
        if is_cut {
            self.cut.insert(way);
            self.just_cut.push(way);
        } else {
            self.cut.remove(&way);
        }
    }
}
