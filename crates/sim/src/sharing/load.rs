//! Sessions that walk round a ring of patterns, and the lessons of each click, made with core's own normal form, tags,
//! forms and templates. Decides which node learns which lesson when. Does not decide how a node keeps it.
//!
//! A session's owner learns a click when the click has settled. There are no results: no result of that benchmark has a
//! value that is asked for next.

use std::collections::VecDeque;
use std::rc::Rc;

use hopcache_core::key::{KeyForm, KeyHasher, KeyMaterial, PrincipalScope};
use hopcache_core::limits::{SESSION_BEFORE_MAX, SESSION_SETTLE_MS};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_cypher::forms::normal::NormalForm;
use hopcache_cypher::forms::pattern::pattern;
use hopcache_engine::ports::Dice;
use hopcache_learning::form::{Form, RealmTag};
use hopcache_learning::templates::{QuerySeen, templates_of};
use hopcache_learning::{FormId, PatternTag, QueryTag, SourceId, Successors};
use hopcache_packstream::{Value, encode_canonical};

use super::setting::Setting;
use crate::world::dice::SimDice;

/// Clicks of a session.
const CLICKS: usize = 4;
/// Between two of them.
const PAUSE_MS: u64 = 250;
/// Things that each pattern is asked about.
const THINGS: usize = 50;
const DATABASE: &str = "neo4j";

/// A query as learning knows it.
#[derive(Debug)]
pub(super) struct Asked {
    statement: NormalForm,
    params: Vec<u8>,
    text: String,
    pub(super) pattern: PatternTag,
    tag: QueryTag,
}

/// A click that has settled.
pub(super) struct Lesson {
    pub(super) at: Millis,
    /// The session's owner.
    pub(super) node: usize,
    /// The session's queries before it, nearest first.
    before: Vec<Rc<Asked>>,
    next: Rc<Asked>,
}

/// The coming lessons, and the cluster's secret.
pub(super) struct Load {
    pub(super) hasher: KeyHasher,
    realm: RealmTag,
    scope: PrincipalScope,
    dice: SimDice,
    waiting: Vec<Lesson>,
}

impl Load {
    pub(super) fn new(seed: u64) -> Self {
        let hasher = KeyHasher::new(b"sharing");
        let scope = PrincipalScope::of(&hasher, "basic", "neo4j", None);
        let realm = RealmTag::of(&hasher, DATABASE, scope);
        Self { hasher, realm, scope, dice: SimDice::new(seed ^ 0x10ad), waiting: Vec::new() }
    }

    /// Sessions that begin in this time, as a Poisson process.
    pub(super) fn walk(&mut self, setting: &Setting, from: Millis, to: Millis) {
        let patterns = setting.patterns.max(2);
        let mut at_ms = 0.0;
        loop {
            // 53 bits of (0, 1]: its logarithm is finite.
            #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
            let unit = ((self.dice.u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            at_ms += -unit.ln() * 1_000.0 / f64::from(setting.sessions_per_s);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some minutes")]
            let at = Millis(from.0 + at_ms as u64);
            if at >= to {
                return;
            }
            let (first, thing) = (self.dice.index(patterns), self.dice.index(THINGS));
            let clicks: Vec<_> = (0..CLICKS)
                .map(|click| self.asked(&format!("Ring{}", (first + click) % patterns), thing))
                .collect();
            let node = self.dice.index(setting.nodes);
            self.session(node, at, clicks);
        }
    }

    /// One session, its first click at that time, all of it learned by that node.
    pub(super) fn session(&mut self, node: usize, at: Millis, clicks: Vec<Rc<Asked>>) {
        let mut before: VecDeque<Rc<Asked>> = VecDeque::new();
        for (click, next) in clicks.into_iter().enumerate() {
            let at = Millis(at.0 + click as u64 * PAUSE_MS + SESSION_SETTLE_MS);
            let lesson =
                Lesson { at, node, before: before.iter().cloned().collect(), next: Rc::clone(&next) };
            self.waiting.push(lesson);
            before.push_front(next);
            before.truncate(SESSION_BEFORE_MAX);
        }
    }

    pub(super) fn asked(&self, label: &str, thing: usize) -> Rc<Asked> {
        let statement = format!("MATCH (n:{label} {{id: $id}}) RETURN n.text AS benched");
        let id = Value::Int(i64::try_from(thing).unwrap_or(i64::MAX));
        let params = encode_canonical(&Value::Map(vec![("id".to_owned(), id)]));
        let (normal, text) = (NormalForm::of(&statement), pattern(&statement));
        let material = KeyMaterial {
            database: DATABASE,
            scope: self.scope,
            form: KeyForm::Normal(normal.as_str()),
            params: &params,
        };
        let tag = QueryTag::of(&self.hasher, &self.hasher.query_key(&material));
        let pattern = PatternTag::of(&self.hasher, DATABASE, self.scope, &text);
        Rc::new(Asked { statement: normal, params, text, pattern, tag })
    }

    /// The likeliest template by which `next` follows `before`.
    pub(super) fn template(&self, before: &Asked, next: &Asked) -> Option<FormId> {
        let learned = templates_of(&[before.seen()], next.statement.as_str(), &next.params)?;
        learned.forms.first()?.id(&self.hasher, self.realm)
    }

    /// Lessons in the order in which they are learned: `pop` gives the next one.
    pub(super) fn ready(&mut self) {
        // A stable sort: lessons of the same moment stay in the order of the plan.
        self.waiting.sort_by_key(|lesson| std::cmp::Reverse(lesson.at));
    }

    pub(super) fn due(&mut self, now: Millis) -> Option<Lesson> {
        self.waiting.pop_if(|lesson| lesson.at <= now)
    }

    /// Writes down a click's lessons, as the session's owner does (`engine/src/prefetch/lessons.rs`).
    pub(super) fn write_down(&self, lesson: &Lesson, model: &mut Successors, now: MonoTime) {
        let next = &*lesson.next;
        model.saw(SourceId::Pattern(next.pattern), now);
        model.saw(SourceId::Query(next.tag), now);
        if model.pattern(next.pattern).is_none() {
            model.define_pattern(next.pattern, &next.text);
        }
        let Some(adjacent) = lesson.before.first() else { return };
        if let Some(form) = Form::exact(next.statement.as_str(), &next.params) {
            self.count(model, SourceId::Query(adjacent.tag), &form, now);
        }
        let before: Vec<QuerySeen<'_>> = lesson.before.iter().map(|asked| asked.seen()).collect();
        if let Some(learned) = templates_of(&before, next.statement.as_str(), &next.params)
            && let Some(source) = lesson.before.get(learned.before)
        {
            let source = SourceId::Pattern(source.pattern);
            learned.forms.iter().for_each(|form| self.count(model, source, form, now));
        }
    }

    fn count(&self, model: &mut Successors, source: SourceId, form: &Form, now: MonoTime) {
        if let (Some(id), Some(definition)) = (form.id(&self.hasher, self.realm), form.define(self.realm)) {
            model.count(source, id, now);
            model.define_form(id, &definition);
        }
    }
}

impl Asked {
    fn seen(&self) -> QuerySeen<'_> {
        QuerySeen { statement: self.statement.as_str(), params: &self.params, fields: None }
    }
}
