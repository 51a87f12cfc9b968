//! Single flight inside one process, as an application has it: one task works for a key, the others wait for its end.
//! Decides nothing about the work.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::expiry::cache_status::Kind;

type End = watch::Receiver<Option<Kind>>;

/// The keys that somebody works for.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<usize, End>>);

/// The one who works. The key is free again when this is dropped, whether the work ended or was given up.
struct Lead<'a> {
    flights: &'a Flights,
    key: usize,
    end: watch::Sender<Option<Kind>>,
}

enum Seat<'a> {
    Lead(Lead<'a>),
    Follow(End),
}

impl Flights {
    /// The end of the work for a key: one's own, or of who came before.
    pub(super) async fn join(&self, key: usize, work: impl Future<Output = Kind>) -> Kind {
        match self.seat(key) {
            Seat::Lead(lead) => {
                let kind = work.await;
                lead.end.send_replace(Some(kind));
                kind
            }
            // Given up: the leader's client went, and there is no value.
            Seat::Follow(mut end) => match end.wait_for(Option::is_some).await {
                Ok(kind) => kind.unwrap_or(Kind::Failed),
                Err(_) => Kind::Failed,
            },
        }
    }

    fn seat(&self, key: usize) -> Seat<'_> {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = flights.get(&key) {
            return Seat::Follow(end.clone());
        }
        let (end, receiver) = watch::channel(None);
        flights.insert(key, receiver);
        Seat::Lead(Lead { flights: self, key, end })
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.flights.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_leader_that_is_given_up_frees_its_key() {
        let flights = Flights::default();
        let mut leading = Box::pin(flights.join(7, std::future::pending()));
        let nothing_yet =
            tokio::select! { biased; _ = &mut leading => false, () = std::future::ready(()) => true };
        assert!(nothing_yet);
        let mut following = Box::pin(flights.join(7, async { Kind::Fresh }));
        assert!(tokio::select! { biased; _ = &mut following => false, () = std::future::ready(()) => true });
        drop(leading);
        assert_eq!(following.await, Kind::Failed, "it does not wait for ever");
        assert_eq!(flights.join(7, async { Kind::Miss }).await, Kind::Miss, "the next one leads");
    }
}
