//! The sentence about a query as `explain` finds it. The first row that fits speaks:
//!
//! 1. the text, the server, the bookmark's form or the size of the last result excludes the cache ([`super::reasons`]);
//! 2. caching is off;
//! 3. a copy that answers: proved, or fresh by age, and as late as the request's bookmark;
//! 4. the key is held back;
//! 5. a copy that does not answer by itself: stale, expired, ended by a write, unreadable;
//! 6. no copy: a run is under way, the store is away, such reads are run directly, the user is unknown, nobody has asked.

use std::time::Duration;

use hopcache_cypher::verdict::Decider;
use hopcache_engine::Verdict;
use hopcache_engine::outcome::Reason;

use super::parts::time_of_day;
use super::{Sentence, reasons, span};

/// Plain data: what is known of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The way of its statement.
    pub verdict: Verdict,
    /// The name in its text that decides, if one does.
    pub decider: Option<Decider>,
    /// Whether `entry.ttl` is 0.
    pub is_off: bool,
    /// The copy in the owner's memory, or else the stored one.
    pub copy: Option<CopyFacts>,
    /// How the request's bookmarks stand to the copy.
    pub bookmark: BookmarkFact,
    /// For how long its runs are held back.
    pub held_back_ms: Option<u64>,
    /// Whether its last result was too large for an entry.
    pub is_too_large: bool,
    /// The run under way.
    pub run: Option<Run>,
    /// The store's trouble, if it could not be asked.
    pub store_error: Option<String>,
    /// What the caching of such reads is worth, if the asked node runs them directly at present.
    pub direct: Option<DirectFacts>,
    /// Whose entries are looked at.
    pub user: User,
}

/// Plain data: why reads of a pattern are run directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectFacts {
    /// Reads of the last seconds at the asked node.
    pub reads: u64,
    /// The hits among them.
    pub hits: u64,
    /// The usual time of a run, in microseconds.
    pub run_us: u64,
    /// The share of hits from which caching pays, in percent.
    pub paying_percent: u64,
}

/// Plain data: a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFacts {
    /// The node that answers from its memory, or the node that stored it.
    pub place: Place,
    /// Time since its run began.
    pub age_ms: u64,
    /// Time since it was last proved, if that is known.
    pub proved_ms_ago: Option<u64>,
    /// Freshness left by age; negative when stale.
    pub ttl_ms: i64,
    /// Whether the store or the memory still serves it.
    pub state: CopyState,
    /// The transaction up to which it is proved, if it is.
    pub proved_at: Option<u64>,
    /// The transaction that its run carried, if its run told one.
    pub read_at: Option<u64>,
    /// Whether proofs are on (`freshness.mode`).
    pub has_proofs: bool,
    /// Why it is not proved, if it is not.
    pub unproved: Unproved,
    /// What a write has to touch to end it; empty if that is not known.
    pub ends_with: Vec<String>,
    /// The database that it was read from.
    pub database: String,
    /// The write that has ended it, if one has and this node remembers it.
    pub ended_by: Option<EndingWrite>,
}

/// A write that has ended a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndingWrite {
    /// How long ago the node heard of it.
    pub ago_ms: u64,
    /// The node through which it went, if that is known.
    pub by: Option<String>,
    /// Its transaction, or a later one.
    pub transaction: Option<u64>,
    /// Whether somebody told the node of it (`hopcache invalidate`, or Neo4j's change data): it went through no node.
    pub is_told: bool,
    /// What it has touched of what the copy depends on; empty: anything.
    pub touched: Vec<String>,
    /// Whether it says by which values it found that.
    pub has_values: bool,
}

impl EndingWrite {
    fn sentence(&self, cached: &str) -> Sentence {
        let by = self.by.as_ref().map(|by| format!(" through {by}")).unwrap_or_default();
        let transaction = self.transaction.map(|id| format!(", transaction {id}")).unwrap_or_default();
        let ago = span(self.ago_ms);
        if self.is_told {
            let at = self.by.as_ref().map(|by| format!(" at {by}")).unwrap_or_default();
            let what = self.touched.first().map_or("everything", String::as_str);
            return Sentence::alone(format!(
                "Ended {ago} ago by an order{at} to invalidate {what}, or by Neo4j's change data{transaction}: {cached}"
            ));
        }
        let Some(first) = self.touched.first() else {
            return Sentence::new(
                format!(
                    "Ended {ago} ago by a write{by} that may have changed anything{transaction}: {cached}"
                ),
                "Hopcache does not know what that write changes: it calls a procedure, or uses Cypher that Hopcache does not read.",
            );
        };
        let ended = format!("Ended {ago} ago by a write to {first}{by}{transaction}: {cached}");
        if self.has_values {
            return Sentence::alone(ended);
        }
        Sentence::new(
            ended,
            "That write names no value by which it finds what it changes, so it ends every result that reads this. Give its MATCH a \
             key: `(n:User {id: $id})`.",
        )
    }
}

