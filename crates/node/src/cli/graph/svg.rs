//! The learned graph as a picture of its own: patterns in layers, what follows below. Any graph can be drawn, also one with
//! circles; it is not meant to be the finest drawing of it, which is Graphviz' work (`dot`).

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::{Graph, Style, wrapped};

/// Characters of a line, and lines of a label.
const LABEL: (usize, usize) = (38, 5);
const BOX_WIDTH: f64 = 270.0;
const LINE_HEIGHT: f64 = 14.0;
const GAP_ACROSS: f64 = 60.0;
const GAP_DOWN: f64 = 90.0;
const MARGIN: f64 = 40.0;
/// Boxes beside each other; a layer with more has several rows.
const ROW_MAX: usize = 8;

/// Where a box is.
#[derive(Debug, Clone, Copy)]
struct Spot {
    left: f64,
    top: f64,
    height: f64,
}

impl Graph {
    /// As one SVG file that needs no other.
    pub(in crate::cli) fn to_svg(&self) -> String {
        let rows = self.rows();
        let spots = self.spots(&rows);
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = 2.0 * MARGIN + across(columns) - GAP_ACROSS.min(across(columns)) + 2.0 * MARGIN;
        let bottom = spots.iter().map(|spot| spot.top + spot.height).fold(0.0, f64::max);
        let height = bottom + MARGIN + LINE_HEIGHT;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"monospace\" font-size=\"10\">\n\
             <defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#357\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        self.draw_edges(&spots, &mut svg);
        self.draw_nodes(&spots, &mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    /// The layers, from the most seen patterns on, each what follows the one before; cut into rows.
    fn rows(&self) -> Vec<Vec<usize>> {
        let mut layers: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut roots: Vec<usize> = (0..self.nodes.len()).collect();
        let seen = |place: &usize| self.nodes.get(*place).map_or(0.0, |node| node.seen);
        roots.sort_by(|one, other| seen(other).total_cmp(&seen(one)));
        let mut next = VecDeque::new();
        let mut by_layer: Vec<Vec<usize>> = Vec::new();
        for root in roots {
            next.push_back((root, 0));
            while let Some((place, layer)) = next.pop_front() {
                let Some(own) = layers.get_mut(place).filter(|own| own.is_none()) else { continue };
                *own = Some(layer);
                by_layer.resize_with(by_layer.len().max(layer + 1), Vec::new);
                if let Some(places) = by_layer.get_mut(layer) {
                    places.push(place);
                }
                let edges = self.edges.range((place, 0, Style::Template)..(place + 1, 0, Style::Template));
                next.extend(edges.map(|((_, to, _), _)| (*to, layer + 1)));
            }
        }
        by_layer.iter().flat_map(|layer| layer.chunks(ROW_MAX)).map(<[usize]>::to_vec).collect()
    }

    fn spots(&self, rows: &[Vec<usize>]) -> Vec<Spot> {
        let mut spots = vec![Spot { left: 0.0, top: 0.0, height: 0.0 }; self.nodes.len()];
        let mut top = MARGIN;
        for row in rows {
            let heights = row.iter().map(|place| self.height(*place));
            let height = heights.fold(0.0, f64::max);
            for (column, place) in row.iter().enumerate() {
                if let Some(spot) = spots.get_mut(*place) {
                    *spot = Spot { left: MARGIN + across(column), top, height: self.height(*place) };
                }
            }
            top += height + GAP_DOWN;
        }
        spots
    }

    fn height(&self, place: usize) -> f64 {
        let label = self.nodes.get(place).map_or("", |node| &node.label);
        to_f64(wrapped(label, LABEL.0, LABEL.1).len() + 2) * LINE_HEIGHT
    }

    fn draw_nodes(&self, spots: &[Spot], svg: &mut String) {
        for (node, spot) in self.nodes.iter().zip(spots) {
            let Spot { left, top, height } = *spot;
            // Writing to a string does not fail.
            let _ = writeln!(
                svg,
                "<g><title>{}</title><rect x=\"{left:.0}\" y=\"{top:.0}\" width=\"{BOX_WIDTH:.0}\" height=\"{height:.0}\" rx=\"6\" fill=\"#eef4fa\" stroke=\"#357\"/>",
                escaped(&node.label)
            );
            let mut line_top = top + LINE_HEIGHT;
            for line in wrapped(&node.label, LABEL.0, LABEL.1) {
                let x = left + 10.0;
                let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{line_top:.0}\">{}</text>", escaped(&line));
                line_top += LINE_HEIGHT;
            }
            let _ = writeln!(
                svg,
                "<text x=\"{:.0}\" y=\"{line_top:.0}\" fill=\"#666\">seen {:.1}</text></g>",
                left + 10.0,
                node.seen
            );
        }
    }

    fn draw_edges(&self, spots: &[Spot], svg: &mut String) {
        for ((from, to, style), edge) in &self.edges {
            let (Some(from), Some(to)) = (spots.get(*from), spots.get(*to)) else { continue };
            // Two between the same ends stand beside each other.
            let aside = if *style == Style::Exact { 24.0 } else { 0.0 };
            let (path, (x, y)) = curve(from, to, aside);
            let dashed = if *style == Style::Exact { " stroke-dasharray=\"5 4\"" } else { "" };
            let width = 1.0 + 2.0 * edge.p;
            let _ = writeln!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"#357\" stroke-width=\"{width:.1}\" marker-end=\"url(#end)\"{dashed}/><text x=\"{x:.0}\" y=\"{y:.0}\" fill=\"#123\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
                escaped(&edge.label(*style))
            );
        }
    }
}

