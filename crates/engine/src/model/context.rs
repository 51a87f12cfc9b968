//! The context that every room of an engine gets: this node's name and life, its clock, dice and observer, its tasks
//! and its lifecycle.
//!
//! A context decides nothing. It is cheap to clone, and all clones are of the same node.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hopcache_core::node::{Holder, NodeName};
use hopcache_core::time::{Millis, MonoTime};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::model::event::Event;
use crate::model::lifecycle::Lifecycle;
use crate::model::ports::{Clock, Dice, EndedFetch, Observer};
use crate::model::span::scaled;
use crate::model::trace::{Span, Step, Tracer};

/// A larger future is moved once, into a box of its own. An allocation costs less than to move it seven times.
const TASK_INLINE_BYTES_MAX: usize = 512;

/// This node, as its rooms see it.
#[derive(Clone)]
pub struct Context {
    me: Arc<Holder>,
    began: MonoTime,
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    observer: Arc<dyn Observer>,
    tracer: Arc<dyn Tracer>,
    tasks: TaskTracker,
    lifecycle: Lifecycle,
}

impl Context {
    /// The context of a node that starts now.
    #[must_use]
    pub fn new(
        me: Holder,
        (clock, dice): (Arc<dyn Clock>, Arc<dyn Dice>),
        (observer, tracer): (Arc<dyn Observer>, Arc<dyn Tracer>),
    ) -> Self {
        let began = clock.now();
        let (tasks, lifecycle) = (TaskTracker::new(), Lifecycle::default());
        Self { me: Arc::new(me), began, clock, dice, observer, tracer, tasks, lifecycle }
    }

    /// This node and its life.
    #[must_use]
    pub fn me(&self) -> &Holder {
        &self.me
    }

    /// This node's name.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.me.node
    }

    /// How long this life has lasted.
    #[must_use]
    pub fn age_ms(&self) -> Millis {
        self.now().since(self.began)
    }

    /// The monotonic clock.
    #[must_use]
    pub fn now(&self) -> MonoTime {
        self.clock.now()
    }

    /// The clock itself, for callers that keep it without a context.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The observer itself, for callers that keep it without a context.
    #[must_use]
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.observer
    }

    /// Completes after `span`.
    #[must_use]
    pub fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        self.clock.sleep(span)
    }

    /// Reports an event.
    pub fn note(&self, event: Event) {
        self.observer.note(event);
    }

    /// Reports the end of a fetch.
    pub fn fetched(&self, fetch: &EndedFetch<'_>) {
        self.observer.fetched(fetch);
    }

    /// Begins a step of a request. `None` if the request is not traced.
    #[must_use]
    pub fn begin(&self, parent: Option<&str>, step: Step) -> Option<Box<dyn Span>> {
        self.tracer.begin(parent?, step)
    }

    /// Serving or leaving.
    #[must_use]
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// The tasks that this node waits for when it ends.
    #[must_use]
    pub fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Starts a task that this node waits for when it ends.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // tokio moves a task's future some five times before it is first polled, and twice when it ends.
        if size_of::<F>() > TASK_INLINE_BYTES_MAX {
            self.tasks.spawn(Box::pin(task))
        } else {
            self.tasks.spawn(task)
        }
    }

    /// Starts a task that a leaving node drops when it hands its flights on.
    pub(crate) fn spawn_until_handed_on(&self, task: impl Future<Output = ()> + Send + 'static) {
        let lifecycle = self.lifecycle().clone();
        self.spawn(async move {
            tokio::select! {
                biased;
                () = task => {}
                () = lifecycle.flights_handed_on() => {}
            }
        });
    }

    /// 64 random bits.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.dice.u64()
    }

    /// A random number in [0, 1).
    #[must_use]
    pub fn unit(&self) -> f64 {
        // 53 bits fill a double's mantissa exactly.
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let unit = (self.random() >> 11) as f64 / (1_u64 << 53) as f64;
        unit
    }

    /// 128 random bits for a fence token.
    #[must_use]
    pub fn nonce(&self) -> u128 {
        u128::from(self.random()) << 64 | u128::from(self.random())
    }

    /// A wait of 0.5 to 1.5 times `wait_ms`, so that nodes that lost together do not come back together.
    #[must_use]
    pub fn jittered(&self, wait_ms: u64) -> Millis {
        scaled(Millis(wait_ms), 0.5 + self.unit())
    }
}
