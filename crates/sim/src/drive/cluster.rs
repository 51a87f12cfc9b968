//! A world under a seed's schedule: how requests, faults and repairs are carried out.

use std::collections::BTreeSet;
use std::sync::Arc;

use hopcache_core::key::DatabaseTag;
use hopcache_core::node::{Holder, Incarnation};
use hopcache_core::tags::Tag;
use hopcache_core::time::Millis;
use hopcache_engine::ports::{Dice, OriginFault, Scope};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::check::record::{Life, Record, Want, What};
use crate::drive::actions::Action;
use crate::drive::profile::{Profile, TTL_MS};
use crate::world::World;
use crate::world::dice::SimDice;
use crate::world::members::SimRouting;
use crate::world::names::{addr_of, node_name};
use crate::world::net::NetWeather;
use crate::world::node_handle::{NodeHandle, Start};
use crate::world::node_tasks::watch_ring;
use crate::world::origin::{OriginBehavior, Trouble};
use crate::world::process::Power;
use crate::world::store::{Mode, Weather};
use crate::world::subject::DATABASES;
use crate::world::udp::UdpWeather;

/// Nodes that have left, and nodes that are leaving.
#[derive(Default)]
pub(crate) struct MembershipChanges {
    /// Nodes that have left for ever.
    pub(crate) gone: BTreeSet<usize>,
    /// Lives of nodes that are leaving.
    pub(crate) draining: BTreeSet<Life>,
    /// The majority that was healed. Before and after that it is `None`, and any node may be healthy.
    pub(crate) whole: Option<Vec<usize>>,
    /// Lives that have ended their work. The schedule removes them.
    pub(crate) emptied: Arc<Mutex<Vec<Life>>>,
}

/// The first transaction of a database that can be restored to an earlier one.
const FIRST_VERSION: i64 = 100;

pub(crate) struct Cluster {
    pub(crate) world: World,
    pub(crate) profile: Profile,
    pub(crate) dice: Arc<SimDice>,
    pub(crate) asks: u32,
    purges: u32,
    pub(crate) writes: u32,
    pub(crate) transactions: u32,
    /// Requests that may still be under way, and their nodes.
    pub(crate) clients: Vec<(u32, Life, AbortHandle)>,
    /// Tasks of a node's life other than its engine's: probers, the follower of the store's log.
    pub(crate) tasks: Vec<(Life, AbortHandle)>,
    /// The joins and leaves, in worlds that have them.
    pub(crate) changes: MembershipChanges,
    seed: u64,
}

impl Cluster {
    pub(crate) fn new(seed: u64) -> Self {
        let dice = Arc::new(SimDice::new(seed));
        let profile = Profile::of(seed, &dice);
        let mut cluster = Self {
            world: World::empty(seed),
            dice,
            asks: 0,
            purges: 0,
            writes: 0,
            transactions: 0,
            clients: Vec::new(),
            tasks: Vec::new(),
            changes: MembershipChanges::default(),
            seed,
            profile,
        };
        if cluster.profile.is_living {
            // A run that carries no bookmark may miss the newest one.
            cluster.world.origin.tell_transactions(1);
        }
        if cluster.profile.proves() {
            cluster.world.origin.count_exactly();
            cluster.world.origin.set_version(FIRST_VERSION);
        }
        match cluster.profile.slots {
            Some(slots) if cluster.profile.is_quiet() => cluster.world.origin.set_slots(slots),
            Some(slots) => cluster.world.origin.set_line(slots),
            None => {}
        }
        for node in 0..cluster.profile.nodes {
            if let Some(handle) = cluster.started(Life { node, life: 0 }) {
                cluster.world.nodes.push(handle);
            }
        }
        if !cluster.profile.is_living {
            cluster.begin_faults();
        }
        cluster
    }