/// Why a copy is not proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unproved {
    /// This node is not in touch with the store, through which nodes hear of writes. Since when (since 1970), if that is known.
    StoreAway(Option<Duration>),
    /// Neo4j does not say what it has committed. Since when.
    OriginAway(Option<Duration>),
    /// It is so new that nobody has looked at the database since.
    New,
    /// Somebody wrote past Hopcache, or the node cannot rule it out. The write, if the node knows of one.
    WrittenPast(Option<PastWrite>),
}

/// Plain data: a write past Hopcache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastWrite {
    /// How long ago a node noticed it.
    pub ago_ms: u64,
    /// The newest transaction then.
    pub transaction: u64,
}

impl Unproved {
    fn remedy(self, copy: &CopyFacts) -> String {
        let away = |what: &str, since: Option<Duration>| {
            let since = since.map(|since| format!(" since {}", time_of_day(since))).unwrap_or_default();
            format!("{what} has been away{since}")
        };
        match self {
            Self::StoreAway(since) => format!(
                "{}, so this node does not hear of other nodes' writes: `hopcache status` says what is wrong with it. \
                 Entries are proved again when it is back.",
                away("The store", since)
            ),
            Self::OriginAway(since) => format!(
                "{}, so nobody can say what was written: `hopcache status` says what is wrong. \
                 Entries are proved again when it is back.",
                away("Neo4j", since)
            ),
            Self::New => {
                "Nothing to do: it is new. The next look at the database proves it, within a second."
                    .to_owned()
            }
            Self::WrittenPast(write) => {
                // After a restart of Neo4j nodes cannot tell either.
                let which = write.map_or_else(String::new, |write| {
                    let (ago, newest) = (span(write.ago_ms), write.transaction);
                    format!(", or a restart of Neo4j after which nodes count anew, noticed {ago} ago when the newest transaction was {newest},")
                });
                format!(
                    "A write that did not go through Hopcache{which} may have changed it since it was read, and all that was cached of this \
                     database before, of all users. If it is old, end it now: `{}` for all users, or `hopcache purge --query-key` with its key \
                     for this user and text alone. A writer that tells of each write so ends what it changed at once; the rest stays proved only if \
                     every such writer tells and `freshness.watch_interval = \"0s\"`.",
                    copy.invalidation()
                )
            }
        }
    }
}

/// Where a copy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the memory of this node.
    Memory(String),
    /// In the store only.
    Store,
}

/// What a copy is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyState {
    /// Within its TTL.
    Fresh,
    /// Past it, within grace.
    Stale,
    /// Past grace: kept for when Neo4j fails.
    Expired,
    /// A write has touched it: kept for when Neo4j fails.
    Ended,
    /// Its bytes do not fit its checksum.
    Unreadable,
}

/// How the bookmarks of a request stand to a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BookmarkFact {
    /// There are none, or the copy has seen them.
    Seen,
    /// They name a later transaction than the copy has seen.
    Later,
    /// This node cannot read them.
    Unreadable,
}

/// A run under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The node that runs it, if it is known.
    pub node: Option<String>,
    /// Requests that wait for it.
    pub followers: u32,
}

/// Whose entries are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user; `None` for requests without credentials.
    pub name: Option<String>,
    /// Whether the asked node has any result of this user.
    pub has_results: bool,
}

impl Facts {
    /// The reason of the bypass, if the query bypasses the cache: as `Cache-Status` and the metric would name it.
    #[must_use]
    pub fn bypass(&self) -> Option<Reason> {
        match self.verdict {
            Verdict::Bypass(reason) => Some(reason),
            _ if self.bookmark == BookmarkFact::Unreadable => Some(Reason::Bookmarks),
            _ if self.is_too_large && !self.copy.as_ref().is_some_and(|copy| self.answers(copy)) => {
                Some(Reason::TooLarge)
            }
            _ => None,
        }
    }

