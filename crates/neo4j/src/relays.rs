//! Connections to Neo4j that carry a Bolt client's own messages: transactions, and statements that bypass the cache.
//!
//! This file decides how many relays there are, for which principal, and which may be used again. A relay is pinned
//! to one session while a transaction or a result is open on it. It is logged on with the principal's own credentials
//! (I5), and speaks exactly as the client does. It runs nothing by itself.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hopcache_bolt::server::Version;
use hopcache_bolt::{Address, Auth, Dialect, Interrupted, OpenError, Relay, RelayOptions, Roots, ServerInfo};
use hopcache_core::bookmark::{Bookmark, Position};
use hopcache_core::limits;
use hopcache_core::routing_table::{MemberFault, MemberName, TableKey};
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::OriginFault;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::ResultBudget;
use super::fault;
use super::gate::Gate;
use super::marker::Marker;
use super::members::{Member, Members, Tries, Whom};
use super::pools::Fingerprint;
use super::service_login::auth_of;
use super::settings::{BoltSettings, Login, SharedOrigin};

/// The version of gathered results where the server has nothing newer than Bolt 5: its notifications need no translation.
const GATHERING_VERSION: Version = Version::new(5, 4);
/// A relay to a cluster is used for so long.
const CLUSTER_LIFE: Duration = Duration::from_millis(limits::CLUSTER_CONNECTION_MS_MAX);

/// The server that a relay leads to, its principal, and its version and patches.
type Place = (Arc<Address>, Fingerprint, Dialect);

/// Where relays lead.
enum Target {
    /// To one server.
    Server(Arc<Address>),
    /// To the leader of each statement's database.
    Cluster(Arc<Members>),
}

/// A server that a relay is wanted to.
struct Server {
    address: Arc<Address>,
    gate: Arc<Gate>,
}

/// The member of a cluster behind a relay, and for whom a routing table has named it.
struct MemberBehind {
    members: Arc<Members>,
    member: Arc<Member>,
    key: TableKey,
    identity: Identity,
    database: String,
    impersonated: Option<String>,
}

/// All relays of this node.
pub struct Relays {
    target: Target,
    login: Login,
    options: RelayOptions,
    seats: Arc<Semaphore>,
    /// One question to the server at a time.
    looks: Semaphore,
    state: Mutex<State>,
    shared: SharedOrigin,
}

#[derive(Default)]
struct State {
    idle: Vec<Idle>,
    lent: HashMap<Fingerprint, usize>,
    info: Option<ServerInfo>,
    look_again_at: Option<Instant>,
}

struct Idle {
    place: Place,
    relay: Relay,
    opened: Instant,
    since: Instant,
}

impl Relays {
    /// No relay is open yet.
    #[must_use]
    pub fn new(address: Address, login: Login, roots: Roots, shared: SharedOrigin) -> Arc<Self> {
        Self::to((Target::Server(Arc::new(address)), None), login, roots, shared)
    }

    /// To the members of a cluster. No relay is open yet.
    #[must_use]
    pub fn of_cluster(members: Arc<Members>, shared: SharedOrigin) -> Arc<Self> {
        let BoltSettings { login, roots, routed, .. } = members.settings().clone();
        Self::to((Target::Cluster(members), routed), login, roots, shared)
    }

