//! The judge: Neo4j itself carries out each cell's writes again, in one transaction that is rolled back, so that no node sees
//! a transaction that went past it. After each of them it answers the reads whose window has that version.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::task::JoinSet;

use super::history::{Answer, CELLS, Step, canonical};
use super::reads::{self, Read};
use super::stage::{Scene, bolt, neo4j_bolt};
use super::texts::Text;
use crate::support::bolt_client::BoltClient;

/// Cells that are judged at a time.
const JUDGES: usize = 4;

/// An answer that is of no version in its window.
#[derive(Debug)]
pub struct Wrong {
    pub answer: Answer,
    /// Newest version up to `hi` that has this answer.
    pub is_of: Option<usize>,
    /// Neo4j's answers, each with its first version.
    pub expected: Vec<(usize, String)>,
    pub steps: Vec<Step>,
}

/// The judgement of a round.
#[derive(Debug, Default)]
pub struct Judgement {
    pub wrong: Vec<Wrong>,
    /// Reads that Neo4j itself has answered, each at one version.
    pub evaluated: usize,
    pub versions: usize,
    /// Answers that may be of a version that nobody knows.
    pub unjudged: usize,
}

/// Answers of reads, by version.
type Known = BTreeMap<Read, BTreeMap<usize, String>>;

pub async fn judge(scene: &Arc<Scene>, answers: Vec<Answer>) -> Judgement {
    let mut of_cells: Vec<Vec<Answer>> = vec![Vec::new(); CELLS];
    for answer in answers {
        of_cells[answer.cell].push(answer);
    }
    let (of_cells, next) = (Arc::new(of_cells), Arc::new(AtomicUsize::new(0)));
    let mut judges = JoinSet::new();
    for _ in 0..JUDGES {
        let (scene, of_cells, next) = (Arc::clone(scene), Arc::clone(&of_cells), Arc::clone(&next));
        judges.spawn(async move {
            let mut judgement = Judgement::default();
            loop {
                let cell = next.fetch_add(1, Ordering::Relaxed);
                let Some(answers) = of_cells.get(cell) else { return judgement };
                if !answers.is_empty() {
                    judge_cell(&scene, cell, answers, &mut judgement).await;
                }
            }
        });
    }
    let mut all = Judgement::default();
    while let Some(judged) = judges.join_next().await {
        let Judgement { wrong, evaluated, versions, unjudged } = judged.unwrap();
        all.unjudged += unjudged;
        all.wrong.extend(wrong);
        (all.evaluated, all.versions) = (all.evaluated + evaluated, all.versions + versions);
    }
    all
}

async fn judge_cell(scene: &Scene, cell: usize, answers: &[Answer], judgement: &mut Judgement) {
    let (steps, unknown_from) = {
        let log = scene.cells[cell].log.lock().await;
        (log.steps.clone(), log.unknown_from.unwrap_or(usize::MAX))
    };
    let judged: Vec<&Answer> = answers.iter().filter(|answer| answer.hi < unknown_from).collect();
    judgement.unjudged += answers.len() - judged.len();
    let mut wanted: Vec<BTreeMap<Read, ()>> = vec![BTreeMap::new(); steps.len() + 1];
    for answer in &judged {
        assert!(answer.lo <= answer.hi && answer.hi <= steps.len(), "{answer:?}");
        for of_version in &mut wanted[answer.lo..=answer.hi] {
            of_version.insert(answer.read.clone(), ());
        }
    }
    let known = replay(scene, cell, &steps, &wanted).await;
    judgement.evaluated += known.values().map(BTreeMap::len).sum::<usize>();
    judgement.versions += steps.len() + 1;
    let is_right = |answer: &Answer| {
        known[&answer.read].range(answer.lo..=answer.hi).any(|(_, rows)| *rows == answer.rows)
    };
    let wrong: Vec<&Answer> = judged.into_iter().filter(|answer| !is_right(answer)).collect();
    if wrong.is_empty() {
        return;
    }
    // How old they are.
    let reads: BTreeMap<Read, ()> = wrong.iter().map(|answer| (answer.read.clone(), ())).collect();
    let known = replay(scene, cell, &steps, &vec![reads; steps.len() + 1]).await;
    judgement.wrong.extend(wrong.into_iter().map(|answer| {
        let mut expected: Vec<(usize, String)> =
            known[&answer.read].iter().map(|(at, rows)| (*at, rows.clone())).collect();
        let older = expected.iter().take(answer.hi + 1);
        let is_of = older.filter(|(_, rows)| *rows == answer.rows).map(|(at, _)| *at).next_back();
        expected.dedup_by(|later, earlier| later.1 == earlier.1);
        Wrong { answer: answer.clone(), is_of, expected, steps: steps.clone() }
    }));
}

async fn replay(scene: &Scene, cell: usize, steps: &[Step], wanted: &[BTreeMap<Read, ()>]) -> Known {
    let mut neo4j = bolt(neo4j_bolt()).await.unwrap();
    neo4j.begin(json!({"db": "neo4j"})).await.unwrap().unwrap();
    let mut known = Known::new();
    for text in scene.reset(cell) {
        run(&mut neo4j, &text).await;
    }
    for (version, reads) in wanted.iter().enumerate() {
        let statements = version.checked_sub(1).map(|step| &steps[step].statements[..]);
        for text in statements.unwrap_or_default() {
            run(&mut neo4j, text).await;
        }
        for read in reads.keys() {
            let rows = canonical(&run(&mut neo4j, &read.text).await, reads::is_ordered(read));
            known.entry(read.clone()).or_default().insert(version, rows);
        }
    }
    neo4j.roll_back().await.unwrap().unwrap();
    known
}

async fn run(neo4j: &mut BoltClient, text: &Text) -> Vec<serde_json::Value> {
    let ran = neo4j.run_with(&text.statement, &text.parameters(), json!({})).await.unwrap();
    ran.unwrap_or_else(|failure| panic!("{failure:?}: {text:?}")).rows
}
