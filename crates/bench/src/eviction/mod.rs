//! Hit ratios of eviction policies, on traces of keys: what a node's memory uses (quick_cache, with the node's weights and options)
//! beside others. It starts no node and measures no time.
//!
//! A miss puts the key, as a node does. An entry has a weight, so a policy that keeps small entries can win.

mod policies;
mod traces;

use std::path::PathBuf;

use hopcache_testbed::report::Report;

use policies::Policy;

/// Options of the eviction benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Requests of each trace.
    #[arg(long, default_value_t = 400_000)]
    requests: usize,
    /// Different keys of the Zipf traces, and of the working sets.
    #[arg(long, default_value_t = 100_000)]
    keys: usize,
    /// Capacities, in percent of the weight of those keys.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10])]
    capacities: Vec<u64>,
    /// Seed of the traces.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::open("Eviction benchmark");
    let weight = traces::weight_of_all(options.keys);
    report.line(&format!(
        "{} requests of each trace; {} keys of {} MiB in all, 100 to 12,800 bytes each and {} beside them; seed {}; share of requests that hit, in percent\n",
        options.requests,
        options.keys,
        weight >> 20,
        traces::OVERHEAD_BYTES,
        options.seed
    ));
    let names: Vec<&str> = policies::all(1 << 20).iter().map(|(name, _)| *name).collect();
    report.line(&format!("| trace | capacity, % | {} |", names.join(" | ")));
    report.line(&format!("|---|---|{}", "---|".repeat(names.len())));
    for trace in traces::ALL {
        for &percent in &options.capacities {
            let capacity = weight / 100 * percent;
            let keys = trace.keys(options.keys, options.requests, capacity, options.seed);
            let ratios: Vec<String> =
                policies::all(capacity).iter_mut().map(|(_, policy)| ratio(&mut **policy, &keys)).collect();
            report.line(&format!("| {} | {percent} | {} |", trace.name(), ratios.join(" | ")));
        }
    }
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

/// The share of requests that hit, of those that count.
fn ratio(policy: &mut dyn Policy, keys: &[traces::Request]) -> String {
    let (mut hits, mut counted) = (0_u32, 0_u32);
    for request in keys {
        let is_hit = policy.get(request.key);
        if !is_hit {
            policy.put(request.key, traces::weight(request.key));
        }
        counted += u32::from(request.counts);
        hits += u32::from(request.counts && is_hit);
    }
    format!("{:.1}", f64::from(hits) * 100.0 / f64::from(counted.max(1)))
}