    fn to(
        (target, routed): (Target, Option<String>),
        login: Login,
        roots: Roots,
        shared: SharedOrigin,
    ) -> Arc<Self> {
        let options = RelayOptions {
            user_agent: concat!("hopcache/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: Duration::from_millis(limits::ORIGIN_CONNECT_MS_MAX),
            reset_timeout: Duration::from_millis(limits::RELAY_RESET_MS_MAX),
            silence_max: Duration::from_millis(limits::ORIGIN_SILENCE_MS_MAX),
            roots,
            routed,
        };
        let seats = Arc::new(Semaphore::new(limits::RELAYS_MAX));
        let (looks, state) = (Semaphore::new(1), Mutex::default());
        Arc::new(Self { target, login, options, seats, looks, state, shared })
    }

    /// The server's version and agent. One question serves all that wait, and the last answer is used if none comes soon, or
    /// if the server is known to be away.
    pub async fn server_info(&self) -> Option<ServerInfo> {
        if let Some(known) = self.known_info() {
            return known;
        }
        let _only = self.looks.acquire().await.ok()?;
        if let Some(known) = self.known_info() {
            return known;
        }
        let wait_ms = match self.state.lock().info {
            Some(_) => limits::SERVER_INFO_WAIT_MS,
            None => limits::SERVER_INFO_WAIT_MS_FIRST,
        };
        let Server { address, gate } = match &self.target {
            Target::Server(address) => self.server(address),
            Target::Cluster(members) => members.main().server(),
        };
        let looking = timeout(Duration::from_millis(wait_ms), Relay::look(&address, &self.options));
        let looked = match gate.check() {
            Ok(()) => looking.await.unwrap_or(Err(OpenError::TimedOut)),
            Err(_) => Err(OpenError::TimedOut),
        };
        let mut state = self.state.lock();
        match looked {
            Ok(info) => state.info = Some(info),
            Err(error) => tracing::debug!(%error, "Neo4j did not say what it is"),
        }
        let pause_ms =
            if state.info.is_some() { limits::SERVER_INFO_MS } else { limits::SERVER_INFO_RETRY_MS };
        state.look_again_at = Some(Instant::now() + Duration::from_millis(pause_ms));
        state.info.clone()
    }

    /// Whether they lead to the members of a cluster.
    #[must_use]
    pub fn are_of_cluster(&self) -> bool {
        matches!(self.target, Target::Cluster(_))
    }

    /// The server's last answer, however old. Nobody is asked.
    #[must_use]
    pub fn last_info(&self) -> Option<ServerInfo> {
        self.state.lock().info.clone()
    }

    /// The known answer, if it is young enough.
    fn known_info(&self) -> Option<Option<ServerInfo>> {
        let state = self.state.lock();
        state.look_again_at.filter(|at| *at > Instant::now()).map(|_| state.info.clone())
    }

    /// A relay of this principal that speaks like this: an idle one, else a new one. None while the server is known to be
    /// away: a write fails at once then. In a cluster it leads to the leader of the database of `whom`, as soon as there is one.
    ///
    /// # Errors
    /// [`OriginFault`] if there is no room for another relay, or none can be opened.
    pub async fn lend(
        self: &Arc<Self>,
        identity: &Identity,
        dialect: impl Into<Dialect>,
        (database, impersonated): (Option<&str>, Option<&str>),
    ) -> Result<LentRelay, OriginFault> {
        let dialect = dialect.into();
        let (server, behind) = match &self.target {
            Target::Server(address) => (self.server(address), None),
            Target::Cluster(members) => {
                let whom = Whom { identity, database: database.unwrap_or_default(), impersonated };
                let mut tries = Tries::within(Duration::from_millis(limits::ROUTING_WAIT_MS_MAX));
                let member = members.leader(&whom, &mut tries).await?;
                let (members, key) = (Arc::clone(members), members.key_of(&whom));
                let (identity, database) = (identity.clone(), whom.database.to_owned());
                let impersonated = impersonated.map(str::to_owned);
                let server = member.server();
                (server, Some(MemberBehind { members, member, key, identity, database, impersonated }))
            }
        };
        server.gate.check()?;
        let whose = self.login.fingerprint(identity);
        let count = self.count(whose)?;
        let wait = Duration::from_millis(limits::RELAY_WAIT_MS_MAX);
        let seat = match timeout(wait, Arc::clone(&self.seats).acquire_owned()).await {
            Ok(Ok(seat)) => seat,
            _ => return Err(OriginFault::Overloaded),
        };
        let place = (Arc::clone(&server.address), whose, dialect);
        let (relay, opened) = self.idle_or_new(identity, &place, &server).await.inspect_err(|fault| {
            if let (Some(behind), OriginFault::Unreachable(_)) = (&behind, fault) {
                behind.failed(MemberFault::Gone);
            }
        })?;
        let relays = Arc::clone(self);
        Ok(LentRelay { relay: Some(relay), opened, place, behind, relays, _count: count, _seat: seat })
    }

    async fn idle_or_new(
        &self,
        identity: &Identity,
        place: &Place,
        server: &Server,
    ) -> Result<(Relay, Instant), OriginFault> {
        while let Some(idle) = self.take_idle(place) {
            let opened = idle.opened;
            if let Some(relay) = self.standing(idle).await {
                return Ok((relay, opened));
            }
        }
        self.login.check()?;
        let auth = auth_of(&self.login.credentials(identity));
        let opened = self.open(server, &auth, place.2).await;
        let relay = opened.map_err(|fault| self.login.blamed(&place.1, fault))?;
        Ok((relay, Instant::now()))
    }

    fn server(&self, address: &Arc<Address>) -> Server {
        Server { address: Arc::clone(address), gate: Arc::clone(&self.shared.gate) }
    }

    /// Closes the idle relays of a principal: they were logged on before its standing changed, and Neo4j would run statements on
    /// them that it refuses on a new one.
    pub fn forget(&self, identity: &Identity) {
        if let Login::Passthrough = self.login {
            self.state.lock().idle.retain(|idle| idle.place.1 != identity.fingerprint);
        }
    }

    async fn open(
        &self,
        Server { address, gate }: &Server,
        auth: &Auth,
        dialect: Dialect,
    ) -> Result<Relay, OriginFault> {
        let ticket = gate.admit()?;
        let opened = gate.in_doubt_while(pin!(Relay::open(address, auth, dialect, &self.options))).await;
        if matches!(opened, Err(OpenError::TimedOut)) {
            ticket.note_silence();
        }
        let opened = opened.map_err(fault::of_open);
        ticket.report(opened.as_ref().err());
        opened
    }

    /// A relay that still stands. After some idle seconds the server is asked. If it gives no answer, what cut this relay has
    /// cut all that are idle.
    async fn standing(&self, idle: Idle) -> Option<Relay> {
        let Idle { mut relay, since, place, opened } = idle;
        if matches!(self.target, Target::Cluster(_)) && opened.elapsed() >= CLUSTER_LIFE {
            return None;
        }
        if !relay.is_alive().await {
            return None;
        }
        let asked = Instant::now();
        if since.elapsed() < Duration::from_millis(limits::ORIGIN_UNCHECKED_IDLE_MS_MAX) {
            return Some(relay);
        }
        if let Err(error) = relay.reset(&self.options).await {
            tracing::debug!(%error, "a relay died while it was idle");
            self.state.lock().idle.retain(|idle| idle.since > asked || idle.place.0 != place.0);
            return None;
        }
        Some(relay)
    }

    /// The version of relays whose results are gathered: values have the forms that the engine's runs keep.
    pub async fn gathering_version(&self) -> Version {
        let newest = self.server_info().await.map_or(GATHERING_VERSION, |info| info.newest);
        let is_of_bolt_5 = newest.at_least(5, 4) && !newest.has_vectors();
        if is_of_bolt_5 { GATHERING_VERSION } else { newest }
    }

    /// How a relay is reset.
    #[must_use]
    pub fn options(&self) -> &RelayOptions {
        &self.options
    }

    /// Takes note of the bookmark of a result, or of a commit, that came on a relay.
    ///
    /// `begun` is when the statement, or the commit, was sent. Returns the position of the database.
    pub fn saw_bookmark(
        &self,
        database: &str,
        sent: Bookmark,
        returned: &str,
        begun: Instant,
    ) -> Option<Position> {
        self.shared.newest.saw(database, sent, returned, begun).map(|range| range.to())
    }

    /// What a transaction that has written counts up before its COMMIT, if writes are marked.
    pub fn marker(&self) -> Option<&Marker> {
        self.shared.marker.as_ref()
    }

    /// The room for results that are gathered from a relay.
    pub fn results(&self) -> &ResultBudget {
        &self.shared.results
    }

    /// Relays that are lent.
    #[must_use]
    pub fn lent(&self) -> usize {
        limits::RELAYS_MAX - self.seats.available_permits()
    }

    fn count(self: &Arc<Self>, whose: Fingerprint) -> Result<Count, OriginFault> {
        let max = match self.login {
            Login::Passthrough => limits::RELAYS_PER_PRINCIPAL_MAX,
            Login::Service(_) => limits::RELAYS_MAX,
        };
        let mut state = self.state.lock();
        let lent = state.lent.entry(whose).or_insert(0);
        if *lent >= max {
            return Err(OriginFault::TooManyRuns);
        }
        *lent += 1;
        Ok(Count { relays: Arc::clone(self), whose })
    }

    fn take_idle(&self, place: &Place) -> Option<Idle> {
        let mut state = self.state.lock();
        state.drop_old();
        let at = state.idle.iter().rposition(|idle| idle.place == *place)?;
        Some(state.idle.remove(at))
    }

    fn put_idle(&self, place: Place, relay: Relay, opened: Instant) {
        let mut state = self.state.lock();
        state.drop_old();
        if state.idle.len() >= limits::RELAYS_IDLE_MAX {
            // The least recently used one.
            state.idle.remove(0);
        }
        state.idle.push(Idle { place, relay, opened, since: Instant::now() });
    }
}

impl State {
    fn drop_old(&mut self) {
        let idle_max = Duration::from_millis(limits::ORIGIN_IDLE_MS_MAX);
        self.idle.retain(|idle| idle.since.elapsed() < idle_max);
    }
}

/// Counts a relay of a principal while it lives.
struct Count {
    relays: Arc<Relays>,
    whose: Fingerprint,
}

impl Drop for Count {
    fn drop(&mut self) {
        let mut state = self.relays.state.lock();
        if let Some(lent) = state.lent.get_mut(&self.whose) {
            *lent -= 1;
            if *lent == 0 {
                state.lent.remove(&self.whose);
            }
        }
    }
}

/// A relay that one session uses. On drop it is kept for the next session if nothing is open on it. Otherwise it is
/// closed, which ends its statements at Neo4j.
pub struct LentRelay {
    relay: Option<Relay>,
    opened: Instant,
    place: Place,
    /// In a cluster.
    behind: Option<MemberBehind>,
    relays: Arc<Relays>,
    _count: Count,
    _seat: OwnedSemaphorePermit,
}

impl LentRelay {
    /// Takes note of a failure of Neo4j, whose code `code` reads. In a cluster it may say that its member does not lead the
    /// database, or does not serve it: the next relay then leads elsewhere. Returns what it says. That the database is read-only says
    /// nothing of the member, which is asked about that.
    pub async fn saw_failure(&self, code: impl FnOnce() -> String) -> Option<MemberFault> {
        let behind = self.behind.as_ref()?;
        let code = code();
        let fault = MemberFault::of_code(&code)?;
        behind.failed(fault);
        let MemberBehind { members, member, identity, database, impersonated, .. } = behind;
        let whom = Whom { identity, database, impersonated: impersonated.as_deref() };
        let is_read_only = Box::pin(members.is_read_only(&whom, member, &code)).await;
        (!is_read_only).then_some(fault)
    }

