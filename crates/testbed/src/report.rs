//! Numbers of several rounds as median and spread, and files that say how they came about.

use std::fmt::Write as _;
use std::path::Path;

/// Smallest, middle and largest of some rounds.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of all rounds. Without a round all figures are zero. Of an even number the median is the mean of the two in the middle.
    pub fn of(rounds: &[f64]) -> Self {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
        let last = sorted.len().saturating_sub(1);
        Self { min: at(0), median: f64::midpoint(at(last / 2), at(sorted.len() / 2)), max: at(last) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:.2} ({:.2}–{:.2})", self.median, self.min, self.max)
    }
}

/// A report under way.
#[derive(Default)]
pub struct Report {
    text: String,
}

impl Report {
    /// Opens with the command, the commit and the machine.
    pub fn open(title: &str) -> Self {
        let mut report = Self::default();
        report.line(&format!("# {title}"));
        report.line("");
        report.line(&format!("command: `{}`", std::env::args().collect::<Vec<_>>().join(" ")));
        report.line(&format!(
            "commit: {}",
            output_of("git", &["describe", "--always", "--dirty", "--abbrev=12"])
        ));
        report.line(&format!("date: {}", output_of("date", &["--iso-8601=minutes"])));
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu.lines().find(|line| line.starts_with("model name")).unwrap_or("model name: unknown");
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        report.line(&format!("machine: {cores} cores, {}", model.split(':').nth(1).unwrap_or("").trim()));
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: Vec<&str> = load.split(' ').take(3).collect();
        report.line(&format!("load average of the machine, this run's own included: {}", load.join(", ")));
        report.line("");
        report
    }

    /// Adds a line, and says it.
    pub fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}");
        say(text);
    }

    /// Keeps the report.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(path, &self.text)?;
        Ok(())
    }
}

fn output_of(program: &str, args: &[&str]) -> String {
    let output = std::process::Command::new(program).args(args).output();
    output.map_or_else(|_| "unknown".to_owned(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Says how far a run is; not part of any report.
pub fn progress(line: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes());
}

/// Prints a line on stdout.
pub fn say(line: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{line}\n").as_bytes());
}
