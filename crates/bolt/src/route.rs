//! ROUTE: the members of a cluster that serve a database. This file reads a routing table, and decides nothing about it.
//!
//! Sources: Neo4j's Bolt Protocol documentation ("Message specification", ROUTE), and the answer of a real 5.26 (one server,
//! which has all roles).

use std::time::Duration;

use hopcache_packstream::Value;
use tokio::time::{Instant, timeout_at};

use crate::connection::{Connection, State};
use crate::error::{RunError, RunFault};
use crate::framing::write_messages;
use crate::message;

/// Most addresses that are read of a table. The largest clusters that Neo4j's documents describe have about twenty members.
const ADDRESSES_MAX: usize = 64;

/// A routing table. Addresses are `host:port`, as the server has written them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutingTable {
    /// For how long it holds.
    pub ttl: Duration,
    /// Role `WRITE`: they take writes.
    pub leaders: Vec<String>,
    /// Role `READ`: they answer reads.
    pub readers: Vec<String>,
    /// Role `ROUTE`: they tell the next table.
    pub routers: Vec<String>,
}

impl RoutingTable {
    /// Reads the metadata of ROUTE's SUCCESS.
    fn read(success: &Value) -> Option<Self> {
        let table = success.get("rt")?;
        let ttl = Duration::from_secs(u64::try_from(table.get("ttl")?.as_int()?).ok()?);
        let Value::List(servers) = table.get("servers")? else { return None };
        let with_role = |role: &str| -> Vec<String> {
            let of_role = servers
                .iter()
                .filter(|server| server.get("role").and_then(Value::as_str) == Some(role))
                .filter_map(|server| match server.get("addresses") {
                    Some(Value::List(addresses)) => Some(addresses),
                    _ => None,
                });
            let texts = of_role.flatten().filter_map(Value::as_str).map(str::to_owned);
            texts.take(ADDRESSES_MAX).collect()
        };
        Some(Self {
            ttl,
            leaders: with_role("WRITE"),
            readers: with_role("READ"),
            routers: with_role("ROUTE"),
        })
    }
}

impl Connection {
    /// Asks for the members that serve a database; `None` is the user's home database. The connection's options name the
    /// cluster (`routed`).
    ///
    /// # Errors
    /// [`RunError`]. Afterwards the connection is as after [`Connection::run`].
    pub async fn route(
        &mut self,
        database: Option<&str>,
        impersonated: Option<&str>,
        within: Duration,
    ) -> Result<RoutingTable, RunError> {
        if !self.is_ready() {
            return Err(RunFault::NotReady.into());
        }
        self.state = State::InExchange;
        let deadline = Instant::now() + within;
        let address = self.options.routed.clone().unwrap_or_default();
        let exchange = async {
            write_messages(&mut self.stream, &[message::route(&address, database, impersonated)]).await?;
            let success = self.read_run_answer().await?;
            let unread = || RunFault::Protocol("ROUTE was answered without a routing table".to_owned());
            RoutingTable::read(&success).ok_or_else(unread)
        };
        let outcome = timeout_at(deadline, exchange).await;
        Ok(self.settled(outcome, deadline).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, Value)]) -> Value {
        Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    fn server(role: &str, addresses: &[&str]) -> Value {
        let addresses = addresses.iter().map(|address| Value::from(*address)).collect();
        map(&[("role", Value::from(role)), ("addresses", Value::List(addresses))])
    }

    /// The form is that of the Bolt documentation, and of 5.26.
    #[test]
    fn a_table_is_read_by_role_and_a_wrong_one_is_none() {
        let servers = vec![
            server("WRITE", &["a:7687"]),
            server("READ", &["b:7687", "c:7687"]),
            server("ROUTE", &["a:7687", "b:7687", "c:7687"]),
            server("LATER", &["d:7687"]),
        ];
        let table = |ttl: Value, servers: Value| {
            map(&[("rt", map(&[("ttl", ttl), ("db", Value::from("neo4j")), ("servers", servers)]))])
        };
        let read = RoutingTable::read(&table(Value::Int(300), Value::List(servers.clone()))).unwrap();
        assert_eq!(read.ttl, Duration::from_secs(300));
        assert_eq!((read.leaders, read.readers.len(), read.routers.len()), (vec!["a:7687".to_owned()], 2, 3));
        assert_eq!(RoutingTable::read(&table(Value::Int(-1), Value::List(servers))), None);
        assert_eq!(RoutingTable::read(&table(Value::Int(1), Value::from("x"))), None);
        assert_eq!(RoutingTable::read(&map(&[])), None);
    }
}
