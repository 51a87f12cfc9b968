//! The members of a Neo4j cluster (`neo4j://`): an origin for each, and the routing tables that say which of them leads a
//! database. `core::routing_table` decides what a table and a failure mean; this file asks for tables and waits.
//!
//! - A table is asked for when none is known, when it has ended, and when its leader has failed. After
//!   `ROUTING_REFRESH_MS` it is asked for behind the statement that uses it, which does not wait.
//! - One question at a time; whoever waits for it takes its answer, also where no member has answered.
//! - The member that `origin.uri` names (the seed) is kept for good. It may be a balancer, and lead nothing.
//! - Nobody waits for a leader while no member answers, and nobody for longer than its [`Tries`] allow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hopcache_bolt::{Address, RoutingTable};
use hopcache_core::bookmark::{DatabaseUuid, Position};
use hopcache_core::limits::{
    CLUSTER_CONNECTION_MS_MAX, CLUSTER_MEMBERS_MAX, ROUTING_ASK_MS_MAX, ROUTING_PAUSE_MS,
    ROUTING_PAUSE_MS_MAX, ROUTING_TRIES_MAX, ROUTING_WAIT_MS_MAX,
};
use hopcache_core::routing_table::{
    Leader, MemberFault, MemberName, ReaderLag, RoutingTables, Table, TableKey,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{OriginError, OriginFault, OriginMember};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};

use crate::bolt::{BoltOrigin, BoltSettings, BreakerHook};
use crate::fault::{self, READ_ONLY_CODE};
use crate::gate::Gate;

/// One member.
pub(crate) struct Member {
    name: MemberName,
    address: Arc<Address>,
    gate: Arc<Gate>,
    /// Its own pools, places for runs, and breaker.
    pub(crate) origin: BoltOrigin,
    used: Mutex<Instant>,
    lag: Mutex<ReaderLag>,
}

impl Member {
    fn new(address: Address, template: &BoltSettings, hook: &BreakerHook, is_seed: bool) -> Arc<Self> {
        let gate: Arc<Gate> = Arc::default();
        let settings = BoltSettings {
            address: address.clone(),
            gate: Some(Arc::clone(&gate)),
            // One follower: two that try a wrong password beside each other could lock the user out.
            follows_password: is_seed,
            ..template.clone()
        };
        Arc::new(Self {
            name: address.host_and_port().into(),
            address: Arc::new(address),
            gate,
            origin: BoltOrigin::watched(settings, Arc::clone(hook)),
            used: Mutex::new(Instant::now()),
            lag: Mutex::default(),
        })
    }

    pub(crate) fn address(&self) -> &Arc<Address> {
        &self.address
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }
}

/// For whom, and for which database, a member is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whom<'a> {
    pub(crate) identity: &'a Identity,
    /// Empty: the home database.
    pub(crate) database: &'a str,
    pub(crate) impersonated: Option<&'a str>,
}

/// The tries of one statement: bounded in number and in time, with a pause between two that grows.
#[derive(Debug)]
pub struct Tries {
    deadline: Instant,
    pause: Duration,
    left: u32,
}

impl Tries {
    /// As many as a statement has whose own time is this.
    #[must_use]
    pub fn within(time: Duration) -> Self {
        let wait = time.min(Duration::from_millis(ROUTING_WAIT_MS_MAX));
        Self {
            deadline: Instant::now() + wait,
            pause: Duration::from_millis(ROUTING_PAUSE_MS),
            left: ROUTING_TRIES_MAX,
        }
    }

    /// Whether there is another try, which is due now.
    pub async fn again(&mut self) -> bool {
        let has_time = Instant::now() + self.pause < self.deadline;
        if self.left == 0 || !has_time {
            return false;
        }
        self.left -= 1;
        sleep(self.pause).await;
        self.pause = (2 * self.pause).min(Duration::from_millis(ROUTING_PAUSE_MS_MAX));
        true
    }
}

/// The cluster's members.
pub struct Members {
    template: BoltSettings,
    hook: BreakerHook,
    seed: Arc<Member>,
    others: Mutex<BTreeMap<MemberName, Arc<Member>>>,
    tables: Mutex<RoutingTables>,
    /// One question for a table at a time.
    questions: Semaphore,
    /// The last question that no member has answered, and when it ended.
    unanswered: Mutex<Option<(TableKey, MonoTime, OriginFault)>>,
    started: Instant,
    last_leader: Mutex<Option<MemberName>>,
}

