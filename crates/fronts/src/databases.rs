//! The database of a client that names none, and whether a named database exists. Neo4j decides both. This node asks
//! it now and then for each principal. All fronts of a node share the answers.
//!
//! While Neo4j cannot be asked, or is silent, an earlier answer counts for as long as `entry.stale_if_error`. So an
//! outage does not keep a client from BEGIN and ROUTE:
//!
//! | the client names | and this node | the database is |
//! |---|---|---|
//! | a database or none | has had Neo4j's answer | the one of that answer |
//! | a database | has had none | the one that is named: if there is none, its first statement fails |
//! | none | has had none | the one of another node's answer; without one the client is refused |
//!
//! Over HTTP each request names its database, and over Bolt most clients do. So a node asks for the home database of all whom it
//! accepts: they may come without a name in an outage.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hopcache_core::limits::{
    CREDENTIALS_RETRY_WAIT_MS, DATABASES_MAX, DATABASES_MS, DATABASES_RETRY_MS, FOLLOWERS_MAX,
    PEER_ANSWERS_WAIT_MS,
};
use hopcache_core::time::Millis;
use hopcache_core::turns::RunClass;
use hopcache_engine::fetch_times::FetchTimes;
use hopcache_engine::flight::{FlightBounds, FlightTable, Follower, Leader, Seat, Wait};
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{AccessMode, Origin, OriginError, OriginFault, OriginRun, RunBookmarks, Users};
use hopcache_packstream::Value;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::credentials::Fingerprint;
use crate::credentials::credential_messages::KnownHome;

/// The home database if the server names none: that of the sample graph, and Neo4j's default.
pub(crate) const HOME_DEFAULT: &str = "neo4j";
/// The answer is one record of one number.
const ANSWER_BYTES_MAX: usize = 1 << 10;

/// Credentials, the impersonated user, and the name in the request.
type DatabaseQuestion = (Fingerprint, Option<String>, Option<String>);
type Answer = Result<Arc<str>, OriginError>;

/// The way to the other nodes.
#[async_trait]
pub trait OtherHomes: Send + Sync + 'static {
    /// What the nodes that answer in time know of the home database of these credentials, as this user if one is named.
    async fn ask_home(
        &self,
        whose: &Fingerprint,
        impersonated: Option<&str>,
        within: Millis,
    ) -> Vec<KnownHome>;
}

impl Users for Databases {
    /// A home database, or who may use a database, can have changed.
    fn have_changed(&self) {
        self.asker.known.lock().clear();
        self.asker.questions.detach(|_| true);
    }

    fn may_have_changed(&self) {}
}

/// Neo4j's answers about databases. Dropping it ends the questions under way.
pub struct Databases {
    asker: Arc<Asker>,
    tasks: Mutex<JoinSet<()>>,
}

struct Asker {
    origin: Arc<dyn Origin>,
    others: Arc<dyn OtherHomes>,
    run_timeout_ms: Millis,
    /// Whether the server knows which database a user means. The sample graph does not.
    has_homes: bool,
    /// For how long an answer counts beyond [`DATABASES_MS`] while Neo4j cannot be asked.
    grace_ms: AtomicU64,
    known: Mutex<LruCache<DatabaseQuestion, DatabaseAnswer>>,
    /// Questions under way: one for each name of a principal, for any number of waiting requests.
    questions: Arc<FlightTable<DatabaseQuestion, Answer>>,
}

/// Neo4j's answer.
#[derive(Clone)]
struct DatabaseAnswer {
    name: Arc<str>,
    since: Instant,
    /// Neo4j was silent: until then it is not asked again.
    silent_until: Option<Instant>,
}

impl DatabaseAnswer {
    /// Whether it counts without another question.
    fn is_usable(&self) -> bool {
        let is_fresh = self.since.elapsed() < Duration::from_millis(DATABASES_MS);
        is_fresh || self.silent_until.is_some_and(|until| Instant::now() < until)
    }
}

impl Databases {
    /// Nothing is known yet. `grace_ms` is how long an answer counts while Neo4j cannot be asked.
    pub fn new(
        (origin, others): (Arc<dyn Origin>, Arc<dyn OtherHomes>),
        (run_timeout_ms, grace_ms): (Millis, Millis),
        has_homes: bool,
    ) -> Self {
        let places = NonZeroUsize::new(DATABASES_MAX).unwrap_or(NonZeroUsize::MIN);
        let bounds = FlightBounds { flights_max: DATABASES_MAX, followers_max: FOLLOWERS_MAX };
        let asker = Asker {
            origin,
            others,
            run_timeout_ms,
            has_homes,
            grace_ms: AtomicU64::new(grace_ms.0),
            known: Mutex::new(LruCache::new(places)),
            questions: FlightTable::new(bounds),
        };
        Self { asker: Arc::new(asker), tasks: Mutex::default() }
    }

