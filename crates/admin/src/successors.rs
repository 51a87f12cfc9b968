//! `GET /admin/v1/successors`: which queries follow which, as this node has learned it. It shows no value of a
//! parameter and no literal: they may be personal data, and an operator who looks at learning does not need them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::Response;
use hopcache_core::limits::{
    PATTERN_TEXT_BYTES_MAX, SUCCESSORS_SHOWN_AT_A_TIME, SUCCESSORS_SHOWN_DEFAULT, SUCCESSORS_SHOWN_MAX,
    SUCCESSORS_SOUGHT_BYTES_MAX, SUCCESSORS_TURN_MS,
};
use hopcache_cypher::forms::pattern::pattern;
use hopcache_engine::prefetch::{PatternView, SuccessorView};
use hopcache_learning::form::{Binding, Form, Rows};
use hopcache_learning::{DecayedTally, Kind, SourceId};
use hopcache_packstream::{Reader, Token};
use http::{StatusCode, Uri};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::problem::Problem;
use super::{Admin, json as answer};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SuccessorQuestion {
    /// Part of a pattern's text, or the beginning of an id.
    #[serde(default)]
    pattern: String,
    /// Patterns, and as many exact queries.
    #[serde(default = "shown_by_default")]
    limit: usize,
}

fn shown_by_default() -> usize {
    SUCCESSORS_SHOWN_DEFAULT
}

pub(super) async fn successors(State(admin): State<Arc<Admin>>, uri: Uri) -> Response {
    let SuccessorQuestion { pattern, limit } = match asked(&uri) {
        Ok(asked) => asked,
        Err(problem) => return problem.into_response(),
    };
    let _turn = match turn(&admin.seeking).await {
        Ok(turn) => turn,
        Err(problem) => return problem.into_response(),
    };
    let engine = &admin.state.engine;
    let sizes = engine.prefetch().learning_sizes();
    let views = engine.prefetch().successors_sought(&pattern, limit).await;
    let mut sources = Vec::with_capacity(views.len());
    for some in views.chunks(SUCCESSORS_SHOWN_AT_A_TIME) {
        sources.extend(some.iter().map(source));
        yield_now().await;
    }
    let body = json!({
        "is_on": engine.policy().prefetch.is_on,
        "patterns_known": sizes.patterns,
        "forms_known": sizes.forms,
        "limit": limit,
        "patterns": sources,
    });
    answer(StatusCode::OK, &body)
}

/// Runs one search at a time: a search takes a core for a moment, and serving clients is more important.
async fn turn(seeking: &Semaphore) -> Result<SemaphorePermit<'_>, Problem> {
    let turn = timeout(Duration::from_millis(SUCCESSORS_TURN_MS), seeking.acquire()).await;
    turn.ok().and_then(Result::ok).ok_or_else(|| {
        let detail = "other requests for successors are being answered: ask again in some seconds";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    })
}

fn asked(uri: &Uri) -> Result<SuccessorQuestion, Problem> {
    // serde's message names the field that is wrong.
    let asked: Query<SuccessorQuestion> =
        Query::try_from_uri(uri).map_err(|error| Problem::bad(error.body_text()))?;
    let Query(asked) = asked;
    if !(1..=SUCCESSORS_SHOWN_MAX).contains(&asked.limit) {
        return Err(Problem::bad(format!("limit: {}: 1 to {SUCCESSORS_SHOWN_MAX} are allowed", asked.limit)));
    }
    if asked.pattern.len() > SUCCESSORS_SOUGHT_BYTES_MAX {
        return Err(Problem::bad(format!("pattern: over {SUCCESSORS_SOUGHT_BYTES_MAX} bytes")));
    }
    Ok(asked)
}

fn source(view: &PatternView) -> Value {
    let (kind, id) = match view.source {
        SourceId::Pattern(tag) => ("pattern", tag.0),
        SourceId::Query(tag) => ("query", tag.0),
    };
    let successors: Vec<Value> = view.successors.iter().map(successor).collect();
    json!({
        "id": hex(id),
        "kind": kind,
        "pattern": view.pattern.map(|tag| hex(tag.0)),
        "text": view.text,
        "realm": view.realm.map(|realm| hex(realm.0)),
        "seen": rounded(view.seen),
        "launches_max": view.launches_max,
        "launched": rounded(view.outcome.launched),
        "used": rounded(view.outcome.used),
        "precision": precision(&view.outcome),
        "successors": successors,
    })
}

/// The share of launches that were used. `None` if there were no launches. Several nodes count both, and the news of
/// one may arrive before the news of the other.
fn precision(outcome: &DecayedTally) -> Option<f64> {
    (outcome.launched > 0.0).then(|| rounded((outcome.used / outcome.launched).min(1.0)))
}

fn successor(view: &SuccessorView) -> Value {
    let kind = match &view.form {
        Some(Form::Exact { .. }) => Some("exact"),
        Some(Form::Template { .. }) => Some("template"),
        None => None,
    };
    let seen: f64 = view.taught_by.iter().map(|(_, count)| count).sum();
    let taught_by = view.taught_by.iter().map(|(node, count)| {
        let share = rounded(if seen > 0.0 { count / seen } else { 0.0 });
        match node {
            Ok(name) => json!({"node": name.as_str(), "share": share}),
            Err(tag) => json!({"node": null, "tag": hex(tag.0), "share": share}),
        }
    });
    json!({
        "form": hex(view.id.0),
        "kind": kind,
        "statement": view.form.as_ref().map(|form| literal_free(form.statement())),
        "bindings": view.form.as_ref().map(bindings),
        "probability": rounded(view.p),
        "seen": rounded(view.counts.seen),
        "launched": rounded(view.counts.launched),
        "used": rounded(view.counts.used),
        "taught_by": taught_by.collect::<Vec<Value>>(),
    })
}

