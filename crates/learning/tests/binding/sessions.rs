//! Sessions: which steps there were, for observations that arrive in any order; bounded under floods.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_core::key::{KeyHasher, PrincipalScope, QueryKey};
use hopcache_core::limits::{
    CLOCK_TRANSIT_MS_MAX, CLOCK_WINDOW_MS, MEMBERS_MAX, SESSION_BEFORE_MAX, SESSION_IDLE_MS,
    SESSION_SETTLE_MS, SESSION_SKEW_MS, SESSION_WAITING_MAX, SESSION_WINDOW_MS,
};
use hopcache_core::node::Incarnation;
use hopcache_core::time::MonoTime;
use hopcache_learning::OriginTag;
use hopcache_learning::clock_offsets::{ClockOffsets, SenderClock};
use hopcache_learning::sessions::{
    ObservationFate, QueryObservation, SessionBounds, SessionKey, Sessions, Step,
};
use proptest::prelude::*;

fn session(number: u64) -> SessionKey {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_be_bytes());
    SessionKey(key)
}

fn at_ms(ms: u64) -> MonoTime {
    MonoTime(ms * 1_000)
}

const SENDER: SenderClock = SenderClock { node: OriginTag(1), life: Incarnation(1) };

fn seen(name: u8, began_ms: u64, ended_ms: u64) -> QueryObservation<u8> {
    QueryObservation {
        key: QueryKey([name; 32]),
        began: at_ms(began_ms),
        ended: at_ms(ended_ms),
        sender: SENDER,
        began_there: at_ms(began_ms),
        weight_bytes: 100,
        query: name,
    }
}

fn taken(sessions: &mut Sessions<u8>, number: u64, seen: QueryObservation<u8>, now_ms: u64) {
    assert_eq!(sessions.observe(session(number), seen, at_ms(now_ms)), ObservationFate::Taken);
}

/// Steps as `next < before, before …`.
fn shown(steps: &[Step<u8>]) -> Vec<(char, String)> {
    let name = |seen: &QueryObservation<u8>| char::from(seen.query);
    steps.iter().map(|step| (name(&step.next), step.before.iter().map(name).collect())).collect()
}

fn steps(expected: &[(char, &str)]) -> Vec<(char, String)> {
    expected.iter().map(|(next, before)| (*next, (*before).to_owned())).collect()
}

#[test]
fn late_batches_are_ordered_by_start() {
    let mut sessions = Sessions::new(SessionBounds::default());
    taken(&mut sessions, 1, seen(b'c', 300, 310), 320);
    taken(&mut sessions, 1, seen(b'b', 200, 210), 380);
    taken(&mut sessions, 1, seen(b'a', 100, 110), 500);
    assert_eq!(sessions.due(), Some(at_ms(320 + SESSION_SETTLE_MS)));
    assert!(sessions.settle(at_ms(319 + SESSION_SETTLE_MS)).is_empty());
    assert_eq!(shown(&sessions.settle(at_ms(320 + SESSION_SETTLE_MS))), steps(&[('c', "ba")]));
    assert_eq!(shown(&sessions.settle(at_ms(900))), steps(&[('a', ""), ('b', "a")]));
    assert!(sessions.settle(at_ms(2_000)).is_empty(), "each is next once");
}

#[test]
fn concurrent_requests_do_not_follow_each_other() {
    let mut sessions = Sessions::new(SessionBounds::default());
    for observation in [
        seen(b'a', 100, 200),
        seen(b'b', 150, 160),
        seen(b'c', 199, 400),
        seen(b'd', 200, 300),
        // Both began in the instant in which the other one ended.
        seen(b'e', 500, 500),
        seen(b'f', 500, 500),
    ] {
        taken(&mut sessions, 1, observation, 510);
    }
    let expected = [('a', ""), ('b', ""), ('c', "b"), ('d', "ba"), ('e', "dcba"), ('f', "dcba")];
    assert_eq!(shown(&sessions.settle(at_ms(1_000))), steps(&expected));
}

