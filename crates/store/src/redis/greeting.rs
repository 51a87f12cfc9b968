//! The questions to the server on each new connection of small commands: whether it evicts leases, whether it keeps
//! its content on disk, and whether it names its content. The answers are logged for the operator.
//!
//! They decide nothing. The content of a restored server counts as empty, whether its persistence is known or not,
//! because scripts read the replication id themselves (`core::lease::life`).

use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::Mutex;
use redis::RedisResult;

use super::life::OutsideLife;
use super::reply::ends_connection;
use super::server_connection::{Connection, Greeting};

/// The server's settings at the last connect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServerFacts {
    /// Its `maxmemory-policy`, if it evicts leases.
    pub(super) evicting_policy: Option<String>,
    pub(super) persistence: Persistence,
    /// Whether it names its replication id.
    has_id: bool,
    /// Whether it does so inside scripts too.
    scripts_ask: bool,
}

/// Whether a Redis' content survives a restart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Persistence {
    /// Unknown: no connection yet, or the server refuses the question (managed services often refuse `CONFIG GET`).
    #[default]
    Unknown,
    /// No snapshots and no append-only file: a restart empties it.
    None,
    /// Snapshots, an append-only file, or both: a restart brings an older state back.
    Restores,
}

impl Persistence {
    /// From fields of INFO, and the value of `CONFIG GET save`, each if the server sent it. `rdb_saves` and
    /// `rdb_last_load_keys_loaded` count since its start (Redis 7.0).
    fn of<'a>(field: impl Fn(&str) -> Option<&'a str>, save: Option<&str>) -> Self {
        let counts = ["aof_enabled", "rdb_saves", "rdb_last_load_keys_loaded"];
        let has_kept = counts.into_iter().any(|name| field(name).is_some_and(|count| count != "0"));
        match save {
            _ if has_kept => Self::Restores,
            Some("") if field("aof_enabled").is_some() => Self::None,
            None | Some("") => Self::Unknown,
            Some(_) => Self::Restores,
        }
    }

    /// Its meaning for an operator.
    const fn meaning(self) -> &'static str {
        match self {
            Self::None => {
                "Redis keeps nothing on disk: a restart empties it, which costs one run for each key"
            }
            Self::Restores => {
                "Redis keeps snapshots or an append-only file: what it restores may be older than what nodes know, so it \
                 counts as empty, and costs as much as an empty Redis; for hopcache alone set save \"\" and appendonly no"
            }
            Self::Unknown => {
                "Redis does not say whether it keeps snapshots or an append-only file: if it restores anything, that counts \
                 as empty"
            }
        }
    }
}

impl ServerFacts {
    /// From the text of INFO, and the value of `CONFIG GET save` if the server sent it.
    fn read(info: &str, save: Option<&str>) -> Self {
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(known, _)| *known == name).map(|(_, value)| value.trim())
        };
        let policy = field("maxmemory_policy").filter(|name| *name != "noeviction");
        Self {
            evicting_policy: policy.map(str::to_owned),
            persistence: Persistence::of(field, save),
            has_id: field("master_replid").is_some_and(|id| id.len() >= 16),
            scripts_ask: true,
        }
    }

    /// Logs facts for the operator: the eviction at each connect, the rest when it has changed.
    fn tell(&self, before: Option<&Self>) {
        if let Some(name) = &self.evicting_policy {
            tracing::warn!(
                maxmemory_policy = %name,
                "Redis may evict leases, which costs repeated origin runs: set maxmemory-policy noeviction"
            );
        }
        if before.is_none_or(|before| before.persistence != self.persistence) {
            tracing::info!("{}", self.persistence.meaning());
        }
        if !self.has_id && before.is_none_or(|before| before.has_id) {
            tracing::warn!(
                "Redis does not name its replication id: after a restore or a fail-over purged entries may be served again; \
                 turn its persistence off, and purge everything after a fail-over"
            );
        } else if !self.scripts_ask && before.is_none_or(|before| before.scripts_ask) {
            tracing::warn!(
                "Redis refuses INFO inside scripts, so this node asks for the replication id outside, four times a second: in the first \
                 250 ms after a restore or a fail-over (in a Redis Cluster: for ever) purged entries may be served again; purge everything after it"
            );
        }
    }
}

