//! The directory in which a benchmark leaves its report, its data and its plots. It decides no figure.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::plot;
use hopcache_testbed::report::{Report, progress};

/// The directory in which a report, its data and its plots are kept together.
pub(crate) struct Output {
    pub(crate) dir: PathBuf,
    pub(crate) report: Report,
}

impl Output {
    /// Fails before anything is measured, where the directory cannot be made.
    pub(crate) fn open(out: Option<&Path>, name: &str, title: &str) -> anyhow::Result<Self> {
        let dir = match out {
            Some(dir) => dir.to_owned(),
            None => PathBuf::from(format!("docs/benchmarks/{}-{name}", today()?)),
        };
        std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let mut report = Report::open(title);
        report.line(&format!("load average before: {}", load_average()));
        Ok(Self { dir, report })
    }

    /// How far the run is; not part of the report.
    #[expect(clippy::unused_self, reason = "a method of the report, for the callers")]
    pub(crate) fn say(&self, line: &str) {
        progress(line);
    }

    pub(crate) fn keep(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    pub(crate) fn draw(&mut self, stem: &Path, chart: &plot::Chart) -> anyhow::Result<()> {
        chart.write(&self.dir.join(stem))?;
        self.report.line(&format!("\n![{}]({}.svg)", chart.title, stem.display()));
        Ok(())
    }

    /// `reading` explains how to read the report.
    pub(crate) fn close(mut self, reading: &str) -> anyhow::Result<()> {
        self.report.line(&format!("\nload average after: {}", load_average()));
        self.report.write(&self.dir.join("report.md"))?;
        self.keep("README.md", reading)?;
        self.say(&format!("kept in {}", self.dir.display()));
        Ok(())
    }
}

fn today() -> anyhow::Result<String> {
    let output = Command::new("date").arg("+%F").output().context("date")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
