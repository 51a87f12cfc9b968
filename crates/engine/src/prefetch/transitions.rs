//! Lessons: the owner of a session puts the observations of entry nodes in order, finds the steps between them, and
//! counts which query followed which. The owners of keys consider which query may come next (`consider`).
//!
//! Observations go into their sessions as they come. Steps are learned when the observations have settled, because the
//! later one of two requests may arrive here first. One task learns, in rounds: all steps of a round share one question
//! for fields to each other node.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    CONSIDERED_AT_A_TIME, OBSERVED_OF_SESSION_MAX, QUERY_PATTERNS_MAX, SESSIONS_BYTES_MAX, SESSIONS_MAX,
    SESSIONS_WAITING_MAX, TRANSITIONS_EVERY_MS, TRANSITIONS_IN_BATCH_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_cypher::forms::shared::{Columns, SharedForm};
use hopcache_learning::clock_offsets::{ClockOffsets, SenderClock};
use hopcache_learning::form::{Form, RealmTag};
use hopcache_learning::sessions::{self, QueryObservation, SessionBounds, SessionKey, Sessions, Step};
use hopcache_learning::templates::{EarlierQuery, fields_wanted, templates_of};
use hopcache_learning::{FormId, PatternTag, QueryTag, SourceId, Successors};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::model::event::ObservationWord;
use crate::peers::message::{BadMessage, Observation, ObservationBatch};
use crate::prefetch::Prefetch;
use crate::prefetch::fields::{FieldsByKey, KnownFields};
use crate::prefetch::statements::ReadStatement;

/// An observed query, as its session remembers it.
#[derive(Debug)]
struct SessionQuery {
    tag: QueryTag,
    statement: Arc<ReadStatement>,
    params: Bytes,
}

impl SessionQuery {
    fn normal(&self) -> &str {
        self.statement.read.normal.as_str()
    }

    /// The names of its columns, if its answer may come from another spelling.
    fn columns(&self) -> Option<&Columns> {
        self.statement.read.shared.as_ref().map(SharedForm::columns)
    }

    fn weight_bytes(&self) -> usize {
        // As if no other query shared the two texts; and the structs around them.
        self.normal().len() + self.params.len() + self.statement.text.len() + 512
    }
}

/// Sessions that this node owns, and their observations.
pub(super) struct TransitionLearning {
    sessions: Mutex<Sessions<Arc<SessionQuery>>>,
    /// Woken when a session got an observation.
    taught: Notify,
    clock_offsets: Mutex<ClockOffsets>,
    pub(super) fields: KnownFields,
    /// The pattern of each exact query, for display.
    pub(super) patterns: Mutex<LruCache<QueryTag, PatternTag>>,
}

impl TransitionLearning {
    pub(super) fn new() -> Self {
        let bounds = SessionBounds {
            sessions: SESSIONS_MAX,
            bytes: SESSIONS_BYTES_MAX,
            waiting: SESSIONS_WAITING_MAX,
        };
        Self {
            sessions: Mutex::new(Sessions::new(bounds)),
            taught: Notify::new(),
            clock_offsets: Mutex::default(),
            fields: KnownFields::new(),
            patterns: Mutex::new(LruCache::new(
                NonZeroUsize::new(QUERY_PATTERNS_MAX).unwrap_or(NonZeroUsize::MIN),
            )),
        }
    }

    /// Observations that wait to settle.
    pub(super) fn waiting(&self) -> usize {
        self.sessions.lock().waiting()
    }

    pub(super) fn sessions(&self) -> usize {
        self.sessions.lock().len()
    }

    pub(super) fn session_bytes(&self) -> usize {
        self.sessions.lock().bytes()
    }

    pub(super) fn clock_offsets(&self) -> usize {
        self.clock_offsets.lock().len()
    }
}

impl Prefetch {
    /// Takes observations of an entry node. It does not check whether this node owns the sessions: after a change of
    /// the ring the first messages go to the old owner, which learns from them too.
    pub(crate) fn take_observed(&self, observed: ObservationBatch) -> Result<(), BadMessage> {
        if self.policy.now().prefetch.is_on {
            let now = self.context.now();
            let sent_at = |sender, reading| {
                self.learning.transitions.clock_offsets.lock().sent_at(sender, reading, now)
            };
            self.take_observations(observed.read(sent_at)?);
        }
        Ok(())
    }

    /// Puts observations into their sessions: those of one message, which are of one round.
    ///
    /// A session with as many as an entry node keeps of one round has asked more, or exactly as many. There is a gap
    /// after them, as after an observation without room. A round in two messages may hide its gap.
    pub(super) fn take_observations(&self, observations: Vec<Observation>) {
        let (now, count) = (self.context.now(), observations.len());
        let transitions = &self.learning.transitions;
        let mut refused = 0;
        let mut of_session: HashMap<(SessionKey, SenderClock), usize> = HashMap::new();
        for seen in observations {
            let whose = (seen.session, seen.sender);
            let seen = self.in_session(seen);
            let fate = transitions.sessions.lock().observe(whose.0, seen, now);
            let is_full = fate == sessions::ObservationFate::Full;
            refused += usize::from(is_full);
            *of_session.entry(whose).or_default() += if is_full { OBSERVED_OF_SESSION_MAX } else { 1 };
        }
        of_session.retain(|_, seen| *seen >= OBSERVED_OF_SESSION_MAX);
        for (session, sender) in of_session.into_keys() {
            transitions.sessions.lock().note_gap(session, sender);
        }
        self.note_observed(ObservationWord::Taken, count - refused);
        self.note_observed(ObservationWord::Refused, refused);
        transitions.taught.notify_one();
    }

