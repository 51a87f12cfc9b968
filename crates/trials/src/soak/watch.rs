//! Samples of each node, and the slope of a line through them.

use std::time::Instant;

use super::scene::{NODES, Scene, descriptors};
use hopcache_testbed::metrics::number_behind;

/// One look at one node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) at_s: f64,
    pub(super) node: usize,
    pub(super) life: u32,
    pub(super) rss_kib: u64,
    pub(super) descriptors: u64,
    pub(super) tasks: u64,
    pub(super) threads: u64,
    pub(super) entries: u64,
}

/// All of them.
pub(super) struct Samples {
    started: Instant,
    pub(super) all: Vec<Sample>,
}

impl Samples {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), all: Vec::new() }
    }

    /// Looks at every node that runs and answers; one that is stopped or dead is left out.
    pub(super) async fn take(&mut self, scene: &Scene) -> anyhow::Result<()> {
        for node in 0..NODES {
            let Ok(pid) = scene.node(node).pid() else { continue };
            let Ok(metrics) = scene.node(node).metrics().await else { continue };
            let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
            let gauge = |name: &str| number_behind(&metrics, &format!("{name} "));
            self.all.push(Sample {
                at_s: self.started.elapsed().as_secs_f64(),
                node,
                life: scene.node(node).lives(),
                rss_kib: number_behind(&status, "VmRSS:")?,
                threads: number_behind(&status, "Threads:")?,
                descriptors: u64::try_from(descriptors(pid).unwrap_or(0))?,
                tasks: gauge("hopcache_tasks").unwrap_or(0),
                entries: gauge("hopcache_entries")?,
            });
        }
        Ok(())
    }

    /// Line through one figure of one node's last life, over the second half of the soak.
    pub(super) fn line(&self, node: usize, figure: impl Fn(&Sample) -> u64) -> Option<Line> {
        let last = self.all.iter().rev().find(|each| each.node == node)?;
        let half_s = last.at_s / 2.0;
        let of_node = self.all.iter().filter(|each| each.node == node && each.life == last.life);
        #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^53")]
        let points: Vec<(f64, f64)> =
            of_node.filter(|each| each.at_s >= half_s).map(|each| (each.at_s, figure(each) as f64)).collect();
        Line::through(&points)
    }
}

/// A least-squares line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) mean: f64,
    pub(super) per_s: f64,
    pub(super) span_s: f64,
    pub(super) points: usize,
}

impl Line {
    fn through(points: &[(f64, f64)]) -> Option<Self> {
        let (first, last) = (points.first()?, points.last()?);
        #[expect(clippy::cast_precision_loss, reason = "a few hundred points")]
        let count = points.len() as f64;
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let square = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
        let product = points.iter().map(|(x, y)| (x - mean_x) * (y - mean)).sum::<f64>();
        let per_s = if square > 0.0 { product / square } else { 0.0 };
        Some(Self { mean, per_s, span_s: last.0 - first.0, points: points.len() })
    }

    /// By how much of its mean the line rises over its span.
    pub(super) fn rise(&self) -> f64 {
        if self.mean > 0.0 { self.per_s * self.span_s / self.mean } else { 0.0 }
    }
}
