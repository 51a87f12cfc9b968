//! `POST /admin/v1/reload`: reads the configuration, the certificates and the passwords again.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use hopcache_config::Change;
use hopcache_net::client_addr;
use http::StatusCode;
use serde_json::{Value, json};

use super::problem::Problem;
use super::{Admin, json as answer};

/// With `?dry_run` nothing is changed.
pub(super) async fn reload(State(admin): State<Arc<Admin>>, RawQuery(query): RawQuery) -> Response {
    let is_dry_run = match query.as_deref() {
        None | Some("") => false,
        Some("dry_run" | "dry_run=" | "dry_run=true") => true,
        Some(_) => return Problem::bad("the only parameter is dry_run").into_response(),
    };
    let Some(reload) = admin.state.reload.get().map(Arc::clone) else {
        let detail =
            "this node has no configuration of its own (hopcache dev): start it again with other flags";
        return Problem::new(StatusCode::CONFLICT, detail).into_response();
    };
    // Here: the other thread does not know whose request this is.
    let (who, from) = (admin.operator(), client_addr::current());
    let reloaded = tokio::task::spawn_blocking(move || reload.reload((who, &from), is_dry_run)).await;
    match reloaded {
        Ok(Ok(reloaded)) => answer(
            StatusCode::OK,
            &json!({
                "dry_run": is_dry_run,
                "changed": reloaded.changed.iter().map(shown).collect::<Vec<_>>(),
                "needs_restart": reloaded.needs_restart.iter().map(shown).collect::<Vec<_>>(),
            }),
        ),
        Ok(Err(why)) => {
            let detail = format!("nothing was changed: {why}");
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail).into_response()
        }
        Err(_) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the reload broke off; look at the log")
            .into_response(),
    }
}

fn shown(change: &Change) -> Value {
    json!({"key": change.key, "before": change.before, "after": change.after})
}
