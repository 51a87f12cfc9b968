//! What does not work, and what did not work lately: when a fault is over, an operator still finds when it was, for how long, and how
//! often. Decides nothing.

use std::collections::VecDeque;
use std::time::Duration;

use hopcache_core::limits::{TROUBLE_AGAIN_MS, TROUBLES_MAX};
use hopcache_ops::labels::Part;
use hopcache_ops::sentences::parts::{FaultTimes, LATE_PROBE};

/// A fault that is there at present.
#[derive(Debug)]
pub struct Fault {
    /// The part.
    pub part: Part,
    /// Its sentence.
    pub why: String,
    /// When it came; `None`: now.
    pub came: Option<Duration>,
    /// How bad it is, if the sentence says so: that of the worst moment is kept.
    pub factor: u32,
}

/// A fault of one part of the node, or of what the node needs. It may have come several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The part, as in `degraded` of `readyz`; [`STOOD_STILL`] is none.
    pub what: &'static str,
    /// The fault, as it was said when it came first, or was worst.
    pub why: String,
    /// How bad it was at worst, if that is measured.
    pub worst: u32,
    /// When it came first, in time since 1970.
    pub first: Duration,
    /// When it came last.
    pub last: Duration,
    /// When it was over; `None` while it lasts.
    pub until: Option<Duration>,
    /// How often it came.
    pub times: u32,
    /// How long it lasted, without the time in which it lasts now.
    pub lasted: Duration,
}

/// The whole process did not run for a while.
pub const STOOD_STILL: &str = "process";

impl Trouble {
    fn of(what: &'static str, why: &str, now: Duration) -> Self {
        Self {
            what,
            why: why.to_owned(),
            worst: 0,
            first: now,
            last: now,
            until: None,
            times: 1,
            lasted: Duration::ZERO,
        }
    }

    /// Faults differ by their sentence. That of slow runs holds figures, which change while it lasts; a late probe has none.
    fn is(&self, what: &str, why: &str) -> bool {
        let is_same = self.why == why;
        let are_runs = || what == Part::Slow.as_str() && self.why != LATE_PROBE && why != LATE_PROBE;
        self.what == what && (is_same || are_runs())
    }

    /// When it was there, up to now.
    #[must_use]
    pub fn times(&self, now: Duration) -> FaultTimes {
        let &Self { first, last, until, times, lasted, .. } = self;
        let lasted = lasted + if until.is_none() { now.saturating_sub(last) } else { Duration::ZERO };
        FaultTimes { came: [first, last], until, times, lasted }
    }

    fn ends(&mut self, now: Duration) {
        self.until = Some(now);
        self.lasted += now.saturating_sub(self.last);
    }

    /// It is there from `came` on. If that is before it was over, it was there all the time and nobody saw it.
    fn comes(&mut self, came: Duration) {
        let Some(until) = self.until.take() else { return };
        if came > until {
            (self.last, self.times) = (came, self.times.saturating_add(1));
        } else {
            self.lasted = self.lasted.saturating_sub(until.saturating_sub(self.last));
            (self.first, self.last) = (self.first.min(came), self.last.min(came));
            if came <= self.first {
                (self.times, self.lasted) = (1, Duration::ZERO);
            }
        }
    }
}

/// The faults of a node, those that came last at the end. Bounded: those that have been over for longest are forgotten.
#[derive(Debug, Default)]
pub struct Troubles(VecDeque<Trouble>);

impl Troubles {
    /// These faults are there at present, and no others.
    pub fn note(&mut self, faults: &[Fault], now: Duration) {
        for trouble in self.0.iter_mut().filter(|trouble| trouble.until.is_none()) {
            if !faults.iter().any(|fault| trouble.is(fault.part.as_str(), &fault.why)) {
                trouble.ends(now);
            }
        }
        for Fault { part, why, came, factor } in faults {
            self.comes(part.as_str(), why, came.unwrap_or(now));
            if let Some(trouble) =
                self.0.back_mut().filter(|it| it.is(part.as_str(), why) && it.worst < *factor)
            {
                (trouble.worst, trouble.why) = (*factor, why.clone());
            }
        }
    }

