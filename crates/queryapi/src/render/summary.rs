//! The parts of the body that come from Bolt's summary: notifications, counters, query plan.

use hopcache_packstream::{Reader, Token, Value, encode};

use super::value::Renderer;
use super::{Counters, RenderError, ResponseForm};
use crate::json;

/// Counters in the server's order: their JSON name, and Bolt's.
const COUNTERS: [(&str, &str); 11] = [
    ("nodesCreated", "nodes-created"),
    ("nodesDeleted", "nodes-deleted"),
    ("propertiesSet", "properties-set"),
    ("relationshipsCreated", "relationships-created"),
    ("relationshipsDeleted", "relationships-deleted"),
    ("labelsAdded", "labels-added"),
    ("labelsRemoved", "labels-removed"),
    ("indexesAdded", "indexes-added"),
    ("indexesRemoved", "indexes-removed"),
    ("constraintsAdded", "constraints-added"),
    ("constraintsRemoved", "constraints-removed"),
];

/// Appends the parts that apply, each with its leading comma.
pub(super) fn append(out: &mut Vec<u8>, summary: &Value, form: ResponseForm) -> Result<(), RenderError> {
    if let Some(notes) = summary.get("notifications").and_then(Value::as_list).filter(|all| !all.is_empty()) {
        out.extend_from_slice(b",\"notifications\":[");
        for (index, note) in notes.iter().enumerate() {
            notification(out, note, if index == 0 { "" } else { "," });
        }
        out.push(b']');
    }
    if form.counters == Counters::Include {
        counters(out, summary.get("stats").unwrap_or(&Value::Null));
    }
    if let Some(plan) = summary.get("profile") {
        out.extend_from_slice(b",\"profiledQueryPlan\":");
        operator(out, plan, Kind::Profiled, form, 0)?;
    } else if let Some(plan) = summary.get("plan") {
        out.extend_from_slice(b",\"queryPlan\":");
        operator(out, plan, Kind::Planned, form, 0)?;
    }
    Ok(())
}

/// Appends the kind of the statement, and after how many milliseconds its rows began and ended.
pub(super) fn times(out: &mut Vec<u8>, kind: Option<&str>, summary: &Value) {
    if let Some(kind) = kind {
        out.extend_from_slice(b",\"queryType\":");
        json::string(out, kind);
    }
    let ms = |name: &str| summary.get(name).and_then(Value::as_int).unwrap_or(0);
    let available_ms = ms("t_first");
    for (name, at_ms) in [
        ("resultAvailableAfter", available_ms),
        ("resultConsumedAfter", available_ms.saturating_add(ms("t_last"))),
    ] {
        out.push(b',');
        int_member(out, name, Some(&Value::Int(at_ms)));
    }
}

fn notification(out: &mut Vec<u8>, note: &Value, before: &str) {
    out.extend_from_slice(before.as_bytes());
    for (index, name) in ["code", "description", "severity", "title"].into_iter().enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        text_member(out, name, note.get(name));
    }
    out.extend_from_slice(b",\"position\":");
    match note.get("position") {
        Some(place @ Value::Map(_)) => {
            for (index, name) in ["offset", "line", "column"].into_iter().enumerate() {
                out.push(if index == 0 { b'{' } else { b',' });
                int_member(out, name, place.get(name));
            }
            out.push(b'}');
        }
        _ => out.extend_from_slice(b"null"),
    }
    out.push(b',');
    text_member(out, "category", note.get("category"));
    out.push(b'}');
}

