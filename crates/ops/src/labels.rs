//! The closed lists of labels that operators see and that no enum of the engine has: labels of metrics, and details of
//! `Cache-Status`.

use hopcache_core::refresh::{self, Mode};
use hopcache_core::words::Word;
use hopcache_engine::degree::DegreeSource;
#[cfg(doc)]
use hopcache_engine::event::HandoverWord;
use hopcache_engine::outcome::{Class, Detail, How, Reason};
use hopcache_engine::refresh_view::Timing;

hopcache_core::words! {
    /// The protocol of a client: a label of requests.
    pub enum Front {
        /// The Query API.
        Http = "http",
        /// Bolt.
        Bolt = "bolt",
    }

    /// The class of a request, without its particulars.
    pub enum AnswerClass {
        /// [`Class::Hit`].
        Hit = "hit",
        /// [`Class::Miss`].
        Miss = "miss",
        /// [`Class::Bypass`].
        Bypass = "bypass",
    }

    /// Labels of `hopcache_read_anew_total`: whether the answer is the same as before.
    pub enum ReadAnew {
        /// The same.
        Same = "same",
        /// Another.
        Other = "other",
    }

    /// Labels `part` of `hopcache_degraded`, as in `degraded` of `readyz`.
    pub enum Part {
        /// The store cannot be used.
        Store = "store",
        /// The origin cannot be used.
        Origin = "origin",
        /// Members are missing, or have another ring.
        Members = "members",
        /// A peer cannot be used.
        Peer = "peer",
        /// This node refused runs in the last seconds.
        Load = "load",
        /// This node refused second tries in the last seconds.
        Retries = "retries",
        /// The origin answers much slower than usual.
        Slow = "slow",
    }

    /// Labels of `hopcache_handover_total`.
    pub enum Handover {
        /// [`HandoverWord::Fetched`].
        Fetched = "fetched",
        /// [`HandoverWord::Absent`].
        Absent = "absent",
        /// [`HandoverWord::Unreached`].
        Unreached = "unreached",
        /// [`HandoverWord::Given`].
        Given = "given",
        /// [`HandoverWord::Notified`].
        PlansTold = "plans_told",
        /// [`HandoverWord::Learned`].
        PlansLearned = "plans_learned",
        /// [`HandoverWord::HandedOn`].
        HandedOn = "handed_on",
    }

    /// Labels of `hopcache_degree_queries_total`.
    pub enum DegreeAnswer {
        /// The server gave a degree.
        Known = "known",
        /// It gave none.
        Unknown = "unknown",
    }

    /// Labels of `hopcache_prefetch_kinds_total`: the launch, and how it ended.
    pub enum PrefetchEnd {
        /// It began.
        Launched = "launched",
        /// Its copy was used.
        Used = "used",
        /// A request joined its flight.
        Late = "late",
        /// It ended otherwise.
        Wasted = "wasted",
    }

    /// Labels of `hopcache_peer_unauthenticated_total`.
    pub enum Unauthenticated {
        /// Not in the format, or cut.
        Malformed = "malformed",
        /// Of a session that this node does not know.
        UnknownSession = "unknown_session",
        /// The proof is wrong.
        Forged = "forged",
        /// Seen before.
        Replayed = "replayed",
        /// Of a node of another wire version.
        OtherVersion = "other_version",
    }

    /// Labels of `hopcache_gossip_bytes_total`.
    pub enum GossipDirection {
        /// To this node.
        Received = "received",
        /// From this node.
        Sent = "sent",
    }

    /// A node's listeners: labels of their connections.
    pub enum Listener {
        /// The Query API.
        Client = "client",
        /// Other nodes.
        Peer = "peer",
        /// Operators.
        Admin = "admin",
        /// Bolt.
        Bolt = "bolt",
    }

    /// Labels `outcome` of `hopcache_tls_reloads_total`.
    pub enum TlsReload {
        /// New connections get the new certificate.
        Used = "used",
        /// The files cannot be used.
        Refused = "refused",
    }

    /// Labels `peer_kind` of `hopcache_breaker_transitions_total`.
    pub enum BreakerOf {
        /// The store's.
        Store = "store",
        /// The origin's.
        Origin = "origin",
        /// A peer's.
        Peer = "peer",
    }
}