    /// Sets the seed's weather.
    pub(crate) fn begin_faults(&self) {
        self.world.store.set_weather(self.profile.store_weather(&self.dice));
        self.world.net.set_weather(self.profile.net_weather(&self.dice));
        self.world.origin.set_trouble(self.profile.trouble(&self.dice));
        if self.profile.is_living || self.profile.learns() {
            self.world.net.udp.set_weather(self.profile.udp_weather(&self.dice));
        }
    }

    /// Dice for one step, so that removing a step changes no other step. In worlds without joins and leaves all steps
    /// share one die, because the seeds of `tests/regression_seeds.rs` were found that way.
    pub(crate) fn begin_step(&mut self, step: usize, part: u64) {
        if self.profile.is_living {
            let step = SimDice::new(self.seed.rotate_left(17) ^ (step as u64 + 1) << 3 ^ part).u64();
            self.dice = Arc::new(SimDice::new(step));
        }
    }

    /// A node that has not left for ever.
    pub(crate) fn any_node(&self) -> usize {
        let nodes = self.nodes();
        nodes.get(self.dice.index(nodes.len())).copied().unwrap_or(0)
    }

    pub(crate) fn database(&self, name: &str) -> DatabaseTag {
        DatabaseTag::of(&self.world.secrets.hasher, name)
    }

    pub(crate) fn started(&mut self, life: Life) -> Option<NodeHandle> {
        let me = Holder { node: node_name(life.node)?, incarnation: Incarnation(self.dice.u64()) };
        if self.profile.is_living {
            return self.started_to_join(life, me);
        }
        let routing = SimRouting::probed(&me, addr_of(life.node));
        let apart = Millis(self.dice.below(self.profile.apart_ms_max + 1));
        let start = Start { life, me, routing, apart };
        let handle = self.world.start(start, &self.profile.policy);
        handle.routing.belongs_to(&handle.engine);
        self.start_engines_tasks(&handle);
        for other in (0..self.profile.nodes).filter(|other| *other != life.node) {
            let Some(name) = node_name(other) else { continue };
            let (routing, port) = (Arc::clone(&handle.routing), handle.peers.clone());
            let probes = routing.probe_for_ever(port, name, addr_of(other), Arc::clone(&self.dice));
            self.tasks.push((life, tokio::spawn(probes).abort_handle()));
        }
        Some(handle)
    }

    pub(crate) fn start_engines_tasks(&mut self, handle: &NodeHandle) {
        if self.profile.is_living {
            self.tasks.push((handle.life, tokio::spawn(watch_ring(handle.clone())).abort_handle()));
        }
        let engine = Arc::clone(&handle.engine);
        let follows = tokio::spawn(async move { engine.path().follow_invalidations().await }).abort_handle();
        let engine = Arc::clone(&handle.engine);
        let looks = tokio::spawn(async move { engine.peers().probe_left_out().await }).abort_handle();
        self.tasks.extend([(handle.life, follows), (handle.life, looks)]);
        if self.profile.learns() {
            self.start_learning(handle);
        }
    }

    fn start_learning(&mut self, handle: &NodeHandle) {
        let [tells, learns, shares] = [(); 3].map(|()| Arc::clone(&handle.engine));
        let tasks = [
            tokio::spawn(async move { tells.prefetch().tell_observations().await }).abort_handle(),
            tokio::spawn(async move { learns.prefetch().count_transitions().await }).abort_handle(),
            tokio::spawn(async move { shares.prefetch().share_transition_counts().await }).abort_handle(),
        ];
        self.tasks.extend(tasks.map(|task| (handle.life, task)));
    }

    /// The pause after a step: mostly short, so that actions overlap, and sometimes long, so that they end.
    pub(crate) fn pause_ms(&self) -> u64 {
        match self.dice.below(20) {
            0..=6 => self.dice.below(4),
            7..=17 => self.dice.below(120),
            18 => self.dice.between(200, 800),
            _ => self.dice.between(800, TTL_MS + 1_200),
        }
    }

