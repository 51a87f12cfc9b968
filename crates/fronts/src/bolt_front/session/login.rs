//! The client's identity: HELLO and LOGON become an identity that Neo4j has accepted. Passwords are kept only in the
//! log-on's identity, with which statements run.

use std::sync::Arc;
use std::time::Duration;

use hopcache_bolt::ServerInfo;
use hopcache_bolt::server::Version;
use hopcache_bolt::server::old_values::OldForm;
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::{Neo4jFailure, OriginFault};
use hopcache_packstream::Value;

use super::{RequestError, Session};
use crate::bolt_front::AGENT_DEFAULT;
use crate::bolt_front::failure::{BoltFailure, code_of};
use crate::bolt_front::options::{agent_of, filters};
use crate::bolt_front::records::RecordForm;
use crate::credentials::Standing;
use hopcache_state::audit::{self, ClientListener};

const UNAUTHORIZED: &str = "Neo.ClientError.Security.Unauthorized";

/// A logged-on client.
#[derive(Clone)]
pub(super) struct Login {
    /// The credentials of the client.
    pub(super) credentials: Credentials,
    /// The identity that Neo4j has accepted.
    pub(super) identity: Arc<Identity>,
    /// Whether Neo4j refuses everything but the change of the password, as of the last check.
    pub(super) must_change_password: bool,
}

impl Session {
    /// The form of records for this client.
    pub(super) fn record_form(&self) -> RecordForm {
        if self.version.has_uuids() {
            return RecordForm::AsStored;
        }
        let (version, has_utc) = (self.version, self.has_utc_patch);
        RecordForm::Old(OldForm { version, has_utc, offset_of: hopcache_queryapi::zone_offset_s })
    }

    /// HELLO: its answer names the server. Below 5.1 it has the credentials.
    pub(super) async fn hello(&mut self, hello: Hello) -> Result<Value, RequestError> {
        let Hello { credentials, has_utc_patch, filters, agent: client } = hello;
        self.agent = client;
        let logged_on = match credentials {
            Some(credentials) => self.log_on(credentials).await?,
            None => Vec::new(),
        };
        let ServerInfo { agent, recv_timeout, .. } = self.front.server().await;
        self.out.set_recv_timeout(recv_timeout);
        self.has_utc_patch = has_utc_patch;
        self.hello = filters?;
        let text = |name: &str, value: &str| (name.to_owned(), Value::from(value));
        let mut metadata = vec![
            text("server", agent.as_deref().unwrap_or(AGENT_DEFAULT)),
            text("connection_id", &format!("bolt-{}", self.id)),
        ];
        if self.has_utc_patch {
            metadata.push(("patch_bolt".to_owned(), Value::List(vec!["utc".into()])));
        }
        metadata.extend(hints(self.version, recv_timeout).map(|hints| ("hints".to_owned(), hints)));
        metadata.extend(logged_on);
        Ok(Value::Map(metadata))
    }

    /// LOGON, or the credentials of an old HELLO. Returns what its SUCCESS says.
    pub(super) async fn log_on(
        &mut self,
        credentials: Result<Credentials, BoltFailure>,
    ) -> Result<Vec<(String, Value)>, RequestError> {
        let credentials = credentials?;
        let identity = self.front.shared.senders.identity(credentials.clone());
        let must_change_password = matches!(self.check(&identity).await?, Standing::MustChangePassword);
        self.driver_session.end();
        self.login = Some(Login { credentials, identity, must_change_password });
        let said = must_change_password.then(|| ("credentials_expired".to_owned(), Value::Bool(true)));
        Ok(said.into_iter().collect())
    }

    /// Neo4j did not accept the log-on of a connection for this client's statements.
    pub(super) fn relay_refused(&self, identity: &Arc<Identity>, fault: &OriginFault) -> RequestError {
        if let OriginFault::Unauthorized(error) = fault {
            self.refused_by_neo4j(identity, error);
        }
        RequestError::Failed(BoltFailure::of_fault(fault))
    }