/// Normalises the text as patterns are stored, so that it equals the text of the pattern that follows.
fn literal_free(statement: &str) -> String {
    let mut text = pattern(statement);
    text.truncate(text.floor_char_boundary(PATTERN_TEXT_BYTES_MAX));
    text
}

/// Where each parameter comes from. An exact parameter shows only its name and type.
fn bindings(form: &Form) -> Vec<String> {
    match form {
        Form::Exact { params, .. } => exact(params),
        Form::Template { bindings, .. } => {
            bindings.iter().map(|(name, binding)| format!("${name} = {}", from(binding))).collect()
        }
    }
}

fn exact(params: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(params);
    let Ok(Token::Map(pairs)) = reader.token() else { return Vec::new() };
    let read = (0..pairs).map_while(|_| {
        let name = reader.key().ok()?;
        let kind = Kind::of(reader.skip().ok()?)?;
        Some(format!("${name} ({})", kind_label(kind)))
    });
    read.collect()
}

fn from(binding: &Binding) -> String {
    match binding {
        Binding::Param { name, kind } => format!("parameter {name} ({})", kind_label(*kind)),
        Binding::Field { column, path, rows, kind } => {
            let path: String = path.iter().map(|key| format!(".{key}")).collect();
            let rows = match rows {
                Rows::First => "the first row",
                Rows::Each => "each row",
                Rows::All => "all rows",
            };
            format!("result.{column}{path} of {rows} ({})", kind_label(*kind))
        }
        Binding::Constant(value) => {
            format!("a constant ({})", Kind::of(value).map_or("unreadable", kind_label))
        }
    }
}

const fn kind_label(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Bool => "boolean",
        Kind::Int => "integer",
        Kind::Float => "float",
        Kind::Bytes => "bytes",
        Kind::Text => "string",
        Kind::List => "list",
        Kind::Map => "map",
        Kind::Struct => "structure",
    }
}

fn hex(tag: u64) -> String {
    format!("{tag:016x}")
}

/// Rounds to four places, because decayed counts are not exact.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hopcache_packstream::Writer;

    use super::*;

    fn problem(query: &str) -> String {
        let uri: Uri = format!("http://t/admin/v1/successors?{query}").parse().unwrap();
        format!("{:?}", asked(&uri).unwrap_err())
    }

    /// INTERFACE section 2: problem+json that names the field.
    #[test]
    fn a_bad_query_string_is_refused_by_the_name_of_its_field() {
        for query in ["limit=0", "limit=501", "limit=x", "limit=-1", "limit=", "limit=1&limit=2"] {
            assert!(problem(query).contains("limit"), "{query}: {}", problem(query));
        }
        assert!(problem(&format!("pattern={}", "x".repeat(513))).contains("pattern: over 512 bytes"));
        assert!(problem("patern=x").contains("patern"), "{}", problem("patern=x"));
        let uri: Uri = "/admin/v1/successors?pattern=%24id%20%3A%ff&limit=7".parse().unwrap();
        let asked = asked(&uri).unwrap();
        assert_eq!((asked.pattern.as_str(), asked.limit), ("$id :\u{fffd}", 7));
    }

    /// One search at a time: the next one waits its turn, and after the wait its error says what to do.
    #[tokio::test(start_paused = true)]
    async fn one_is_answered_at_a_time() {
        let seeking = Semaphore::new(1);
        let first = turn(&seeking).await.unwrap();
        let refused = turn(&seeking).await.unwrap_err().into_response();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[http::header::CONTENT_TYPE], "application/problem+json");
        drop(first);
        assert!(turn(&seeking).await.is_ok());
    }

    /// Neither a literal of a statement nor a parameter's value is shown; names and types are shown.
    #[test]
    fn what_is_shown_has_names_and_types_and_no_value() {
        let mut params = Writer::new();
        params.map(2);
        params.string("id");
        params.int(424_242);
        params.string("tags");
        params.list(1);
        params.string("secret-tag");
        let statement = "MATCH (p {id: $id, mail: 'secret@example.org'}) WHERE p.tag IN $tags RETURN p";
        let exact = Form::Exact { statement: statement.into(), params: params.into_bytes() };
        assert_eq!(bindings(&exact), ["$id (integer)", "$tags (list)"]);
        let text = literal_free(exact.statement());
        assert!(text.contains("mail : ?") && !text.contains("secret"), "{text}");
        let mut constant = Writer::new();
        constant.string("secret");
        let field =
            |rows| Binding::Field { column: "friend".into(), path: vec!["id".into()], rows, kind: Kind::Int };
        let each: BTreeMap<Box<str>, Binding> = [
            ("a".into(), field(Rows::Each)),
            ("b".into(), field(Rows::First)),
            ("c".into(), Binding::Param { name: "id".into(), kind: Kind::Int }),
            ("d".into(), Binding::Constant(constant.into_bytes())),
        ]
        .into();
        let template = Form::Template { statement: statement.into(), bindings: each };
        assert_eq!(
            bindings(&template),
            [
                "$a = result.friend.id of each row (integer)",
                "$b = result.friend.id of the first row (integer)",
                "$c = parameter id (integer)",
                "$d = a constant (string)",
            ]
        );
    }
}