    /// From now on an answer counts for so long while Neo4j cannot be asked.
    pub fn set_grace(&self, grace_ms: Millis) {
        self.asker.grace_ms.store(grace_ms.0, Ordering::Relaxed);
    }

    /// The database that a principal means by this name, or by no name. It waits for a silent Neo4j only briefly.
    ///
    /// # Errors
    /// Neo4j's own: there is no such database, or this user may not use it. Or Neo4j cannot be asked, and nobody knows the
    /// user's home database.
    pub(crate) async fn find(
        &self,
        identity: &Arc<Identity>,
        impersonated: Option<&str>,
        name: Option<&str>,
    ) -> Answer {
        let asked = (identity.fingerprint, impersonated.map(str::to_owned), name.map(str::to_owned));
        let known = self.asker.known(&asked);
        if let Some(known) = known.as_ref().filter(|known| known.is_usable()) {
            return Ok(Arc::clone(&known.name));
        }
        let follower = match self.asker.questions.join(&asked) {
            Seat::Full => None,
            Seat::Follow(follower) => Some(follower),
            Seat::Lead(leader) => {
                let follower = leader.follow();
                self.launch(leader, Arc::clone(identity), asked.clone());
                Some(follower)
            }
        };
        self.asker.answer(&asked, known, follower).await
    }

    /// Like [`Databases::find`] for a client that names none, without a wait: only from earlier answers.
    pub(crate) fn known_home(&self, identity: &Identity, impersonated: Option<&str>) -> Option<Arc<str>> {
        let asked = (identity.fingerprint, impersonated.map(str::to_owned), None);
        self.asker.known(&asked).filter(DatabaseAnswer::is_usable).map(|known| known.name)
    }

    /// Asks for the home database of a client that Neo4j has just accepted, unless a new answer is known: in an outage it has to last as
    /// long as the acceptance. Nobody waits for the answer.
    pub fn ask_ahead(&self, identity: &Arc<Identity>) {
        let asked = (identity.fingerprint, None, None);
        if self.asker.has_homes
            && self.known_home(identity, None).is_none()
            && let Seat::Lead(leader) = self.asker.questions.join(&asked)
        {
            self.launch(leader, Arc::clone(identity), asked);
        }
    }

    /// What this node knows of a home database, for a node that cannot ask Neo4j.
    pub fn peer_answer(&self, whose: &Fingerprint, impersonated: Option<&str>) -> Option<KnownHome> {
        let known = self.asker.known(&(*whose, impersonated.map(str::to_owned), None))?;
        Some(KnownHome { age_ms: Millis::from(known.since.elapsed()), name: (*known.name).to_owned() })
    }

    fn launch(
        &self,
        leader: Leader<DatabaseQuestion, Answer>,
        identity: Arc<Identity>,
        asked: DatabaseQuestion,
    ) {
        let asker = Arc::clone(&self.asker);
        let mut tasks = self.tasks.lock();
        // Removes tasks that have ended. The table of questions bounds their number.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let answer = asker.ask(&identity, &asked).await;
            // Users or rights may have changed since it was asked.
            if leader.is_attached() {
                asker.note(&asked, &answer);
            }
            leader.land(answer);
        });
    }
}

impl Asker {
    fn grace(&self) -> Duration {
        let grace_ms = self.grace_ms.load(Ordering::Relaxed);
        Duration::from_millis(DATABASES_MS.saturating_add(grace_ms))
    }

    /// Neo4j's last answer, unless it is too old for any use.
    fn known(&self, asked: &DatabaseQuestion) -> Option<DatabaseAnswer> {
        let mut known = self.known.lock();
        known.get(asked).filter(|known| known.since.elapsed() < self.grace()).cloned()
    }