    fn in_session(&self, seen: Observation) -> QueryObservation<Arc<SessionQuery>> {
        let Observation { query, began, ended, sender, began_there, .. } = seen;
        let whose = (&query.database, query.scope);
        let policy = self.policy.now();
        let lexicon = (&self.hasher, &policy.allowed);
        let statement = self.learning.statements.read(whose, &query.statement, lexicon);
        let tag = QueryTag::of(&self.hasher, &query.key);
        let (key, params) = (query.key, query.params.clone());
        let query = Arc::new(SessionQuery { tag, statement, params });
        QueryObservation { key, began, ended, sender, began_there, weight_bytes: query.weight_bytes(), query }
    }

    /// Learns from the sessions that this node owns, for ever.
    pub(super) async fn learn_for_ever(&self) -> Infallible {
        let transitions = &self.learning.transitions;
        let mut next_round = MonoTime::default();
        loop {
            let due = transitions.sessions.lock().due().map(|due| due.max(next_round));
            let settled = async {
                match due {
                    Some(due) => self.context.sleep(due.since(self.context.now())).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = settled => {
                    next_round = self.context.now() + Millis(TRANSITIONS_EVERY_MS);
                    self.learn_settled().await;
                }
                () = transitions.taught.notified() => {}
            }
        }
    }

    /// Learns the steps that have settled.
    async fn learn_settled(&self) {
        let steps = self.learning.transitions.sessions.lock().settle(self.context.now());
        for steps in steps.chunks(TRANSITIONS_IN_BATCH_MAX) {
            if self.learning.has_ended() {
                return;
            }
            self.learn_all_steps(steps).await;
        }
    }

    async fn learn_all_steps(&self, steps: &[Step<Arc<SessionQuery>>]) {
        let fields = self.fields_of(steps.iter().flat_map(keys_wanted).collect()).await;
        let now = self.context.now();
        let mut learned = 0;
        for (place, step) in steps.iter().enumerate() {
            if place % CONSIDERED_AT_A_TIME == 0 {
                yield_now().await;
            }
            let step_learned = learn_from(step, &fields);
            learned += usize::from(!step.before.is_empty());
            self.write_down(&step.next.query, &step_learned, now);
        }
        self.note_observed(ObservationWord::Learned, learned);
    }

    /// Counts the lessons of a step, under one lock.
    fn write_down(&self, next: &SessionQuery, learned: &[(SourceId, RealmTag, Form)], now: MonoTime) {
        let model = &mut *self.learning.model.lock();
        let pattern = next.statement.pattern;
        model.saw(SourceId::Pattern(pattern), now);
        model.saw(SourceId::Query(next.tag), now);
        self.learning.transitions.patterns.lock().put(next.tag, pattern);
        if model.pattern(pattern).is_none() {
            model.define_pattern(pattern, &next.statement.text);
        }
        for (source, realm, form) in learned {
            self.count(model, *source, *realm, form, now);
        }
    }

    fn count(&self, model: &mut Successors, source: SourceId, realm: RealmTag, form: &Form, now: MonoTime) {
        if let Some(definition) = form.define(realm) {
            let id = FormId::of(&self.hasher, &definition);
            model.count(source, id, now);
            model.define_form(id, &definition);
        }
    }
}

/// The keys of the earlier queries of a step whose fields may explain the next one.
fn keys_wanted(step: &Step<Arc<SessionQuery>>) -> Vec<QueryKey> {
    let before: Vec<EarlierQuery<'_>> = step.before.iter().map(|seen| seen_without_fields(seen)).collect();
    let next = &step.next.query;
    let wanted = fields_wanted(&before, next.normal(), &next.params);
    step.before.iter().take(wanted).map(|seen| seen.key).collect()
}

fn seen_without_fields(seen: &QueryObservation<Arc<SessionQuery>>) -> EarlierQuery<'_> {
    EarlierQuery { statement: seen.query.normal(), params: &seen.query.params, fields: None }
}

/// The lessons of a step. The exact query follows the query right before it. Templates follow the nearest query that
/// explains the next one's parameters.
fn learn_from(step: &Step<Arc<SessionQuery>>, fields: &FieldsByKey) -> Vec<(SourceId, RealmTag, Form)> {
    let Some(adjacent) = step.before.first() else { return Vec::new() };
    let next = &*step.next.query;
    let (statement, params) = (next.normal(), &next.params[..]);
    let realm = next.statement.realm;
    let mut learned = Vec::new();
    if let Some(form) = Form::exact(statement, params) {
        learned.push((SourceId::Query(adjacent.query.tag), realm, form));
    }
    let named = |seen: &QueryObservation<Arc<SessionQuery>>| {
        fields.get(&seen.key).map(|fields| fields.named(seen.query.columns().map(Arc::as_ref)))
    };
    let fields: Vec<_> = step.before.iter().map(named).collect();
    let before: Vec<EarlierQuery<'_>> = step
        .before
        .iter()
        .zip(&fields)
        .map(|(seen, fields)| EarlierQuery { fields: fields.as_deref(), ..seen_without_fields(seen) })
        .collect();
    if let Some(templates) = templates_of(&before, statement, params)
        && let Some(source) = step.before.get(templates.before)
    {
        let source = SourceId::Pattern(source.query.statement.pattern);
        learned.extend(templates.forms.into_iter().map(|form| (source, realm, form)));
    }
    learned
}
