//! An R-MAT graph with the constants of SSCA#2, from a seed: the same seed gives the same graph. Decides no query.
//!
//! R-MAT: Chakrabarti, Zhan, Faloutsos, SDM 2004. Constants, directed edges with uniform integer weights, permuted
//! vertices: HPCS Scalable Synthetic Compact Applications #2, version 2; Bader and Madduri, HiPC 2005. Two differences:
//! an edge from a vertex to itself is drawn again, and the four probabilities do not vary from level to level.

use serde_json::{Value, json};

use crate::graph::{Loaded, Names};
use hopcache_testbed::dice::Dice;

/// Probabilities of the quadrants: both ends in the lower half, only the head, only the tail in the upper, both.
const QUADRANTS: [f64; 4] = [0.55, 0.1, 0.1, 0.25];
/// Edges for each vertex.
const EDGE_FACTOR: usize = 8;

/// A directed, weighted edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) weight: usize,
}

/// The graph: several edges may join the same two vertices.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rmat {
    pub(super) vertices: usize,
    pub(super) edges: Vec<Edge>,
}

impl Rmat {
    /// 2^scale vertices, eight times as many edges, weights from 1 to 2^scale.
    pub(super) fn new(scale: u32, seed: u64) -> Self {
        let (vertices, mut dice) = (1 << scale, Dice::new(seed));
        // Without a permutation a vertex' number would tell its degree.
        let mut numbers: Vec<usize> = (0..vertices).collect();
        dice.shuffle(&mut numbers);
        let edges = (0..EDGE_FACTOR * vertices).map(|_| {
            let (from, to) = ends(scale, &mut dice);
            Edge { from: numbers[from], to: numbers[to], weight: 1 + dice.below(vertices) }
        });
        Self { edges: edges.collect(), vertices }
    }

    /// Each vertex' neighbours by edges from it, as the kernel of neighbours shows them: heaviest first.
    pub(super) fn neighbours(&self) -> Vec<Vec<usize>> {
        let mut out: Vec<Vec<(std::cmp::Reverse<usize>, usize)>> = vec![Vec::new(); self.vertices];
        for edge in &self.edges {
            out[edge.from].push((std::cmp::Reverse(edge.weight), edge.to));
        }
        let sorted = out.into_iter().map(|mut edges| {
            edges.sort_unstable();
            edges.into_iter().map(|(_, to)| to).collect()
        });
        sorted.collect()
    }

    /// Vertices by the number of their edges, the most first.
    pub(super) fn by_degree(&self) -> Vec<usize> {
        let mut degrees = vec![0_usize; self.vertices];
        for edge in &self.edges {
            degrees[edge.from] += 1;
            degrees[edge.to] += 1;
        }
        let mut vertices: Vec<usize> = (0..self.vertices).collect();
        vertices.sort_unstable_by_key(|vertex| (std::cmp::Reverse(degrees[*vertex]), *vertex));
        vertices
    }

    /// Into Neo4j, under this run's own names, with indexes for the reads.
    pub(super) async fn load(&self) -> anyhow::Result<Loaded> {
        let loaded = Loaded::empty(Names::of_run("Vertex"))?;
        if let Err(error) = self.fill(&loaded).await {
            remove(&loaded).await?;
            return Err(error);
        }
        Ok(loaded)
    }

    async fn fill(&self, loaded: &Loaded) -> anyhow::Result<()> {
        let Names { label, relationship } = &loaded.names;
        loaded.run(&format!("CREATE INDEX {label} IF NOT EXISTS FOR (v:{label}) ON (v.id)"), &[]).await?;
        let by_weight =
            format!("CREATE INDEX {label}Weight IF NOT EXISTS FOR ()-[e:{relationship}]-() ON (e.weight)");
        loaded.run(&by_weight, &[]).await?;
        let vertices: Vec<Value> = (0..self.vertices).map(|id| json!(id)).collect();
        let create =
            format!("UNWIND $rows AS id CREATE (:{label} {{id: id, name: 'Vertex ' + toString(id)}})");
        loaded.run_all(&create, &vertices).await?;
        let edges: Vec<Value> =
            self.edges.iter().map(|edge| json!([edge.from, edge.to, edge.weight])).collect();
        let join = format!(
            "UNWIND $rows AS row MATCH (a:{label} {{id: row[0]}}), (b:{label} {{id: row[1]}}) CREATE (a)-[:{relationship} {{weight: row[2]}}]->(b)"
        );
        loaded.run_all(&join, &edges).await?;
        loaded.run("CALL db.awaitIndexes(60)", &[]).await
    }
}

/// Takes the graph out of Neo4j.
pub(super) async fn remove(loaded: &Loaded) -> anyhow::Result<()> {
    loaded.run(&format!("DROP INDEX {}Weight IF EXISTS", loaded.names.label), &[]).await?;
    loaded.remove().await
}

/// The ends of one edge: at each level it falls into a quadrant of what is left of the matrix.
fn ends(scale: u32, dice: &mut Dice) -> (usize, usize) {
    loop {
        let (mut from, mut to) = (0, 0);
        for _ in 0..scale {
            let unit = dice.unit();
            let [low, head, tail, _] = QUADRANTS;
            let (is_from, is_to) =
                (unit > low + head, (unit > low && unit <= low + head) || unit > low + head + tail);
            from = from << 1 | usize::from(is_from);
            to = to << 1 | usize::from(is_to);
        }
        if from != to {
            return (from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_graph() {
        assert_eq!(Rmat::new(10, 3), Rmat::new(10, 3));
        assert_ne!(Rmat::new(10, 3), Rmat::new(10, 4));
        let graph = Rmat::new(10, 3);
        assert_eq!((graph.vertices, graph.edges.len()), (1_024, 8_192));
        assert!(graph.edges.iter().all(|edge| edge.from != edge.to && (1..=1_024).contains(&edge.weight)));
    }

    /// At the first level, where hardly any edge is drawn again, the quadrants have SSCA#2's shares.
    #[test]
    fn quadrants_have_their_shares() {
        let (mut counts, mut dice) = ([0_u32; 4], Dice::new(9));
        for _ in 0..100_000 {
            let (from, to) = ends(14, &mut dice);
            counts[from >> 13 << 1 | to >> 13] += 1;
        }
        for (count, wanted) in counts.iter().zip(QUADRANTS) {
            let share = f64::from(*count) / 100_000.0;
            assert!((share - wanted).abs() < 0.01, "{share}, not {wanted}");
        }
    }

    #[test]
    fn neighbours_are_the_heaviest_first_and_hubs_before_all() {
        let edge = |from, to, weight| Edge { from, to, weight };
        let graph =
            Rmat { vertices: 4, edges: vec![edge(0, 1, 5), edge(0, 2, 9), edge(2, 3, 1), edge(2, 1, 1)] };
        assert_eq!(graph.neighbours(), [vec![2, 1], vec![], vec![1, 3], vec![]]);
        assert_eq!(graph.by_degree(), [2, 0, 1, 3]);
    }
}
