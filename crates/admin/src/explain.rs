//! `POST /admin/v1/explain`: how a query would be answered, and why.

mod facts;
mod hints;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::key::PrincipalScope;
use hopcache_core::limits::STATEMENT_BYTES_MAX;
use hopcache_core::node::NodeName;
use hopcache_core::words::Word;
use hopcache_engine::Verdict;
use hopcache_engine::ask::{Hints, Query, QueryParts};
use hopcache_engine::explain::{Explanation, ProofView};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::inspection::PrefetchedView;
use hopcache_engine::outcome::Reason;
use hopcache_engine::refresh_view::RefreshView;
use hopcache_engine::{EndedBy, ToldBy};
use hopcache_ops::labels;
use hopcache_ops::sentences::explained::Facts;
use hopcache_queryapi::render::Encoding;
use hopcache_queryapi::request;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::problem::{Problem, read};
use super::{Admin, json as answer};
use hopcache_state::hints::hints_in;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    #[serde(default = "default_database")]
    database: String,
    /// User name of HTTP Basic; absent for requests without credentials.
    principal: Option<String>,
    statement: String,
    #[serde(default)]
    parameters: Map<String, Value>,
    /// A hint in the form of the header `Hopcache-Hint`.
    hint: Option<String>,
    /// Bookmarks as a request would send them.
    #[serde(default)]
    bookmarks: Vec<String>,
}

/// The question in types of the engine.
struct ExplainQuestion {
    query: Query,
    hints: Hints,
    /// `None` if this node cannot read the bookmarks.
    bookmark: Option<Bookmark>,
    principal: Option<String>,
    /// What the one who asks may have forgotten.
    told: Vec<String>,
}

fn default_database() -> String {
    "neo4j".to_owned()
}

pub(super) async fn explain(State(admin): State<Arc<Admin>>, body: Body) -> Response {
    let asked = match read::<Question>(body).await.and_then(|question| asked(&admin, question)) {
        Ok(asked) => asked,
        Err(problem) => return problem.into_response(),
    };
    let explanation = admin.state.engine.path().explain(&asked.query, asked.hints).await;
    let facts = facts::facts(&admin.state, &asked, &explanation);
    answer(StatusCode::OK, &report(&asked, &explanation, &facts))
}

fn asked(admin: &Admin, question: Question) -> Result<ExplainQuestion, Problem> {
    if question.statement.len() > STATEMENT_BYTES_MAX {
        return Err(Problem::bad(format!("statement: over {STATEMENT_BYTES_MAX} bytes")));
    }
    let hints = hints_in(question.hint.as_deref().unwrap_or_default());
    let hints = hints.map_err(|error| Problem::bad(error.to_string()))?;
    // The client's own parser, so that the key equals the key of its requests.
    let body = json!({"statement": question.statement, "parameters": question.parameters}).to_string();
    let request =
        request::parse(body.as_bytes(), Encoding::Plain).map_err(|error| Problem::bad(error.to_string()))?;
    let told = hints::of(&question.statement, &question.parameters);
    let hasher = admin.state.engine.hasher();
    let principal = admin.service_user.clone().or(question.principal);
    let (scheme, user) = principal.as_deref().map_or(("none", ""), |user| ("basic", user));
    let scope = PrincipalScope::of(hasher, scheme, user, None);
    let identity = Identity { scope, fingerprint: [0; 32], credentials: Credentials::None };
    let parts = QueryParts {
        database: question.database.into(),
        statement: request.statement.into(),
        params: request.parameters.into(),
        impersonated: None,
        identity: Arc::new(identity),
    };
    let query = Query::read(parts, hasher, &admin.state.engine.policy().allowed);
    Ok(ExplainQuestion { query, hints, bookmark: Bookmark::parse_all(&question.bookmarks), principal, told })
}