impl Members {
    /// Those of the cluster that the address names. It must be called inside a tokio runtime, as [`BoltOrigin::new`].
    #[must_use]
    pub fn new(settings: BoltSettings, hook: BreakerHook) -> Arc<Self> {
        let template = BoltSettings {
            routed: Some(settings.address.host_and_port()),
            life: Some(Duration::from_millis(CLUSTER_CONNECTION_MS_MAX)),
            ..settings
        };
        Arc::new(Self {
            seed: Member::new(template.address.clone(), &template, &hook, true),
            template,
            hook,
            others: Mutex::default(),
            tables: Mutex::default(),
            questions: Semaphore::new(1),
            unanswered: Mutex::default(),
            started: Instant::now(),
            last_leader: Mutex::default(),
        })
    }

    /// The database behind a name, if this node has seen a transaction of it.
    pub(crate) fn known(&self, database: &str) -> Option<DatabaseUuid> {
        self.template.newest.database(database)
    }

    pub(crate) fn settings(&self) -> &BoltSettings {
        &self.template
    }

    pub(crate) fn key_of(&self, whom: &Whom<'_>) -> TableKey {
        match whom.database {
            "" => {
                let user = self.template.login.fingerprint(whom.identity);
                TableKey::HomeOf(user, whom.impersonated.map(str::to_owned))
            }
            name => TableKey::Database(name.to_ascii_lowercase()),
        }
    }

    /// The leader of a database, as soon as the cluster has one.
    pub(crate) async fn leader(
        self: &Arc<Self>,
        whom: &Whom<'_>,
        tries: &mut Tries,
    ) -> Result<Arc<Member>, OriginFault> {
        let key = self.key_of(whom);
        loop {
            if let Some((leader, is_due)) = self.known_leader(&key) {
                if is_due {
                    self.ask_behind(&key, whom);
                }
                return Ok(leader);
            }
            // On the heap: every session has room for this future, and hardly ever needs it.
            let asked = timeout_at(tries.deadline, Box::pin(self.ask(&key, whom))).await;
            let why = match asked.unwrap_or(Err(OriginFault::TimedOut)) {
                Ok(()) => match self.known_leader(&key) {
                    Some((leader, _)) => return Ok(leader),
                    None => "its routing table names none".to_owned(),
                },
                // Its own failure of the statement is the right answer, for example that there is no such database.
                Err(OriginFault::Failed(_)) => return Ok(self.main()),
                Err(fault @ (OriginFault::Unauthorized(_) | OriginFault::Overloaded)) => return Err(fault),
                Err(_) if self.is_away() => {
                    return Err(OriginFault::Unreachable("no member of the cluster answers".to_owned()));
                }
                Err(fault) => format!("{fault:?}"),
            };
            if !tries.again().await {
                return Err(OriginFault::Transient(fault::no_leader(whom.database, &why)));
            }
        }
    }

    /// The leader that is known, whom nobody has to ask for. One that cannot be reached is forgotten.
    pub(crate) fn known_leader(self: &Arc<Self>, key: &TableKey) -> Option<(Arc<Member>, bool)> {
        let leader = self.tables.lock().leader(key, self.now());
        let Leader::Known { name, is_due } = leader else { return None };
        let member = self.member(&name)?;
        if member.gate.is_away() {
            self.tables.lock().failed(key, &name, MemberFault::Gone);
            return None;
        }
        let mut last = self.last_leader.lock();
        if last.as_ref() != Some(&name) {
            *last = Some(name);
        }
        Some((member, is_due))
    }

    /// The reader with the fewest runs of this node, besides the leader. `None` if no other answers.
    pub(crate) fn reader(self: &Arc<Self>, key: &TableKey, leader: &Member) -> Option<Arc<Member>> {
        let names = self.tables.lock().readers(key, self.now());
        let others = names.iter().filter(|name| **name != leader.name);
        let members = others.filter_map(|name| self.member(name));
        members.filter(|member| member.gate.is_reachable()).min_by_key(|member| member.in_flight())
    }

    /// Whether the cluster has one member, as far as this database goes.
    pub(crate) fn is_alone(&self, key: &TableKey) -> bool {
        self.tables.lock().is_alone(key)
    }

    /// The leader of `system`, if its table is known.
    pub(crate) fn known_leader_of_system(self: &Arc<Self>) -> Option<Arc<Member>> {
        self.known_leader(&TableKey::Database("system".to_owned())).map(|(leader, _)| leader)
    }

