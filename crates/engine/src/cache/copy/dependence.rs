//! What of its database a copy depends on, and what was last found about that: up to which marks no write has ended it, and
//! up to when it was proved.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hopcache_core::proof::Standing;
use hopcache_core::result::ResultSet;
use hopcache_core::tags::{Depends, Key, NeedsShape};
use hopcache_core::time::{Millis, MonoTime};
use once_cell::race::OnceBox;

use super::MemoryCopy;
use super::compact::CopyFlag;
use crate::cache::packed_duration::PackedDuration;
use crate::model::ask::Query;
use crate::model::shown_reads::ShownAnswer;
use crate::model::text_facts::{AnswerReads, Reads};

/// What a copy depends on. It is not known of a copy that came from another node, until a request brings the query.
#[derive(Debug, Default)]
pub(super) struct Dependence {
    /// Written once. The box makes it one word, and to drop it costs nothing where it is empty.
    reads: OnceBox<CopyReads>,
    /// The version of this node's marks by which no write has ended it; zero: it was not judged.
    judged: AtomicU64,
    /// The version of marks and reports by which it was last looked at, and in the lowest bit whether it is proved by it; zero:
    /// it was not looked at.
    stood: AtomicU64,
}

/// What a copy depends on.
#[derive(Debug)]
struct CopyReads {
    answer: AnswerReads,
    /// The same with what its rows show; empty until a write would have ended it. `None` inside: they show nothing that helps.
    shown: OnceBox<Option<ShownAnswer>>,
    /// The version of this node's marks at which no key was known that its rows show; zero: nobody has looked.
    sought: AtomicU64,
}

impl CopyReads {
    fn of(answer: AnswerReads) -> Box<Self> {
        Box::new(Self { answer, shown: OnceBox::new(), sought: AtomicU64::new(0) })
    }
}

impl Clone for CopyReads {
    fn clone(&self) -> Self {
        Self { answer: self.answer.clone(), shown: self.shown.clone(), sought: AtomicU64::new(0) }
    }
}

impl Clone for Dependence {
    fn clone(&self) -> Self {
        Self { reads: self.reads.clone(), ..Self::default() }
    }
}

/// How long after its read the copy was last proved, in [`PackedDuration`] and rounded down; zero: never. It is as good as one that was read
/// then.
#[derive(Debug, Default)]
pub(super) struct ProofAge(AtomicU32);

impl ProofAge {
    pub(super) fn is(&self) -> bool {
        self.after() > Millis::ZERO
    }

    pub(super) fn after(&self) -> Millis {
        PackedDuration(self.0.load(Ordering::Relaxed)).span()
    }

    pub(super) fn note(&self, after: Millis) {
        self.0.fetch_max(PackedDuration::down(after).0, Ordering::Relaxed);
    }
}

impl MemoryCopy {
    /// Notes what it depends on, if that is not known. A hit pays one load.
    pub(crate) fn know_reads(&self, query: &Query) {
        // Two requests for one query find the same: the first is kept.
        self.dependence.reads.get_or_init(|| CopyReads::of(self.reads_for(query)));
    }

    /// What this very answer to the query depends on. It reads the head of the result.
    pub(crate) fn reads_for(&self, query: &Query) -> AnswerReads {
        let warns = match self.content.as_passing() {
            Some(result) => result.warns_of_unknown(),
            None => ResultSet::from_bytes(&self.stored_form()).is_ok_and(|result| result.warns_of_unknown()),
        };
        if warns { query.reads_with_tokens() } else { query.reads().clone() }
    }

    /// The same copy, which depends on this.
    pub(crate) fn of_reads(mut self, reads: AnswerReads) -> Self {
        self.dependence.reads = OnceBox::with_value(CopyReads::of(reads));
        self
    }

    pub(crate) fn knows_reads(&self) -> bool {
        self.reads().is_some()
    }

    /// What its text says that it depends on; `None` if that is not known.
    pub(crate) fn reads(&self) -> Option<&Reads> {
        self.dependence.reads.get().map(|reads| &*reads.answer.of_text)
    }

    /// What ends it, as exactly as it is known, or by tags alone.
    pub(crate) fn depends(&self, compares_values: bool) -> Depends<'_> {
        let Some(CopyReads { answer, shown, .. }) = self.dependence.reads.get() else {
            return Depends::OnAnything;
        };
        match shown.get() {
            Some(Some(shown)) if compares_values => shown.depends(answer.viewer),
            _ => answer.depends(compares_values),
        }
    }

    /// Finds out which nodes its rows show, if nobody has: a write seems to have ended it. `keys`: by which keys writes find what such a
    /// copy needs, by the marks of this version. If it shows none of them, it asks again when there are other marks. Returns whether
    /// [`MemoryCopy::depends`] says more than before.
    pub(crate) fn learn_shown(
        &self,
        version: u64,
        keys: impl FnOnce(&NeedsShape) -> Vec<Key<Box<str>>>,
    ) -> bool {
        let Some(CopyReads { answer, shown, sought }) = self.dependence.reads.get() else { return false };
        let is_open = shown.get().is_none() && sought.load(Ordering::Relaxed) != version;
        let Some(reads) = answer.of_text.shown.as_ref().filter(|_| is_open) else { return false };
        let Some(needs) = reads.of_keys(&keys(&answer.of_text.needs)) else {
            sought.store(version, Ordering::Relaxed);
            return false;
        };
        let found = || {
            let of = |records: &[u8]| ShownAnswer::of(needs, answer.classes.as_deref(), records);
            match self.content.as_passing() {
                Some(result) => of(&result.records),
                None => of(&ResultSet::from_bytes(&self.content.stored_form()?).ok()?.records),
            }
        };
        shown.get_or_init(|| Box::new(found())).is_some()
    }

    /// Whether it can be proved: nothing but the graph decides it.
    pub(crate) fn is_of_graph(&self) -> bool {
        self.reads().is_some_and(|reads| reads.is_of_graph)
    }

    /// Whether no write has ended it by the marks of this version.
    pub(crate) fn is_judged_at(&self, version: u64) -> bool {
        self.dependence.judged.load(Ordering::Relaxed) == version
    }

    /// No write has ended it by the marks of this version.
    pub(crate) fn judged_at(&self, version: u64) {
        self.dependence.judged.store(version, Ordering::Relaxed);
    }

    /// Whether it was found to be proved by this version, and as of when; `None` if it was not looked at.
    pub(crate) fn stood_at(&self, version: u64) -> Option<(bool, MonoTime)> {
        // Acquire: with the version comes the time.
        let stood = self.dependence.stood.load(Ordering::Acquire);
        (stood >> 1 == version).then(|| (stood & 1 == 1, self.proved_at()))
    }

    /// By this version it stands so. Two requests that find it at once find the same, or the later one a later report.
    pub(crate) fn stands(&self, version: u64, standing: Standing) {
        if let Some(as_of) = standing.as_of {
            self.proved.note(as_of.since(self.read_started()));
        }
        self.dependence.stood.store(version << 1 | u64::from(standing.is_proved), Ordering::Release);
    }

    /// Whether this is the first time that it is served past its TTL because it is proved.
    pub(crate) fn is_first_revalidated(&self) -> bool {
        self.flags.is_first(CopyFlag::Revalidated)
    }
}
