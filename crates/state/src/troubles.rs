//! What does not work, and what did not work lately: when a fault is over, an operator still finds when it was, for how long, and how
//! often. Decides nothing.

use std::collections::VecDeque;
use std::time::Duration;

use hopcache_core::limits::{TROUBLE_AGAIN_MS, TROUBLES_MAX};
use hopcache_ops::labels::Part;

/// A fault of one part of the node, or of what the node needs. It may have come several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The part, as in `degraded` of `readyz`; [`STOOD_STILL`] is none.
    pub what: &'static str,
    /// The fault, as it was said when it came first.
    pub why: String,
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
            first: now,
            last: now,
            until: None,
            times: 1,
            lasted: Duration::ZERO,
        }
    }

    /// Faults differ by their sentence. That of a slow Neo4j holds figures, which change while it lasts.
    fn is(&self, what: &str, why: &str) -> bool {
        self.what == what && (what == Part::Slow.as_str() || self.why == why)
    }

    fn ends(&mut self, now: Duration) {
        self.until = Some(now);
        self.lasted += now.saturating_sub(self.last);
    }

    fn comes_again(&mut self, now: Duration) {
        (self.last, self.until, self.times) = (now, None, self.times.saturating_add(1));
    }
}

/// The faults of a node, those that came last at the end. Bounded: those that have been over for longest are forgotten.
#[derive(Debug, Default)]
pub struct Troubles(VecDeque<Trouble>);

impl Troubles {
    /// These faults are there at present, and no others. Each has its part, its sentence, and when it came; without, it came now.
    pub fn note(&mut self, faults: &[(Part, String, Option<Duration>)], now: Duration) {
        for trouble in self.0.iter_mut().filter(|trouble| trouble.until.is_none()) {
            if !faults.iter().any(|(part, why, _)| trouble.is(part.as_str(), why)) {
                trouble.ends(now);
            }
        }
        for (part, why, came) in faults {
            self.comes(part.as_str(), why, came.unwrap_or(now));
        }
    }

    /// The whole process stood still for this time, up to now.
    pub fn note_standstill(&mut self, lasted: Duration, now: Duration) {
        const WHY: &str = "this process did not run: it was stopped, or got no CPU";
        self.comes(STOOD_STILL, WHY, now.saturating_sub(lasted));
        if let Some(trouble) = self.0.back_mut() {
            trouble.ends(now);
        }
    }

    /// Since when a part does not work, if it does not.
    #[must_use]
    pub fn since(&self, part: Part) -> Option<Duration> {
        let lasting =
            self.0.iter().filter(|trouble| trouble.what == part.as_str() && trouble.until.is_none());
        lasting.map(|trouble| trouble.last).min()
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
        if let Some(until) = trouble.until {
            // What is told to have come earlier than it was over lasted on unseen: that time counts once.
            trouble.comes_again(now.max(until));
        }
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
        let faults: Vec<_> = faults.iter().map(|(part, why)| (*part, (*why).to_owned(), None)).collect();
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
    fn another_figure_is_no_other_fault() {
        let mut troubles = Troubles::default();
        note(&mut troubles, &[(Part::Slow, "9 times slower")], 100);
        note(&mut troubles, &[(Part::Slow, "8 times slower")], 105);
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
        let slow = |came| [(Part::Slow, "9 times slower".to_owned(), Some(S(came)))];
        troubles.note(&slow(100), S(110));
        troubles.note(&[], S(120));
        troubles.note(&slow(100), S(130));
        troubles.note(&[], S(140));
        let seen: Vec<_> =
            troubles.all().map(|trouble| (trouble.first, trouble.until, trouble.lasted)).collect();
        assert_eq!(seen, [(S(100), Some(S(140)), S(40))]);
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
        let firsts: Vec<_> = troubles.all().map(|trouble| trouble.first).collect();
        assert_eq!(firsts, [S(1); TROUBLES_MAX]);
    }
}
