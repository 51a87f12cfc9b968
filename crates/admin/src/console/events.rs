//! The stream of snapshots, as server-sent events (WHATWG HTML, 9.2). One task makes a snapshot a second for all
//! streams, and none while no page is open. A page that reads too slowly misses snapshots; none wait for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use hopcache_core::limits::{CONSOLE_EVERY_MS, CONSOLE_STREAMS_MAX};
use serde_json::Value;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// The open streams.
pub(super) struct Events {
    /// The last event; empty while no stream is open.
    latest: watch::Sender<Bytes>,
    seats: Arc<Semaphore>,
    opened: Notify,
    stop: CancellationToken,
}

impl Events {
    pub(super) fn new(stop: CancellationToken) -> Self {
        let seats = Arc::new(Semaphore::new(CONSOLE_STREAMS_MAX));
        Self { latest: watch::Sender::new(Bytes::new()), seats, opened: Notify::new(), stop }
    }

    /// Another stream; `None` if there are as many as there may be.
    pub(super) fn open(
        &self,
    ) -> Option<impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static + use<>> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().ok()?;
        let mut latest = self.latest.subscribe();
        // A page that opens beside others has the last snapshot at once.
        latest.mark_changed();
        self.opened.notify_one();
        let events = stream::unfold((latest, seat), next);
        Some(events.take_until(self.stop.clone().cancelled_owned()))
    }

    /// Makes snapshots while streams are open.
    pub(super) async fn run<F: Future<Output = Value>>(&self, snapshot: impl Fn() -> F) -> Infallible {
        loop {
            self.opened.notified().await;
            while self.latest.receiver_count() > 0 {
                self.latest.send_replace(event(&snapshot().await));
                tokio::time::sleep(Duration::from_millis(CONSOLE_EVERY_MS)).await;
            }
            self.latest.send_replace(Bytes::new());
        }
    }
}

/// An open stream: the events that it reads, and its seat.
type OpenStream = (watch::Receiver<Bytes>, OwnedSemaphorePermit);

async fn next((mut latest, seat): OpenStream) -> Option<(Result<Bytes, Infallible>, OpenStream)> {
    loop {
        latest.changed().await.ok()?;
        let event = latest.borrow_and_update().clone();
        if !event.is_empty() {
            return Some((Ok(event), (latest, seat)));
        }
    }
}

/// The JSON has no line break, so it is one line of data.
fn event(snapshot: &Value) -> Bytes {
    format!("event: snapshot\ndata: {snapshot}\n\n").into()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::json;

    use super::*;

    /// Snapshots are made for open streams only, once for all of them.
    #[tokio::test(start_paused = true)]
    async fn one_snapshot_a_second_is_for_all_streams_and_none_without_one() {
        let events = Arc::new(Events::new(CancellationToken::new()));
        let made = Arc::new(AtomicU32::new(0));
        let counting = Arc::clone(&made);
        let snapshot = move || {
            let number = counting.fetch_add(1, Ordering::Relaxed);
            async move { json!({ "number": number }) }
        };
        let running = Arc::clone(&events);
        let task = tokio::spawn(async move { match running.run(snapshot).await {} });
        tokio::time::sleep(Duration::from_secs(5)).await; // tidy: virtual time
        assert_eq!(made.load(Ordering::Relaxed), 0);
        let streams: Vec<_> = (0..5).map(|_| events.open().unwrap()).collect();
        for stream in streams {
            let mut stream = pin!(stream.take(3));
            assert_eq!(stream.next().await.unwrap().unwrap(), "event: snapshot\ndata: {\"number\":0}\n\n");
        }
        tokio::time::sleep(Duration::from_secs(5)).await; // tidy: virtual time
        assert!(made.load(Ordering::Relaxed) <= 2, "all have left: {made:?}");
        task.abort();
    }

    /// I9, and a node that leaves waits for no page.
    #[tokio::test]
    async fn streams_are_bounded_and_end_with_the_node() {
        let stop = CancellationToken::new();
        let events = Events::new(stop.clone());
        let mut streams: Vec<_> = (0..CONSOLE_STREAMS_MAX).map(|_| events.open().unwrap()).collect();
        assert!(events.open().is_none());
        drop(streams.pop());
        streams.push(events.open().unwrap());
        stop.cancel();
        for stream in streams {
            assert!(pin!(stream).next().await.is_none());
        }
    }
}