fn report(
    ExplainQuestion { query, told: hints, .. }: &ExplainQuestion,
    explanation: &Explanation,
    facts: &Facts,
) -> Value {
    let (class, reason) = class(explanation, facts);
    let sentence = facts.sentence();
    let owner = explanation.order.first().map(|node| node.as_str().to_owned());
    let failover: Vec<&str> = explanation.order.iter().skip(1).map(NodeName::as_str).collect();
    let at_owner = explanation.owner.as_ref();
    let entry = entry(explanation);
    json!({
        "summary": sentence.summary,
        "remedy": sentence.remedy,
        "hints": hints,
        "class": class,
        "reason": reason,
        "decided_by": facts.decider.as_ref().map(|decider| decider.name.as_str()),
        "normal_form": query.normal.as_str(),
        "shares_spellings": query.columns().is_some(),
        "query_key": query.key.to_hex(),
        "owner": owner,
        "failover": failover,
        "why_no_entry": entry.is_none().then_some(sentence.summary.as_str()),
        "entry": entry,
        "proof": explanation.proof.as_ref().map(proof),
        "foreign_write": explanation.foreign.map(|write| json!({"ms_ago": write.ago_ms.0, "transaction": write.transaction.0})),
        "memory": at_owner.map(|seen| json!({"age_ms": seen.memory_age_ms, "read_ms_ago": seen.memory_read_ms_ago})),
        "flight": at_owner.and_then(|seen| seen.flight_followers).map(|followers| json!({"followers": followers})),
        "lease": explanation.lease.as_ref().map(|(holder, token, left)| json!({
            "holder": holder.node.as_str(),
            "token": format!("{}-{:032x}", token.counter, token.nonce),
            "left_ms": left.0,
        })),
        "held_back_ms": facts.held_back_ms,
        "is_too_large": facts.is_too_large,
        "caching": explanation.worth.map(|worth| json!({
            "run_directly": worth.is_direct,
            "reads": worth.reads,
            "hits": worth.hits,
            "run_ms": worth.run_us.map(|us| us / 1_000.0),
            "pays_from_hit_ratio": worth.paying_share,
        })),
        "refresh_probability": explanation.refresh.probability,
        "refresh": refresh(&explanation.refresh),
    })
}

/// The stored entry.
fn entry(explanation: &Explanation) -> Option<Value> {
    let entry = explanation.entry.as_ref()?;
    // A proved entry answers past its TTL: it is not dead, and no time by age is left or over.
    let is_proved = explanation.proof.as_ref().is_some_and(|proof| proof.copy.is_proved);
    let (state, ttl_ms) = match entry.state {
        "stale" | "dead" if is_proved => ("proved", None),
        state => (state, Some(entry.ttl_ms)),
    };
    Some(json!({
        "state": state,
        "age_ms": entry.age_ms,
        "ttl_ms": ttl_ms,
        "cost_ms": entry.cost_ms,
        "bytes": entry.bytes,
        "token": entry.token.map(|token| format!("{}-{:032x}", token.counter, token.nonce)),
        "stored_by": entry.stored_by.as_ref().map(ToString::to_string),
        "ended_by": explanation.ended_by.as_ref().map(ended_by),
        "prefetched": explanation.owner.as_ref().and_then(|seen| seen.prefetched.as_ref()).map(prefetched),
    }))
}

/// The write that has ended an entry.
fn ended_by(write: &EndedBy) -> Value {
    json!({
        "ms_ago": write.ago_ms.0,
        "through": write.by.as_ref().map(NodeName::as_str),
        "transaction": write.transaction.map(|id| id.0),
        "touched": write.touched,
        "ordered": write.told == ToldBy::Order,
        "has_values": write.has_values,
    })
}

/// What proves an entry, and what would end it.
fn proof(view: &ProofView) -> Value {
    json!({
        "proved": view.copy.is_proved,
        "read_at": view.copy.read_at.0,
        "accounted_to": view.accounted_to.map(|id| id.0),
        "ends_with_a_write_to": view.ends_with,
    })
}

/// Why an entry was prefetched.
fn prefetched(view: &PrefetchedView) -> Value {
    json!({
        "because": format!("{} was asked", view.because),
        "by": view.by.as_str(),
        "kind": view.kind.as_str(),
        "p": view.p,
        "used": view.is_used,
    })
}

fn refresh(view: &RefreshView) -> Value {
    let plan = view.copy.map(|copy| copy.plan);
    let facts = view.copy.map(|copy| copy.facts);
    json!({
        "mode": labels::refresh_mode(view.mode),
        "timing": labels::refresh_timing(view.timing),
        "scale_ms": plan.map(|plan| plan.scale_ms),
        "ahead_ms": plan.map(|plan| plan.ahead_ms),
        "cost_ms": facts.map(|facts| json!({"mean": facts.cost.mean_ms, "tail": facts.cost.tail_ms})),
        "rate_per_s": facts.and_then(|facts| facts.rate_per_s),
        "degree": {"value": view.degree.value, "source": labels::degree_source(view.degree.source)},
        "anchor": view.anchor.as_ref().map(|anchor| json!({
            "label": anchor.label.as_str(),
            "key": anchor.key.as_str(),
        })),
    })
}

fn class(explanation: &Explanation, facts: &Facts) -> (&'static str, String) {
    match (facts.bypass(), explanation.verdict) {
        (Some(Reason::Write), _) => ("write", Reason::Write.word().to_owned()),
        (Some(reason), _) => ("bypass", reason.word().to_owned()),
        (None, Verdict::Unasked) if explanation.entry.is_some() => {
            ("read", "it is stored, and only reads are stored".to_owned())
        }
        (None, Verdict::Unasked) => (
            "unknown",
            "nothing in the text speaks against a read; the server has not been asked yet".to_owned(),
        ),
        (None, _) => ("read", "the server says that it reads".to_owned()),
    }
}