#[test]
fn a_step_is_within_the_window_and_the_session() {
    let mut sessions = Sessions::new(SessionBounds::default());
    taken(&mut sessions, 1, seen(b'a', 0, 1_000), 1_000);
    taken(&mut sessions, 2, seen(b'x', 2_000, 2_010), 2_010);
    taken(&mut sessions, 1, seen(b'b', 1_000 + SESSION_WINDOW_MS, 70_000), 70_000);
    taken(&mut sessions, 1, seen(b'c', 1_001 + SESSION_WINDOW_MS, 70_000), 70_000);
    let found = shown(&sessions.settle(at_ms(70_500)));
    assert_eq!(found, steps(&[('a', ""), ('b', "a"), ('c', ""), ('x', "")]));
}

#[test]
fn repeated_and_very_late_ones_are_not_taken() {
    let mut sessions = Sessions::new(SessionBounds::default());
    for name in 0..9_u8 {
        taken(&mut sessions, 1, seen(name, 100 * u64::from(name), 100 * u64::from(name) + 10), 1_000);
    }
    let again = |sessions: &mut Sessions<u8>, name: u8| {
        sessions.observe(session(1), seen(name, 100 * u64::from(name), 5_000), at_ms(2_000))
    };
    assert_eq!(again(&mut sessions, 3), ObservationFate::Repeated);
    let found = sessions.settle(at_ms(2_000));
    assert_eq!(found.len(), 9);
    let before: Vec<u8> = found[8].before.iter().map(|seen| seen.query).collect();
    assert_eq!(before, [7, 6, 5, 4, 3]);
    assert_eq!(again(&mut sessions, 8), ObservationFate::Repeated);
    assert_eq!(again(&mut sessions, 3), ObservationFate::Late, "forgotten, and not next again");
    assert!(sessions.settle(at_ms(9_000)).is_empty());
}

#[test]
fn idle_sessions_are_forgotten() {
    let mut sessions = Sessions::new(SessionBounds::default());
    taken(&mut sessions, 1, seen(b'a', 0, 10), 10);
    taken(&mut sessions, 2, seen(b'b', 500, 600), 600);
    sessions.settle(at_ms(1_000));
    assert_eq!(sessions.due(), Some(at_ms(10 + SESSION_IDLE_MS)));
    sessions.settle(at_ms(10 + SESSION_IDLE_MS));
    assert_eq!((sessions.len(), sessions.bytes()), (1, 100));
    sessions.settle(at_ms(600 + SESSION_IDLE_MS));
    assert!(sessions.is_empty() && sessions.due().is_none() && sessions.bytes() == 0);
    assert_eq!(sessions.dropped(), 0);
}

/// Bad input of the issue: 10⁶ sessions. The longest silent ones give way, and nothing else grows.
#[test]
fn a_million_sessions_are_bounded() {
    let bounds = SessionBounds { sessions: 1_000, bytes: 20_000, waiting: 2_000 };
    let mut sessions = Sessions::new(bounds);
    let often = 5_000_000;
    let (mut settled, mut last_ms) = (0, 0);
    for number in 0..1_000_000_u64 {
        last_ms = number;
        taken(&mut sessions, number, seen(b'a', number, number), number);
        if number % 40 == 0 {
            taken(&mut sessions, often, seen(b'b', number, number), number);
            settled += sessions.settle(at_ms(number)).len() as u64;
        }
        assert!(sessions.len() <= 1_000 && sessions.bytes() <= 20_000);
    }
    assert!(sessions.len() > 100, "{}", sessions.len());
    settled += sessions.settle(at_ms(last_ms + 1_000)).len() as u64;
    assert_eq!(settled + sessions.dropped(), 1_000_000 + 25_000);
    assert!(sessions.dropped() > 0, "some gave way before they settled");
    taken(&mut sessions, often, seen(b'c', last_ms + 1_000, last_ms + 1_000), last_ms + 1_000);
    let step = &sessions.settle(at_ms(last_ms + 2_000))[0];
    assert_eq!(step.before.len(), SESSION_BEFORE_MAX, "one that is heard of again and again stays");
}