    /// Neo4j has refused a client's credentials just now: they are checked again. Those of the service are no client's.
    fn refused_by_neo4j(&self, identity: &Arc<Identity>, error: &Neo4jFailure) {
        if !self.front.shared.asks_for_no_secret() {
            self.front.shared.refused_by_neo4j(identity, error, ClientListener::Bolt);
        }
    }

    /// Neo4j refused a statement that it got from this client. If it refused the credentials, they are checked again.
    pub(super) fn take_note_of(&self, message: &[u8]) {
        let Some(login) = &self.login else { return };
        let error = Neo4jFailure { code: code_of(message), message: String::new(), as_sent: Vec::new() };
        self.refused_by_neo4j(&login.identity, &error);
    }

    /// Whether Neo4j accepts these credentials: it is asked again after 30 s, as over HTTP.
    pub(super) async fn check(&mut self, identity: &Arc<Identity>) -> Result<Standing, RequestError> {
        let shared = self.front.shared.clone();
        let checked = self.out.wait_for(shared.credentials.check(identity)).await?;
        let standing = checked.map_err(|error| {
            // The check itself tells the other nodes. To tell them of a refusal that it remembers would renew theirs, and
            // theirs this one's: the right password would be refused for as long as clients try.
            audit::log_on_failed(identity, &error.kind, ClientListener::Bolt);
            RequestError::Failed(BoltFailure::of_fault(&error.kind))
        })?;
        let must_change_password = matches!(standing, Standing::MustChangePassword);
        if let Some(login) = &mut self.login {
            login.must_change_password = must_change_password;
        }
        if must_change_password && let Some(relays) = &self.front.relays {
            relays.forget(identity);
        }
        Ok(standing)
    }
}

/// What the driver is to do: to wait for any bytes as long as a driver of Neo4j itself. Hints came with 4.3.
fn hints(version: Version, recv_timeout: Option<Duration>) -> Option<Value> {
    let seconds = i64::try_from(recv_timeout?.as_secs()).ok()?;
    let hint = ("connection.recv_timeout_seconds".to_owned(), Value::Int(seconds));
    version.at_least(4, 3).then(|| Value::Map(vec![hint]))
}

/// What a node keeps of HELLO. The map itself is gone before anything waits: decoded, it takes up to 40 times its bytes.
pub(super) struct Hello {
    /// Below 5.1.
    credentials: Option<Result<Credentials, BoltFailure>>,
    has_utc_patch: bool,
    filters: Result<Value, BoltFailure>,
    /// The client's name for itself.
    agent: Option<String>,
}

impl Hello {
    pub(super) fn read(version: Version, extra: &Value) -> Self {
        Self {
            credentials: (!version.has_logon()).then(|| credentials_in(extra)),
            has_utc_patch: offers_utc(version, extra),
            filters: filters(extra),
            agent: agent_of(extra),
        }
    }
}

/// The credentials of LOGON, or of an old HELLO.
pub(super) fn credentials_in(auth: &Value) -> Result<Credentials, BoltFailure> {
    let text = |name: &str| auth.get(name).and_then(Value::as_str).map(str::to_owned);
    // In Neo4j's words.
    let refused =
        |why: &str| BoltFailure::new(UNAUTHORIZED, format!("Unsupported authentication token, {why}"));
    let missing = |name: &str| refused(&format!("missing key `{name}`"));
    match text("scheme").as_deref() {
        None if auth.get("scheme").is_some_and(|scheme| !matches!(scheme, Value::Null)) => {
            Err(refused("the value associated with the key `scheme` must be a String"))
        }
        None | Some("none") => Ok(Credentials::None),
        Some("basic") => Ok(Credentials::Basic {
            user: text("principal").ok_or_else(|| missing("principal"))?,
            password: text("credentials").ok_or_else(|| missing("credentials"))?,
        }),
        Some("bearer") => {
            Ok(Credentials::Bearer { token: text("credentials").ok_or_else(|| missing("credentials"))? })
        }
        Some(scheme) => Err(refused(&format!("scheme '{scheme}' is not supported."))),
    }
}