/// The status of an answer, as a label. Statuses without a label of their own count as 500.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusWord(usize);

const STATUSES: [(u16, &str); 16] = [
    (200, "200"),
    (202, "202"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (413, "413"),
    (415, "415"),
    (429, "429"),
    (500, "500"),
    (501, "501"),
    (503, "503"),
    (504, "504"),
];

impl StatusWord {
    /// The label of a status.
    #[must_use]
    pub fn of(status: u16) -> Self {
        let place_of = |status| STATUSES.iter().position(|(each, _)| *each == status);
        Self(place_of(status).or_else(|| place_of(500)).unwrap_or_default())
    }
}

impl Word for StatusWord {
    const ALL: &'static [Self] = &{
        let mut all = [Self(0); STATUSES.len()];
        let mut place = 0;
        while place < all.len() {
            all[place] = Self(place);
            place += 1;
        }
        all
    };

    fn word(self) -> &'static str {
        STATUSES[self.0].1
    }

    fn place(self) -> usize {
        self.0
    }
}

/// The reason with this label.
#[must_use]
pub fn reason_of(label: &str) -> Option<Reason> {
    Reason::ALL.iter().copied().find(|reason| reason.word() == label)
}

/// The `Cache-Status` detail of a node that asked the owner of the key.
pub const DETAIL_OWNER: &str = "owner";
/// The `Cache-Status` detail of a node that asked the node that holds the transaction.
pub const DETAIL_HOLDER: &str = "holder";

/// The `Cache-Status` detail of a hit or a miss. A failure has a status instead.
#[must_use]
pub fn answer_detail(detail: Detail) -> Option<&'static str> {
    (detail != Detail::Failed).then_some(detail.as_str())
}

/// A class without its particulars.
#[must_use]
pub const fn answered(class: &Class) -> AnswerClass {
    match class {
        Class::Hit => AnswerClass::Hit,
        Class::Miss { .. } => AnswerClass::Miss,
        Class::Bypass(_) => AnswerClass::Bypass,
    }
}

/// The detail of an answer: why it bypassed the cache, or more about a hit or a miss.
#[must_use]
pub fn detail_of(how: &How) -> Option<&'static str> {
    match how.class {
        Class::Bypass(reason) => Some(reason.word()),
        Class::Hit | Class::Miss { .. } => how.detail.and_then(answer_detail),
    }
}

/// The status of a statement over Bolt that Neo4j has answered itself, as the Query API would say it.
#[must_use]
pub const fn status_of_passed(is_success: bool) -> u16 {
    if is_success { 202 } else { 400 }
}

/// How β is chosen: the value of `refresh.mode`.
#[must_use]
pub const fn refresh_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Plain => "plain",
        Mode::TopologySensitive => "topology_sensitive",
        Mode::Adaptive => "adaptive",
    }
}

/// How the next refresh of a key is triggered.
#[must_use]
pub const fn refresh_timing(timing: Timing) -> &'static str {
    match timing {
        Timing::Off => "off",
        Timing::BelowMinTtl => "off: the TTL is below refresh.min_ttl",
        Timing::NotStored => "off: the store has never taken this copy",
        Timing::NoCopy => "no copy at the owner",
        Timing::Planned(refresh::Timing::Formula) => "by chance, by the mode's formula",
        Timing::Planned(refresh::Timing::Prior) => "by chance, by degree: no history yet",
        Timing::Planned(refresh::Timing::Fitted) => "by chance, fitted to rate and cost",
        Timing::Planned(refresh::Timing::RefreshAhead) => "ahead of the end, on the first hit in the window",
        Timing::Planned(refresh::Timing::LateAccepted) => {
            "by chance, often late: asked too rarely, or too costly for its TTL"
        }
    }
}

/// Where a degree comes from.
#[must_use]
pub const fn degree_source(source: DegreeSource) -> &'static str {
    match source {
        DegreeSource::Hint => "hint",
        DegreeSource::Learned => "learned",
        DegreeSource::Unknown => "unknown",
    }
}
