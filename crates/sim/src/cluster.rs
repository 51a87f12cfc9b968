//! A world under a seed's schedule: what asking, breaking and mending are.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hopcache_core::key::DatabaseTag;
use hopcache_core::node::{Holder, Incarnation};
use hopcache_core::time::Millis;
use hopcache_engine::ask::{Ask, Freshness, RequestBypass};
use hopcache_engine::outcome::{Answer, Outcome};
use hopcache_engine::ports::{Dice, OriginFault, Scope};
use hopcache_queryapi::render::{Counters, Encoding, Form};
use tokio::task::AbortHandle;

use crate::dice::SimDice;
use crate::members::SimRouting;
use crate::net::NetWeather;
use crate::origin::{Mood, Trouble, told_in};
use crate::profile::{Kind, Profile, TTL_MS};
use crate::record::{Life, Record, Served, Want, What};
use crate::simulate::Act;
use crate::store::{Mode, Weather};
use crate::subject::{DATABASES, PRINCIPALS, STATEMENTS, Subject, trace_of_ask};
use crate::switch::Power;
use crate::world::{NodeHandle, Start, World, node_name};

pub(crate) struct Cluster {
    pub(crate) world: World,
    pub(crate) profile: Profile,
    pub(crate) dice: Arc<SimDice>,
    asks: u32,
    purges: u32,
    versions: u32,
    /// Asks that may still be under way, and where.
    clients: Vec<(u32, Life, AbortHandle)>,
    /// Tasks of a node's life beside its engine's: probers, the follower of the store's log.
    tasks: Vec<(Life, AbortHandle)>,
}

/// Clients of a run on one subject.
const HOT_CLIENTS: u64 = 64;
/// How soon the next of them comes.
const HOT_EVERY_MS: u64 = 40;

impl Cluster {
    pub(crate) fn new(seed: u64) -> Self {
        let dice = Arc::new(SimDice::new(seed));
        let profile = Profile::of(seed, &dice);
        let mut cluster = Self {
            world: World::empty(seed),
            dice,
            asks: 0,
            purges: 0,
            versions: 1,
            clients: Vec::new(),
            tasks: Vec::new(),
            profile,
        };
        for node in 0..cluster.profile.nodes {
            if let Some(handle) = cluster.started(Life { node, life: 0 }) {
                cluster.world.nodes.push(handle);
            }
        }
        cluster.world.store.set_weather(cluster.profile.store_weather(&cluster.dice));
        cluster.world.net.set_weather(cluster.profile.net_weather(&cluster.dice));
        cluster.world.origin.set_trouble(cluster.profile.trouble(&cluster.dice));
        cluster
    }

    pub(crate) fn database(&self, name: &str) -> DatabaseTag {
        DatabaseTag::of(&self.world.secrets.hasher, name)
    }

    fn started(&mut self, life: Life) -> Option<NodeHandle> {
        let me = Holder { node: node_name(life.node)?, incarnation: Incarnation(self.dice.u64()) };
        let routing = SimRouting::probed(&me, addr_of(life.node));
        let apart = Millis(self.dice.below(self.profile.apart_ms_max + 1));
        let start = Start { life, me, routing, apart };
        let handle = self.world.start(start, &self.profile.policy);
        handle.routing.belongs_to(&handle.engine);
        let engine = Arc::clone(&handle.engine);
        let follows = tokio::spawn(async move { engine.follow_invalidations().await }).abort_handle();
        self.tasks.push((life, follows));
        let engine = Arc::clone(&handle.engine);
        let looks = tokio::spawn(async move { engine.look_after_peers().await }).abort_handle();
        self.tasks.push((life, looks));
        for other in (0..self.profile.nodes).filter(|other| *other != life.node) {
            let Some(name) = node_name(other) else { continue };
            let (routing, port) = (Arc::clone(&handle.routing), handle.peers.clone());
            let probes = routing.probe_for_ever(port, name, addr_of(other), Arc::clone(&self.dice));
            self.tasks.push((life, tokio::spawn(probes).abort_handle()));
        }
        Some(handle)
    }

