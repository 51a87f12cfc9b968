//! `POST /admin/v1/invalidate`: ends the entries that a write past Hopcache has touched, on every node.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use hopcache_core::limits::INVALIDATE_NAMES_MAX;
use hopcache_core::tags::Touched;
use hopcache_cypher::tags::anchored::TouchedNodes;
use hopcache_engine::{Effects, InvalidationOutcome};
use hopcache_packstream::Value;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::problem::{Problem, read};
use super::{Admin, json as answer};
use hopcache_state::audit;

/// What the write has touched: names, or anything.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Order {
    database: Option<String>,
    nodes: bool,
    labels: Vec<String>,
    types: Vec<String>,
    keys: Vec<String>,
    anchors: Vec<Anchor>,
    anything: bool,
}

/// Nodes that the write has touched, by a value that they have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Anchor {
    label: Option<String>,
    key: String,
    /// A string or a number.
    value: serde_json::Value,
}

impl Order {
    fn tags(&self) -> usize {
        self.labels.len() + self.types.len() + self.keys.len() + self.anchors.len()
    }

    fn check(&self) -> Result<(), Problem> {
        if self.anything == (self.nodes || self.tags() > 0) {
            return Err(Problem::bad(
                "send what the write has touched (nodes, labels, types, keys, anchors), or anything (true), and not both",
            ));
        }
        if self.tags() > INVALIDATE_NAMES_MAX {
            return Err(Problem::bad(format!(
                "labels, types, keys, anchors: over {INVALIDATE_NAMES_MAX} together; send anything (true)"
            )));
        }
        for (place, anchor) in self.anchors.iter().enumerate() {
            if value_of(&anchor.value).is_none() {
                return Err(Problem::bad(format!("anchors[{place}].value: a string or a number is wanted")));
            }
        }
        let is_named = self.database.as_ref().is_some_and(|name| !name.is_empty());
        is_named.then_some(()).ok_or_else(|| Problem::bad("database: the name of the database is missing"))
    }

    fn touched(&self) -> Touched {
        if self.anything {
            Touched::Anything
        } else {
            let values: Vec<_> = self.anchors.iter().filter_map(|anchor| value_of(&anchor.value)).collect();
            let nodes = |(anchor, value)| {
                let Anchor { label, key, .. }: &Anchor = anchor;
                TouchedNodes { label: label.as_deref(), key, value }
            };
            let of_values: Vec<_> = self.anchors.iter().zip(&values).map(nodes).collect();
            Effects::told(&of_values, self.nodes, (&self.labels, &self.types, &self.keys)).touched()
        }
    }
}

/// The value by which nodes are found.
fn value_of(value: &serde_json::Value) -> Option<Value> {
    match value {
        serde_json::Value::String(text) => Some(Value::from(text.as_str())),
        serde_json::Value::Number(number) => {
            number.as_i64().map(Value::Int).or_else(|| number.as_f64().map(Value::Float))
        }
        _ => None,
    }
}

pub(super) async fn invalidate(State(admin): State<Arc<Admin>>, body: Body) -> Response {
    let order = read::<Order>(body).await.and_then(|order| order.check().map(|()| order));
    let order = match order {
        Ok(order) => order,
        Err(problem) => return problem.into_response(),
    };
    let (engine, touched) = (Arc::clone(&admin.state.engine), order.touched());
    let database = order.database.clone().unwrap_or_default();
    // A task of its own: when the sender hangs up, the order still reaches all nodes.
    let ended = tokio::spawn(async move { engine.writes().invalidate(&database, touched).await }).await;
    let database = order.database.as_deref().unwrap_or_default();
    let tags = (!order.anything).then(|| order.tags());
    audit::invalidate(admin.operator(), database, matches!(ended, Ok(Some(_))), tags);
    match ended {
        Ok(Some(InvalidationOutcome::Touched)) => answer(StatusCode::OK, &json!({"ended": "touched"})),
        Ok(Some(InvalidationOutcome::Database)) => answer(StatusCode::OK, &json!({"ended": "database"})),
        Ok(None) => Problem::new(
            StatusCode::CONFLICT,
            "freshness.mode is \"ttl\": entries do not know what they depend on; purge them (/admin/v1/purge)",
        )
        .into_response(),
        Err(_) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the invalidation broke off; send it again")
            .into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(json: serde_json::Value) -> Result<Order, Problem> {
        let order: Order = serde_json::from_value(json).unwrap();
        order.check().map(|()| order)
    }

    #[test]
    fn nodes_of_a_value_are_told_with_it() {
        let anchors = json!([{"label": "User", "key": "id", "value": 42}, {"key": "name", "value": "Ada"}]);
        let order = order(json!({"database": "neo4j", "anchors": anchors})).unwrap();
        let Touched::These(touched) = order.touched() else { panic!("anything") };
        assert!(touched.refinement().is_some_and(|refinement| !refinement.anchors().is_empty()));
        assert_eq!(order.tags(), 2);
    }

    #[test]
    fn a_value_by_which_nobody_finds_a_node_is_refused() {
        for value in [json!(null), json!(true), json!([1]), json!({"a": 1})] {
            let anchors = json!([{"key": "id", "value": 1}, {"key": "id", "value": value}]);
            let refused = order(json!({"database": "neo4j", "anchors": anchors})).unwrap_err();
            assert_eq!(refused, Problem::bad("anchors[1].value: a string or a number is wanted"));
        }
    }
}
