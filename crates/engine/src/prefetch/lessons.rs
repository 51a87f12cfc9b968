//! Lessons: the owner of a session puts the observations of entry nodes in order, finds the steps between them, and
//! counts which query followed which. `consider` decides which query may come next.
//!
//! Observations come in messages and wait in a bounded queue. One task puts them into their sessions and considers at
//! once which queries may come next. By then the client has had its answer for some milliseconds. Steps are learned
//! when the observations have settled: an entry node reports every 20 ms, so the later one of two requests may arrive
//! here first.

use std::convert::Infallible;
use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::cypher::normal::NormalForm;
use hopcache_core::cypher::pattern::pattern;
use hopcache_core::cypher::shared::Columns;
use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::limits::{
    LESSONS_AT_A_TIME, LESSONS_IN_BATCH_MAX, LESSONS_MAX, PATTERN_TEXT_BYTES_MAX, QUERY_PATTERNS_MAX,
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

use crate::model::ask::Query;
use crate::model::event::ObservationWord;
use crate::model::rendering::RenderingId;
use crate::peers::message::{BadMessage, Observation, Observed};
use crate::prefetch::Prefetch;
use crate::prefetch::anchors::Anchors;
use crate::prefetch::fields::{FieldsByKey, KnownFields, Wanted};

/// An observed query, as its session remembers it: without the asking identity, whose credentials are kept no longer
/// than a request needs them.
#[derive(Debug)]
pub(super) struct ObservedQuery {
    key: QueryKey,
    normal: NormalForm,
    params: Bytes,
    pub(super) pattern: PatternTag,
    pub(super) tag: QueryTag,
    pub(super) realm: RealmTag,
    /// For display; cut to the length that is kept.
    text: String,
    columns: Option<Columns>,
}

impl ObservedQuery {
    fn of(query: &Query, hasher: &KeyHasher) -> Self {
        let mut text = pattern(&query.statement);
        let scope = query.identity.scope;
        let tag = PatternTag::of(hasher, &query.database, scope, &text);
        let realm = RealmTag::of(hasher, &query.database, scope);
        text.truncate(text.floor_char_boundary(PATTERN_TEXT_BYTES_MAX));
        Self {
            key: query.key,
            normal: query.normal.clone(),
            params: query.params.clone(),
            tag: QueryTag::of(hasher, &query.key),
            pattern: tag,
            realm,
            text,
            columns: query.columns().cloned(),
        }
    }

    fn weight_bytes(&self) -> usize {
        // Two texts, and the structs around them.
        self.normal.as_str().len() + self.params.len() + self.text.len() + 512
    }
}

/// An observed request and the identity that made it. Kept until the candidates that follow it are ordered.
pub(super) struct Antecedent {
    pub(super) query: Arc<Query>,
    pub(super) seen: Arc<ObservedQuery>,
    /// The rendering of its answer.
    pub(super) rendering: RenderingId,
    /// Whether its result was new.
    pub(super) is_miss: bool,
}

/// Sessions that this node owns, and their observations.
pub(super) struct Lessons {
    queue: mpsc::Sender<Observation>,
    /// The queue's end, until the task that learns takes it.
    taught: Mutex<Option<mpsc::Receiver<Observation>>>,
    sessions: Mutex<Sessions<Arc<ObservedQuery>>>,
    tellers: Mutex<Tellers>,
    pub(super) anchors: Mutex<Anchors>,
    pub(super) fields: KnownFields,
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
            anchors: Mutex::new(Anchors::new()),
            fields: KnownFields::new(),
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
    /// The session of an observation, if it has one.
    fn session_of(&self, seen: &Observation) -> Option<SessionKey> {
        let (query, tag) = (&seen.query, seen.session?);
        Some(SessionKey::of(&self.hasher, &query.database, query.identity.scope, &tag.0))
    }

    /// The place of an observation on the ring: its session, or its query if it has none.
    pub(super) fn place_of_session(&self, seen: &Observation) -> QueryKey {
        self.session_of(seen).map_or(seen.query.key, |session| session.on_ring())
    }

    /// Takes observations of an entry node. It does not check whether this node owns the sessions: after a change of
    /// the ring the first messages go to the old owner, which learns from them too.
    pub(crate) fn take_observed(&self, observed: &Observed) -> Result<Bytes, BadMessage> {
        if self.policy.is_on {
            let now = self.context.now();
            let sent_at =
                |teller, reading| self.learning.lessons.tellers.lock().sent_at(teller, reading, now);
            self.take_lessons(observed.read(&self.hasher, &self.procedures, sent_at)?);
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
        loop {
            let settling = async {
                let due = self.learning.lessons.sessions.lock().due();
                match due {
                    Some(due) => self.context.sleep(due.since(self.context.now())).await,
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
            self.learn_settled();
        }
    }

    /// Puts observations into their sessions, and considers which queries may follow them.
    fn take_batch(self: &Arc<Self>, batch: Vec<Observation>) {
        if batch.is_empty() {
            return;
        }
        let now = self.context.now();
        let mut antecedents = Vec::with_capacity(batch.len());
        for seen in batch {
            let session = self.session_of(&seen);
            let query = Arc::new(ObservedQuery::of(&seen.query, &self.hasher));
            antecedents.push(Antecedent {
                query: Arc::clone(&seen.query),
                seen: Arc::clone(&query),
                rendering: seen.rendering,
                is_miss: seen.is_miss,
            });
            if let Some(session) = session {
                let seen = Seen {
                    key: query.key,
                    began: seen.began,
                    ended: seen.ended,
                    teller: seen.teller,
                    began_there: seen.began_there,
                    weight_bytes: query.weight_bytes(),
                    query,
                };
                if self.learning.lessons.sessions.lock().observe(session, seen, now)
                    == sessions::Observed::Full
                {
                    self.note_observed(ObservationWord::Refused, 1);
                }
            }
        }
        let Some(permit) = self.batch_permit() else {
            return self.note_observed(ObservationWord::Unconsidered, antecedents.len());
        };
        let prefetch = Arc::clone(self);
        self.context.spawn(async move {
            let _permit = permit;
            prefetch.consider_all(antecedents).await;
        });
    }

    /// Learns the steps that have settled.
    fn learn_settled(self: &Arc<Self>) {
        let steps = self.learning.lessons.sessions.lock().settle(self.context.now());
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
        let before =
            steps.iter().flat_map(|step| step.before.iter().map(|seen| (seen.key, Wanted::Known))).collect();
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
        model.saw(SourceId::Pattern(next.pattern), now);
        model.saw(SourceId::Query(next.tag), now);
        self.learning.lessons.patterns.lock().put(next.tag, next.pattern);
        if model.pattern(next.pattern).is_none() {
            model.define_pattern(next.pattern, &next.text);
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

/// The lessons of a step. The exact query follows the query right before it. Templates follow the nearest query that
/// explains the next one's parameters.
fn learn_from(step: &Step<Arc<ObservedQuery>>, fields: &FieldsByKey) -> Vec<(SourceId, RealmTag, Form)> {
    let Some(adjacent) = step.before.first() else { return Vec::new() };
    let next = &*step.next.query;
    let (statement, params) = (next.normal.as_str(), &next.params[..]);
    let mut learned = Vec::new();
    if let Some(form) = Form::exact(statement, params) {
        learned.push((SourceId::Query(adjacent.query.tag), next.realm, form));
    }
    let named = |seen: &Seen<Arc<ObservedQuery>>| {
        fields.get(&seen.key).map(|fields| fields.named(seen.query.columns.as_deref()))
    };
    let fields: Vec<_> = step.before.iter().map(named).collect();
    let before: Vec<QuerySeen<'_>> = step
        .before
        .iter()
        .zip(&fields)
        .map(|(seen, fields)| QuerySeen {
            statement: seen.query.normal.as_str(),
            params: &seen.query.params,
            fields: fields.as_deref(),
        })
        .collect();
    if let Some(templates) = templates_of(&before, statement, params)
        && let Some(source) = step.before.get(templates.before)
    {
        let source = SourceId::Pattern(source.query.pattern);
        learned.extend(templates.forms.into_iter().map(|form| (source, next.realm, form)));
    }
    learned
}
