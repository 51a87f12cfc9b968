//! The database of a client that names none, and whether a named database exists. Neo4j decides both. This node asks
//! it now and then for each principal. All fronts of a node share the answers.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hopcache_core::limits::{DATABASES_MAX, DATABASES_MS};
use hopcache_core::time::Millis;
use hopcache_core::turns::RunClass;
use hopcache_engine::fetch_times::FetchTimes;
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{AccessMode, Origin, OriginError, OriginFault, OriginRun, RunBookmarks};
use hopcache_packstream::Value;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The home database if the server names none: that of the sample graph, and Neo4j's default.
const HOME_DEFAULT: &str = "neo4j";
/// The answer is one record of one number.
const ANSWER_BYTES_MAX: usize = 1 << 10;

/// Credentials, the impersonated user, and the name in the request.
type Asked = ([u8; 32], Option<String>, Option<String>);

/// Neo4j's answers about databases.
pub(crate) struct Databases {
    origin: Arc<dyn Origin>,
    run_timeout_ms: Millis,
    /// Whether the server knows which database a user means. The sample graph does not.
    has_homes: bool,
    known: Mutex<LruCache<Asked, (Arc<str>, Instant)>>,
}

impl Databases {
    /// Nothing is known yet.
    pub(crate) fn new(origin: Arc<dyn Origin>, run_timeout_ms: Millis, has_homes: bool) -> Self {
        let places = NonZeroUsize::new(DATABASES_MAX).unwrap_or(NonZeroUsize::MIN);
        Self { origin, run_timeout_ms, has_homes, known: Mutex::new(LruCache::new(places)) }
    }

    fn known(&self, asked: &Asked) -> Option<Arc<str>> {
        let mut known = self.known.lock();
        let (name, since) = known.get(asked)?;
        (since.elapsed() < Duration::from_millis(DATABASES_MS)).then(|| Arc::clone(name))
    }

    /// The database that a principal means by this name, or by no name.
    ///
    /// # Errors
    /// Neo4j's own: there is no such database, or this user may not use it.
    pub(crate) async fn find(
        &self,
        identity: &Arc<Identity>,
        impersonated: Option<&str>,
        name: Option<&str>,
    ) -> Result<Arc<str>, OriginError> {
        let asked = (identity.fingerprint, impersonated.map(str::to_owned), name.map(str::to_owned));
        if let Some(known) = self.known(&asked) {
            return Ok(known);
        }
        let run = OriginRun {
            identity: Arc::clone(identity),
            impersonated: asked.1.clone(),
            database: name.unwrap_or(if self.has_homes { "" } else { HOME_DEFAULT }).into(),
            statement: "RETURN 1".into(),
            params: Bytes::from_static(&[0xA0]),
            mode: AccessMode::Read,
            bookmarks: RunBookmarks::default(),
            timeout_ms: self.run_timeout_ms,
            bytes_max: ANSWER_BYTES_MAX,
            traceparent: None,
            class: RunClass::Bypass,
            live: None,
            times: FetchTimes::default(),
        };
        let answer = self.origin.run(&run).await;
        // Over HTTP the name as the client wrote it is part of the query key, so it is here too.
        let resolved: Arc<str> = match (name, answer) {
            (Some(name), Ok(_)) => name.into(),
            // `system` exists, and does not run such a statement.
            (Some(name), Err(error)) if refuses_only_the_statement(&error.kind) => name.into(),
            (None, Ok(result)) => {
                result.summary.get("db").and_then(Value::as_str).unwrap_or(HOME_DEFAULT).into()
            }
            (_, Err(error)) => return Err(error),
        };
        self.known.lock().put(asked, (Arc::clone(&resolved), Instant::now()));
        Ok(resolved)
    }

    /// Like [`Databases::find`] for a client that names none, without a run: only from earlier answers.
    pub(crate) fn known_home(&self, identity: &Identity, impersonated: Option<&str>) -> Option<Arc<str>> {
        self.known(&(identity.fingerprint, impersonated.map(str::to_owned), None))
    }
}

fn refuses_only_the_statement(fault: &OriginFault) -> bool {
    matches!(fault, OriginFault::Failed(failure) if failure.code.starts_with("Neo.ClientError.Statement."))
}