/// From the foot of a box to the head of one below; otherwise (back, beside, to itself) around on the right side. With it the
/// place of its label.
fn curve(from: &Spot, to: &Spot, aside: f64) -> (String, (f64, f64)) {
    if to.top > from.top {
        let (x1, y1) = (from.left + BOX_WIDTH / 2.0 + aside, from.top + from.height);
        let (x2, y2) = (to.left + BOX_WIDTH / 2.0 + aside, to.top);
        let bend = (y2 - y1) / 2.0;
        let path =
            format!("M{x1:.0} {y1:.0}C{x1:.0} {:.0} {x2:.0} {:.0} {x2:.0} {y2:.0}", y1 + bend, y2 - bend);
        return (path, ((x1 + x2) / 2.0 + 6.0, f64::midpoint(y1, y2) + aside / 2.0));
    }
    let (x1, y1) = (from.left + BOX_WIDTH, from.top + from.height / 2.0 - 8.0);
    let (x2, y2) = (to.left + BOX_WIDTH, to.top + to.height / 2.0 + 8.0 + aside / 2.0);
    let out = x1.max(x2) + 40.0 + aside;
    (
        format!("M{x1:.0} {y1:.0}C{out:.0} {y1:.0} {out:.0} {y2:.0} {x2:.0} {y2:.0}"),
        (out - 14.0, f64::midpoint(y1, y2)),
    )
}

fn across(columns: usize) -> f64 {
    to_f64(columns) * (BOX_WIDTH + GAP_ACROSS)
}

#[expect(clippy::cast_precision_loss, reason = "rows and columns of a picture")]
fn to_f64(count: usize) -> f64 {
    count as f64
}

/// As text of an element or an attribute. XML has no way to write most control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::learned;
    use super::*;

    /// Every text is inside the file's own elements: outside of them there is nothing to be read, whatever a text says.
    #[test]
    fn a_graph_with_a_circle_is_drawn_and_its_texts_are_escaped() {
        let svg = learned().to_svg();
        assert_eq!(svg.matches("<rect x=").count(), 4);
        assert_eq!(svg.matches("<path d=\"M").count(), 1 + 4, "the arrow's head, and each edge");
        assert_eq!(svg.matches("stroke-dasharray").count(), 1, "what follows as an exact query only");
        assert!(
            svg.contains(">FRIENDS &quot;&lt;&amp;&gt;\\N</text>")
                && svg.contains(">0.70 (2 queries)</text>")
        );
        assert_eq!(svg.matches("</svg>").count(), 1, "{svg}");
        assert!(svg.ends_with("</svg>\n") && !svg.chars().any(|c| c.is_control() && c != '\n'));
        for element in ["g", "title", "text", "svg", "defs", "marker"] {
            let opened =
                svg.matches(&format!("<{element}>")).count() + svg.matches(&format!("<{element} ")).count();
            assert_eq!(opened, svg.matches(&format!("</{element}>")).count(), "{element}");
        }
    }

    /// I9: nothing and much are drawn as well, and no two boxes lie upon each other.
    #[test]
    fn boxes_do_not_lie_upon_each_other() {
        assert!(Graph::default().to_svg().ends_with("</svg>\n"));
        let patterns: Vec<_> = (0..60).map(|n| {
            let next = |k: usize| json!({"form": k.to_string(), "kind": "template", "statement": format!("Q{}", (n * 7 + k) % 60), "probability": 0.5});
            json!({"id": n.to_string(), "kind": "pattern", "text": format!("Q{n}"), "realm": "r", "seen": n, "successors": [next(1), next(3)]})
        }).collect();
        let graph = Graph::of(&json!({ "patterns": patterns }));
        assert_eq!(graph.nodes(), 60);
        let spots = graph.spots(&graph.rows());
        for (place, one) in spots.iter().enumerate() {
            assert!(one.height > 0.0, "each has a place");
            for other in &spots[place + 1..] {
                let beside = (one.left - other.left).abs() >= BOX_WIDTH;
                let below = one.top + one.height <= other.top || other.top + other.height <= one.top;
                assert!(beside || below, "{one:?} {other:?}");
            }
        }
    }
}