    /// The member of a cluster that it leads to.
    #[must_use]
    pub fn member(&self) -> Option<&MemberName> {
        self.behind.as_ref().map(|behind| behind.member.name())
    }

    /// Resets it for the next session. If that fails, it is closed. Returns what Neo4j says of the last request.
    pub async fn reset(mut self) -> Interrupted {
        let Some(relay) = self.relay.as_mut() else { return Interrupted::Unknown };
        match relay.reset(&self.relays.options).await {
            Ok(interrupted) => interrupted,
            Err(error) => {
                tracing::debug!(%error, "a relay is closed");
                self.relay = None;
                Interrupted::Unknown
            }
        }
    }
}

impl Deref for LentRelay {
    type Target = Relay;

    #[expect(clippy::expect_used, reason = "only `reset` and `drop`, which consume it, take the relay out")]
    fn deref(&self) -> &Relay {
        self.relay.as_ref().expect("a lent relay")
    }
}

impl DerefMut for LentRelay {
    #[expect(clippy::expect_used, reason = "only `reset` and `drop`, which consume it, take the relay out")]
    fn deref_mut(&mut self) -> &mut Relay {
        self.relay.as_mut().expect("a lent relay")
    }
}

impl Drop for LentRelay {
    fn drop(&mut self) {
        if let Some(relay) = self.relay.take()
            && relay.is_clean()
        {
            self.relays.put_idle(self.place.clone(), relay, self.opened);
        }
    }
}

impl Member {
    fn server(&self) -> Server {
        Server { address: Arc::clone(self.address()), gate: Arc::clone(self.gate()) }
    }
}

impl MemberBehind {
    fn failed(&self, fault: MemberFault) {
        self.members.failed(&self.key, self.member.name(), fault);
    }
}

#[cfg(test)]
mod tests;