    /// The sentence, and what to do.
    #[must_use]
    pub fn sentence(&self) -> Sentence {
        match self.bypass() {
            Some(Reason::Write) if self.decider.is_none() => Sentence::new(
                "Not cached: Neo4j says that the statement writes.",
                "Nothing to do if it does. If a procedure in it only reads, ask for a read another way.",
            ),
            Some(reason) => reasons::of(reason, self.decider.as_ref()),
            None if self.is_off => {
                Sentence::new("Not cached: caching is off.", "Set `entry.ttl` to more than 0.")
            }
            None => self.of_copy(),
        }
    }

    fn of_copy(&self) -> Sentence {
        match (&self.copy, self.held_back_ms) {
            (Some(copy), _) if self.answers(copy) => copy.answering(),
            (copy, Some(left_ms)) => held_back(left_ms, copy.as_ref()),
            (Some(copy), None) if self.bookmark == BookmarkFact::Later && copy.is_current() => {
                copy.behind_bookmark()
            }
            (Some(copy), None) => copy.past(),
            (None, None) => self.absent(),
        }
    }

    fn answers(&self, copy: &CopyFacts) -> bool {
        copy.is_current() && self.bookmark == BookmarkFact::Seen
    }

    fn absent(&self) -> Sentence {
        if let Some(run) = &self.run {
            let node = run.node.as_ref().map_or_else(String::new, |node| format!(" at {node}"));
            let waiting = match run.followers {
                0 => String::new(),
                1 => "; one request waits for it".to_owned(),
                more => format!("; {more} requests wait for it"),
            };
            return Sentence::alone(format!("Not cached yet: it is being run{node}{waiting}."));
        }
        if let Some(error) = &self.store_error {
            return Sentence::new(
                format!("Not cached: the store cannot be asked ({error})."),
                "Look at the store: `hopcache status` says what is wrong.",
            );
        }
        match self.direct {
            Some(direct) => direct.sentence(),
            None => self.nobody_has_asked(),
        }
    }

    fn nobody_has_asked(&self) -> Sentence {
        match &self.user {
            User { name: None, has_results: false } => Sentence::new(
                "Not cached: nobody has asked without credentials.",
                "Entries are kept for each user: name the user of your application (`--principal`, HOPCACHE_USER).",
            ),
            User { name: Some(name), has_results: false } => Sentence::new(
                format!("Not cached yet: neither its owner nor Redis has it for the user `{name}`."),
                "Ask for it once. The node that you ask has no other result of this user: if your application asks as another one, name that user \
                 (`--principal`, HOPCACHE_USER).",
            ),
            User { name, .. } => {
                let whose = name
                    .as_ref()
                    .map_or_else(|| "without credentials".to_owned(), |name| format!("as `{name}`"));
                Sentence::new(
                    format!(
                        "Not cached yet: nobody has asked for it {whose} with these parameters, \
                         or its entry has expired, or was purged or evicted."
                    ),
                    "Ask for it once. If it should be there, compare text and parameters with your application's.",
                )
            }
        }
    }
}

impl DirectFacts {
    fn sentence(self) -> Sentence {
        let Self { reads, hits, run_us, paying_percent } = self;
        // To a tenth of a millisecond, and no run takes none.
        let tenths = ((run_us + 50) / 100).max(1);
        let run_ms = format!("{}.{}", tenths / 10, tenths % 10);
        Sentence::new(
            format!(
                "Run directly at present: {hits} of {reads} reads hit, a run takes {run_ms} ms. \
                 Caching pays from {paying_percent} % hits on.",
            ),
            "Nothing to do: such reads are cached when they begin to return. `entry.only_if_it_pays = false` caches all of them.",
        )
    }
}

/// The option with the name that stands between these in a need, if it is one that a shell takes as it stands.
fn named(option: &str, need: &str, before: &str, behind: &[char]) -> Option<String> {
    let name = need.strip_prefix(before)?.split(behind).next()?;
    let is_plain = !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
    is_plain.then(|| format!("{option} {name}"))
}

impl CopyFacts {
    fn is_current(&self) -> bool {
        self.proved_at.is_some() || self.state == CopyState::Fresh
    }

    fn place(&self) -> String {
        match &self.place {
            Place::Memory(node) => format!("at {node}"),
            Place::Store => "in the store".to_owned(),
        }
    }

