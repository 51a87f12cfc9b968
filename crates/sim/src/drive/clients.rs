//! Clients of a simulated cluster: decides which query a client sends to which node, how long it waits, and when it
//! leaves.

use std::future::Future;
use std::sync::Arc;

use hopcache_core::time::Millis;
use hopcache_engine::ask::{Ask, Freshness, RequestBypass, SessionTag};
use hopcache_engine::outcome::{Answer, Outcome};
use hopcache_packstream::Value;
use hopcache_queryapi::render::{Counters, Encoding, ResponseForm, Times};
use tokio::sync::oneshot;

use crate::check::record::{KeyId, Record, ServedAnswer, Want, What};
use crate::drive::cluster::Cluster;
use crate::drive::profile::{Kind, TTL_MS, WAIT_MS_MAX};
use crate::world::listeners::ListenerKind;
use crate::world::node_handle::NodeHandle;
use crate::world::origin::{bookmark, report_in};
use crate::world::process::Power;
use crate::world::query_api_renderer::rendering_of;
use crate::world::subject::{DATABASES, PRINCIPALS, Subject, trace_of_ask};

/// Clients of a run on one subject.
const HOT_CLIENTS: u64 = 64;
/// Time until the next client of the run.
const HOT_EVERY_MS: u64 = 40;

/// Of so many usual requests one has the bookmark of the newest version.
const AFTER_EVERY: u32 = 4;

/// Sessions of a world.
const SESSIONS: u64 = 6;
/// Requests of a walk beyond two.
const STEPS_MAX: usize = 4;
/// Longest time between an answer and the next request of a walk. Some requests come before their prefetch has ended,
/// and some after the prefetched value has expired.
const THINK_MS_MAX: u64 = 1_500;

/// A client of a node.
pub(crate) struct Client {
    pub(crate) number: u32,
    handle: NodeHandle,
    record: Arc<Record>,
    pub(crate) ask: Ask,
    subject: Subject,
    key: KeyId,
    pub(crate) want: Want,
    wait_max: Millis,
    by_hit: bool,
}

impl Client {
    /// Asks its node. The node answers, refuses the connection, or dies without an answer.
    pub(crate) async fn ask(self) -> Option<Outcome> {
        let Self { number, handle, record, ask, subject, key, want, wait_max, by_hit } = self;
        // A stopped process takes the request when it goes on.
        handle.process.on().await;
        // Refused: the client goes elsewhere.
        let _connection = handle.listeners.enter(ListenerKind::Client)?;
        let node = handle.life.node;
        record.note(What::Asked { ask: number, node, subject: subject.place(), key, want, wait_max });
        let came = crate::world::clock::sim_now() + handle.apart;
        let ask = Ask { deadline: came + wait_max, ..ask };
        let is_usual = matches!(want, Want::Plain | Want::ToWrite);
        let hit = if by_hit && is_usual { handle.engine.path().hit(&ask) } else { None };
        // The clients left between the look at the ring and the answer.
        let is_near = hit.is_some() && !owns(&handle, &ask);
        let outcome = match hit {
            Some(outcome) => outcome,
            None => handle.engine.path().answer(&ask).await,
        };
        handle.process.on().await;
        record.cover_with(|coverage| coverage.outcome(&outcome));
        record.note(What::Answered { ask: number, served: served(&outcome, is_near) });
        // As a node's front does it.
        handle.engine.path().note_answered(&ask, &outcome, came);
        Some(outcome)
    }
}

impl Cluster {
    /// One client, or several at once with the same query on different nodes. Sometimes many clients ask one subject
    /// for long enough to give it a history, near copies and a refresh plan.
    pub(crate) fn ask_some(&mut self) {
        if self.profile.learns() && self.dice.chance(500) {
            return self.walk();
        }
        let subject = self.profile.subjects[self.dice.index(self.profile.subjects.len())];
        if self.dice.chance(20) {
            for client in 0..HOT_CLIENTS {
                let node = self.any_node();
                self.ask_after(client * HOT_EVERY_MS, node, subject, true);
            }
            return;
        }
        let clients = if self.dice.chance(300) { self.dice.between(2, 5) } else { 1 };
        for _ in 0..clients {
            let node = self.any_node();
            self.ask(node, subject, false);
        }
    }