/// Makes the greeting of new connections: it asks the server for its settings, and logs them at the first connect and
/// when they have changed.
///
/// Only the default user sends `CONFIG GET`. The documented ACL does not allow it, because it shows passwords, and each
/// refusal would be a line of Redis' `ACL LOG`.
pub(super) fn look_at_server(is_default_user: bool, life: OutsideLife) -> Greeting {
    let facts: Arc<Mutex<Option<ServerFacts>>> = Arc::default();
    Arc::new(move |mut connection| {
        let (facts, life) = (Arc::clone(&facts), life.clone());
        async move {
            let Some(info) = optional(connection.query_at::<String>(None, &redis::cmd("INFO")).await)? else {
                return Ok(());
            };
            let save = if is_default_user { config_save(&mut connection).await? } else { None };
            let scripts_ask = life.greet(&mut connection, &info).await?;
            let found = ServerFacts { scripts_ask, ..ServerFacts::read(&info, save.as_deref()) };
            let before = facts.lock().replace(found.clone());
            found.tell(before.as_ref());
            Ok(())
        }
        .boxed()
    })
}

async fn config_save(connection: &mut Connection) -> RedisResult<Option<String>> {
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg("save");
    let pair = optional(connection.query_at::<Vec<String>>(None, &command).await)?;
    Ok(pair.and_then(|pair| pair.into_iter().nth(1)))
}

/// A user may not have the right to ask: then there is no answer. A connection that broke is an error, and so is one
/// to a server that wants a password.
pub(super) fn optional<T>(answer: RedisResult<T>) -> RedisResult<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if ends_connection(&error) || error.code() == Some("NOAUTH") => Err(error),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Memory\r\nmaxmemory_policy:noeviction\r\n# Persistence\r\naof_enabled:0\r\n\
        # Replication\r\nmaster_replid:d1c388c36673f50dab3b61da24e8b047226f55b0\r\n";

    #[test]
    fn what_a_server_keeps_is_read_from_its_own_words() {
        let of = |aof: &str, save| ServerFacts::read(&INFO.replace("aof_enabled:0", aof), save).persistence;
        assert_eq!(of("aof_enabled:0", Some("")), Persistence::None);
        assert_eq!(of("aof_enabled:0", Some("3600 1 300 100")), Persistence::Restores);
        assert_eq!(of("aof_enabled:1", Some("")), Persistence::Restores);
        assert_eq!(
            of("aof_enabled:1", None),
            Persistence::Restores,
            "CONFIG GET is refused, and INFO says it"
        );
        assert_eq!(of("aof_enabled:0", None), Persistence::Unknown, "CONFIG GET is refused");
        assert_eq!(of("", Some("")), Persistence::Unknown);
        assert_eq!(of("aof_enabled:0\r\nrdb_saves:2", None), Persistence::Restores, "it has saved");
        assert_eq!(
            of("aof_enabled:0\r\nrdb_last_load_keys_loaded:9", None),
            Persistence::Restores,
            "it has restored"
        );
    }

    #[test]
    fn a_server_that_names_no_replication_id_is_known() {
        assert!(ServerFacts::read(INFO, None).has_id);
        assert!(!ServerFacts::read("aof_enabled:0\r\n", None).has_id);
        let evicts = INFO.replace("noeviction", "allkeys-lru");
        assert_eq!(ServerFacts::read(&evicts, None).evicting_policy.as_deref(), Some("allkeys-lru"));
        assert_eq!(ServerFacts::read(INFO, None).evicting_policy, None);
    }
}
