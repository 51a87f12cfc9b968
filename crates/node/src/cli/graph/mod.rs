//! The learned graph: patterns, and the successors of each with their probabilities. It is built from any answer of the
//! admin listener. It decides which texts become one node and one edge; `dot` writes it for Graphviz.

mod dot;

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{items, number, readable, text};

/// A graph to be drawn.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    /// By ends and style.
    edges: BTreeMap<(usize, usize, Style), Edge>,
}

/// A pattern of one principal in one database, whose names are not shown.
#[derive(Debug)]
struct Node {
    label: String,
    seen: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Style {
    /// The next query is built from the one before.
    Template,
    /// The next query is this exact query.
    Exact,
}

/// All successors between two patterns of one style.
#[derive(Debug, Default)]
struct Edge {
    count: usize,
    /// The largest probability of templates, which are ways to say the same. Of exact queries the mean, weighted by
    /// how often each was seen.
    p: f64,
    seen: f64,
}

/// The identity of a node: texts with the same identity are one node.
type Name = (String, String);

impl Graph {
    /// Builds the graph from the answer of `GET /admin/v1/successors`.
    pub(super) fn of(answer: &Value) -> Self {
        let mut graph = Self::default();
        let mut places: BTreeMap<Name, usize> = BTreeMap::new();
        let mut alone = Vec::new();
        for source in items(answer, "patterns") {
            // A pattern without successors does not name its principal: it may be the successor of another pattern.
            if items(source, "successors").next().is_none() {
                alone.push(source);
                continue;
            }
            let from = graph.place(&mut places, (text(source, "realm"), named(source)));
            // A pattern's count includes its queries. A query whose pattern is unknown here stands for itself.
            if text(source, "kind") != "query" || text(source, "text").is_empty() {
                graph.set_seen(from, number(source, "seen"));
            }
            for successor in items(source, "successors") {
                let statement = text(successor, "statement");
                let unknown = || format!("form {}", text(successor, "form"));
                let label = if statement.is_empty() { unknown() } else { statement };
                let to = graph.place(&mut places, (text(source, "realm"), label));
                graph.edge(from, to, (text(source, "kind") == "query", successor));
            }
        }
        for source in alone {
            let label = named(source);
            let mut known = places.iter().filter(|((_, other), _)| *other == label).map(|(_, place)| *place);
            match (known.next(), known.next()) {
                (None, _) => {
                    let place = graph.place(&mut places, (text(source, "id"), label));
                    graph.set_seen(place, number(source, "seen"));
                }
                (Some(place), None) => graph.set_seen(place, number(source, "seen")),
                // Two principals have this pattern, so its principal is unknown.
                (Some(_), Some(_)) => {}
            }
        }
        graph
    }

    fn place(&mut self, places: &mut BTreeMap<Name, usize>, name: Name) -> usize {
        let next = self.nodes.len();
        let place = *places.entry(name.clone()).or_insert(next);
        if place == next {
            self.nodes.push(Node { label: readable(&name.1), seen: 0.0 });
        }
        place
    }

    fn set_seen(&mut self, place: usize, seen: f64) {
        if let Some(node) = self.nodes.get_mut(place) {
            node.seen = node.seen.max(seen);
        }
    }