    /// The whole process stood still for this time, up to now.
    pub fn note_standstill(&mut self, lasted: Duration, now: Duration) {
        const WHY: &str = "this process did not run: it was stopped, or got no CPU";
        self.comes(STOOD_STILL, WHY, now.saturating_sub(lasted));
        if let Some(trouble) = self.0.back_mut().filter(|it| it.is(STOOD_STILL, WHY)) {
            trouble.ends(now);
        }
    }

    /// The fault for which a part does not work, if it does not: the one that is there for longest.
    #[must_use]
    pub fn lasting(&self, part: Part) -> Option<&Trouble> {
        let lasting =
            self.0.iter().filter(|trouble| trouble.what == part.as_str() && trouble.until.is_none());
        lasting.min_by_key(|trouble| trouble.last)
    }

    /// Since when a part does not work, if it does not.
    #[must_use]
    pub fn since(&self, part: Part) -> Option<Duration> {
        self.lasting(part).map(|trouble| trouble.last)
    }

    /// All of them, the latest at the end.
    pub fn all(&self) -> impl Iterator<Item = &Trouble> {
        self.0.iter()
    }

    /// A fault that comes again soon is the same fault.
    fn comes(&mut self, what: &'static str, why: &str, now: Duration) {
        let again = Duration::from_millis(TROUBLE_AGAIN_MS);
        let is_same = |trouble: &Trouble| {
            trouble.is(what, why) && trouble.until.is_none_or(|until| now.saturating_sub(until) <= again)
        };
        let known = self.0.iter().rposition(is_same).and_then(|place| self.0.remove(place));
        let mut trouble = known.unwrap_or_else(|| Trouble::of(what, why, now));
        trouble.comes(now);
        if self.0.len() >= TROUBLES_MAX {
            // If all last, the new one finds no place: those that are known would begin anew in turn.
            let Some(over) = self.0.iter().position(|trouble| trouble.until.is_some()) else { return };
            self.0.remove(over);
        }
        self.0.push_back(trouble);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;
    const GONE: (Part, &str) = (Part::Members, "node-b cannot be reached");

    fn note(troubles: &mut Troubles, faults: &[(Part, &str)], at: u64) {
        let fault = |(part, why): &(Part, &str)| {
            let factor = why.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
            Fault { part: *part, why: (*why).to_owned(), came: None, factor }
        };
        let faults: Vec<_> = faults.iter().map(fault).collect();
        troubles.note(&faults, S(at));
    }

    /// A node flaps: it is one fault, that is remembered when it is over.
    #[test]
    fn a_fault_that_comes_and_goes_is_remembered_as_one() {
        let mut troubles = Troubles::default();
        for at in [100, 107, 114] {
            note(&mut troubles, &[GONE], at);
            note(&mut troubles, &[GONE], at + 2);
            assert_eq!(troubles.since(Part::Members), Some(S(at)), "since when it lasts now");
            note(&mut troubles, &[], at + 4);
            note(&mut troubles, &[], at + 5);
            assert_eq!(troubles.since(Part::Members), None);
        }
        let seen = Trouble {
            last: S(114),
            until: Some(S(118)),
            times: 3,
            lasted: S(12),
            ..Trouble::of("members", GONE.1, S(100))
        };
        assert_eq!(troubles.all().cloned().collect::<Vec<_>>(), [seen]);
    }

    #[test]
    fn another_member_and_another_day_are_other_faults() {
        let mut troubles = Troubles::default();
        let other = (Part::Members, "node-c cannot be reached");
        note(&mut troubles, &[GONE], 100);
        note(&mut troubles, &[GONE, other], 101);
        note(&mut troubles, &[GONE], 102);
        assert_eq!(troubles.since(Part::Members), Some(S(100)), "the first lasts");
        note(&mut troubles, &[], 103);
        note(&mut troubles, &[other], 90_000);
        let firsts: Vec<_> = troubles.all().map(|trouble| (trouble.first, trouble.times)).collect();
        assert_eq!(
            firsts,
            [(S(101), 1), (S(100), 1), (S(90_000), 1)],
            "the one that lasted longer is the later one"
        );
    }

    /// The sentence of a slow Neo4j holds how slow it is.
    #[test]
    fn another_figure_is_no_other_fault_and_the_worst_is_kept() {
        let mut troubles = Troubles::default();
        for (at, why) in [(100, "6 times slower"), (105, "9 times slower"), (110, "8 times slower")] {
            note(&mut troubles, &[(Part::Slow, why)], at);
        }
        let seen: Vec<_> =
            troubles.all().map(|trouble| (&*trouble.why, trouble.first, trouble.until)).collect();
        assert_eq!(seen, [("9 times slower", S(100), None)]);
    }

    #[test]
    fn another_fault_of_a_part_is_told_in_its_own_words() {
        let mut troubles = Troubles::default();
        let (away, refused) = ((Part::Store, "cannot be reached"), (Part::Store, "refuses the log-on"));
        note(&mut troubles, &[away], 100);
        note(&mut troubles, &[refused], 105);
        let seen: Vec<_> = troubles.all().map(|trouble| (&*trouble.why, trouble.until)).collect();
        assert_eq!(seen, [(away.1, Some(S(105))), (refused.1, None)]);
        assert_eq!(troubles.since(Part::Store), Some(S(105)), "since when it cannot be used for this reason");
    }

    /// Neo4j was slow all the time, but for a while too few runs said so.
    #[test]
    fn a_time_that_was_told_twice_counts_once() {
        let mut troubles = Troubles::default();
        let slow =
            |came| [Fault { part: Part::Slow, why: "9 times slower".into(), came: Some(S(came)), factor: 9 }];
        troubles.note(&slow(100), S(110));
        troubles.note(&[], S(120));
        troubles.note(&slow(100), S(130));
        troubles.note(&[], S(140));
        let seen: Vec<_> = troubles
            .all()
            .map(|trouble| (trouble.first, trouble.until, trouble.lasted, trouble.times))
            .collect();
        assert_eq!(seen, [(S(100), Some(S(140)), S(40), 1)]);
    }

    #[test]
    fn a_process_that_was_stopped_says_so_when_it_goes_on() {
        let mut troubles = Troubles::default();
        troubles.note_standstill(S(4), S(104));
        troubles.note_standstill(S(4), S(111));
        let seen: Vec<_> =
            troubles.all().map(|trouble| (trouble.first, trouble.until, trouble.lasted)).collect();
        assert_eq!(seen, [(S(100), Some(S(111)), S(8))]);
    }

    /// I9.
    #[test]
    fn what_has_been_over_for_longest_is_forgotten_first() {
        let mut troubles = Troubles::default();
        let names: Vec<String> = (0..TROUBLES_MAX * 2).map(|number| format!("node-{number}")).collect();
        for (name, at) in names.iter().zip(1..) {
            note(&mut troubles, &[(Part::Store, "away"), (Part::Members, name)], at);
        }
        assert_eq!(troubles.all().count(), TROUBLES_MAX);
        assert_eq!(troubles.since(Part::Store), Some(S(1)), "it lasts");
    }

    #[test]
    fn more_faults_than_places_leave_those_that_last_as_they_are() {
        let mut troubles = Troubles::default();
        let names: Vec<String> = (0..=TROUBLES_MAX).map(|number| format!("node-{number}")).collect();
        let all: Vec<_> = names.iter().map(|name| (Part::Members, &**name)).collect();
        for at in [1, 2, 3] {
            note(&mut troubles, &all, at);
        }
        note(&mut troubles, &[&all[..], &[(Part::Slow, "9 times slower")]].concat(), 4);
        assert!(troubles.all().all(|trouble| trouble.first == S(1) && trouble.worst == 0), "{troubles:?}");
        assert_eq!(troubles.all().count(), TROUBLES_MAX);
    }
}
