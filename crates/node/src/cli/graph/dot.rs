//! The learned graph for Graphviz.

use std::fmt::Write as _;

use super::{Graph, Style, wrapped};

/// Characters of a line, and lines of a label.
const LABEL: (usize, usize) = (40, 6);

impl Graph {
    /// Writes a digraph: an edge for each successor, dashed if it follows as an exact query only.
    pub(in crate::cli) fn to_dot(&self) -> String {
        let mut dot = String::from(
            "digraph successors {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"monospace\", fontsize=10];\n  edge [fontsize=10];\n",
        );
        for (place, node) in self.nodes.iter().enumerate() {
            let lines: Vec<String> =
                wrapped(&node.label, LABEL.0, LABEL.1).iter().map(|line| escaped(line)).collect();
            // Writing to a string does not fail.
            let _ = writeln!(dot, "  n{place} [label=\"{}\\lseen {:.1}\\l\"];", lines.join("\\l"), node.seen);
        }
        for ((from, to, style), edge) in &self.edges {
            let dashed = if *style == Style::Exact { ", style=dashed" } else { "" };
            let (label, width) = (edge.label(*style), 1.0 + 3.0 * edge.p);
            let _ = writeln!(dot, "  n{from} -> n{to} [label=\"{label}\", penwidth={width:.1}{dashed}];");
        }
        dot.push_str("}\n");
        dot
    }
}

/// Inside quotes: a backslash begins an escape (`\N` is the node's name), a quote ends the text.
fn escaped(line: &str) -> String {
    line.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::super::tests::learned;

    #[test]
    fn a_graph_is_written_with_its_texts_escaped() {
        let expected = r#"digraph successors {
  rankdir=LR;
  node [shape=box, style=rounded, fontname="monospace", fontsize=10];
  edge [fontsize=10];
  n0 [label="FRIENDS \"<&>\\N\lseen 24.0\l"];
  n1 [label="PROFILE </svg>\lseen 20.0\l"];
  n2 [label="form 9\lseen 0.0\l"];
  n3 [label="ALONE �\lseen 1.0\l"];
  n0 -> n1 [label="0.75", penwidth=3.2];
  n0 -> n1 [label="0.70 (2 queries)", penwidth=3.1, style=dashed];
  n1 -> n0 [label="0.25", penwidth=1.8];
  n1 -> n2 [label="0.10", penwidth=1.3];
}
"#;
        assert_eq!(learned().to_dot(), expected);
    }
}
