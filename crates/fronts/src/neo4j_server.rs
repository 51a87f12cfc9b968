//! What the Neo4j behind this node is: its version and its edition, for the discovery documents of both fronts.
//!
//! Neo4j's HELLO names the version to everyone. The edition it tells only to a user, so the node asks as the first client that
//! Neo4j has accepted. Nobody waits for that answer. Until it comes the documents name no edition.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hopcache_core::limits::{EDITION_MS, EDITION_RETRY_MS};
use hopcache_core::time::Millis;
use hopcache_core::turns::RunClass;
use hopcache_engine::fetch_times::FetchTimes;
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{AccessMode, Origin, OriginRun, RunBookmarks};
use hopcache_neo4j::relays::Relays;
use hopcache_packstream::{Value, decode};
use hopcache_queryapi::Generation;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// The version if Neo4j has not said its own.
const VERSION_DEFAULT: &str = "5.26.0";
/// What the sample graph calls itself: it is no Neo4j.
const EDITION_OF_SAMPLE: &str = "hopcache";
/// Any user may call it. A user without that right costs one refusal, and another user is asked later.
const QUESTION: &str =
    "CALL dbms.components() YIELD name, edition WHERE name = 'Neo4j Kernel' RETURN edition";
/// The answer is one record of one word.
const ANSWER_BYTES_MAX: usize = 1 << 10;

/// The Neo4j behind this node. Dropping it ends a question under way.
pub struct Neo4jServer {
    origin: Arc<dyn Origin>,
    /// `None` with the sample graph.
    relays: Option<Arc<Relays>>,
    run_timeout_ms: Millis,
    edition: Arc<Mutex<Edition>>,
    asking: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Default)]
struct Edition {
    name: Option<String>,
    ask_again_at: Option<Instant>,
}

impl Neo4jServer {
    /// Nothing is known yet.
    pub fn new(origin: Arc<dyn Origin>, relays: Option<Arc<Relays>>, run_timeout_ms: Millis) -> Self {
        Self { origin, relays, run_timeout_ms, edition: Arc::default(), asking: Mutex::default() }
    }

    /// The version, for example `5.26.12`.
    pub(crate) async fn version(&self) -> String {
        let known = match &self.relays {
            Some(relays) => relays.server_info().await,
            None => None,
        };
        let agent = known.and_then(|info| info.agent);
        let version = agent.as_deref().and_then(|agent| agent.strip_prefix("Neo4j/"));
        version.unwrap_or(VERSION_DEFAULT).to_owned()
    }

    /// Which Query API it has, by its last answer: nobody is asked, so a request does not wait for it.
    pub(crate) fn generation(&self) -> Generation {
        let agent = self.relays.as_ref().and_then(|relays| relays.last_info()).and_then(|info| info.agent);
        agent.map_or(Generation::NEO4J_5, |agent| Generation::of(&agent))
    }

    /// Whether that has been answered, so that what is read by it can be remembered.
    pub(crate) fn is_known(&self) -> bool {
        self.relays.as_ref().is_none_or(|relays| relays.last_info().is_some())
    }

    /// The edition, for example `community`. `None` until Neo4j has told it.
    pub(crate) fn edition(&self) -> Option<String> {
        match &self.relays {
            Some(_) => self.edition.lock().name.clone(),
            None => Some(EDITION_OF_SAMPLE.to_owned()),
        }
    }

    /// Asks for the version, and for the edition as a client that Neo4j has just accepted, unless the answers are known.
    pub fn ask_ahead(&self, identity: &Arc<Identity>) {
        let Some(relays) = self.relays.clone() else { return };
        let mut edition = self.edition.lock();
        if edition.ask_again_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        // One question at a time, also if it takes long: the pause begins with the question.
        edition.ask_again_at = Some(Instant::now() + Duration::from_millis(EDITION_RETRY_MS));
        drop(edition);
        let (origin, edition) = (Arc::clone(&self.origin), Arc::clone(&self.edition));
        let run = question(Arc::clone(identity), self.run_timeout_ms);
        let asking = tokio::spawn(async move {
            relays.server_info().await;
            let answer = origin.run(&run).await;
            let Some(name) = answer.ok().and_then(|result| text_in(&result.records)) else { return };
            let ask_again_at = Some(Instant::now() + Duration::from_millis(EDITION_MS));
            *edition.lock() = Edition { name: Some(name), ask_again_at };
        });
        *self.asking.lock() = Some(AbortOnDropHandle::new(asking));
    }
}

fn question(identity: Arc<Identity>, timeout_ms: Millis) -> OriginRun {
    OriginRun {
        identity,
        impersonated: None,
        database: "".into(),
        statement: QUESTION.into(),
        pattern: None,
        params: Bytes::from_static(&[0xA0]),
        mode: AccessMode::Read,
        may_be_repeated: true,
        bookmarks: RunBookmarks::default(),
        timeout_ms,
        bytes_max: ANSWER_BYTES_MAX,
        traceparent: None,
        class: RunClass::Bypass,
        metadata: None,
        live: None,
        times: FetchTimes::default(),
    }
}

/// The text of a record that is one text.
fn text_in(records: &[u8]) -> Option<String> {
    match decode(records).ok()? {
        Value::List(fields) => fields.first()?.as_str().map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopcache_packstream::encode;

    #[test]
    fn the_edition_is_read_from_one_record_and_from_nothing_else() {
        let record = |value: Value| encode(&Value::List(vec![value]));
        assert_eq!(text_in(&record("community".into())).as_deref(), Some("community"));
        assert_eq!(text_in(&record(Value::Int(5))), None);
        assert_eq!(text_in(&[]), None, "no record");
    }
}
