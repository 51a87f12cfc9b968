//! ROUTE: the routing table of `neo4j://`. Every ready node has every role, because any node takes any query.

use std::sync::Arc;

use hopcache_core::limits::ROUTING_TTL_S;
use hopcache_core::membership::MemberInfo;
use hopcache_packstream::Value;

use super::{RequestError, Session};
use crate::bolt_front::BoltFront;
use crate::bolt_front::failure::BoltFailure;

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
}

impl Session {
    /// A routing table. If no node is known to be ready, the table has this node alone.
    pub(super) async fn route(&mut self, options: RouteOptions) -> Result<Value, RequestError> {
        let RouteOptions { dialled, database: name, impersonated } = options;
        self.check_stays()?;
        let login = self.login()?.clone();
        self.check(&login.identity).await?;
        let (front, asked) = (Arc::clone(&self.front), impersonated.as_deref());
        let acting = front.shared.senders.acting(login.credentials, asked);
        let acting =
            acting.ok_or_else(|| BoltFailure::own("NoImpersonation", "imp_user is not possible here."))?;
        let found = front.shared.databases.find(&acting, asked, name.as_deref());
        let database = self.out.wait_for(found).await?;
        let database =
            database.map_err(|error| BoltFailure::of_routing(&error.kind, name.as_deref().unwrap_or("")))?;
        Ok(table(&front.routers(dialled.as_deref()), &database))
    }
}

impl BoltFront {
    fn routers(&self, dialled: Option<&str>) -> Vec<String> {
        let members = self.state.members.members().into_iter().filter(MemberInfo::is_routable);
        let mut routers: Vec<String> =
            members.filter_map(|member| member.bolt).map(|addr| addr.as_str().to_owned()).collect();
        if routers.is_empty() {
            let address = if self.advertised.is_empty() { dialled } else { Some(&*self.advertised) };
            routers.extend(address.map(str::to_owned));
        }
        routers
    }
}

/// A table in which every node has every role.
fn table(addresses: &[String], database: &str) -> Value {
    let map = |pairs: Vec<(&str, Value)>| {
        Value::Map(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    };
    let all = || Value::List(addresses.iter().map(|address| Value::from(address.as_str())).collect());
    let server = |role: &str| map(vec![("addresses", all()), ("role", role.into())]);
    let servers = Value::List(["WRITE", "READ", "ROUTE"].map(server).into());
    let table = map(vec![("ttl", Value::Int(ROUTING_TTL_S)), ("db", database.into()), ("servers", servers)]);
    map(vec![("rt", table)])
}
