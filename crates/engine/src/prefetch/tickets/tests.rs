//! The table's bounds, and two threads that end one ticket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hopcache_core::key::QueryKey;
use hopcache_learning::{FormId, PatternTag, SourceId};

use super::*;
use crate::model::ask::Query;
use crate::model::rendering::RenderingId;

#[derive(Default)]
struct Counts([AtomicUsize; 4]);

impl Observer for Counts {
    fn note(&self, event: Event) {
        let place = match event {
            Event::Prefetch(PrefetchWord::Launched(_)) => 0,
            Event::Prefetch(PrefetchWord::Used(_)) => 1,
            Event::Prefetch(PrefetchWord::Late(_)) => 2,
            Event::Prefetch(PrefetchWord::Wasted(_)) => 3,
            other => panic!("no word of a ticket: {other:?}"),
        };
        self.0[place].fetch_add(1, Ordering::Relaxed);
    }
}

impl Counts {
    fn words(&self) -> [usize; 4] {
        std::array::from_fn(|place| self.0[place].load(Ordering::Relaxed))
    }
}

fn order() -> Order {
    Order {
        query: Arc::new(Query::of_text("RETURN 1")),
        rendering: RenderingId(0),
        source: SourceId::Pattern(PatternTag(1)),
        form: FormId(2),
        kind: CandidateKind::Exact,
        p: 0.5,
        steps_left: 0,
        by: NodeName::new("node-a").unwrap(),
    }
}

fn key(number: usize) -> QueryKey {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_be_bytes());
    QueryKey(key)
}

fn tickets() -> (Arc<Counts>, Arc<Tickets>) {
    let counts = Arc::<Counts>::default();
    (Arc::clone(&counts), Tickets::new(counts))
}

fn launched(tickets: &Arc<Tickets>, number: usize) -> Result<Arc<Ticket>, Skip> {
    (0..4).for_each(|_| tickets.demand_miss(None));
    Ok(tickets.begin(&key(number), 3, None)?.open(&order()))
}

/// I9: no more launches wait to be used than the table holds; each that ends makes room.
#[test]
fn a_full_table_launches_nothing() {
    let (counts, tickets) = tickets();
    let mut held: Vec<_> =
        (0..PREFETCH_TICKETS_MAX).map(|number| launched(&tickets, number).unwrap()).collect();
    assert_eq!(launched(&tickets, held.len()).err(), Some(Skip::Full));
    held.pop();
    held.push(launched(&tickets, held.len()).unwrap());
    drop(held);
    assert_eq!((tickets.pending(), tickets.flying()), (0, 0));
    assert_eq!(counts.words(), [PREFETCH_TICKETS_MAX + 1, 0, 0, PREFETCH_TICKETS_MAX + 1]);
}

/// A permit without a run leaves nothing behind: no token, no flight, no launch.
#[test]
fn a_permit_without_a_run_costs_nothing() {
    let (counts, tickets) = tickets();
    (0..4).for_each(|_| tickets.demand_miss(None));
    let permit = tickets.begin(&key(1), 1, None).unwrap();
    assert_eq!((tickets.tokens(), tickets.flying()), (0, 1));
    assert_eq!(tickets.begin(&key(1), 1, None).err(), Some(Skip::InFlight));
    assert_eq!(tickets.begin(&key(2), 1, None).err(), Some(Skip::OriginBusy));
    tickets.joined(&key(1));
    drop(permit);
    assert_eq!((tickets.tokens(), tickets.flying(), counts.words()), (1, 0, [0; 4]));
}

/// A dead copy's launch is wasted at the next sweep, and not before.
#[test]
fn a_sweep_ends_launches_of_dead_copies() {
    let (counts, tickets) = tickets();
    let (flying, landed) = (launched(&tickets, 1).unwrap(), launched(&tickets, 2).unwrap());
    landed.is_dead_at(MonoTime(1_000));
    tickets.sweep(MonoTime(999));
    assert_eq!(counts.words(), [2, 0, 0, 0]);
    tickets.sweep(MonoTime(1_000));
    assert_eq!(counts.words(), [2, 0, 0, 1]);
    assert!(!landed.settle(Resolution::Used), "it has ended");
    assert!(flying.settle(Resolution::Used));
}

/// A hit, a follower and the memory's housekeeping end one ticket at once: one of them succeeds, and it is counted
/// once.
#[test]
fn the_first_to_settle_ends_it_once() {
    let (counts, tickets) = tickets();
    let mut settled = 0;
    for number in 0..200 {
        let ticket = launched(&tickets, number).unwrap();
        let ways = [Resolution::Used, Resolution::Late, Resolution::Wasted, Resolution::Used];
        settled += std::thread::scope(|scope| {
            let threads: Vec<_> = ways
                .map(|way| {
                    scope.spawn({
                        let ticket = &ticket;
                        move || ticket.settle(way)
                    })
                })
                .into();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>()
        });
    }
    let [all, used, late, wasted] = counts.words();
    assert_eq!((all, settled, used + late + wasted, tickets.pending()), (200, 200, 200, 0));
}