fn text_member(out: &mut Vec<u8>, name: &str, value: Option<&Value>) {
    json::string(out, name);
    out.push(b':');
    match value.and_then(Value::as_str) {
        Some(text) => json::string(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

fn int_member(out: &mut Vec<u8>, name: &str, value: Option<&Value>) {
    json::string(out, name);
    out.push(b':');
    json::int(out, value.and_then(Value::as_int).unwrap_or(0));
}

fn counters(out: &mut Vec<u8>, stats: &Value) {
    out.extend_from_slice(b",\"counters\":{");
    let count = |name| stats.get(name).and_then(Value::as_int).unwrap_or(0);
    // Servers before 4.4 left the two flags out. The driver then derives them, and so does this code.
    let any = COUNTERS.iter().any(|(_, bolt)| count(bolt) > 0);
    flag_member(out, "containsUpdates", stats.get("contains-updates"), any);
    for (name, bolt) in COUNTERS {
        out.push(b',');
        int_member(out, name, stats.get(bolt));
    }
    out.push(b',');
    let system = count("system-updates") > 0;
    flag_member(out, "containsSystemUpdates", stats.get("contains-system-updates"), system);
    out.push(b',');
    int_member(out, "systemUpdates", stats.get("system-updates"));
    out.push(b'}');
}

fn flag_member(out: &mut Vec<u8>, name: &str, value: Option<&Value>, otherwise: bool) {
    json::string(out, name);
    let flag = value.and_then(Value::as_bool).unwrap_or(otherwise);
    out.extend_from_slice(if flag { b":true" } else { b":false" });
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Planned,
    Profiled,
}

/// One operator of a plan, with its children.
fn operator(
    out: &mut Vec<u8>,
    plan: &Value,
    kind: Kind,
    form: ResponseForm,
    depth: usize,
) -> Result<(), RenderError> {
    if depth > hopcache_packstream::DEPTH_MAX || !matches!(plan, Value::Map(_)) {
        return Err(RenderError::Summary("plan"));
    }
    out.push(b'{');
    if kind == Kind::Profiled {
        profile(out, plan);
        out.push(b',');
    }
    text_member(out, "operatorType", plan.get("operatorType"));
    out.extend_from_slice(b",\"arguments\":");
    arguments(out, plan.get("args"), form)?;
    out.extend_from_slice(b",\"identifiers\":[");
    let names = plan.get("identifiers").and_then(Value::as_list).unwrap_or(&[]);
    for (index, name) in names.iter().filter_map(Value::as_str).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json::string(out, name);
    }
    out.extend_from_slice(b"],\"children\":[");
    let children = plan.get("children").and_then(Value::as_list).unwrap_or(&[]);
    for (index, child) in children.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        operator(out, child, kind, form, depth + 1)?;
    }
    out.extend_from_slice(b"]}");
    Ok(())
}

fn profile(out: &mut Vec<u8>, plan: &Value) {
    int_member(out, "dbHits", plan.get("dbHits"));
    out.push(b',');
    int_member(out, "records", plan.get("rows"));
    let hits = plan.get("pageCacheHits");
    let misses = plan.get("pageCacheMisses");
    let ratio = match plan.get("pageCacheHitRatio") {
        Some(Value::Float(ratio)) => *ratio,
        _ => 0.0,
    };
    let some = |count: Option<&Value>| count.and_then(Value::as_int).is_some_and(|count| count > 0);
    out.push(b',');
    flag_member(out, "hasPageCacheStats", None, some(hits) || some(misses) || ratio > 0.0);
    out.push(b',');
    int_member(out, "pageCacheHits", hits);
    out.push(b',');
    int_member(out, "pageCacheMisses", misses);
    out.extend_from_slice(b",\"pageCacheHitRatio\":");
    json::float(out, if ratio.is_finite() { ratio } else { 0.0 });
    out.push(b',');
    int_member(out, "time", plan.get("time"));
}

/// Arguments are values like those of a record, so the same code renders them.
fn arguments(out: &mut Vec<u8>, args: Option<&Value>, form: ResponseForm) -> Result<(), RenderError> {
    let Some(args @ Value::Map(_)) = args else {
        out.extend_from_slice(b"{}");
        return Ok(());
    };
    let packed = encode(args);
    let mut reader = Reader::new(&packed);
    let Token::Map(len) = reader.token()? else { return Err(RenderError::Summary("plan")) };
    Renderer::new(out, form.encoding).members(&mut reader, len, 0)
}
