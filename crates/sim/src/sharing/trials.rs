//! How long a new lesson takes until every node predicts it: lessons of unseen patterns, one after another, during the
//! load. Decides the times, and looks. The model decides what a prediction is.

use hopcache_core::limits::SESSION_SETTLE_MS;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_learning::{FormId, SourceId, Successors};

use super::load::Load;
use super::setting::Setting;
use crate::world::dice::SimDice;

/// Between two trials.
const EVERY_MS: u64 = 500;
/// From a trial's first click to the one that teaches: `Load::session`.
const TAUGHT_AFTER_MS: u64 = 250 + SESSION_SETTLE_MS;
/// Not trivial, so that it is bound to a parameter.
const THING: usize = 1_000;

struct Trial {
    source: SourceId,
    form: FormId,
    taught_at: Millis,
    knows: Vec<bool>,
    /// When each node came to predict, in that order; the teacher is the first.
    took_ms: Vec<u64>,
}

/// Trials, in the order of their beginnings.
#[derive(Default)]
pub(super) struct Trials {
    all: Vec<Trial>,
}

/// From the first trial's beginning to the last one's lesson.
pub(super) const fn span_ms(trials: usize) -> u64 {
    trials as u64 * EVERY_MS + TAUGHT_AFTER_MS
}

impl Trials {
    /// Adds their sessions to the load, from that time on.
    pub(super) fn plan(setting: &Setting, from: Millis, load: &mut Load) -> Self {
        let dice = SimDice::new(setting.seed ^ 0x7e57);
        let mut all = Vec::new();
        for number in 0..setting.trials {
            let began = Millis(from.0 + number as u64 * EVERY_MS);
            let clicks = ["First", "Next"].map(|label| load.asked(&format!("{label}{number}"), THING));
            let Some(form) = load.template(&clicks[0], &clicks[1]) else { continue };
            let source = SourceId::Pattern(clicks[0].pattern);
            load.session(dice.index(setting.nodes), began, clicks.into());
            all.push(Trial {
                source,
                form,
                taught_at: Millis(began.0 + TAUGHT_AFTER_MS),
                knows: vec![false; setting.nodes],
                took_ms: Vec::new(),
            });
        }
        Self { all }
    }

    /// Whether a node that has just learned a lesson predicts a pattern that it did not predict before.
    pub(super) fn look(&mut self, node: usize, model: &Successors, now: Millis) {
        for trial in self.all.iter_mut().filter(|trial| trial.taught_at <= now) {
            let Some(knows) = trial.knows.get_mut(node).filter(|knows| !**knows) else { continue };
            let predicted = model.predictions(trial.source, MonoTime(now.0));
            if predicted.iter().any(|each| each.form == trial.form) && model.form(trial.form).is_some() {
                *knows = true;
                trial.took_ms.push(now.0 - trial.taught_at.0);
            }
        }
    }

    pub(super) fn are_done(&self) -> bool {
        self.all.iter().all(|trial| trial.knows.iter().all(|knows| *knows))
    }

    /// Of the trials that all nodes learned, sorted: until the last node predicted, and until the middle one did.
    pub(super) fn took_ms(&self) -> (Vec<u64>, Vec<u64>) {
        let done = || self.all.iter().filter(|trial| trial.took_ms.len() == trial.knows.len());
        let mut last: Vec<u64> = done().filter_map(|trial| trial.took_ms.last().copied()).collect();
        let mut half: Vec<u64> =
            done().filter_map(|trial| trial.took_ms.get(trial.knows.len() / 2).copied()).collect();
        last.sort_unstable();
        half.sort_unstable();
        (last, half)
    }
}