    /// A copy that answers the next request.
    fn answering(&self) -> Sentence {
        let (place, age) = (self.place(), span(self.age_ms));
        let left = span(u64::try_from(self.ttl_ms).unwrap_or(0));
        match (self.proved_at, self.ends()) {
            (Some(transaction), ends) => {
                let proved =
                    self.proved_ms_ago.map_or_else(String::new, |ago| format!(" {} ago,", span(ago)));
                Sentence::alone(format!(
                    "Cached {place}: read {age} ago, proved current{proved} at transaction {transaction}. {ends}"
                ))
            }
            (None, _) if !self.has_proofs || self.read_at.is_none() => {
                Sentence::alone(format!("Cached {place}: read {age} ago, fresh for another {left}."))
            }
            (None, ends) => Sentence::new(
                format!("Cached {place}: read {age} ago, fresh for another {left}, not proved. {ends}"),
                self.unproved.remedy(self),
            ),
        }
    }

    /// What ends it, as a sentence.
    fn ends(&self) -> String {
        const NAMED_MAX: usize = 4;
        let short = |need: &String| need.trim_matches(['[', ']']).trim_end_matches(" of nodes").to_owned();
        let mut named: Vec<String> = self.ends_with.iter().map(short).collect();
        let more = named.len().saturating_sub(NAMED_MAX);
        named.truncate(NAMED_MAX);
        match (named.pop(), more) {
            (None, _) => "No write ends it.".to_owned(),
            (Some(last), 0) if named.is_empty() => format!("A write to {last} ends it."),
            (Some(last), 0) => format!("A write to {} or {last} ends it.", named.join(", ")),
            (Some(last), more) => format!("A write to {}, {last} or {more} more ends it.", named.join(", ")),
        }
    }

    /// The command that ends it as a write would, by a label, a type or a key that it depends on, so that the value of no parameter has to
    /// be quoted for a shell.
    fn invalidation(&self) -> String {
        let needs = || self.ends_with.iter().map(String::as_str);
        let label = |need: &str| named("--label", need.trim_start_matches('('), ":", &[' ', ')']);
        let of_type = |need: &str| named("--type", need, "[:", &[']']);
        let key = |need: &str| named("--key", need, ".", &[' ']);
        let what =
            needs().find_map(label).or_else(|| needs().find_map(of_type)).or_else(|| needs().find_map(key));
        let database = &self.database;
        format!("hopcache invalidate --database {database} {}", what.as_deref().unwrap_or("--anything"))
    }

    fn behind_bookmark(&self) -> Sentence {
        let read_at = self.read_at.map_or_else(String::new, |id| format!(" at transaction {id}"));
        Sentence::new(
            format!(
                "Cached {}: read {} ago{read_at}, and the bookmark asks for a later one: \
                 the next request with it is a run.",
                self.place(),
                span(self.age_ms),
            ),
            "Nothing to do: that is what a bookmark asks for. The run's result answers the requests after it.",
        )
    }

    /// A copy that does not answer by itself.
    fn past(&self) -> Sentence {
        let (place, age) = (self.place(), span(self.age_ms));
        let anew = "The next request runs it; this result answers only if Neo4j fails.";
        match self.state {
            CopyState::Fresh | CopyState::Stale => Sentence::new(
                format!(
                    "Stale: cached {place} {age} ago, past its TTL for {}. It still answers, and is read anew.",
                    span(self.ttl_ms.unsigned_abs()),
                ),
                "Raise `entry.ttl` if it may be older.",
            ),
            CopyState::Expired => Sentence::new(
                format!("Expired: cached {place} {age} ago. {anew}"),
                "Raise `entry.ttl` if it may be older.",
            ),
            CopyState::Ended => match &self.ended_by {
                Some(write) => write.sentence(&format!("cached {place} {age} ago. {anew}")),
                None => Sentence::alone(format!("Ended by a write: cached {place} {age} ago. {anew}")),
            },
            CopyState::Unreadable => Sentence::new(
                "Not cached: the stored entry does not fit its checksum. The next request replaces it.",
                "Compare `cluster.key` and `cluster.data_key_file` of the nodes if this happens often.",
            ),
        }
    }
}

fn held_back(left_ms: u64, copy: Option<&CopyFacts>) -> Sentence {
    let meanwhile = match copy {
        Some(CopyFacts { state: CopyState::Unreadable, .. }) | None => "Requests get 503 meanwhile",
        Some(_) => "Requests get the old result meanwhile, marked",
    };
    Sentence::new(
        format!("Held back for another {}: its last runs brought no answer. {meanwhile}.", span(left_ms)),
        "Look for a lock or a slow plan at Neo4j (`SHOW TRANSACTIONS`), or raise `origin.timeout` if it needs longer.",
    )
}

#[cfg(test)]
mod tests;