    /// Whether a member that has just answered is the leader still, as it says itself. Takes note of its table. That it had no time
    /// or no connection to say so, or does not let this user ask, says nothing of the member.
    pub(crate) async fn still_leads(
        &self,
        key: &TableKey,
        whom: &Whom<'_>,
        leader: &Member,
    ) -> Result<bool, OriginError> {
        if self.is_alone(key) {
            return Ok(true);
        }
        let database = (!whom.database.is_empty()).then_some(whom.database);
        let within = Duration::from_millis(ROUTING_ASK_MS_MAX);
        let told = Box::pin(leader.origin.route(whom.identity, (database, whom.impersonated), within)).await;
        let fault = match told {
            Ok(table) => {
                self.learn(key, &table);
                let leads = table.leaders.first().is_some_and(|name| **name == *leader.name);
                (!leads).then_some(MemberFault::NotLeader)
            }
            Err(error) => match &error.kind {
                OriginFault::Failed(said) => MemberFault::of_code(&said.code),
                OriginFault::Transient(_) => Some(MemberFault::NotLeader),
                OriginFault::Unreachable(_) | OriginFault::Cut(_) => Some(MemberFault::Gone),
                _ => return Err(error),
            },
        };
        fault.into_iter().for_each(|fault| self.failed(key, &leader.name, fault));
        Ok(fault.is_none())
    }

    /// The leader and a reader have said now which transaction is their newest: whether the reader may be used.
    pub(crate) fn keeps_up(&self, reader: &Member, (leaders, own): (Position, Position)) -> bool {
        leaders.database == own.database
            && reader.lag.lock().keeps_up(leaders.database, (leaders.id.0, own.id.0), self.now())
    }

    /// Takes note of a failure, and tells what it says of the member; `None` if nothing.
    pub(crate) fn saw(&self, key: &TableKey, member: &Member, error: &OriginError) -> Option<MemberFault> {
        let fault = match &error.kind {
            OriginFault::Failed(said) | OriginFault::Transient(said) => MemberFault::of_code(&said.code),
            OriginFault::Unreachable(_) | OriginFault::Cut(_) => Some(MemberFault::Gone),
            _ => None,
        }?;
        self.failed(key, &member.name, fault);
        Some(fault)
    }

    /// A member has failed with a statement of this database.
    pub(crate) fn failed(&self, key: &TableKey, member: &str, fault: MemberFault) {
        tracing::debug!(member, ?fault, "a member of the cluster failed");
        self.tables.lock().failed(key, member, fault);
    }

    /// Whether a failure of this code says that the database is read-only, and not that its member does not lead. Both have one code, and
    /// in an election a table may name a member that leads no more. So the member is asked what the database is.
    pub(crate) async fn is_read_only(&self, whom: &Whom<'_>, member: &Member, code: &str) -> bool {
        if code != READ_ONLY_CODE {
            return false;
        }
        let within = Duration::from_millis(ROUTING_ASK_MS_MAX);
        let of = (whom.database, whom.impersonated);
        member.origin.says_read_only(whom.identity, of, within).await == Some(true)
    }

    /// The member that speaks for the cluster where no database is meant: the last leader, else the seed.
    pub(crate) fn main(self: &Arc<Self>) -> Arc<Member> {
        let last = self.last_leader.lock().clone();
        let last = last.and_then(|name| self.member(&name)).filter(|member| !member.gate.is_away());
        let any = || self.all().into_iter().find(|member| !member.gate.is_away());
        last.or_else(any).unwrap_or_else(|| Arc::clone(&self.seed))
    }

    /// All members that have been used, the seed first.
    pub(crate) fn all(&self) -> Vec<Arc<Member>> {
        let others = self.others.lock();
        std::iter::once(&self.seed).chain(others.values()).cloned().collect()
    }

    pub(crate) fn is_reachable(&self) -> bool {
        self.all().iter().any(|member| member.origin_is_reachable())
    }

    pub(crate) fn is_away(&self) -> bool {
        self.all().iter().all(|member| member.gate.is_away())
    }

    /// What an operator sees.
    pub(crate) fn shown(&self) -> Vec<OriginMember> {
        let tables = self.tables.lock();
        let mut names = tables.members();
        names.insert(Arc::clone(&self.seed.name));
        let others = self.others.lock();
        let shown = names.into_iter().map(|name| {
            let used = if name == self.seed.name { Some(&self.seed) } else { others.get(&name) };
            OriginMember {
                leads: tables.led_by(&name).into_iter().map(str::to_owned).collect(),
                is_reachable: used.map(|member| !member.gate.is_away()),
                in_flight: used.map_or(0, |member| member.in_flight()),
                name: name.to_string(),
            }
        });
        shown.collect()
    }