#[test]
fn what_waits_is_bounded() {
    let bounds = SessionBounds { waiting: SESSION_WAITING_MAX + 14, ..SessionBounds::default() };
    let mut sessions = Sessions::new(bounds);
    let mut observe =
        |number, name, now_ms| sessions.observe(session(number), seen(name, 0, 0), at_ms(now_ms));
    let mut count =
        |number| (0..100).filter(|name| observe(number, *name, 0) == ObservationFate::Taken).count();
    assert_eq!((count(1), count(2), count(3)), (SESSION_WAITING_MAX, 14, 0));
    assert_eq!(sessions.settle(at_ms(SESSION_SETTLE_MS)).len(), SESSION_WAITING_MAX + 14);
    let huge = QueryObservation { weight_bytes: usize::MAX, ..seen(1, 0, 0) };
    assert_eq!(sessions.observe(session(9), huge, at_ms(1_000)), ObservationFate::Full);
    let mut none = Sessions::new(SessionBounds { sessions: 0, ..SessionBounds::default() });
    assert_eq!(none.observe(session(1), seen(1, 0, 0), at_ms(0)), ObservationFate::Full);
}

/// A fast session: some of its observations are missing. What comes after the gap follows nothing before it, whether
/// they settle together or not; on either side all is as usual.
#[test]
fn nothing_follows_across_a_gap() {
    for settles_between in [true, false] {
        let mut sessions = Sessions::new(SessionBounds::default());
        taken(&mut sessions, 1, seen(b'a', 100, 110), 200);
        // It began last, and was answered before the other one.
        taken(&mut sessions, 1, seen(b'c', 130, 140), 200);
        taken(&mut sessions, 1, seen(b'b', 120, 125), 200);
        sessions.note_gap(session(1), SENDER);
        let mut all = Vec::new();
        if settles_between {
            all.extend(sessions.settle(at_ms(200 + SESSION_SETTLE_MS)));
        }
        taken(&mut sessions, 1, seen(b'd', 150, 160), 500);
        taken(&mut sessions, 1, seen(b'e', 170, 180), 500);
        all.extend(sessions.settle(at_ms(1_000 + SESSION_SETTLE_MS)));
        let expected = steps(&[('a', ""), ('b', "a"), ('c', "ba"), ('d', ""), ('e', "d")]);
        assert_eq!(shown(&all), expected, "{settles_between}");
        taken(&mut sessions, 1, seen(b'f', 1_500, 1_510), 1_600);
        let next = sessions.settle(at_ms(1_600 + SESSION_SETTLE_MS));
        assert_eq!(shown(&next), steps(&[('f', "ed")]), "the gap stays where it is");
        // Another session of the node has none.
        sessions.note_gap(session(2), SENDER);
    }
}

/// A gap of one node parts what other nodes observed as well.
#[test]
fn a_gap_parts_the_observations_of_other_nodes() {
    let mut sessions = Sessions::new(SessionBounds::default());
    let other = SenderClock { node: OriginTag(2), life: Incarnation(1) };
    taken(&mut sessions, 1, seen(b'a', 100, 110), 200);
    sessions.note_gap(session(1), SENDER);
    taken(
        &mut sessions,
        1,
        QueryObservation { sender: other, began_there: at_ms(7), ..seen(b'b', 150, 160) },
        200,
    );
    taken(&mut sessions, 1, seen(b'c', 200, 210), 300);
    let all = sessions.settle(at_ms(1_000));
    assert_eq!(shown(&all), steps(&[('a', ""), ('b', ""), ('c', "b")]));
}

