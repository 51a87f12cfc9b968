//! Lessons: the owner of a session puts the observations of entry nodes in order, finds the steps between them, and
//! counts which query followed which. `consider` decides which query may come next.
//!
//! Observations come in messages and wait in a bounded queue. One task puts them into their sessions. Steps are learned
//! when the observations have settled: entry nodes report in rounds, so the later one of two requests may arrive here
//! first. Observations settle together ([`SESSION_SETTLE_EVERY_MS`]), so that one question to a node asks for the fields
//! of many results.

use std::convert::Infallible;
use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{KeyMaterial, QueryKey};
use hopcache_core::limits::{
    LESSONS_AT_A_TIME, LESSONS_IN_BATCH_MAX, LESSONS_MAX, QUERY_PATTERNS_MAX, SESSION_SETTLE_EVERY_MS,
    SESSIONS_BYTES_MAX, SESSIONS_MAX, SESSIONS_WAITING_MAX,
};
use hopcache_core::time::MonoTime;
use hopcache_learning::form::{Form, RealmTag};
use hopcache_learning::sessions::{self, Seen, SessionBounds, SessionKey, Sessions, Step};
use hopcache_learning::tellers::Tellers;
use hopcache_learning::templates::{QuerySeen, templates_of};
use hopcache_learning::{PatternTag, QueryTag, SourceId, Successors};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::model::event::ObservationWord;
use crate::peers::message::{BadMessage, Observation, Observed, SeenQuery};
use crate::prefetch::Prefetch;
use crate::prefetch::fields::{FieldsByKey, KnownFields};
use crate::prefetch::statements::{Names, ReadStatement, Statements};

/// An observed query, as its session remembers it.
#[derive(Debug)]
pub(super) struct ObservedQuery {
    key: QueryKey,
    statement: Arc<ReadStatement>,
    params: Bytes,
    names: Names,
}

impl ObservedQuery {
    /// Bytes that the session keeps alive: two texts, and the structs around them.
    fn weight_bytes(&self) -> usize {
        let ReadStatement { normal, pattern, .. } = &*self.statement;
        normal.as_str().len() + self.params.len() + pattern.len() + 512
    }
}

/// Sessions that this node owns, and their observations.
pub(super) struct Lessons {
    queue: mpsc::Sender<Observation>,
    /// The queue's end, until the task that learns takes it.
    taught: Mutex<Option<mpsc::Receiver<Observation>>>,
    sessions: Mutex<Sessions<Arc<ObservedQuery>>>,
    tellers: Mutex<Tellers>,
    pub(super) fields: KnownFields,
    pub(super) statements: Statements,
    /// The pattern of each exact query, for display.
    pub(super) patterns: Mutex<LruCache<QueryTag, PatternTag>>,
    /// Batches that wait for other nodes.
    under_way: Arc<Semaphore>,
}

impl Lessons {
    pub(super) fn new() -> Self {
        let (queue, taught) = mpsc::channel(LESSONS_MAX);
        let bounds = SessionBounds {
            sessions: SESSIONS_MAX,
            bytes: SESSIONS_BYTES_MAX,
            waiting: SESSIONS_WAITING_MAX,
        };
        Self {
            queue,
            taught: Mutex::new(Some(taught)),
            sessions: Mutex::new(Sessions::new(bounds)),
            tellers: Mutex::default(),
            fields: KnownFields::new(),
            statements: Statements::new(),
            patterns: Mutex::new(LruCache::new(
                NonZeroUsize::new(QUERY_PATTERNS_MAX).unwrap_or(NonZeroUsize::MIN),
            )),
            under_way: Arc::new(Semaphore::new(LESSONS_AT_A_TIME)),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        LESSONS_MAX - self.queue.capacity()
    }

    pub(super) fn sessions(&self) -> usize {
        self.sessions.lock().len()
    }

    pub(super) fn session_bytes(&self) -> usize {
        self.sessions.lock().bytes()
    }

    pub(super) fn tellers(&self) -> usize {
        self.tellers.lock().len()
    }
}

impl Prefetch {
    /// The session of an observation.
    pub(super) fn session_of(&self, seen: &Observation) -> SessionKey {
        let query = &seen.query;
        SessionKey::of(&self.hasher, &query.database, query.scope, &seen.session.0)
    }

