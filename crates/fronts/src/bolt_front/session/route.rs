//! ROUTE: the routing table of `neo4j://`. Every ready node has every role, because any node takes any query.
//!
//! Clients below 4.3 have no ROUTE. They ask by a statement, and Neo4j's answer would lead them past Hopcache.

use std::sync::Arc;

use hopcache_bolt::server::Version;
use hopcache_core::limits::ROUTING_TTL_S;
use hopcache_core::membership::MemberInfo;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_net::client_addr;
use hopcache_packstream::{Reader, Value, encode};

use super::{RequestError, Session};
use crate::bolt_front::BoltFront;
use crate::bolt_front::failure::BoltFailure;
use crate::bolt_front::records::CachedResult;
use crate::credentials::Standing;
use crate::databases::HOME_DEFAULT;

/// What a table depends on.
pub(super) struct RouteOptions {
    /// The address that the client has dialled.
    dialled: Option<String>,
    database: Option<String>,
    impersonated: Option<String>,
}

impl RouteOptions {
    pub(super) fn read(context: &Value, extra: &Value) -> Self {
        let text = |map: &Value, name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            dialled: text(context, "address"),
            // In 4.3 the last field is the database itself.
            database: extra.as_str().map(str::to_owned).or_else(|| text(extra, "db")),
            impersonated: text(extra, "imp_user"),
        }
    }

    /// The same from a statement of a client below 4.3, if it asks for a table.
    pub(super) fn of_call(version: Version, statement: &str, params: &[u8]) -> Option<Self> {
        if version.at_least(4, 3) || !calls_for_table(statement) {
            return None;
        }
        let params = Reader::new(params).value().ok()?;
        let nothing = Value::Null;
        let param = |name| params.get(name).unwrap_or(&nothing);
        Some(Self::read(param("context"), param("database")))
    }
}

/// The statements with which drivers ask for a table.
fn calls_for_table(text: &str) -> bool {
    const CALLS: [&str; 2] =
        ["CALL dbms.routing.getRoutingTable(", "CALL dbms.cluster.routing.getRoutingTable("];
    let text = text.trim().trim_end_matches(';');
    let arguments = CALLS.iter().find_map(|call| text.strip_prefix(call));
    arguments.is_some_and(|rest| ["$context)", "$context, $database)"].contains(&rest))
}

impl Session {
    /// A routing table. If no node is known to be ready, the table has this node alone.
    pub(super) async fn route(&mut self, options: RouteOptions) -> Result<Value, RequestError> {
        let (routers, database) = self.routers_of(options).await?;
        Ok(table(&routers, &database))
    }

    /// The table as the result of a statement.
    pub(super) async fn route_as_result(
        &mut self,
        options: RouteOptions,
    ) -> Result<Box<CachedResult>, RequestError> {
        let (routers, _) = self.routers_of(options).await?;
        let record = Value::List(vec![Value::Int(ROUTING_TTL_S), servers(&routers)]);
        let result = ResultSet {
            fields: ["ttl", "servers"].map(str::to_owned).into(),
            records: encode(&record).into(),
            rows: 1,
            kind: Some(StatementKind::Schema),
            summary: map(vec![("db", "system".into())]),
            bookmark: None,
            range: None,
            marked: None,
        };
        Ok(Box::new(CachedResult::new(result, String::new())))
    }

    async fn routers_of(&mut self, options: RouteOptions) -> Result<(Vec<String>, Arc<str>), RequestError> {
        let RouteOptions { dialled, database: name, impersonated } = options;
        self.check_stays()?;
        let login = self.login()?.clone();
        let standing = self.check(&login.identity).await?;
        let (front, asked) = (Arc::clone(&self.front), impersonated.as_deref());
        let acting = front.shared.senders.acting(login.credentials, asked);
        let acting =
            acting.ok_or_else(|| BoltFailure::own("NoImpersonation", "imp_user is not possible here."))?;
        if matches!(standing, Standing::MustChangePassword) {
            // Neo4j gives a table, and answers no question.
            let database = name.as_deref().unwrap_or(HOME_DEFAULT);
            return Ok((front.routers(dialled.as_deref()), database.into()));
        }
        let found = front.shared.databases.find(&acting, asked, name.as_deref());
        let database = self.out.wait_for(found).await?;
        let database =
            database.map_err(|error| BoltFailure::of_routing(&error.kind, name.as_deref().unwrap_or("")))?;
        Ok((front.routers(dialled.as_deref()), database))
    }
}

impl BoltFront {
    /// The addresses of a table. Where this node has none for the client, the table is the client's own address, as that of a single
    /// Neo4j: a balancer or a forwarded port stands there, and it leads to every node.
    fn routers(&self, dialled: Option<&str>) -> Vec<String> {
        let told = self.advertised.told_to(client_addr::of_request(), dialled);
        let Some(told) = told else { return vec![dialled.unwrap_or(self.advertised.own()).to_owned()] };
        let members = self.state.members.members().into_iter().filter(MemberInfo::is_routable);
        let addr_of =
            |member: MemberInfo| member.bolt.told_to(told.audience).map(|addr| addr.as_str().to_owned());
        let routers: Vec<String> = members.filter_map(addr_of).collect();
        if routers.is_empty() { vec![told.addr.as_str().to_owned()] } else { routers }
    }
}

/// A table in which every node has every role.
fn table(addresses: &[String], database: &str) -> Value {
    let ttl = Value::Int(ROUTING_TTL_S);
    map(vec![("rt", map(vec![("ttl", ttl), ("db", database.into()), ("servers", servers(addresses))]))])
}

fn servers(addresses: &[String]) -> Value {
    let all = || Value::List(addresses.iter().map(|address| Value::from(address.as_str())).collect());
    let server = |role: &str| map(vec![("addresses", all()), ("role", role.into())]);
    Value::List(["WRITE", "READ", "ROUTE"].map(server).into())
}

fn map(pairs: Vec<(&str, Value)>) -> Value {
    Value::Map(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
