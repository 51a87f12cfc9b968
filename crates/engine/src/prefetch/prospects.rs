//! What follows a pattern, as this node has known it a moment ago. A page's patterns come again and again, and one considered query
//! looks at those of all steps ahead: sums of decayed counts and decoded forms are worth keeping for a second. It decides nothing.

use std::num::NonZeroUsize;
use std::sync::Arc;

use hopcache_core::limits::{PROSPECT_KEPT_MS, PROSPECT_SEEN_MIN, PROSPECTS_MAX};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_learning::form::{Form, RealmTag};
use hopcache_learning::gain::Prices;
use hopcache_learning::{PatternTag, Prediction, SourceId};
use lru::LruCache;
use parking_lot::Mutex;

use crate::prefetch::Prefetch;

/// A query that may follow, with its form decoded.
pub(super) struct Successor {
    known: Arc<(RealmTag, Form)>,
    pub(super) statement: Arc<str>,
    pub(super) prediction: Prediction,
}

impl Successor {
    pub(super) fn form(&self) -> &Form {
        &self.known.1
    }
}

/// What follows a pattern.
pub(super) struct Prospect {
    /// How often the pattern was seen.
    pub(super) seen: f64,
    /// Whether one of its successors may be likely soon, also one whose form is not known here yet.
    pub(super) may_follow: bool,
    /// The known ones.
    pub(super) successors: Vec<Successor>,
}

/// Prospects of the last moment, each with its time.
pub(super) struct Prospects(Mutex<LruCache<PatternTag, (MonoTime, Arc<Prospect>)>>);

impl Prospects {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(PROSPECTS_MAX).unwrap_or(NonZeroUsize::MIN))))
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Prefetch {
    /// What follows a pattern of this realm; `None` if it was never seen.
    pub(super) fn prospect(&self, pattern: PatternTag, realm: RealmTag) -> Option<Arc<Prospect>> {
        let (now, prospects) = (self.context.now(), &self.learning.considering.prospects.0);
        if let Some((since, known)) = prospects.lock().get(&pattern)
            && now.since(*since) < Millis(PROSPECT_KEPT_MS)
        {
            return Some(Arc::clone(known));
        }
        let outlook = self.learning.model.lock().outlook(SourceId::Pattern(pattern), now)?;
        let p_min = Prices::of(f64::NAN, 0.0).threshold() / 2.0;
        let prospect = Arc::new(Prospect {
            seen: outlook.seen,
            may_follow: outlook.successors.iter().any(|each| each.p > p_min),
            successors: self.successors(realm, outlook.successors),
        });
        // What is new changes with each sighting.
        if prospect.seen >= PROSPECT_SEEN_MIN {
            prospects.lock().put(pattern, (now, Arc::clone(&prospect)));
        }
        Some(prospect)
    }

    /// The predictions of this database and principal whose forms are known.
    pub(super) fn successors(&self, realm: RealmTag, predictions: Vec<Prediction>) -> Vec<Successor> {
        let defined: Vec<_> = {
            let model = self.learning.model.lock();
            predictions.into_iter().filter_map(|each| Some((model.form(each.form)?, each))).collect()
        };
        let known = defined.into_iter().filter_map(|(definition, prediction)| {
            let known = self.learning.statements.form(prediction.form, &definition)?;
            let statement = Arc::from(known.1.statement());
            (known.0 == realm).then_some(Successor { known, statement, prediction })
        });
        known.collect()
    }
}
