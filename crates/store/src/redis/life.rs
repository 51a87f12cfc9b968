//! The life of a server's content, for servers that refuse INFO inside scripts, as some managed services do: the node asks for it
//! outside, at each connect and with each look, and tells each script.
//!
//! **What that loses.** Where scripts ask, the life is that of the moment of the script. Here it may be one look old (250 ms): in that
//! time after a restore a node takes restored content for current (F43). In a Redis Cluster each server has a life of its own, and
//! one answer does not fit all: scripts count one life for ever there.

use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Cmd, RedisResult};

use super::server_connection::Connection;
use super::{Load, RedisStore, Repeat, StoreError};

/// How the last argument of a script begins that names the life. No other argument begins so.
const PREFIX: &str = "life:";
/// Hex digits of a life, as in `lua/life.lua`.
const DIGITS: usize = 16;
/// The life of a Redis Cluster.
const ONE: &str = "0000000000000000";

/// A life that was asked for outside. A clone sees the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct OutsideLife(Arc<Mutex<Option<String>>>);

impl OutsideLife {
    /// Takes the life of the server behind a new connection, if its scripts may not ask. `info` is INFO's text.
    pub(super) async fn greet(&self, connection: &mut Connection, info: &str) -> RedisResult<bool> {
        let mut probe = redis::cmd("EVAL");
        probe.arg("return type(redis.pcall('INFO', 'replication')) == 'string' and 1 or 0").arg(0);
        // A server that refuses the probe, while it loads its data for example, runs no script either: the node connects again.
        let may_ask = connection.query_at::<i64>(None, &probe).await? == 1;
        *self.0.lock() = if may_ask { None } else { life_in(info) };
        Ok(may_ask)
    }

    /// Adds the life to a script's arguments, where the script cannot ask.
    pub(super) fn tell(&self, command: &mut Cmd) {
        if let Some(life) = &*self.0.lock() {
            command.arg(format!("{PREFIX}{life}"));
        }
    }

    fn is_asked(&self) -> bool {
        self.0.lock().as_deref().is_some_and(|life| life != ONE)
    }
}

impl RedisStore {
    /// Asks for the life, where scripts cannot.
    pub(super) async fn look_at_life(&self) -> Result<(), StoreError> {
        if !self.life.is_asked() {
            return Ok(());
        }
        let exchange = |mut connection: Connection| async move {
            connection.query::<String>(redis::cmd("INFO").arg("replication")).await
        };
        let info = self.call(Load::Small, Repeat::Once, exchange).await?;
        let mut held = self.life.0.lock();
        if let (true, Some(life)) = (held.is_some(), life_in(&info)) {
            *held = Some(life);
        }
        Ok(())
    }
}

/// The life in INFO's text.
fn life_in(info: &str) -> Option<String> {
    if info.lines().any(|line| line.trim() == "cluster_enabled:1") {
        return Some(ONE.to_owned());
    }
    let id = info.lines().find_map(|line| line.strip_prefix("master_replid:"))?.trim();
    let life = id.get(..DIGITS)?;
    life.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| life.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_the_begin_of_the_replication_id() {
        let info =
            "# Replication\r\nrole:master\r\nmaster_replid:0123456789abcdef0123456789abcdef01234567\r\n";
        assert_eq!(life_in(info).as_deref(), Some("0123456789abcdef"));
        assert_eq!(life_in(&format!("{info}# Cluster\r\ncluster_enabled:1\r\n")).as_deref(), Some(ONE));
        for none in ["", "master_replid:short", "master_replid:zzzzzzzzzzzzzzzzzzzz"] {
            assert_eq!(life_in(none), None, "{none}");
        }
    }

    #[test]
    fn scripts_are_told_only_where_they_cannot_ask() {
        let life = OutsideLife::default();
        let packed = |life: &OutsideLife| {
            let mut command = redis::cmd("EVALSHA");
            life.tell(&mut command);
            String::from_utf8(command.get_packed_command()).unwrap()
        };
        assert!(!packed(&life).contains(PREFIX));
        *life.0.lock() = Some("0123456789abcdef".to_owned());
        assert!(packed(&life.clone()).contains("life:0123456789abcdef"));
    }
}
