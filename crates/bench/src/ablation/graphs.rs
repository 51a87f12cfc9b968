//! The graphs that the wanted workloads need: loaded into Neo4j once for all rounds, and taken out at the end. Makes each
//! workload's trace from them.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, ensure};

use super::kernels;
use super::name_of;
use super::rmat::{self, Rmat};
use super::trace::{SESSION_REQUESTS, SESSIONS, Trace};
use super::workload::Workload;
use crate::graph::{Loaded, Names, columns, login};
use crate::prefetch::pages::{Page, parameters};
use crate::prefetch::source::Source;
use crate::prefetch::walk::whole_sessions;
use hopcache_testbed::dice::Zipf;
use hopcache_testbed::http::post;

/// Popularity in the social mix.
const SOCIAL_EXPONENT: f64 = 0.99;

/// What is loaded.
#[derive(Default)]
pub(super) struct Graphs {
    rmat: Option<(Rmat, Loaded)>,
    social: Option<Social>,
}

struct Social {
    source: Source,
    /// With the number of their acquaintances, the largest first.
    persons: Vec<(i64, u64)>,
}

impl Graphs {
    pub(super) async fn load(
        workloads: &[Workload],
        (scale, seed): (u32, u64),
        data: &Path,
    ) -> anyhow::Result<Self> {
        let mut graphs = Self::default();
        if let Err(error) = graphs.fill(workloads, (scale, seed), data).await {
            graphs.remove().await.context("left behind in Neo4j")?;
            return Err(error);
        }
        Ok(graphs)
    }

    async fn fill(
        &mut self,
        workloads: &[Workload],
        (scale, seed): (u32, u64),
        data: &Path,
    ) -> anyhow::Result<()> {
        if workloads.iter().any(|workload| workload.is_social()) {
            let persons = persons(data)?;
            self.social = Some(Social { source: Source::load(data).await?, persons });
        }
        if workloads.iter().any(|workload| !workload.is_social()) {
            let graph = Rmat::new(scale, seed);
            let loaded = graph.load().await?;
            self.rmat = Some((graph, loaded));
        }
        Ok(())
    }

    pub(super) async fn remove(&self) -> anyhow::Result<()> {
        if let Some(Social { source, .. }) = &self.social {
            source.remove().await?;
        }
        match &self.rmat {
            Some((_, loaded)) => rmat::remove(loaded).await,
            None => Ok(()),
        }
    }

    /// The requests of a workload, in their order.
    pub(super) fn trace(&self, workload: Workload, seed: u64) -> anyhow::Result<Trace> {
        let login = login()?;
        if workload.is_social() {
            let social = self.social.as_ref().context("the social graph is not loaded")?;
            return match workload {
                Workload::Social => social.mix(seed),
                _ => social.walks(&login, seed),
            };
        }
        let (graph, loaded) = self.rmat.as_ref().context("the R-MAT graph is not loaded")?;
        let (names, vertices) = (&loaded.names, graph.vertices);
        match workload.exponent() {
            Some(exponent) => {
                let zipf = Zipf::new(vertices, exponent);
                let requests = kernels::point_reads(names, vertices, &login);
                Trace::drawn(name_of(workload), requests, seed, |dice| zipf.draw(dice))
            }
            None => {
                let requests = kernels::requests(names, vertices, &login);
                Trace::new(name_of(workload), requests, &kernels::sessions(graph, seed), seed)
            }
        }
    }

    /// How large they are, for the report.
    pub(super) fn size(&self) -> String {
        let rmat = self
            .rmat
            .as_ref()
            .map(|(graph, _)| format!("R-MAT: {} vertices, {} edges", graph.vertices, graph.edges.len()));
        let social = self.social.as_ref().map(|social| format!("LDBC SNB's data: {}", social.source.size()));
        rmat.into_iter().chain(social).collect::<Vec<_>>().join("; ")
    }
}

impl Social {
    fn mix(&self, seed: u64) -> anyhow::Result<Trace> {
        let requests = Names::of_run("Person").requests(&self.persons)?;
        let zipf = Zipf::new(requests.len(), SOCIAL_EXPONENT);
        Trace::drawn(name_of(Workload::Social), requests, seed, |dice| zipf.draw(dice))
    }

    fn walks(&self, login: &str, seed: u64) -> anyhow::Result<Trace> {
        let Source { graph, names, .. } = &self.source;
        let (mut keys, mut requests): (HashMap<(Page, usize), usize>, _) = (HashMap::new(), Vec::new());
        let mut sessions = Vec::with_capacity(SESSIONS);
        for clicks in whole_sessions(graph, (SESSIONS, SESSION_REQUESTS), seed)? {
            let key_of = |click: crate::prefetch::walk::Click| {
                *keys.entry((click.page, click.place)).or_insert_with(|| {
                    let parameters = parameters(graph, click.page, click.place);
                    requests.push(post(&names.statement(click.page, 0), &parameters, login));
                    requests.len() - 1
                })
            };
            sessions.push(clicks.into_iter().map(key_of).collect());
        }
        Trace::new(name_of(Workload::Walks), requests, &sessions, seed)
    }
}

/// Persons and the number of their acquaintances, the largest first.
fn persons(data: &Path) -> anyhow::Result<Vec<(i64, u64)>> {
    let mut degrees: HashMap<i64, u64> = HashMap::new();
    for file in ["Person_knows_Person.csv", "Person_knows_Person_1.csv"] {
        for row in columns(&data.join(file))? {
            for id in row.iter().take(2).filter_map(|text| text.parse::<i64>().ok()) {
                *degrees.entry(id).or_default() += 1;
            }
        }
    }
    ensure!(!degrees.is_empty(), "no persons in {}", data.display());
    let mut persons: Vec<_> = degrees.into_iter().collect();
    persons.sort_unstable_by_key(|(id, degree)| (std::cmp::Reverse(*degree), *id));
    Ok(persons)
}