    /// The answer to a question that is under way, or what counts in its place.
    async fn answer(
        &self,
        asked: &DatabaseQuestion,
        known: Option<DatabaseAnswer>,
        follower: Option<Follower<Answer>>,
    ) -> Answer {
        // Over HTTP the name as the client wrote it is part of the query key, so it is here too.
        let in_place = known.map(|known| known.name).or_else(|| asked.2.as_deref().map(Arc::from));
        let Some(follower) = follower else { return in_place.ok_or(OriginFault::Overloaded.into()) };
        let mut wait = pin!(follower.wait());
        let answered = timeout(Duration::from_millis(CREDENTIALS_RETRY_WAIT_MS), &mut wait).await;
        if let Ok(Wait::Landed(answer)) = &answered
            && answer.as_ref().map_or_else(|error| is_of_neo4j(&error.kind), |_| true)
        {
            return answer.clone();
        }
        if let Some(name) = in_place {
            self.was_silent(asked);
            return Ok(name);
        }
        if let Some(name) = self.ask_others(asked).await {
            return Ok(name);
        }
        let wait = match answered {
            Ok(wait) => wait,
            Err(_) => wait.await,
        };
        match wait {
            Wait::Landed(answer) => answer,
            Wait::Lost => Err(OriginFault::Cut("the question was lost".to_owned()).into()),
        }
    }

    /// Neo4j does not answer now: it is asked again a little later.
    fn was_silent(&self, asked: &DatabaseQuestion) {
        if let Some(known) = self.known.lock().get_mut(asked) {
            known.silent_until = Some(Instant::now() + Duration::from_millis(DATABASES_RETRY_MS));
        }
    }

    /// The newest answer of the other nodes. It counts from Neo4j's answer, as at that node.
    async fn ask_others(&self, asked: &DatabaseQuestion) -> Option<Arc<str>> {
        let (whose, impersonated, None) = asked else { return None };
        let asked_at = Instant::now();
        let answers =
            self.others.ask_home(whose, impersonated.as_deref(), Millis(PEER_ANSWERS_WAIT_MS)).await;
        let newest = answers.into_iter().min_by_key(|home| home.age_ms)?;
        let since = asked_at.checked_sub(newest.age_ms.duration())?;
        let known = DatabaseAnswer { name: newest.name.into(), since, silent_until: None };
        if known.since.elapsed() >= self.grace() {
            return None;
        }
        let name = Arc::clone(&known.name);
        // Neo4j's own answer to this node may have come meanwhile.
        self.known.lock().get_or_insert(asked.clone(), || known);
        self.was_silent(asked);
        Some(name)
    }

    async fn ask(&self, identity: &Arc<Identity>, asked: &DatabaseQuestion) -> Answer {
        let (_, impersonated, name) = asked;
        let run = OriginRun {
            identity: Arc::clone(identity),
            impersonated: impersonated.clone(),
            database: name.as_deref().unwrap_or(if self.has_homes { "" } else { HOME_DEFAULT }).into(),
            statement: "RETURN 1".into(),
            pattern: None,
            params: Bytes::from_static(&[0xA0]),
            mode: AccessMode::Read,
            may_be_repeated: true,
            bookmarks: RunBookmarks::default(),
            timeout_ms: self.run_timeout_ms,
            bytes_max: ANSWER_BYTES_MAX,
            traceparent: None,
            class: RunClass::Bypass,
            metadata: None,
            live: None,
            times: FetchTimes::default(),
        };
        match (name, self.origin.run(&run).await) {
            (Some(name), Ok(_)) => Ok(name.as_str().into()),
            // `system` exists, and does not run such a statement.
            (Some(name), Err(error)) if refuses_only_the_statement(&error.kind) => Ok(name.as_str().into()),
            (None, Ok(result)) => {
                Ok(result.summary.get("db").and_then(Value::as_str).unwrap_or(HOME_DEFAULT).into())
            }
            (_, Err(error)) => Err(error),
        }
    }

    fn note(&self, asked: &DatabaseQuestion, answer: &Answer) {
        let mut known = self.known.lock();
        match answer {
            Ok(name) => {
                let name = Arc::clone(name);
                known.put(asked.clone(), DatabaseAnswer { name, since: Instant::now(), silent_until: None });
            }
            // What Neo4j has said before does not count any more.
            Err(error) if is_of_neo4j(&error.kind) => drop(known.pop(asked)),
            Err(_) => {}
        }
    }
}

fn refuses_only_the_statement(fault: &OriginFault) -> bool {
    matches!(fault, OriginFault::Failed(failure) if failure.code.starts_with("Neo.ClientError.Statement."))
}

/// Whether Neo4j has answered the question. Its trouble with itself is no answer.
fn is_of_neo4j(fault: &OriginFault) -> bool {
    matches!(fault, OriginFault::Failed(_) | OriginFault::Unauthorized(_))
}

#[cfg(test)]
mod tests;
