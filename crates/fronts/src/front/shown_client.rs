//! What Neo4j's list of transactions shows of a request over HTTP: the client's own `txMetadata`, and who the client is.

use hopcache_core::node::NodeName;
use hopcache_engine::ask::Ask;
use hopcache_net::client_addr::ClientAddr;
use hopcache_packstream::Value;
use http::header::USER_AGENT;
use http::request::Parts;

use crate::client_name;

/// The names and values of `txMetadata`.
pub(super) fn pairs_of(metadata: Option<Value>) -> Vec<(String, Value)> {
    match metadata {
        Some(Value::Map(pairs)) => pairs,
        _ => Vec::new(),
    }
}

/// Who sent a request.
pub(super) fn name_of(head: &Parts, me: &NodeName) -> String {
    let agent =
        head.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).and_then(client_name::visible);
    let at = head.extensions.get::<ClientAddr>().map(ClientAddr::ip);
    client_name::full(agent.as_deref(), at, me)
}

/// Names the client of what does not go through the cache. What may be a hit is not named: a run for the cache is nobody's.
pub(super) fn name(ask: &mut Ask, head: &Parts, me: &NodeName) {
    if ask.metadata.is_none() && ask.bypass.is_none() && ask.query.lexed.may_read() {
        return;
    }
    let mut metadata = ask.metadata.take().map(|own| own.to_vec()).unwrap_or_default();
    client_name::name_in(&mut metadata, &name_of(head, me));
    ask.metadata = Some(metadata.into());
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_request_is_named_by_its_agent_and_its_address() {
        let me = NodeName::new("node-a").unwrap();
        let (mut head, ()) =
            http::Request::post("/").header(USER_AGENT, "curl/8").body(()).unwrap().into_parts();
        assert_eq!(name_of(&head, &me), "curl/8 through node-a");
        head.extensions.insert(ClientAddr::new(IpAddr::from([10, 0, 0, 7])));
        assert_eq!(name_of(&head, &me), "curl/8 at 10.0.0.7 through node-a");
        head.headers.clear();
        assert_eq!(name_of(&head, &me), "a client at 10.0.0.7 through node-a");
    }

    #[test]
    fn metadata_is_a_map() {
        let pairs = vec![("app".to_owned(), Value::from("shop"))];
        assert_eq!(pairs_of(Some(Value::Map(pairs.clone()))), pairs);
        assert_eq!((pairs_of(None), pairs_of(Some(Value::Null))), (Vec::new(), Vec::new()));
    }
}