    /// Mostly short, so that things meet; sometimes long, so that they end.
    pub(crate) fn pause_ms(&self) -> u64 {
        match self.dice.below(20) {
            0..=6 => self.dice.below(4),
            7..=17 => self.dice.below(120),
            18 => self.dice.between(200, 800),
            _ => self.dice.between(800, TTL_MS + 1_200),
        }
    }

    /// One client, or several at once for the same on different nodes; now and then a run on one subject, hot
    /// enough and for long enough to have a history (and so near copies, and a plan of its own).
    pub(crate) fn ask_some(&mut self) {
        let subject = self.profile.subjects[self.dice.index(self.profile.subjects.len())];
        if self.dice.chance(20) {
            for client in 0..HOT_CLIENTS {
                let node = self.dice.index(self.world.nodes.len());
                self.ask_after(client * HOT_EVERY_MS, node, subject, true);
            }
            return;
        }
        let clients = if self.dice.chance(300) { self.dice.between(2, 5) } else { 1 };
        for _ in 0..clients {
            let node = self.dice.index(self.world.nodes.len());
            self.ask(node, subject, false);
        }
    }

    /// Every usual subject at every node, with all the time in the world.
    pub(crate) fn ask_everything(&mut self) {
        for node in 0..self.world.nodes.len() {
            for subject in self.profile.subjects.clone() {
                self.ask(node, subject, true);
            }
        }
    }

    fn ask(&mut self, node: usize, subject: Subject, is_plain: bool) {
        self.ask_after(0, node, subject, is_plain);
    }

