//! Who a client is, in the metadata of its transaction: otherwise Neo4j's list of transactions (`SHOW TRANSACTIONS YIELD metaData`) shows
//! nodes of Hopcache alone.

use std::net::IpAddr;

use hopcache_core::node::NodeName;
use hopcache_packstream::Value;

/// The key of the metadata that names the client.
pub(crate) const CLIENT: &str = "hopcache_client";
/// Longest name that a client gives itself there, in characters.
const AGENT_CHARS_MAX: usize = 96;

/// The name that a client gives itself, as far as it is shown.
pub(crate) fn visible(agent: &str) -> Option<String> {
    let visible = agent.chars().filter(|c| !c.is_control()).take(AGENT_CHARS_MAX);
    Some(visible.collect::<String>()).filter(|agent| !agent.is_empty())
}

/// Who the client is: `neo4j-python/6.4 at 10.0.0.7 through node-a`.
pub(crate) fn full(agent: Option<&str>, at: Option<IpAddr>, through: &NodeName) -> String {
    let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
    format!("{}{at} through {through}", agent.unwrap_or("a client"))
}

/// Adds who the client is to the metadata of a transaction. Another Hopcache before this one has named its own client: the outer name
/// goes.
pub(crate) fn name_in(metadata: &mut Vec<(String, Value)>, client: &str) {
    metadata.retain(|(name, _)| name != CLIENT);
    metadata.push((CLIENT.to_owned(), Value::from(client)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_named_by_what_is_known_of_it() {
        let node = NodeName::new("node-a").unwrap();
        let at = Some(IpAddr::from([10, 0, 0, 7]));
        assert_eq!(full(Some("curl/8"), at, &node), "curl/8 at 10.0.0.7 through node-a");
        assert_eq!(full(None, None, &node), "a client through node-a");
        assert_eq!(visible("a\nb").as_deref(), Some("ab"));
        assert_eq!((visible(""), visible(&"x".repeat(200)).map(|agent| agent.len())), (None, Some(96)));
    }

    #[test]
    fn the_outer_name_goes() {
        let mut metadata = vec![(CLIENT.to_owned(), "inner".into()), ("app".to_owned(), "shop".into())];
        name_in(&mut metadata, "outer");
        assert_eq!(metadata, [("app".to_owned(), "shop".into()), (CLIENT.to_owned(), Value::from("outer"))]);
    }
}