    /// The member of this name. `None` if that is no address.
    fn member(&self, name: &MemberName) -> Option<Arc<Member>> {
        if *name == self.seed.name {
            return Some(Arc::clone(&self.seed));
        }
        let mut others = self.others.lock();
        if let Some(member) = others.get(name) {
            *member.used.lock() = Instant::now();
            return Some(Arc::clone(member));
        }
        let address = Address::of_member(name, self.seed.address.security);
        let address = address
            .map_err(|error| tracing::warn!(%error, address = %name, "a routing table has an address that cannot be used"))
            .ok()?;
        if others.len() >= CLUSTER_MEMBERS_MAX {
            let oldest =
                others.iter().min_by_key(|(_, member)| *member.used.lock()).map(|(name, _)| Arc::clone(name));
            oldest.into_iter().for_each(|name| drop(others.remove(&name)));
        }
        let member = Member::new(address, &self.template, &self.hook, false);
        others.insert(Arc::clone(name), Arc::clone(&member));
        Some(member)
    }

    /// Asks for a table behind the caller's back, unless somebody asks already.
    pub(crate) fn ask_behind(self: &Arc<Self>, key: &TableKey, whom: &Whom<'_>) {
        if self.questions.available_permits() == 0 {
            return;
        }
        let (members, key) = (Arc::clone(self), key.clone());
        let identity = Identity::clone(whom.identity);
        let (database, impersonated) = (whom.database.to_owned(), whom.impersonated.map(str::to_owned));
        tokio::spawn(async move {
            let whom =
                Whom { identity: &identity, database: &database, impersonated: impersonated.as_deref() };
            if let Err(fault) = members.ask(&key, &whom).await {
                tracing::debug!(?fault, "the routing table stays as it is");
            }
        });
    }

    /// Asks the members, one after the other, for the table of a database.
    async fn ask(self: &Arc<Self>, key: &TableKey, whom: &Whom<'_>) -> Result<(), OriginFault> {
        let came = self.now();
        let Ok(_only) = self.questions.acquire().await else { return Err(OriginFault::Overloaded) };
        if self.tables.lock().is_of(key, came) {
            return Ok(());
        }
        if let Some((of, ended, fault)) = &*self.unanswered.lock()
            && of == key
            && *ended >= came
        {
            return Err(fault.clone());
        }
        let database = (!whom.database.is_empty()).then_some(whom.database);
        let within = Duration::from_millis(ROUTING_ASK_MS_MAX);
        let mut last = OriginFault::Unreachable("no member of the cluster answers".to_owned());
        for router in self.routers(key) {
            match router.origin.route(whom.identity, (database, whom.impersonated), within).await {
                Ok(table) if !table.routers.is_empty() => {
                    self.learn(key, &table);
                    return Ok(());
                }
                Ok(_) => {}
                Err(OriginError {
                    kind: fault @ (OriginFault::Unauthorized(_) | OriginFault::Failed(_)),
                    ..
                }) => {
                    return Err(fault);
                }
                Err(error) => last = error.kind,
            }
        }
        *self.unanswered.lock() = Some((key.clone(), self.now(), last.clone()));
        Err(last)
    }

    /// Who may tell a table and can be reached: those of the tables, and the seed.
    fn routers(&self, key: &TableKey) -> Vec<Arc<Member>> {
        let named = self.tables.lock().routers(key);
        let known = named.iter().filter_map(|name| self.member(name));
        let mut routers: Vec<_> = known.chain([Arc::clone(&self.seed)]).collect();
        let mut seen = BTreeSet::new();
        routers.retain(|router| !router.gate.is_away() && seen.insert(Arc::clone(&router.name)));
        routers.truncate(CLUSTER_MEMBERS_MAX);
        routers
    }

    /// Takes a table, and lets go of members that are in no table any more.
    fn learn(&self, key: &TableKey, told: &RoutingTable) {
        let names = |texts: &[String]| texts.iter().map(|text| MemberName::from(text.as_str())).collect();
        let table = Table {
            leaders: names(&told.leaders),
            readers: names(&told.readers),
            routers: names(&told.routers),
            ttl_ms: Millis::from(told.ttl),
        };
        let (now, mut tables) = (self.now(), self.tables.lock());
        tables.learn(key.clone(), table, now);
        let in_use = tables.members();
        drop(tables);
        self.others.lock().retain(|name, _| in_use.contains(name));
    }

    fn now(&self) -> MonoTime {
        MonoTime::default() + Millis::from(self.started.elapsed())
    }
}

impl Member {
    fn origin_is_reachable(&self) -> bool {
        self.gate.is_reachable()
    }

    pub(crate) fn in_flight(&self) -> usize {
        hopcache_engine::ports::Origin::in_flight(&self.origin)
    }

    pub(crate) fn name(&self) -> &MemberName {
        &self.name
    }
}