    pub(crate) fn act(&mut self, act: Action) {
        let node = self.any_node();
        match act {
            Action::Write => self.world.origin.write_past(),
            Action::WriteThrough => self.write_through(node),
            Action::Transact => self.transact(node),
            Action::Outage => self.outage(),
            Action::Rights => self.world.origin.change_rights(),
            Action::Restore => self.restore(),
            Action::Delay => self.world.origin.set_delay_ms(self.dice.between(1, 400)),
            Action::Purge => self.purge(node),
            Action::Leave => self.leave(),
            Action::NetWeather => {
                let weather = if self.dice.chance(300) {
                    NetWeather::default()
                } else {
                    self.profile.net_weather(&self.dice)
                };
                self.world.net.set_weather(weather);
            }
            Action::CutWay => {
                let to = self.any_node();
                self.world.net.set_way_cut(node, to, true);
            }
            Action::CutNode => self.cut_node(node),
            Action::HealWays => self.heal_ways(),
            Action::StoreWeather => {
                self.world.store.set_weather(self.profile.store_weather(&self.dice));
            }
            Action::StoreMode => {
                let modes = [Mode::Down, Mode::Refusing, Mode::Up, Mode::Up];
                self.world.store.set_mode(modes[self.dice.index(modes.len())]);
            }
            Action::StoreLink => self.world.store.set_cut(node, self.dice.chance(500)),
            Action::StoreLost => self.world.store.lose_everything(),
            Action::StoreFallBack => self.world.store.fall_back(self.dice.index(12)),
            Action::StoreJump => {
                let by_ms = i64::try_from(self.dice.between(1, 8_000)).unwrap_or(0);
                self.world.store.jump(if self.dice.chance(500) { by_ms } else { -by_ms });
            }
            Action::Origin => self.origin(),
            Action::Pause | Action::Resume | Action::Kill | Action::Restart => self.process(act, node),
            Action::ForgetMemory => {
                self.world.nodes[node].memory.forget_all();
                self.world.record.note(What::MemoryForgotten { node });
            }
            Action::GossipWeather => self.world.net.udp.set_weather(self.profile.udp_weather(&self.dice)),
            Action::GossipCut => self.world.net.udp.set_way_cut(node, self.any_node(), true),
            Action::Join => self.join(),
            Action::Drain => self.drain(node),
        }
    }

    /// The server is stopped, its files are replaced, and it starts. In one of four cases clients past all nodes bring ids to the
    /// former number before a watcher looks, or to one less or more.
    fn restore(&self) {
        let origin = Arc::clone(&self.world.origin);
        let (back, down_ms) = (self.dice.between(20, 60), self.dice.between(300, 2_000));
        let version = u64::from(origin.version());
        if version <= back + 10 {
            return;
        }
        origin.set_behavior(OriginBehavior::Fault(OriginFault::Unreachable("restored".to_owned())));
        origin.restore(i64::try_from(version - back).unwrap_or(1));
        // By the draws of before: other seeds keep their schedules.
        if down_ms % 4 == 0 {
            self.world.record.cover("restored, and ids caught up");
            let caught_up =
                [back - 1, back, back, back, back + 1][usize::try_from(down_ms).unwrap_or(0) / 4 % 5];
            (0..caught_up).for_each(|_| origin.write_past());
        }
        tokio::spawn(async move {
            tokio::time::sleep(Millis(down_ms).duration()).await;
            origin.set_behavior(OriginBehavior::Well);
        });
    }