    fn edge(&mut self, from: usize, to: usize, (is_of_query, successor): (bool, &Value)) {
        let is_exact = is_of_query || text(successor, "kind") == "exact";
        let style = if is_exact { Style::Exact } else { Style::Template };
        let edge = self.edges.entry((from, to, style)).or_default();
        let (p, seen) =
            (number(successor, "probability").clamp(0.0, 1.0), number(successor, "seen").max(0.0));
        edge.p = match style {
            Style::Template => edge.p.max(p),
            Style::Exact if edge.seen + seen > 0.0 => (edge.p * edge.seen + p * seen) / (edge.seen + seen),
            Style::Exact => p,
        };
        edge.seen += seen;
        edge.count += 1;
    }
}

fn named(source: &Value) -> String {
    let named = text(source, "text");
    if !named.is_empty() {
        return named;
    }
    format!("{} {}", text(source, "kind"), text(source, "id"))
}

impl Edge {
    /// The label of a node.
    fn label(&self, style: Style) -> String {
        match (style, self.count) {
            (Style::Exact, 2..) => format!("{:.2} ({} queries)", self.p, self.count),
            _ => format!("{:.2}", self.p),
        }
    }
}

/// A label in lines of at most this many characters, and at most this many lines. A longer text ends with an
/// ellipsis. A character that is not text is replaced by U+FFFD.
fn wrapped(label: &str, chars: usize, lines_max: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut is_cut = false;
    for word in label.split_whitespace() {
        let word: Vec<char> = word.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        for piece in word.chunks(chars) {
            let has_room = lines
                .last()
                .is_some_and(|line| line.is_empty() || line.chars().count() + 1 + piece.len() <= chars);
            if !has_room {
                if lines.len() == lines_max {
                    is_cut = true;
                    break;
                }
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.extend(piece);
            }
        }
        if is_cut {
            break;
        }
    }
    if let Some(line) = lines.last_mut().filter(|_| is_cut) {
        line.push('…');
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Friends lead to profiles, by a template and by two exact queries. Profiles lead back. The labels are as
    /// hostile as a text may be.
    pub(super) fn learned() -> Graph {
        let exact = |id: &str, p: f64, seen: f64| {
            json!({"id": id, "kind": "query", "text": "FRIENDS \"<&>\\N", "realm": "r1", "seen": seen, "successors": [
                {"form": "2", "kind": "exact", "statement": "PROFILE </svg>", "probability": p, "seen": seen}]})
        };
        let follows = |statement: &str, p: f64| json!({"form": "1", "kind": "template", "statement": statement, "probability": p, "seen": 3.0});
        Graph::of(&json!({"patterns": [
            {"id": "a", "kind": "pattern", "text": "FRIENDS \"<&>\\N", "realm": "r1", "seen": 24.0,
             "successors": [follows("PROFILE </svg>", 0.5), follows("PROFILE </svg>", 0.75)]},
            {"id": "b", "kind": "pattern", "text": "PROFILE </svg>", "realm": "r1", "seen": 20.0,
             "successors": [follows("FRIENDS \"<&>\\N", 0.25), {"form": "9", "kind": null, "statement": null, "probability": 0.1}]},
            exact("c", 0.9, 1.0), exact("d", 0.6, 2.0),
            {"id": "e", "kind": "pattern", "text": "ALONE \u{7}", "realm": null, "seen": 1.0, "successors": []}]}))
    }

    #[test]
    fn one_node_for_each_pattern_and_one_edge_for_each_style() {
        let graph = learned();
        let labels: Vec<&str> = graph.nodes.iter().map(|node| node.label.as_str()).collect();
        assert_eq!(labels, ["FRIENDS \"<&>\\N", "PROFILE </svg>", "form 9", "ALONE \u{7}"]);
        assert_eq!(graph.nodes[1].seen, 20.0);
        let edges: Vec<_> =
            graph.edges.iter().map(|((from, to, style), edge)| (*from, *to, edge.label(*style))).collect();
        let edge = |from, to, label: &str| (from, to, label.to_owned());
        assert_eq!(
            edges,
            [edge(0, 1, "0.75"), edge(0, 1, "0.70 (2 queries)"), edge(1, 0, "0.25"), edge(1, 2, "0.10")]
        );
        assert_eq!(Graph::of(&json!([1, 2])).nodes.len(), 0, "whatever another version answers");
    }

    /// A node that was never asked for a query may know it by its id alone. Then its count is the one in the answer.
    /// A query with a known pattern is a part of its pattern's count.
    #[test]
    fn a_query_of_no_known_text_is_seen_as_often_as_it_says() {
        let query = |id: &str, text: Value, seen: f64| {
            json!({"id": id, "kind": "query", "text": text, "realm": "r1", "seen": seen, "successors": [
                {"form": "2", "kind": "exact", "statement": "NEXT", "probability": 0.5, "seen": seen}]})
        };
        let graph = Graph::of(&json!({"patterns": [
            query("09fd", Value::Null, 1.0), query("1a", json!(""), 2.0), query("2b", json!("KNOWN"), 3.0)]}));
        let seen: Vec<_> = graph.nodes.iter().map(|node| (node.label.as_str(), node.seen)).collect();
        assert_eq!(seen, [("query 09fd", 1.0), ("NEXT", 0.0), ("query 1a", 2.0), ("KNOWN", 0.0)]);
    }

    #[test]
    fn a_label_is_cut_into_lines_of_its_words() {
        assert_eq!(wrapped("MATCH (p) RETURN p", 9, 5), ["MATCH (p)", "RETURN p"]);
        assert_eq!(wrapped("abcdefghij k", 4, 2), ["abcd", "efgh…"]);
        assert_eq!(wrapped("京都 \u{1b}[2J", 10, 1), ["京都 \u{fffd}[2J"]);
        assert_eq!(wrapped("", 10, 3), [""]);
    }
}