/// I5: sessions never cross principals or databases. Any bytes are an id.
#[test]
fn keys_are_of_database_and_principal() {
    let hasher = KeyHasher::new(b"secret");
    let scope = |user| PrincipalScope::of(&hasher, "basic", user, None);
    let key = |database, user, id: &[u8]| SessionKey::of(&hasher, database, scope(user), id);
    let keys = [
        key("neo4j", "ann", b"1"),
        key("neo4j", "bob", b"1"),
        key("other", "ann", b"1"),
        key("neo4j", "ann", b"2"),
        key("neo4j", "ann", b""),
        key("neo4j", "ann", &[0xFF; 128]),
    ];
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
    assert_eq!(keys[0], key("Neo4J", "ann", b"1"));
    assert_eq!(keys[0].on_ring().0, keys[0].0);
}

fn sender(node: u64) -> SenderClock {
    SenderClock { node: OriginTag(node), ..SENDER }
}

/// Must show 1 of issue 7: clicks without a pause through different nodes are steps, for any delays of the messages
/// about them. Only differences of a clock count, and a clock that begins anew is another one.
#[test]
fn a_message_is_as_old_as_what_it_took_beyond_the_quickest() {
    let mut clock_offsets = ClockOffsets::new();
    let mut sent_at = |node, reading_us, now_us| {
        clock_offsets.sent_at(sender(node), MonoTime(reading_us), MonoTime(now_us)).0
    };
    assert_eq!(sent_at(1, 1_000, 50_900_000), 50_900_000, "nothing is known of it");
    assert_eq!(sent_at(1, 101_000, 50_999_700), 50_999_700, "quicker than before");
    assert_eq!(sent_at(1, 201_000, 51_108_700), 51_099_700, "9 ms slower");
    assert_eq!(sent_at(2, u64::MAX - 7, 51_200_000), 51_200_000, "a clock that is about to begin anew");
    assert_eq!(sent_at(2, 92, 51_204_100), 51_200_100);
    let stood = 51_204_100 + CLOCK_TRANSIT_MS_MAX * 1_000 + 1_000;
    assert_eq!(sent_at(2, 92, stood), stood, "it stood still");
    // Two clocks that run apart: the old least difference is forgotten.
    let later = stood + 2 * CLOCK_WINDOW_MS * 1_000;
    let drift_us = 4_000;
    assert_eq!(sent_at(2, later - stood + 92 - drift_us, later), later - drift_us);
    let last = later + CLOCK_WINDOW_MS * 1_000;
    assert_eq!(sent_at(2, last - stood + 92 - drift_us, last), last);
    for node in 10..10 + 2 * MEMBERS_MAX as u64 {
        clock_offsets.sent_at(sender(node), MonoTime(0), MonoTime(node));
    }
    assert_eq!(clock_offsets.len(), MEMBERS_MAX);
}

/// A request of a session as it really was, in microseconds: its node, its begin and its end; and the error of its
/// times at the session's owner.
type True = (u64, u64, u64, u64);

/// The steps that are seen if each node's times are off by this much.
fn seen_with_skew(requests: &[True]) -> Vec<Step<u8>> {
    let mut sessions = Sessions::new(SessionBounds::default());
    for (name, (node, began, took, off)) in (0_u8..).zip(requests) {
        let seen = QueryObservation {
            began: MonoTime(1_000_000 + began + off),
            ended: MonoTime(1_000_000 + began + off + took),
            sender: sender(*node),
            began_there: MonoTime(77 + began),
            ..seen(name, 0, 0)
        };
        assert_eq!(sessions.observe(session(1), seen, at_ms(1_000)), ObservationFate::Taken);
    }
    sessions.settle(at_ms(9_000))
}

/// An observation and when it arrives, all in milliseconds.
#[derive(Debug, Clone)]
struct Arrival {
    session: u64,
    seen: QueryObservation<u8>,
    at_ms: u64,
}

prop_compose! {
    fn arrival()(
        session in 0..3_u64, name in 0..6_u8, began_ms in 0..1_500_u64, took_ms in 0..200_u64, late_ms in 0..800_u64,
    ) -> Arrival {
        let seen = seen(name, began_ms, began_ms + took_ms);
        Arrival { session, seen, at_ms: began_ms + took_ms + late_ms }
    }
}

