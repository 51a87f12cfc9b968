//! The library's values to PackStream and back. Nothing here runs a statement.
//!
//! A relationship of the library has no number: it is known by (start, end, type, sequence). Its
//! element id is written from all four, so it is unique; the (deprecated) number of Bolt's structure is
//! a 53-bit digest of it.

use std::collections::HashMap;

use chrono::{Datelike, NaiveDate, NaiveTime, Timelike};
use graphdblite::{Edge, Node, PathValue, Properties, Value as Graph};
use hopcache_packstream::{Value as Packed, Writer, tag};
use serde_json::json;

/// The uuid in element ids, where Neo4j has the database's.
pub(crate) const DATABASE_UUID: &str = "5a3b1e00-0000-4000-8000-686f70636163";

/// A parameter for which the embedded graph has no value type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadParameter {
    /// Not a PackStream map.
    #[error("the parameters are not a PackStream map")]
    NotMap,
    /// Points, bytes, graph values, times with a zone name.
    #[error("parameter '{0}': the embedded sample graph takes no {1}; run this statement on Neo4j")]
    Unsupported(String, &'static str),
    /// A date or time out of its range.
    #[error("parameter '{0}': a date or time outside the embedded sample graph's range")]
    Range(String),
}

/// Reads the parameters of a run. Empty bytes are no parameters.
pub(crate) fn parameters(bytes: &[u8]) -> Result<HashMap<String, Graph>, BadParameter> {
    if bytes.is_empty() {
        return Ok(HashMap::new());
    }
    let Ok(Packed::Map(pairs)) = hopcache_packstream::decode(bytes) else { return Err(BadParameter::NotMap) };
    pairs.into_iter().map(|(name, value)| Ok((name.clone(), parameter(&name, value)?))).collect()
}

fn parameter(name: &str, value: Packed) -> Result<Graph, BadParameter> {
    Ok(match value {
        Packed::Null => Graph::Null,
        Packed::Bool(flag) => Graph::Bool(flag),
        Packed::Int(number) => Graph::I64(number),
        Packed::Float(number) => Graph::F64(number),
        Packed::String(text) => Graph::String(text),
        Packed::Bytes(_) => return Err(BadParameter::Unsupported(name.to_owned(), "byte arrays")),
        Packed::Uuid(_) => return Err(BadParameter::Unsupported(name.to_owned(), "UUIDs")),
        Packed::List(items) => {
            Graph::List(items.into_iter().map(|item| parameter(name, item)).collect::<Result<_, _>>()?)
        }
        Packed::Map(pairs) => {
            let pairs = pairs.into_iter().map(|(key, value)| Ok((key, parameter(name, value)?)));
            Graph::Map(pairs.collect::<Result<_, BadParameter>>()?)
        }
        Packed::Struct { tag, fields } => {
            let numbers: Option<Vec<i64>> = fields.iter().map(Packed::as_int).collect();
            let numbers = numbers.unwrap_or_default();
            if !matches!(tag, tag::DATE | tag::TIME | tag::LOCAL_TIME | tag::DATE_TIME | tag::LOCAL_DATE_TIME)
                && tag != tag::DURATION
            {
                return Err(BadParameter::Unsupported(name.to_owned(), "points or values of this type"));
            }
            temporal(tag, &numbers).ok_or_else(|| BadParameter::Range(name.to_owned()))?
        }
    })
}

/// A date of the library; `None` outside the calendar.
pub(crate) fn date(year: i32, month: u32, day: u32) -> Option<Graph> {
    NaiveDate::from_ymd_opt(year, month, day)?;
    serde_json::from_value(json!({"Date": {"year": year, "month": month, "day": day}})).ok()
}

