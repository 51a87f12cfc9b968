//! Reads of an R-MAT graph like the four kernels of SSCA#2, and the sessions that sweep them. SSCA#2's kernels take the
//! whole graph; as reads that a service would ask, each is about one vertex and has a bound, but the second. They are
//! like SSCA#2, and no result of it.
//!
//! | kernel | SSCA#2, version 2 | here |
//! |---|---|---|
//! | 1 | builds the graph | the heaviest edges from a vertex: its list, as built |
//! | 2 | finds the heaviest edges | the ten heaviest edges of the graph, one query for all |
//! | 3 | subgraphs of bounded paths from those | a vertex' five heaviest edges, and the heaviest edges of the vertices behind them |
//! | 4 | betweenness, from shortest paths through each vertex | paths of two hops through a vertex, and how many an edge closes |

use serde_json::json;

use super::rmat::Rmat;
use super::trace::{SESSION_REQUESTS, SESSIONS};
use crate::graph::Names;
use crate::prefetch::walk::chosen;
use hopcache_testbed::dice::{Dice, Zipf};
use hopcache_testbed::http::post;

/// Rows of a list.
const ROWS: usize = 10;
/// Vertices whose edges are a subgraph's second hop. A hub has hundreds of edges, and reading those is the cost.
const SUBGRAPH_BRANCHES: usize = 5;
/// Edges of a subgraph.
const SUBGRAPH_EDGES: usize = 50;
/// Ends of paths through a vertex, on either side: 256 paths.
const ENDS: usize = 16;
/// Kernels about a vertex; their keys come first, vertex by vertex. The one key behind them is the second kernel's.
const ABOUT_VERTEX: usize = 3;
/// Share of sweeps that go on to a neighbour that the sweep before has shown, as clicks of walks do.
const FOLLOW: f64 = 0.7;
/// Popularity of vertices by degree.
const EXPONENT: f64 = 0.99;

/// A request for each kernel and vertex, and the one for the heaviest edges.
pub(super) fn requests(names: &Names, vertices: usize, login: &str) -> Vec<Vec<u8>> {
    let about = about_vertex(names);
    let of_vertex = |id| about.each_ref().map(|text| post(text, &json!({ "id": id }), login));
    (0..vertices).flat_map(of_vertex).chain([post(&heaviest(names), &json!({}), login)]).collect()
}

/// A point read of each vertex.
pub(super) fn point_reads(names: &Names, vertices: usize, login: &str) -> Vec<Vec<u8>> {
    let text = format!("MATCH (v:{} {{id: $id}}) RETURN v.id AS id, v.name AS benched", names.label);
    (0..vertices).map(|id| post(&text, &json!({ "id": id }), login)).collect()
}

fn about_vertex(names: &Names) -> [String; ABOUT_VERTEX] {
    let Names { label, relationship } = names;
    let from = format!("MATCH (v:{label} {{id: $id}})-[e:{relationship}]->(n:{label})");
    [
        format!("{from} RETURN n.id AS id, e.weight AS benched ORDER BY benched DESC, id LIMIT {ROWS}"),
        format!(
            "{from} WITH n, e.weight AS weight ORDER BY weight DESC, n.id LIMIT {SUBGRAPH_BRANCHES} MATCH (n)-[f:{relationship}]->(m:{label}) RETURN n.id AS from, m.id AS to, f.weight AS benched ORDER BY benched DESC, from, to LIMIT {SUBGRAPH_EDGES}"
        ),
        format!(
            "{from} WITH v, n ORDER BY n.id LIMIT {ENDS} WITH v, collect(n) AS heads MATCH (v)<-[:{relationship}]-(t:{label}) WITH heads, t ORDER BY t.id LIMIT {ENDS} UNWIND heads AS n RETURN count(*) AS benched, sum(CASE WHEN EXISTS {{ (t)-[:{relationship}]->(n) }} THEN 1 ELSE 0 END) AS closed"
        ),
    ]
}