/// The same rules over lists, searched from end to end.
#[derive(Default)]
struct Reference {
    /// With its arrival, and whether it has settled.
    known: BTreeMap<u64, Vec<(QueryObservation<u8>, u64, bool)>>,
}

impl Reference {
    fn place(seen: &QueryObservation<u8>) -> (MonoTime, QueryKey) {
        (seen.began, seen.key)
    }

    fn observe(&mut self, arrival: &Arrival) -> ObservationFate {
        let known = self.known.entry(arrival.session).or_default();
        let place = Self::place(&arrival.seen);
        let settled = known.iter().filter(|(.., is_settled)| *is_settled);
        if known.iter().any(|(seen, ..)| Self::place(seen) == place) {
            return ObservationFate::Repeated;
        }
        if settled.clone().count() == 5 && settled.clone().all(|(seen, ..)| Self::place(seen) > place) {
            return ObservationFate::Late;
        }
        if known.iter().filter(|(.., is_settled)| !is_settled).count() == SESSION_WAITING_MAX {
            return ObservationFate::Full;
        }
        known.push((arrival.seen.clone(), arrival.at_ms, false));
        ObservationFate::Taken
    }

    fn settle(&mut self, now_ms: u64) -> Vec<Step<u8>> {
        let mut steps = Vec::new();
        for (number, known) in &mut self.known {
            known.sort_by_key(|(seen, ..)| Self::place(seen));
            let all = known.clone();
            for (next, came_ms, is_settled) in known.iter_mut().filter(|(.., is_settled)| !is_settled) {
                if *came_ms + SESSION_SETTLE_MS > now_ms {
                    continue;
                }
                *is_settled = true;
                let before = all.iter().rev().map(|(seen, ..)| seen.clone()).filter(|seen| {
                    let gap_us = next.began.0.checked_sub(seen.ended.0);
                    seen.began < next.began && gap_us.is_some_and(|gap_us| gap_us <= 60_000_000)
                });
                steps.push(Step {
                    session: session(*number),
                    before: before.take(5).collect(),
                    next: next.clone(),
                });
            }
            while known.iter().filter(|(.., is_settled)| *is_settled).count() > 5 {
                let oldest = known.iter().position(|(.., is_settled)| *is_settled).unwrap();
                known.remove(oldest);
            }
        }
        steps
    }
}

