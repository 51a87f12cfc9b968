//! Health, metrics, ring and configuration of a node, and the order to leave.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use hopcache_core::time::Millis;
use hopcache_engine::memory::Memory;
use hopcache_engine::ports::OriginMember;
use hopcache_ops::clock::since_1970;
use hopcache_ops::labels::Part;
use hopcache_ops::meters::{Exposition, Readings};
use hopcache_ops::sentences::parts::when;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::{Admin, json as answer};
use hopcache_state::audit;
use hopcache_state::node_state::NodeState;
use hopcache_state::troubles::Trouble;

/// Alive as long as it answers. It does not check other systems.
pub(super) async fn livez() -> Response {
    answer(StatusCode::OK, &json!({"status": "live"}))
}

/// Ready: in the ring and able to serve. Degraded parts are named, and the node stays ready.
pub(super) async fn readyz(State(admin): State<Arc<Admin>>) -> Response {
    let reasons = admin.state.reasons_not_ready();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let status_text = if reasons.is_empty() { "ready" } else { "not ready" };
    let degraded = admin.state.degraded();
    let parts: Vec<&str> = degraded.iter().map(|(part, _)| part.as_str()).collect();
    let why: BTreeMap<&str, &str> =
        degraded.iter().map(|(part, why)| (part.as_str(), why.as_ref())).collect();
    let since = admin.state.since(&degraded);
    let mut said =
        json!({"status": status_text, "reasons": reasons, "degraded": parts, "why": why, "since": since});
    let members = admin.state.origin.members();
    if !members.is_empty() {
        said["neo4j"] = members.iter().map(neo4j_member).collect();
    }
    answer(status, &said)
}

/// A member of Neo4j's cluster, as this node knows it.
fn neo4j_member(member: &OriginMember) -> Value {
    let OriginMember { name, leads, is_reachable, in_flight } = member;
    json!({"name": name, "leads": leads, "answers": is_reachable, "runs": in_flight})
}

/// Every metric, as Prometheus reads it.
pub(super) async fn metrics(State(admin): State<Arc<Admin>>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let form = Exposition::asked_for(accept);
    let state = &admin.state;
    let writes = state.engine.writes();
    let of_databases =
        hopcache_ops::meters::freshness::of_databases(&writes.positions(), &writes.account_ages());
    let text = state.meters.render(readings(state), form, &of_databases);
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(form.content_type()));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// The present values of the gauges.
pub(super) fn readings(state: &NodeState) -> Readings {
    let degraded = state.degraded();
    let is_degraded = |part: Part| degraded.iter().any(|(each, _)| *each == part);
    let (entries, entry_bytes) = state.memory.size();
    let ring = state.engine.view();
    let learned = state.engine.prefetch().learning_sizes();
    Readings {
        ring_members: ring.members().len(),
        ring_epoch: ring.epoch().0,
        entries,
        entry_bytes,
        evictions: state.memory.evictions(),
        flights: state.engine.path().flights_under_way(),
        origin_in_flight: state.origin.in_flight(),
        origin_limit: state.origin.slots().unwrap_or_default(),
        origin_slowdown: state.origin_pace.now().map_or(0.0, |slowness| slowness.factor),
        direct_patterns: state.engine.path().direct_patterns(),
        refreshes: state.engine.refresh().begun(),
        refreshes_waiting: state.engine.refresh().waiting(),
        prefetches_pending: state.engine.prefetch().pending(),
        leases: state.engine.fetch().leases_held(),
        tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        learned_patterns: learned.patterns,
        learned_forms: learned.forms,
        sessions: learned.sessions,
        learning_bytes: learned.bytes + learned.session_bytes,
        observations_waiting: learned.waiting,
        bolt_connections: state.bolt_clients.len(),
        http_transactions: (state.http_transactions)(),
        log_lines_dropped: hopcache_ops::logging::lines_dropped(),
        degraded: Part::ALL.map(is_degraded),
    }
}

/// The members, each with its share of the ring.
pub(super) fn members(state: &NodeState) -> Vec<Value> {
    let ring = state.engine.view();
    state
        .members
        .members()
        .iter()
        .map(|member| {
            json!({
                "name": member.name.as_str(),
                "peer_addr": member.peer_addr.to_string(),
                "state": member.state,
                "phase": member.phase,
                "weight": member.weight,
                "life": format!("{:016x}", member.incarnation.0),
                "share": ring.share(&member.name),
                "epoch": state.members.ring_shown_by(&member.name).map(|(epoch, _)| epoch.0),
            })
        })
        .collect()
}

/// What did not work lately and what does not work now, the latest first.
pub(super) fn troubles(state: &NodeState) -> Vec<Value> {
    let now = since_1970();
    let millis = |time: Duration| Millis::from(time).0;
    let shown = |trouble: &Trouble| {
        let Trouble { what, why, until, times, .. } = trouble;
        let at = trouble.times(now);
        json!({
            "part": what, "why": why, "when": when(at, now),
            "first_ms": millis(at.came[0]), "until_ms": until.map(millis), "times": times, "lasted_ms": millis(at.lasted),
        })
    };
    let mut all: Vec<Value> = state.troubles.lock().all().map(shown).collect();
    all.reverse();
    all
}

pub(super) async fn ring(State(admin): State<Arc<Admin>>) -> Response {
    let ring = admin.state.engine.view();
    let members = members(&admin.state);
    let virtual_nodes = admin.state.virtual_nodes;
    answer(
        StatusCode::OK,
        &json!({
            "node": admin.state.report.load().value("node.name"),
            "epoch": ring.epoch().0,
            "virtual_nodes": virtual_nodes,
            "members": members,
            "troubles": troubles(&admin.state),
        }),
    )
}

pub(super) async fn config(State(admin): State<Arc<Admin>>) -> Response {
    audit::config_read(admin.operator());
    answer(StatusCode::OK, &admin.state.report.load().to_json())
}

pub(super) async fn drain(State(admin): State<Arc<Admin>>) -> Response {
    audit::drain(admin.operator());
    admin.state.leaving.cancel();
    answer(StatusCode::ACCEPTED, &json!({"status": "leaving"}))
}