    /// Takes observations of an entry node. It does not check whether this node owns the sessions: after a change of
    /// the ring the first messages go to the old owner, which learns from them too.
    pub(crate) fn take_observed(&self, observed: &Observed) -> Result<Bytes, BadMessage> {
        if self.policy.is_on {
            let now = self.context.now();
            let lessons = &self.learning.lessons;
            let key_of = |query: &SeenQuery| {
                self.hasher.query_key(&KeyMaterial {
                    database: &query.database,
                    scope: query.scope,
                    normal: &lessons.statements.read(&query.statement).normal,
                    params: &query.params,
                })
            };
            let sent_at = |teller, reading| lessons.tellers.lock().sent_at(teller, reading, now);
            self.take_lessons(observed.read(key_of, sent_at)?);
        }
        Ok(Bytes::new())
    }

    pub(super) fn take_lessons(&self, observations: Vec<Observation>) {
        let count = observations.len();
        let queue = &self.learning.lessons.queue;
        let refused = observations.into_iter().filter_map(|seen| queue.try_send(seen).err()).count();
        self.note_observed(ObservationWord::Taken, count - refused);
        self.note_observed(ObservationWord::Refused, refused);
    }

    /// Learns from the sessions that this node owns, for ever. The node spawns it once; a second call does nothing.
    pub async fn learn_lessons(self: &Arc<Self>) -> Infallible {
        let taught = self.learning.lessons.taught.lock().take();
        let Some(mut taught) = taught else { return pending().await };
        let mut settled = MonoTime::default();
        loop {
            let settling = async {
                let due = self.learning.lessons.sessions.lock().due();
                match due {
                    Some(due) => self.context.sleep(settled_from(due).since(self.context.now())).await,
                    None => pending().await,
                }
            };
            let first = tokio::select! {
                biased;
                first = taught.recv() => first,
                () = settling => None,
            };
            let mut batch: Vec<Observation> = first.into_iter().collect();
            while !batch.is_empty()
                && batch.len() < LESSONS_IN_BATCH_MAX
                && let Ok(next) = taught.try_recv()
            {
                batch.push(next);
            }
            self.take_batch(batch);
            let now = self.context.now();
            if settling_at(now) > settled {
                settled = settling_at(now);
                self.learn_settled(now);
            }
        }
    }

    /// Puts observations into their sessions.
    fn take_batch(&self, batch: Vec<Observation>) {
        let now = self.context.now();
        let lessons = &self.learning.lessons;
        let mut refused = 0;
        for seen in batch {
            let session = self.session_of(&seen);
            let query = Arc::new(self.observed_query(&seen.query));
            let seen = Seen {
                key: query.key,
                began: seen.began,
                ended: seen.ended,
                teller: seen.teller,
                began_there: seen.began_there,
                weight_bytes: query.weight_bytes(),
                query,
            };
            let observed = lessons.sessions.lock().observe(session, seen, now);
            refused += usize::from(observed == sessions::Observed::Full);
        }
        self.note_observed(ObservationWord::Refused, refused);
    }

    fn observed_query(&self, query: &SeenQuery) -> ObservedQuery {
        let statement = self.learning.lessons.statements.read(&query.statement);
        let names = statement.names(&self.hasher, &query.key, (&query.database, query.scope));
        ObservedQuery { key: query.key, statement, params: query.params.clone(), names }
    }

