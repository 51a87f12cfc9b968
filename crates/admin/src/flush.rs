//! `POST /admin/v1/prefetch/flush-waste`: drops unused prefetched copies from the memories of all nodes.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::problem::Problem;
use super::{Admin, json as answer};
use hopcache_state::audit;

pub(super) async fn flush_waste(State(admin): State<Arc<Admin>>) -> Response {
    let engine = Arc::clone(&admin.state.engine);
    // A task of its own, as for a purge: when the operator hangs up, the order still reaches all nodes.
    let Ok(flushed) = tokio::spawn(async move { engine.prefetch().flush_waste().await }).await else {
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the flush broke off; run it again")
            .into_response();
    };
    audit::flush_waste(admin.operator(), flushed.copies);
    let body = json!({"copies": flushed.copies, "nodes": flushed.nodes, "unreached": flushed.unreached});
    answer(StatusCode::OK, &body)
}