    /// Asks every usual subject at these nodes, without hurry.
    pub(crate) fn ask_everything(&mut self, nodes: &[usize]) {
        for node in nodes.iter().copied() {
            for subject in self.profile.subjects.clone() {
                self.ask(node, subject, true);
            }
        }
    }

    /// Asks the usual subjects in turn, and the nodes in turn, as evenly as possible. So the hit ratio depends only on
    /// the cluster. Returns whether there is a subject to ask.
    pub(crate) fn ask_evenly(&mut self, turn: usize, nodes: &[usize]) -> bool {
        let usual: Vec<Subject> =
            self.profile.subjects.iter().copied().filter(|subject| subject.is_usual()).collect();
        let (Some(node), false) = (nodes.get(turn % nodes.len().max(1)), usual.is_empty()) else {
            return false;
        };
        let subject = usual[turn / nodes.len() % usual.len()];
        self.ask(*node, subject, true);
        true
    }

    fn ask(&mut self, node: usize, subject: Subject, is_plain: bool) {
        self.ask_after(0, node, subject, is_plain);
    }

    fn ask_after(&mut self, after_ms: u64, node: usize, subject: Subject, is_plain: bool) {
        let Some(client) = self.client(node, subject, is_plain) else { return };
        self.begin(client.number, node, async move {
            if after_ms > 0 {
                tokio::time::sleep(Millis(after_ms).duration()).await;
            }
            client.ask().await;
        });
    }

    /// One session asks subjects in turn, mostly in the order of its principal's other sessions, at changing nodes. Its
    /// client may leave at any request; then the session ends.
    fn walk(&mut self) {
        let first = self.profile.subjects[self.dice.index(self.profile.subjects.len())];
        let is_near = |to: &Subject| (to.principal, to.database) == (first.principal, first.database);
        let route: Vec<Subject> = self.profile.subjects.iter().copied().filter(is_near).collect();
        let begin = route.iter().position(|subject| *subject == first).unwrap_or(0);
        let session = SessionTag([u8::try_from(self.dice.below(SESSIONS)).unwrap_or(0); 16]);
        let mut before: Option<oneshot::Receiver<()>> = None;
        for step in 0..self.dice.index(STEPS_MAX) + 2 {
            let place = if self.dice.chance(150) { self.dice.index(route.len()) } else { begin + step };
            let (node, think_ms) = (self.any_node(), self.dice.between(20, THINK_MS_MAX));
            let Some(mut client) = self.client(node, route[place % route.len()], false) else { continue };
            client.ask.session = Some(session);
            let (done, next) = oneshot::channel();
            let after = before.replace(next);
            self.begin(client.number, node, async move {
                if let Some(after) = after {
                    if after.await.is_err() {
                        return;
                    }
                    tokio::time::sleep(Millis(think_ms).duration()).await;
                }
                client.ask().await;
                let _ = done.send(());
            });
        }
    }

    fn begin(&mut self, number: u32, node: usize, asks: impl Future<Output = ()> + Send + 'static) {
        let client = tokio::spawn(asks);
        let life = self.world.nodes[node].life;
        self.clients.retain(|(.., client)| !client.is_finished());
        self.clients.push((number, life, client.abort_handle()));
    }

    /// A client of a node, unless that is dead.
    pub(crate) fn client(&mut self, node: usize, subject: Subject, is_plain: bool) -> Option<Client> {
        let handle = self.world.nodes[node].clone();
        if handle.process.power() == Power::Off {
            return None;
        }
        self.asks += 1;
        let number = self.asks;
        let want = if is_plain || !self.profile.has(Kind::Clients) { Want::Plain } else { self.want() };
        let wait_max = match self.dice.below(10) {
            0 if !is_plain && self.profile.has(Kind::Clients) => Millis(self.dice.between(20, 400)),
            _ => Millis(WAIT_MS_MAX),
        };
        if wait_max < Millis(WAIT_MS_MAX) {
            self.world.record.cover("client impatient");
        }
        let mut ask = self.ask_of(number, subject, want);
        let is_after = want == Want::Plain
            && !is_plain
            && self.profile.is_living
            && self.profile.has(Kind::Clients)
            && number.is_multiple_of(AFTER_EVERY);
        let version = self.world.origin.version();
        let want = if is_after { Want::After(version) } else { want };
        if is_after {
            self.world.record.cover("client with a bookmark");
            ask.bookmarks = bookmark(version.into());
        }
        let record = Arc::clone(&self.world.record);
        let key = record.key(&ask.query.key);
        let by_hit = self.dice.chance(500);
        Some(Client { number, handle, record, ask, subject, key, want, wait_max, by_hit })
    }