    fn ask_after(&mut self, after_ms: u64, node: usize, subject: Subject, is_plain: bool) {
        let handle = self.world.nodes[node].clone();
        if handle.switch.power() == Power::Off {
            return;
        }
        self.asks += 1;
        let number = self.asks;
        let want = if is_plain || !self.profile.has(Kind::Clients) { Want::Plain } else { self.want() };
        let patience = match self.dice.below(10) {
            0 if !is_plain && self.profile.has(Kind::Clients) => Millis(self.dice.between(20, 400)),
            _ => Millis(20_000),
        };
        let ask = self.ask_of(number, subject, want);
        let record = Arc::clone(&self.world.record);
        let key = record.key(&ask.query.key);
        let by_hit = self.dice.chance(500);
        let client = tokio::spawn(async move {
            if after_ms > 0 {
                tokio::time::sleep(Millis(after_ms).duration()).await;
            }
            // A stopped process takes the request when it goes on.
            handle.switch.on().await;
            let asked = What::Asked { ask: number, node, subject: subject.place(), key, want, patience };
            record.note(asked);
            let deadline = crate::world::sim_now() + handle.apart + patience;
            let ask = Ask { deadline, ..ask };
            let hit = if by_hit && want == Want::Plain { handle.engine.hit(&ask) } else { None };
            // Nobody was asked between the look at the ring and the answer.
            let is_near = hit.is_some() && !owns(&handle, &ask);
            let outcome = match hit {
                Some(outcome) => outcome,
                None => handle.engine.answer(&ask).await,
            };
            handle.switch.on().await;
            record.note(What::Answered { ask: number, served: served(&outcome, is_near) });
        });
        let life = self.world.nodes[node].life;
        self.clients.retain(|(.., client)| !client.is_finished());
        self.clients.push((number, life, client.abort_handle()));
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

    fn ask_of(&self, number: u32, subject: Subject, want: Want) -> Ask {
        let (database, user) = (DATABASES[subject.database], PRINCIPALS[subject.principal]);
        let mut ask = self.world.ask_in(database, STATEMENTS[subject.statement], user);
        let encoding = if self.dice.chance(200) { Encoding::Typed } else { Encoding::Plain };
        ask.form = Form { encoding, counters: Counters::Omit };
        ask.traceparent = Some(trace_of_ask(number));
        let plain = Freshness::default();
        match want {
            Want::Plain => {}
            Want::Anew => ask.freshness = Freshness { no_cache: true, ..plain },
            Want::NoOlder(most) => ask.freshness = Freshness { age_max_ms: Some(most), ..plain },
            Want::Fresh => ask.freshness = Freshness { stale_max_ms: Some(Millis::ZERO), ..plain },
            Want::OnlyCached => ask.freshness = Freshness { only_if_cached: true, ..plain },
            Want::Bypass => ask.bypass = Some(RequestBypass::NoStore),
        }
        ask
    }

    pub(crate) fn act(&mut self, act: Act) {
        let node = self.dice.index(self.world.nodes.len());
        match act {
            Act::Write => self.write(),
            Act::Delay => self.world.origin.set_delay_ms(self.dice.between(1, 400)),
            Act::Purge => self.purge(node),
            Act::Leave => self.leave(),
            Act::NetWeather => {
                let weather = if self.dice.chance(300) {
                    NetWeather::default()
                } else {
                    self.profile.net_weather(&self.dice)
                };
                self.world.net.set_weather(weather);
            }
            Act::CutWay => {
                let to = self.dice.index(self.world.nodes.len());
                self.world.net.set_way_cut(node, to, true);
            }
            Act::CutNode => self.cut_node(node),
            Act::HealWays => self.heal_ways(),
            Act::StoreWeather => {
                self.world.store.set_weather(self.profile.store_weather(&self.dice));
            }
            Act::StoreMode => {
                let modes = [Mode::Down, Mode::Refusing, Mode::Up, Mode::Up];
                self.world.store.set_mode(modes[self.dice.index(modes.len())]);
            }
            Act::StoreLink => self.world.store.set_cut(node, self.dice.chance(500)),
            Act::StoreLost => self.world.store.lose_everything(),
            Act::StoreFallBack => self.world.store.fall_back(self.dice.index(12)),
            Act::StoreJump => {
                let by_ms = i64::try_from(self.dice.between(1, 8_000)).unwrap_or(0);
                self.world.store.jump(if self.dice.chance(500) { by_ms } else { -by_ms });
            }
            Act::Origin => self.origin(),
            Act::Pause | Act::Resume | Act::Kill | Act::Restart => self.process(act, node),
            Act::ForgetMemory => {
                self.world.nodes[node].memory.forget_all();
                self.world.record.note(What::MemoryForgotten { node });
            }
        }
    }

    fn write(&mut self) {
        self.versions += 1;
        self.world.origin.set_version(i64::from(self.versions));
        self.world.record.note(What::Version { version: self.versions });
    }

    fn purge(&mut self, node: usize) {
        let handle = self.world.nodes[node].clone();
        if handle.switch.power() != Power::On {
            return;
        }
        let subject = self.profile.subjects[self.dice.index(self.profile.subjects.len())];
        let scope = match self.dice.below(3) {
            0 => Scope::Key(self.ask_of(0, subject, Want::Plain).query.key),
            1 => Scope::Database(self.database(DATABASES[subject.database])),
            _ => Scope::All,
        };
        self.purges += 1;
        let (purge, record) = (self.purges, Arc::clone(&self.world.record));
        record.note(What::PurgeBegan { purge, node, scope: record.covers(&scope) });
        tokio::spawn(async move {
            let purged = handle.engine.purge(&scope).await;
            record.note(What::PurgeEnded {
                purge,
                stored: purged.store.is_ok(),
                unreached: purged.unreached,
                nodes: purged.nodes,
            });
        });
    }

    fn leave(&mut self) {
        self.clients.retain(|(.., client)| !client.is_finished());
        if self.clients.is_empty() {
            return;
        }
        let (ask, _, client) = self.clients.remove(self.dice.index(self.clients.len()));
        client.abort();
        self.world.record.note(What::Left { ask });
    }

    fn cut_node(&self, node: usize) {
        for other in (0..self.world.nodes.len()).filter(|other| *other != node) {
            self.world.net.set_way_cut(node, other, true);
            self.world.net.set_way_cut(other, node, true);
        }
    }

    fn heal_ways(&self) {
        for from in 0..self.world.nodes.len() {
            for to in 0..self.world.nodes.len() {
                self.world.net.set_way_cut(from, to, false);
            }
        }
    }

    fn origin(&self) {
        let moods = [
            Mood::Fault(OriginFault::Unreachable("seeded".to_owned())),
            Mood::Fault(OriginFault::TimedOut),
            Mood::Well,
            Mood::Well,
            Mood::Well,
        ];
        self.world.origin.set_mood(moods[self.dice.index(moods.len())].clone());
        self.world.origin.set_trouble(self.profile.trouble(&self.dice));
    }

    fn process(&mut self, act: Act, node: usize) {
        let power = self.world.nodes[node].switch.power();
        match (act, power) {
            (Act::Pause, Power::On) => self.power(node, Power::Paused, "paused"),
            (Act::Resume, Power::Paused) => self.power(node, Power::On, "on"),
            (Act::Kill, Power::On | Power::Paused) => self.kill(node),
            (Act::Restart, Power::Off) => self.restart(node),
            _ => {}
        }
    }

    fn power(&self, node: usize, power: Power, word: &'static str) {
        self.world.record.note(What::Power { node, power: word });
        self.world.nodes[node].switch.set(power);
    }

    fn kill(&mut self, node: usize) {
        let life = self.world.nodes[node].life;
        self.power(node, Power::Off, "killed");
        self.tasks.retain(|(each, task)| {
            let others = *each != life;
            if !others {
                task.abort();
            }
            others
        });
        let record: &Record = &self.world.record;
        self.clients.retain(|(ask, each, client)| {
            let others = *each != life;
            if !others && !client.is_finished() {
                client.abort();
                record.note(What::Left { ask: *ask });
            }
            others
        });
    }

    fn restart(&mut self, node: usize) {
        let before = self.world.nodes[node].life;
        let life = Life { node, life: before.life + 1 };
        self.world.record.note(What::Power { node, power: "restarted" });
        if let Some(handle) = self.started(life) {
            self.world.nodes[node] = handle;
        }
    }

    /// Everything is whole again, and everybody lives.
    pub(crate) fn heal(&mut self) {
        self.heal_ways();
        self.world.net.set_weather(NetWeather::default());
        self.world.store.set_weather(Weather::default());
        self.world.store.set_mode(Mode::Up);
        self.world.origin.set_trouble(Trouble::default());
        self.world.origin.set_mood(Mood::Well);
        self.world.origin.set_delay_ms(20);
        for node in 0..self.world.nodes.len() {
            self.world.store.set_cut(node, false);
            match self.world.nodes[node].switch.power() {
                Power::On => {}
                Power::Paused => self.power(node, Power::On, "on"),
                Power::Off => self.restart(node),
            }
        }
        self.world.record.note(What::Healed);
    }

    /// Probers and followers of the log go on for ever; what is under way is only clients' from now on.
    pub(crate) fn end_asking(&mut self) {
        self.clients.clear();
    }
}

fn addr_of(node: usize) -> SocketAddr {
    let last = u8::try_from(node + 1).unwrap_or(u8::MAX);
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 1))
}

fn owns(node: &NodeHandle, ask: &Ask) -> bool {
    node.engine.view().owner(&ask.query.key) == Some(&node.engine.me().node)
}

fn served(outcome: &Outcome, is_near: bool) -> Served {
    let (told, is_body, failure) = match &outcome.answer {
        Answer::Body(body) => (told_in(&String::from_utf8_lossy(body)), true, None),
        Answer::Failed(failure) => (None, false, Some(format!("{:?}", failure.kind))),
    };
    Served { told, is_body, is_from_afar: outcome.answered_by.is_some(), is_near, failure, how: outcome.how }
}