/// Whether a client of Bolt 4 offers date-times in UTC: then it gets them, as at Neo4j (which agrees at 4.2 too).
fn offers_utc(version: Version, extra: &Value) -> bool {
    let offered = extra.get("patch_bolt").and_then(Value::as_list).unwrap_or_default();
    version.major == 4 && offered.contains(&Value::from("utc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(pairs: &[(&str, &str)]) -> Value {
        Value::Map(pairs.iter().map(|(name, text)| ((*name).to_owned(), Value::from(*text))).collect())
    }

    #[test]
    fn schemes_are_those_of_the_http_front() {
        let basic = auth(&[("scheme", "basic"), ("principal", "neo4j"), ("credentials", "pw")]);
        let user = Credentials::Basic { user: "neo4j".to_owned(), password: "pw".to_owned() };
        assert_eq!(credentials_in(&basic), Ok(user));
        assert_eq!(credentials_in(&auth(&[("scheme", "none")])), Ok(Credentials::None));
        let bearer = auth(&[("scheme", "bearer"), ("credentials", "t")]);
        assert_eq!(credentials_in(&bearer), Ok(Credentials::Bearer { token: "t".to_owned() }));
        for (wrong, why) in [
            (&[("scheme", "kerberos")][..], "scheme 'kerberos' is not supported."),
            (&[("scheme", "basic"), ("principal", "neo4j")], "missing key `credentials`"),
            (&[("scheme", "basic")], "missing key `principal`"),
            (&[("scheme", "bearer")], "missing key `credentials`"),
        ] {
            let failure = credentials_in(&auth(wrong)).unwrap_err();
            let message = format!("Unsupported authentication token, {why}");
            assert_eq!((failure.code.as_str(), failure.message), (UNAUTHORIZED, message), "{wrong:?}");
        }
        let number = Value::Map(vec![("scheme".to_owned(), Value::Int(7))]);
        assert_eq!(credentials_in(&number).unwrap_err().code, UNAUTHORIZED);
    }

    /// A server without the hint has drivers wait for ever, and so does this node before it.
    #[test]
    fn the_time_to_wait_is_neo4js() {
        let told = |version, seconds: Option<u64>| {
            let hints = hints(version, seconds.map(Duration::from_secs))?;
            hints.get("connection.recv_timeout_seconds").and_then(Value::as_int)
        };
        assert_eq!(told(Version::new(5, 4), Some(20)), Some(20));
        assert_eq!(told(Version::new(4, 3), Some(120)), Some(120));
        assert_eq!(told(Version::new(4, 2), Some(120)), None);
        assert_eq!(told(Version::new(5, 8), None), None);
    }

    #[test]
    fn the_utc_patch_is_of_bolt_4() {
        let offer = |names: &[&str]| {
            let names = names.iter().map(|name| Value::from(*name)).collect();
            Value::Map(vec![("patch_bolt".to_owned(), Value::List(names))])
        };
        for (version, names, has) in [
            (Version::new(4, 4), &["utc"][..], true),
            (Version::new(4, 3), &["x", "utc"], true),
            (Version::new(4, 4), &["x"], false),
            (Version::new(4, 1), &["utc"], true),
            (Version::new(5, 0), &["utc"], false),
        ] {
            assert_eq!(offers_utc(version, &offer(names)), has, "{version} {names:?}");
        }
    }

    #[test]
    fn nothing_secret_is_kept_of_hello() {
        let hello =
            auth(&[("credentials", "pw"), ("user_agent", "x"), ("notifications_minimum_severity", "OFF")]);
        assert_eq!(filters(&hello), Ok(auth(&[("notifications_minimum_severity", "OFF")])));
    }
}