    fn purge(&mut self, node: usize) {
        let handle = self.world.nodes[node].clone();
        if handle.process.power() != Power::On {
            return;
        }
        let subject = self.profile.subjects[self.dice.index(self.profile.subjects.len())];
        let scope = match self.dice.below(3) {
            0 => Scope::Key(self.ask_of(0, subject, Want::Plain).query.key),
            1 => Scope::Tag(Tag::Database(self.database(DATABASES[subject.database]))),
            _ => Scope::All,
        };
        self.purges += 1;
        let (purge, record) = (self.purges, Arc::clone(&self.world.record));
        record.note(What::PurgeBegan { purge, node, scope: record.covers(&scope) });
        tokio::spawn(async move {
            let purged = handle.engine.invalidate().purge(&scope).await;
            record.note(What::PurgeEnded {
                purge,
                stored: purged.store.is_ok(),
                unreached: purged.unreached,
                nodes: purged.nodes,
            });
        });
    }

    pub(crate) fn cut_node(&self, node: usize) {
        for other in (0..self.world.nodes.len()).filter(|other| *other != node) {
            self.world.net.set_way_cut(node, other, true);
            self.world.net.set_way_cut(other, node, true);
        }
    }

    pub(crate) fn heal_ways(&self) {
        for from in 0..self.world.nodes.len() {
            for to in 0..self.world.nodes.len() {
                self.world.net.set_way_cut(from, to, false);
                self.world.net.udp.set_way_cut(from, to, false);
            }
        }
    }

    fn origin(&self) {
        let behaviors = [
            OriginBehavior::Fault(OriginFault::Unreachable("seeded".to_owned())),
            OriginBehavior::Fault(OriginFault::TimedOut),
            OriginBehavior::Well,
            OriginBehavior::Well,
            OriginBehavior::Well,
        ];
        self.world.origin.set_behavior(behaviors[self.dice.index(behaviors.len())].clone());
        self.world.origin.set_trouble(self.profile.trouble(&self.dice));
    }

    fn process(&mut self, act: Action, node: usize) {
        let power = self.world.nodes[node].process.power();
        match (act, power) {
            (Action::Pause, Power::On) => self.power(node, Power::Paused, "paused"),
            (Action::Resume, Power::Paused) => self.power(node, Power::On, "on"),
            (Action::Kill, Power::On | Power::Paused) => self.kill(node),
            (Action::Restart, Power::Off) => self.restart(node),
            _ => {}
        }
    }

    pub(crate) fn power(&self, node: usize, power: Power, word: &'static str) {
        self.world.record.note(What::Power { node, power: word });
        self.world.nodes[node].process.set(power);
    }

    fn kill(&mut self, node: usize) {
        self.power(node, Power::Off, "killed");
        self.bury(node);
    }

    /// Ends the tasks of a process that is gone.
    pub(crate) fn bury(&mut self, node: usize) {
        let life = self.world.nodes[node].life;
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

    /// Heals everything, and restarts every node that has not left.
    pub(crate) fn heal(&mut self) {
        self.heal_ways();
        self.heal_services();
        for node in self.nodes() {
            self.heal_process(node);
        }
        self.changes.whole = None;
        self.world.record.note(What::Healed);
    }

    /// Heals the network, the store and the origin.
    pub(crate) fn heal_services(&self) {
        self.world.net.set_weather(NetWeather::default());
        if self.profile.is_living || self.profile.learns() {
            self.world.net.udp.set_weather(UdpWeather::default());
        }
        self.world.store.set_weather(Weather::default());
        self.world.store.set_mode(Mode::Up);
        self.world.origin.set_trouble(Trouble::default());
        self.world.origin.set_behavior(OriginBehavior::Well);
        self.world.origin.set_away(false);
        self.world.origin.set_delay_ms(20);
    }

    pub(crate) fn heal_process(&mut self, node: usize) {
        self.world.store.set_cut(node, false);
        match self.world.nodes[node].process.power() {
            Power::On => {}
            Power::Paused => self.power(node, Power::On, "on"),
            Power::Off => self.restart(node),
        }
    }

    /// Probers and followers of the log never end; the rest of the work under way belongs to clients.
    pub(crate) fn end_asking(&mut self) {
        self.clients.clear();
    }
}