/// By the index of weights, from its end on.
fn heaviest(names: &Names) -> String {
    let Names { label, relationship } = names;
    format!(
        "MATCH (a:{label})-[e:{relationship}]->(b:{label}) WHERE e.weight > 0 RETURN a.id AS from, b.id AS to, e.weight AS benched ORDER BY benched DESC, from, to LIMIT {ROWS}"
    )
}

/// Each session sweeps the kernels over a vertex, then over the next one.
pub(super) fn sessions(graph: &Rmat, seed: u64) -> Vec<Vec<usize>> {
    let (neighbours, by_degree) = (graph.neighbours(), graph.by_degree());
    let (zipf, mut dice) = (Zipf::new(by_degree.len(), EXPONENT), Dice::new(seed));
    (0..SESSIONS).map(|_| session(&neighbours, |dice| by_degree[zipf.draw(dice)], &mut dice)).collect()
}

fn session(neighbours: &[Vec<usize>], jump: impl Fn(&mut Dice) -> usize, dice: &mut Dice) -> Vec<usize> {
    let mut vertex = jump(dice);
    let mut keys = Vec::with_capacity(SESSION_REQUESTS);
    while keys.len() < SESSION_REQUESTS {
        keys.extend(sweep(vertex, neighbours.len()));
        let shown = &neighbours[vertex];
        let follows = dice.unit() <= FOLLOW;
        let next = if follows { chosen(&shown[..shown.len().min(ROWS)], dice) } else { None };
        vertex = next.unwrap_or_else(|| jump(dice));
    }
    keys
}

/// The keys of the four kernels, in their order.
const fn sweep(vertex: usize, vertices: usize) -> [usize; ABOUT_VERTEX + 1] {
    let first = vertex * ABOUT_VERTEX;
    [first, vertices * ABOUT_VERTEX, first + 1, first + 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names { label: "V".to_owned(), relationship: "E".to_owned() }
    }

    #[test]
    fn a_key_is_the_place_of_its_request() {
        let requests: Vec<String> =
            requests(&names(), 3, "").into_iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect();
        assert_eq!(requests.len(), 3 * ABOUT_VERTEX + 1);
        let [list, heavy, subgraph, paths] = sweep(2, 3).map(|key| &requests[key]);
        assert!(list.contains("\"id\":2") && list.contains("LIMIT 10"), "{list}");
        assert!(heavy.contains("e.weight > 0") && !heavy.contains("\"id\""), "{heavy}");
        assert!(subgraph.contains("\"id\":2") && subgraph.contains("LIMIT 50"), "{subgraph}");
        assert!(paths.contains("\"id\":2") && paths.contains("EXISTS"), "{paths}");
    }

    #[test]
    fn sessions_sweep_all_kernels_and_mostly_follow_what_they_saw() {
        let graph = Rmat::new(10, 3);
        let (neighbours, sessions) = (graph.neighbours(), sessions(&graph, 7));
        assert_eq!(sessions, super::sessions(&graph, 7));
        let (mut followed, mut could) = (0.0, 0.0);
        for session in &sessions {
            assert_eq!(session.len(), SESSION_REQUESTS);
            let vertices: Vec<usize> = session
                .chunks(4)
                .map(|keys| {
                    assert_eq!(keys, sweep(keys[0] / 3, 1_024));
                    keys[0] / 3
                })
                .collect();
            for pair in vertices.windows(2).filter(|pair| !neighbours[pair[0]].is_empty()) {
                let shown = &neighbours[pair[0]];
                followed += f64::from(u8::from(shown[..shown.len().min(ROWS)].contains(&pair[1])));
                could += 1.0;
            }
        }
        // 70 %, and the jumps that happen to hit a neighbour: hubs are both.
        assert!((0.69..0.80).contains(&(followed / could)), "{}", followed / could);
    }
}