/// The results of both for the arrivals in this order, settled every 20 ms.
fn run(arrivals: &[Arrival]) -> Vec<Step<u8>> {
    let mut sessions = Sessions::new(SessionBounds::default());
    let mut reference = Reference::default();
    let mut all = Vec::new();
    let mut arrivals = arrivals.iter().peekable();
    for now_ms in (0..4_000).step_by(20) {
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.at_ms <= now_ms) {
            let observed =
                sessions.observe(session(arrival.session), arrival.seen.clone(), at_ms(arrival.at_ms));
            assert_eq!(observed, reference.observe(arrival), "{arrival:?}");
        }
        let steps = sessions.settle(at_ms(now_ms));
        assert_eq!(steps, reference.settle(now_ms));
        all.extend(steps);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same steps as the reference, each observation next once, and no edge between two that overlap.
    #[test]
    fn steps_are_the_references(arrivals in prop::collection::vec(arrival(), 0..80)) {
        let mut arrivals = arrivals;
        arrivals.sort_by_key(|arrival| arrival.at_ms);
        let steps = run(&arrivals);
        let nexts: BTreeSet<_> = steps.iter().map(|step| (step.session, step.next.began, step.next.key)).collect();
        prop_assert_eq!(nexts.len(), steps.len());
        for step in &steps {
            prop_assert!(step.before.iter().all(|before| before.ended <= step.next.began));
            prop_assert!(step.before.is_sorted_by_key(|before| std::cmp::Reverse(before.began)));
        }
    }

    /// Observations that arrive within the time to settle may come in any order.
    #[test]
    fn the_order_of_arrival_does_not_matter(
        one_order in prop::collection::vec(arrival(), 0..16),
        keys in prop::collection::vec(any::<u32>(), 16),
    ) {
        let together = |arrival: &Arrival| Arrival { at_ms: 2_000, ..arrival.clone() };
        let one: Vec<Arrival> = one_order.iter().map(together).collect();
        let mut other: Vec<(u32, Arrival)> = keys.into_iter().zip(one.iter().cloned()).collect();
        other.sort_by_key(|(key, _)| *key);
        let other: Vec<Arrival> = other.into_iter().map(|(_, arrival)| arrival).collect();
        let shown = |steps: Vec<Step<u8>>| -> Vec<_> {
            steps.into_iter().map(|step| {
                let place = |seen: &QueryObservation<u8>| (seen.began, seen.key);
                (step.session, place(&step.next), step.before.iter().map(place).collect::<Vec<_>>())
            }).collect()
        };
        // Of two reports of one observation with different ends, the first arrival counts: leave those out.
        let places: BTreeSet<_> = one.iter().map(|arrival| (arrival.session, arrival.seen.key, arrival.seen.began)).collect();
        prop_assume!(places.len() == one.len());
        prop_assert_eq!(shown(run(&one)), shown(run(&other)));
    }

    /// I13: any times, and any claim of bytes.
    #[test]
    fn any_times_do_no_harm(
        all in prop::collection::vec((0..4_u64, any::<u8>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<usize>()), 0..60),
    ) {
        let mut sessions = Sessions::new(SessionBounds::default());
        let mut counts = (0, 0);
        for (number, name, began, ended, now, weight_bytes) in all {
            let times = (MonoTime(began), MonoTime(ended));
            let seen = QueryObservation { began: times.0, ended: times.1, began_there: times.0, weight_bytes: weight_bytes >> (name % 64), ..seen(name, 0, 0) };
            counts.0 += usize::from(sessions.observe(session(number), seen, MonoTime(now)) == ObservationFate::Taken);
            counts.1 += sessions.settle(MonoTime(now >> 1)).len();
        }
        counts.1 += sessions.settle(MonoTime(u64::MAX)).len();
        prop_assert!(counts.1 as u64 + sessions.dropped() == counts.0 as u64);
        prop_assert!(sessions.bytes() <= SessionBounds::default().bytes);
    }

    /// THEORY "Learning and prefetch", DESIGN "Prefetch": concurrent requests are no steps; a request that really
    /// followed is one. Through one node that is exact. Through different nodes, times are wrong by at most the skew.
    /// Requests sent at once, or with an overlap of more than twice the skew, are never a step. A request that began
    /// more than that after another had ended always is one.
    #[test]
    fn concurrent_requests_make_no_edges_whatever_the_messages_took(
        requests in prop::collection::vec((0..3_u64, 0..60_000_u64, 0..30_000_u64, 0..=SESSION_SKEW_MS * 1_000), 2..6),
        at_once in any::<bool>(),
    ) {
        let mut requests = requests;
        if at_once {
            requests.iter_mut().for_each(|request| request.1 = 5_000);
        }
        let twice_us = 2 * SESSION_SKEW_MS * 1_000;
        let steps = seen_with_skew(&requests);
        for step in &steps {
            let next = requests[usize::from(step.next.query)];
            let before: Vec<u8> = step.before.iter().map(|seen| seen.query).collect();
            for (name, other) in (0_u8..).zip(&requests).filter(|(name, _)| *name != step.next.query) {
                let (began, ended) = (other.1, other.1 + other.2);
                let is_edge = before.contains(&name);
                if other.0 == next.0 {
                    prop_assert_eq!(is_edge, began < next.1 && ended <= next.1, "{:?} {:?}", other, next);
                    continue;
                }
                let is_concurrent = next.1 <= began || ended > next.1 + twice_us;
                prop_assert!(!(is_edge && is_concurrent), "{:?} before {:?}", other, next);
                let has_followed = ended <= next.1 && next.1 > began + twice_us;
                prop_assert!(is_edge || !has_followed, "{:?} not before {:?}", other, next);
            }
        }
        prop_assert_eq!(steps.len(), requests.len());
    }
}
