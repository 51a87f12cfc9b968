//! `POST /admin/v1/purge`: removes entries from the store and from every node.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use hopcache_core::key::{DatabaseTag, QueryKey};
use hopcache_core::tags::Tag;
use hopcache_engine::memory::Memory as _;
use hopcache_engine::ports::Scope;
use http::StatusCode;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

use super::problem::{Problem, read};
use super::{Admin, json as answer};
use hopcache_state::audit;

/// Exactly one of the three.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Order {
    query_key: Option<String>,
    database: Option<String>,
    all: Option<bool>,
}

impl Order {
    /// The scope as the audit names it.
    fn named(&self) -> String {
        match self {
            Self { query_key: Some(key), .. } => format!("query_key {}", audit::shown(key)),
            Self { database: Some(name), .. } => format!("database {}", audit::shown(name)),
            Self { .. } => "all".to_owned(),
        }
    }
}

pub(super) async fn purge(State(admin): State<Arc<Admin>>, body: Body) -> Response {
    let read = read::<Order>(body).await.and_then(|order| Ok((order.named(), scope(&admin, order)?)));
    let (named, scope) = match read {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let engine = Arc::clone(&admin.state.engine);
    // A task of its own: when the operator hangs up, the order still reaches all nodes.
    let Ok(purged) = tokio::spawn(async move { engine.invalidate().purge(&scope).await }).await else {
        audit::purge(admin.operator(), &named, false, None);
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the purge broke off; run it again")
            .into_response();
    };
    audit::purge(admin.operator(), &named, purged.store.is_ok(), purged.store.as_ref().ok().copied());
    let body = json!({
        "entries": purged.store.as_ref().ok(),
        "store_error": purged.store.as_ref().err().map(ToString::to_string),
        "copies": purged.copies,
        "nodes": purged.nodes,
        "unreached": purged.unreached,
    });
    let status = if purged.store.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, &body)
}

/// The fewest digits of a key that may stand for all of it.
const KEY_DIGITS_MIN: usize = 8;

/// The key with these digits. Its first ones are enough if one entry in this node's memory has them, and no other.
fn key_of(admin: &Admin, text: &str) -> Result<QueryKey, Problem> {
    if let Some(key) = QueryKey::from_hex(text) {
        return Ok(key);
    }
    let text = text.trim_end_matches('…').to_ascii_lowercase();
    if text.len() < KEY_DIGITS_MIN || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let rule = "query_key: has to be the digits that explain prints, at least the first 8";
        return Err(Problem::bad(rule));
    }
    let found = Mutex::new(Vec::new());
    admin.state.memory.look_at(&|key, _| {
        if key.to_hex().starts_with(&text) {
            found.lock().push(*key);
        }
    });
    match found.into_inner().as_slice() {
        [key] => Ok(*key),
        [] => Err(Problem::bad(format!(
            "query_key: this node's memory has no entry whose key begins with {text}: ask the owner that explain names, or send all 64 digits"
        ))),
        more => Err(Problem::bad(format!(
            "query_key: {} entries begin with {text}: send more digits",
            more.len()
        ))),
    }
}

fn scope(admin: &Admin, order: Order) -> Result<Scope, Problem> {
    match order {
        Order { query_key: Some(text), database: None, all: None } => key_of(admin, &text).map(Scope::Key),
        Order { query_key: None, database: Some(name), all: None } => {
            Ok(Scope::Tag(Tag::Database(DatabaseTag::of(admin.state.engine.hasher(), &name))))
        }
        Order { query_key: None, database: None, all: Some(true) } => Ok(Scope::All),
        _ => Err(Problem::bad("send exactly one of query_key, database, all (true)")),
    }
}