    fn want(&self) -> Want {
        match self.dice.below(20) {
            0 => Want::Anew,
            1 | 2 => Want::NoOlder(Millis(self.dice.between(1, TTL_MS))),
            3 => Want::Fresh,
            4 => Want::OnlyCached,
            5 => Want::Bypass,
            _ => Want::Plain,
        }
    }

    pub(crate) fn ask_of(&self, number: u32, subject: Subject, want: Want) -> Ask {
        let (database, user) = (DATABASES[subject.database], PRINCIPALS[subject.principal]);
        let statement = self.profile.statement_of(subject);
        let mut ask = if self.profile.is_living {
            self.world.ask_with(self.params(), (database, statement, user))
        } else {
            self.world.ask_in(database, statement, user)
        };
        let encoding = if self.dice.chance(200) { Encoding::Typed } else { Encoding::Plain };
        ask.rendering = rendering_of(ResponseForm { encoding, counters: Counters::Omit, times: Times::Omit });
        ask.traceparent = Some(trace_of_ask(number));
        let plain = Freshness::default();
        match want {
            Want::Plain => {}
            Want::Anew => ask.freshness = Freshness { no_cache: true, ..plain },
            Want::NoOlder(most) => ask.freshness = Freshness { age_max_ms: Some(most), ..plain },
            Want::Fresh => ask.freshness = Freshness { stale_max_ms: Some(Millis::ZERO), ..plain },
            Want::OnlyCached => ask.freshness = Freshness { only_if_cached: true, ..plain },
            Want::Bypass if self.profile.is_living && self.dice.chance(500) => {
                ask.bypass = Some(RequestBypass::Bookmarks(vec!["seeded".to_owned()]));
            }
            Want::Bypass => ask.bypass = Some(RequestBypass::NoStore),
            Want::After(version) => ask.bookmarks = bookmark(version.into()),
            Want::ToWrite => ask.freshness = Freshness { may_write: true, ..plain },
        }
        if self.profile.is_living && want == Want::Plain && self.profile.has(Kind::Clients) {
            // Sometimes a request says that its answer changes at once.
            ask.hints.ttl_ms = self.dice.chance(20).then_some(Millis::ZERO);
        }
        ask
    }

    /// The same parameters in any order: one query.
    fn params(&self) -> Value {
        let mut params = if self.profile.learns() {
            // No result has this field, so the next query is one of the subjects.
            ["p", "q"].map(|name| (name.to_owned(), Value::String(format!("the {name}")))).to_vec()
        } else {
            vec![("p".to_owned(), Value::Int(1)), ("q".to_owned(), Value::Int(2))]
        };
        if self.dice.chance(500) {
            params.reverse();
        }
        Value::Map(params)
    }

    pub(crate) fn leave(&mut self) {
        self.clients.retain(|(.., client)| !client.is_finished());
        if self.clients.is_empty() {
            return;
        }
        let (ask, _, client) = self.clients.remove(self.dice.index(self.clients.len()));
        client.abort();
        self.world.record.note(What::Left { ask });
    }
}

fn owns(node: &NodeHandle, ask: &Ask) -> bool {
    node.engine.view().owner(&ask.query.key) == Some(&node.engine.me().node)
}

fn served(outcome: &Outcome, is_near: bool) -> ServedAnswer {
    let (report, is_body, failure) = match &outcome.answer {
        Answer::Body(body) => (report_in(&String::from_utf8_lossy(body)), true, None),
        Answer::Failed(failure) => (None, false, Some(format!("{:?}", failure.kind))),
    };
    ServedAnswer {
        report,
        is_body,
        is_from_afar: outcome.answered_by.is_some(),
        is_near,
        failure,
        how: outcome.how,
    }
}