/// The library does not let its temporal types be named, but it reads them by serde.
fn temporal(structure: u8, fields: &[i64]) -> Option<Graph> {
    let form = match (structure, fields) {
        (tag::DATE, [days]) => {
            let day = epoch_date(*days)?;
            json!({"Date": {"year": day.year(), "month": day.month(), "day": day.day()}})
        }
        (tag::LOCAL_TIME, [nanos]) => json!({"LocalTime": clock(time_of_day(*nanos)?)}),
        (tag::TIME, [nanos, offset]) => {
            let mut time = clock(time_of_day(*nanos)?);
            time["offset_seconds"] = json!(offset);
            json!({"Time": time})
        }
        (tag::LOCAL_DATE_TIME, [seconds, nanos]) => {
            json!({"LocalDateTime": day_and_clock(*seconds, *nanos)?})
        }
        (tag::DATE_TIME, [seconds, nanos, offset]) => {
            let mut moment = day_and_clock(seconds.checked_add(*offset)?, *nanos)?;
            moment["offset_seconds"] = json!(offset);
            json!({"DateTime": moment})
        }
        (tag::DURATION, [months, days, seconds, nanos]) => {
            json!({"Duration": {"months": months, "days": days, "seconds": seconds, "nanos": nanos}})
        }
        _ => return None,
    };
    serde_json::from_value(form).ok()
}

fn epoch_date(days: i64) -> Option<NaiveDate> {
    NaiveDate::default().checked_add_signed(chrono::TimeDelta::try_days(days)?)
}

fn time_of_day(nanos: i64) -> Option<NaiveTime> {
    let seconds = u32::try_from(nanos.div_euclid(1_000_000_000)).ok()?;
    NaiveTime::from_num_seconds_from_midnight_opt(
        seconds,
        u32::try_from(nanos.rem_euclid(1_000_000_000)).ok()?,
    )
}

fn clock(time: NaiveTime) -> serde_json::Value {
    json!({"hour": time.hour(), "minute": time.minute(), "second": time.second(), "nanosecond": time.nanosecond()})
}

fn day_and_clock(seconds: i64, nanos: i64) -> Option<serde_json::Value> {
    let day = epoch_date(seconds.div_euclid(86_400))?;
    let mut form = clock(time_of_day(seconds.rem_euclid(86_400) * 1_000_000_000 + nanos)?);
    form["year"] = json!(day.year());
    form["month"] = json!(day.month());
    form["day"] = json!(day.day());
    Some(form)
}

/// Appends one value as Bolt 5 has it.
pub(crate) fn write(out: &mut Writer, value: &Graph) {
    match value {
        Graph::Null => out.null(),
        Graph::Bool(flag) => out.bool(*flag),
        Graph::I64(number) => out.int(*number),
        Graph::F64(number) => out.float(*number),
        Graph::String(text) => out.string(text),
        Graph::List(items) => {
            out.list(items.len());
            items.iter().for_each(|item| write(out, item));
        }
        Graph::Map(pairs) => {
            out.map(pairs.len());
            for (key, value) in pairs {
                out.string(key);
                write(out, value);
            }
        }
        Graph::Node(node) => write_node(out, node),
        Graph::Edge(edge) => write_relationship(out, edge),
        Graph::Path(path) => write_path(out, path),
        temporal => write_temporal(out, temporal),
    }
}

fn write_temporal(out: &mut Writer, value: &Graph) {
    match value {
        Graph::Date(date) => structure(out, tag::DATE, &[days(date.0)]),
        Graph::LocalTime(time) => structure(out, tag::LOCAL_TIME, &[nanos_of_day(time.0)]),
        Graph::Time(time) => {
            structure(out, tag::TIME, &[nanos_of_day(time.0), i64::from(time.1.local_minus_utc())]);
        }
        Graph::LocalDateTime(moment) => {
            let utc = moment.0.and_utc();
            structure(out, tag::LOCAL_DATE_TIME, &[utc.timestamp(), i64::from(utc.timestamp_subsec_nanos())]);
        }
        Graph::DateTime(moment) => {
            let offset = i64::from(moment.1.local_minus_utc());
            let local = moment.0.and_utc();
            let (seconds, nanos) = (local.timestamp() - offset, i64::from(local.timestamp_subsec_nanos()));
            match &moment.2 {
                None => structure(out, tag::DATE_TIME, &[seconds, nanos, offset]),
                Some(zone) => {
                    out.structure(tag::DATE_TIME_ZONE, 3);
                    out.int(seconds);
                    out.int(nanos);
                    out.string(zone);
                }
            }
        }
        Graph::Duration(span) => {
            // Bolt's nanoseconds are 0 ..= 999,999,999; the seconds carry the sign.
            let seconds = span.seconds.saturating_add(span.nanos.div_euclid(1_000_000_000));
            let nanos = span.nanos.rem_euclid(1_000_000_000);
            structure(out, tag::DURATION, &[span.months, span.days, seconds, nanos]);
        }
        _ => out.null(),
    }
}

