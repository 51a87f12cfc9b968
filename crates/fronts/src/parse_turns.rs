//! Bounds the CPU for reading large requests, over HTTP and Bolt: JSON, PackStream, the walk over the statement, the key
//! (F45).
//!
//! A large request is read where no other task waits for it: a few at a time, in turns by principal. So the requests of
//! one client take only a part of the cores, and never an async worker from another client's hits. A small request does
//! not wait. This file reads nothing itself.

use std::thread::available_parallelism;
use std::time::Duration;

use hopcache_core::limits::{
    PARSE_INLINE_BYTES_MAX, PARSE_WAIT_MS_MAX, PARSES_MAX, PARSES_WAITING_MAX,
    PARSES_WAITING_PER_PRINCIPAL_MAX,
};
use hopcache_core::turns::TurnBounds;
use hopcache_engine::worker::in_place_if_large;
use hopcache_net::crowding::{CrowdedOut, Principal};
use hopcache_slots::{NoSlot, Slots};
use tokio::time::Instant;

/// The turns of a node: all its fronts share them.
pub(crate) struct ParseTurns {
    slots: Slots<Principal>,
}

impl ParseTurns {
    /// All turns are free. At most half of the cores read at a time.
    pub(crate) fn new() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        let bounds = TurnBounds {
            slots: (cores / 2).clamp(1, PARSES_MAX),
            waiting_per_principal: PARSES_WAITING_PER_PRINCIPAL_MAX,
            waiting: PARSES_WAITING_MAX,
        };
        Self { slots: Slots::new(bounds) }
    }

    /// Reads a request of this many bytes by `read`. A large request waits for its principal's turn.
    ///
    /// # Errors
    /// [`CrowdedOut`], when too many requests wait, or this one has waited for too long. Nothing was read then.
    pub(crate) async fn read<T>(
        &self,
        bytes: usize,
        whose: &Principal,
        read: impl FnOnce() -> T,
    ) -> Result<T, CrowdedOut> {
        if bytes <= PARSE_INLINE_BYTES_MAX {
            return Ok(read());
        }
        let deadline = Instant::now() + Duration::from_millis(PARSE_WAIT_MS_MAX);
        let _turn = self.slots.take(whose, deadline).await.map_err(crowded_out)?;
        Ok(in_place_if_large(bytes, PARSE_INLINE_BYTES_MAX, read))
    }
}

/// A client's own requests are in the way, or those of all.
fn crowded_out(why: NoSlot) -> CrowdedOut {
    match why {
        NoSlot::PrincipalFull => CrowdedOut::BY_OWN_WAITING,
        NoSlot::Full | NoSlot::Late => CrowdedOut::BY_ALL_WAITING,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    use tokio::task::JoinHandle;

    use super::*;

    const LARGE: usize = PARSE_INLINE_BYTES_MAX + 1;

    /// A body whose reading lasts until the test ends it.
    fn held(turns: &Arc<ParseTurns>, whose: u8, until: Receiver<()>) -> JoinHandle<Result<u8, CrowdedOut>> {
        let turns = Arc::clone(turns);
        tokio::spawn(async move {
            let read = move || {
                let _ = until.recv();
                whose
            };
            turns.read(LARGE, &[whose; 32], read).await
        })
    }

    fn one_at_a_time() -> Arc<ParseTurns> {
        let bounds = TurnBounds { slots: 1, waiting_per_principal: 2, waiting: 3 };
        Arc::new(ParseTurns { slots: Slots::new(bounds) })
    }

    async fn until_waiting(turns: &ParseTurns, bodies: usize) {
        while turns.slots.running() < 1 || turns.slots.waiting() < bodies {
            tokio::task::yield_now().await;
        }
    }

    /// F45: on a single worker another task goes on while a large body is read, and small bodies do not wait.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_large_body_keeps_no_worker() {
        let (turns, (end, until)) = (one_at_a_time(), channel());
        let large = held(&turns, 1, until);
        until_waiting(&turns, 0).await;
        let (beside, small) = (Arc::clone(&turns), tokio::spawn(async { 7 }));
        assert_eq!(small.await.unwrap(), 7, "another task of the only worker");
        let small = beside.read(LARGE - 1, &[1; 32], || 8).await;
        assert_eq!(small.unwrap(), 8, "a small body of the same principal");
        end.send(()).unwrap();
        assert_eq!(large.await.unwrap().unwrap(), 1);
    }

    /// F45: principals take turns, and the queue of one principal is bounded.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn principals_take_turns_and_one_may_not_queue_more_than_its_part() {
        let turns = one_at_a_time();
        let (ends, bodies): (Vec<_>, Vec<_>) = [1, 1, 1, 2]
            .into_iter()
            .enumerate()
            .map(|(at, whose)| {
                let (end, until) = channel();
                (end, (at, whose, until))
            })
            .unzip();
        let mut reads = Vec::new();
        for (at, whose, until) in bodies {
            reads.push(held(&turns, whose, until));
            until_waiting(&turns, at).await;
        }
        let crowded = turns.read(LARGE, &[1; 32], || 1).await;
        assert_eq!(crowded, Err(CrowdedOut::BY_OWN_WAITING));
        let full = turns.read(LARGE, &[3; 32], || 3).await;
        assert_eq!(full, Err(CrowdedOut::BY_ALL_WAITING));
        // The first principal's first body is being read, its next two wait, and so does the other principal's.
        for end in [&ends[0], &ends[1], &ends[3]] {
            end.send(()).unwrap();
        }
        let other = reads.pop().unwrap();
        assert_eq!(other.await.unwrap().unwrap(), 2, "before the third body of the first");
        assert!(!reads[2].is_finished());
        ends[2].send(()).unwrap();
        for read in reads {
            assert_eq!(read.await.unwrap().unwrap(), 1);
        }
    }
}
