//! Settings of the origin: how this node uses its Neo4j server, and which credentials it logs on with. Values and
//! defaults only.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hopcache_bolt::{Address, Roots};
use hopcache_core::limits;
use hopcache_core::turns::QueueOrder;
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::OriginFault;

use super::ResultBudget;
use super::gate::Gate;
use super::marker::Marker;
use super::members::Members;
use super::newest::NewestPositions;
use super::pools::Fingerprint;
pub use super::service_login::ServiceLogin;

/// The credentials with which a run logs on.
#[derive(Debug, Clone)]
pub enum Login {
    /// The credentials of each client.
    Passthrough,
    /// The same for every client.
    Service(Arc<ServiceLogin>),
}

impl Login {
    /// These credentials for every client.
    #[must_use]
    pub fn service(credentials: Credentials) -> Self {
        Self::Service(Arc::new(ServiceLogin::fixed(credentials)))
    }

    /// The principal of a connection. Whoever has it may use the connection.
    pub(super) fn fingerprint(&self, identity: &Identity) -> Fingerprint {
        match self {
            Self::Passthrough => identity.fingerprint,
            // In service mode this is the only principal.
            Self::Service(login) => login.fingerprint(),
        }
    }

    pub(super) fn credentials(&self, identity: &Identity) -> Credentials {
        match self {
            Self::Passthrough => identity.credentials.clone(),
            Self::Service(login) => login.credentials(),
        }
    }

    /// Fails while Neo4j refuses this node's own credentials: nobody tries them but [`Origin::reach`], at a fixed pace.
    ///
    /// [`Origin::reach`]: hopcache_engine::ports::Origin::reach
    pub(super) fn check(&self) -> Result<(), OriginFault> {
        match self {
            Self::Service(login) if login.refusal().stands() => Err(own_login_refused()),
            _ => Ok(()),
        }
    }

    /// A refusal of this node's own credentials does not concern the client's: for the client Neo4j is unavailable.
    /// The refusal is kept until `reach` succeeds. The gate counts it as an answer.
    pub(super) fn blamed(&self, whose: &Fingerprint, fault: OriginFault) -> OriginFault {
        match (self, &fault) {
            (Self::Service(login), OriginFault::Unauthorized(failure)) => {
                login.refused(whose, failure);
                own_login_refused()
            }
            _ => fault,
        }
    }
}

pub(super) fn own_login_refused() -> OriginFault {
    OriginFault::Unreachable("it refuses this node's own log-on".to_owned())
}

/// Plain data: what the runs of the engine share with the statements on relays.
#[derive(Clone)]
pub struct SharedOrigin {
    /// What this node has seen of each database's transactions.
    pub newest: Arc<NewestPositions>,
    /// The room for results.
    pub results: Arc<ResultBudget>,
    /// What each write counts up, if writes are marked (`freshness.marker`).
    pub marker: Option<Marker>,
    /// Whether this node can reach the server.
    pub gate: Arc<Gate>,
    /// The credentials of both.
    pub login: Login,
    /// The members, if the origin is a cluster. The origin makes them.
    pub members: Arc<OnceLock<Arc<Members>>>,
}

impl SharedOrigin {
    /// Nothing is seen yet, and all room is free. The engine has `run_slots` runs at a time.
    #[must_use]
    pub fn new(run_slots: usize) -> Self {
        let wait = Duration::from_millis(limits::ORIGIN_WAIT_MS_MAX);
        let results = Arc::new(ResultBudget::new(wait, run_slots));
        Self {
            newest: Arc::default(),
            results,
            marker: None,
            gate: Arc::default(),
            login: Login::Passthrough,
            members: Arc::default(),
        }
    }
}

/// How this node uses its Neo4j server.
#[derive(Clone)]
pub struct BoltSettings {
    /// Where it is.
    pub address: Address,
    /// The authorities that may sign its certificate.
    pub roots: Roots,
    /// The credentials of runs.
    pub login: Login,
    /// Runs at a time, at most.
    pub max_concurrent: usize,
    /// Whether the number of runs follows the server's response times.
    pub is_adaptive: bool,
    /// The order of the runs that wait.
    pub line: QueueOrder,
    /// Longest run, for any request.
    pub timeout: Duration,
    /// Longest wait for a run slot, and for a connection of the principal.
    pub wait: Duration,
    /// Time limit for opening a connection, log-on included.
    pub connect_timeout: Duration,
    /// Connections of one principal.
    pub connections_per_principal: usize,
    /// Principals with connections.
    pub principals: usize,
    /// For how long an idle connection is kept.
    pub idle: Duration,
    /// The longest life of a connection, if it has one.
    pub life: Option<Duration>,
    /// If the server is a member of a cluster: the address, `host:port`, that names the cluster.
    pub routed: Option<String>,
    /// Whether this origin follows the file of this node's own password.
    pub follows_password: bool,
    /// What this node has seen of each database's transactions.
    pub newest: Arc<NewestPositions>,
    /// The room for results, if it is shared with relays. `None`: the origin has its own.
    pub results: Option<Arc<ResultBudget>>,
    /// What each write counts up, if writes are marked.
    pub marker: Option<Marker>,
    /// Whether this node can reach the server, if that is shared with relays. `None`: the origin has its own gate.
    pub gate: Option<Arc<Gate>>,
}

impl BoltSettings {
    /// Defaults of INTERFACE section 3 and of `limits`, for a server.
    #[must_use]
    pub fn new(address: Address, login: Login) -> Self {
        Self {
            address,
            roots: Roots::of_system(),
            login,
            max_concurrent: limits::ORIGIN_LIMIT_MAX,
            is_adaptive: false,
            line: QueueOrder::default(),
            timeout: Duration::from_secs(30),
            wait: Duration::from_millis(limits::ORIGIN_WAIT_MS_MAX),
            connect_timeout: Duration::from_millis(limits::ORIGIN_CONNECT_MS_MAX),
            connections_per_principal: 32,
            principals: limits::ORIGIN_PRINCIPALS_MAX,
            idle: Duration::from_millis(limits::ORIGIN_IDLE_MS_MAX),
            life: None,
            routed: None,
            follows_password: true,
            newest: Arc::default(),
            results: None,
            marker: None,
            gate: None,
        }
    }
}