    /// Learns the steps that have settled.
    fn learn_settled(self: &Arc<Self>, now: MonoTime) {
        let steps = self.learning.lessons.sessions.lock().settle(now);
        if steps.is_empty() {
            return;
        }
        let Some(permit) = self.batch_permit() else {
            return self.note_observed(ObservationWord::Refused, steps.len());
        };
        let prefetch = Arc::clone(self);
        self.context.spawn(async move {
            let _permit = permit;
            prefetch.learn_all_steps(steps).await;
        });
    }

    /// A permit for a batch. `None` while too many batches wait for other nodes, or when the node ends; then the batch
    /// is skipped.
    fn batch_permit(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.learning.lessons.under_way).try_acquire_owned().ok();
        permit.filter(|_| !self.learning.has_ended())
    }

    async fn learn_all_steps(&self, steps: Vec<Step<Arc<ObservedQuery>>>) {
        let before = steps.iter().flat_map(|step| step.before.iter().map(|seen| seen.key)).collect();
        let fields = self.fields_of(before).await;
        let now = self.context.now();
        let mut learned = 0;
        for step in &steps {
            let step_learned = learn_from(step, &fields);
            learned += usize::from(!step.before.is_empty());
            self.write_down(&step.next.query, &step_learned, now);
        }
        self.note_observed(ObservationWord::Learned, learned);
    }

    /// Counts the lessons of a step, under one lock.
    fn write_down(&self, next: &ObservedQuery, learned: &[(SourceId, RealmTag, Form)], now: MonoTime) {
        let model = &mut *self.learning.model.lock();
        let Names { pattern, query, .. } = next.names;
        model.saw(SourceId::Pattern(pattern), now);
        model.saw(SourceId::Query(query), now);
        self.learning.lessons.patterns.lock().put(query, pattern);
        if model.pattern(pattern).is_none() {
            model.define_pattern(pattern, &next.statement.pattern);
        }
        for (source, realm, form) in learned {
            self.count(model, *source, *realm, form, now);
        }
    }

    fn count(&self, model: &mut Successors, source: SourceId, realm: RealmTag, form: &Form, now: MonoTime) {
        if let (Some(id), Some(definition)) = (form.id(&self.hasher, realm), form.define(realm)) {
            model.count(source, id, now);
            model.define_form(id, &definition);
        }
    }
}

/// The last time to settle, which is a multiple of [`SESSION_SETTLE_EVERY_MS`].
fn settling_at(now: MonoTime) -> MonoTime {
    MonoTime(now.0 - now.0 % (SESSION_SETTLE_EVERY_MS * 1_000))
}

/// The first time to settle that is not before `due`.
fn settled_from(due: MonoTime) -> MonoTime {
    MonoTime(due.0.checked_next_multiple_of(SESSION_SETTLE_EVERY_MS * 1_000).unwrap_or(due.0))
}

/// The lessons of a step. The exact query follows the query right before it. Templates follow the nearest query that
/// explains the next one's parameters.
fn learn_from(step: &Step<Arc<ObservedQuery>>, fields: &FieldsByKey) -> Vec<(SourceId, RealmTag, Form)> {
    let Some(adjacent) = step.before.first() else { return Vec::new() };
    let next = &*step.next.query;
    let (statement, params) = (next.statement.normal.as_str(), &next.params[..]);
    let mut learned = Vec::new();
    if let Some(form) = Form::exact(statement, params) {
        learned.push((SourceId::Query(adjacent.query.names.query), next.names.realm, form));
    }
    let before: Vec<QuerySeen<'_>> = step
        .before
        .iter()
        .map(|seen| QuerySeen {
            statement: seen.query.statement.normal.as_str(),
            params: &seen.query.params,
            fields: fields.get(&seen.key).map(Arc::as_ref),
        })
        .collect();
    if let Some(templates) = templates_of(&before, statement, params)
        && let Some(source) = step.before.get(templates.before)
    {
        let source = SourceId::Pattern(source.query.names.pattern);
        learned.extend(templates.forms.into_iter().map(|form| (source, next.names.realm, form)));
    }
    learned
}