fn structure(out: &mut Writer, signature: u8, numbers: &[i64]) {
    out.structure(signature, numbers.len());
    numbers.iter().for_each(|number| out.int(*number));
}

fn days(date: NaiveDate) -> i64 {
    date.signed_duration_since(NaiveDate::default()).num_days()
}

fn nanos_of_day(time: NaiveTime) -> i64 {
    i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(time.nanosecond())
}

fn write_node(out: &mut Writer, node: &Node) {
    out.structure(tag::NODE, 4);
    out.int(node.id.0.cast_signed());
    out.list(node.labels.len());
    node.labels.iter().for_each(|label| out.string(label));
    write_properties(out, &node.properties);
    out.string(&node_element(node.id.0));
}

fn write_relationship(out: &mut Writer, edge: &Edge) {
    let element = relationship_element(edge);
    out.structure(tag::RELATIONSHIP, 8);
    out.int(number_of(&element));
    out.int(edge.src.0.cast_signed());
    out.int(edge.dst.0.cast_signed());
    out.string(&edge.label);
    write_properties(out, &edge.properties);
    out.string(&element);
    out.string(&node_element(edge.src.0));
    out.string(&node_element(edge.dst.0));
}

/// Distinct nodes and relationships in the order of their first appearance. Then, for each step, the index of the
/// relationship (from 1, negative against its direction) and the index of the node.
fn write_path(out: &mut Writer, path: &PathValue) {
    let mut nodes: Vec<&Node> = Vec::new();
    let mut edges: Vec<&Edge> = Vec::new();
    let mut steps: Vec<i64> = Vec::new();
    let place = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
    let node_at = |nodes: &mut Vec<_>, node| place(first_place(nodes, node, |a: &Node, b| a.id == b.id));
    for (index, node) in path.nodes.iter().enumerate() {
        if let Some((edge, before)) =
            index.checked_sub(1).and_then(|i| path.edges.get(i).zip(path.nodes.get(i)))
        {
            let same =
                |a: &Edge, b: &Edge| (a.src, a.dst, &a.label, a.seq) == (b.src, b.dst, &b.label, b.seq);
            let number = place(first_place(&mut edges, edge, same)) + 1;
            steps.push(if edge.src == before.id { number } else { -number });
            let node = node_at(&mut nodes, node);
            steps.push(node);
        } else {
            node_at(&mut nodes, node);
        }
    }
    out.structure(tag::PATH, 3);
    out.list(nodes.len());
    nodes.iter().for_each(|node| write_node(out, node));
    out.list(edges.len());
    for edge in edges {
        let element = relationship_element(edge);
        out.structure(tag::UNBOUND_RELATIONSHIP, 4);
        out.int(number_of(&element));
        out.string(&edge.label);
        write_properties(out, &edge.properties);
        out.string(&element);
    }
    out.list(steps.len());
    steps.iter().for_each(|step| out.int(*step));
}

fn first_place<'a, T>(seen: &mut Vec<&'a T>, one: &'a T, same: impl Fn(&T, &T) -> bool) -> usize {
    if let Some(index) = seen.iter().position(|other| same(other, one)) {
        return index;
    }
    seen.push(one);
    seen.len() - 1
}

/// Sorted by key: the library keeps properties in a hash map, and equal results need equal bytes.
fn write_properties(out: &mut Writer, properties: &Properties) {
    let mut sorted: Vec<_> = properties.iter().collect();
    sorted.sort_by_key(|(key, _)| *key);
    out.map(sorted.len());
    for (key, value) in sorted {
        out.string(key);
        write(out, value);
    }
}

fn node_element(id: u64) -> String {
    format!("4:{DATABASE_UUID}:{id}")
}

fn relationship_element(edge: &Edge) -> String {
    format!("5:{DATABASE_UUID}:{}-{}-{}-{}", edge.src.0, edge.dst.0, edge.seq, edge.label)
}

/// FNV-1a, cut to 53 bits: a client with double-precision numbers keeps it exactly.
fn number_of(element: &str) -> i64 {
    let digest = element.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    (digest >> 11).cast_signed()
}
