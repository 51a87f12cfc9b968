//! Steps that run beside others: each is `xtask` itself in a process of its own, with its output in a file.
//!
//! Steps that wait run as everything does. Steps that compute run at the lowest priority, so that the tests beside them keep
//! their times.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result};

use super::steps::{self, Step};
use crate::command::finish;

/// What a step is called, and the arguments of `cargo xtask` that run it.
pub(super) type Task = (&'static str, &'static [&'static str]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    Usual,
    Lowest,
}

/// Tasks that run one after another. Dropped without [`Beside::join`], they go on until they end.
pub(super) struct Beside(JoinHandle<Vec<Step>>);

impl Beside {
    pub(super) fn start(root: &Path, tasks: &'static [Task], priority: Priority) -> Self {
        let folder = root.join("target/gate");
        Self(std::thread::spawn(move || tasks.iter().map(|task| run(&folder, *task, priority)).collect()))
    }

    /// Waits for the last task.
    pub(super) fn join(self) -> Vec<Step> {
        // A panic in the thread is one of this program.
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn run(folder: &Path, (name, args): Task, priority: Priority) -> Step {
    let start = Instant::now();
    let log = folder.join(format!("{}.log", name.replace(' ', "-")));
    let failure = process(&log, args, priority).err().map(|error| format!("{error:#}"));
    let output = std::fs::read_to_string(&log).unwrap_or_default();
    steps::ended_beside(name, start.elapsed(), &output, failure)
}

fn process(log: &PathBuf, args: &[&str], priority: Priority) -> Result<()> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().context("cannot share the log file")?;
    let program = std::env::current_exe().context("xtask does not know its own path")?;
    let mut command = match priority {
        Priority::Usual => Command::new(program),
        Priority::Lowest => {
            let mut nice = Command::new("nice");
            nice.args(["-n", "19"]).arg(program);
            nice
        }
    };
    command.args(args).stdin(Stdio::null()).stdout(output).stderr(errors);
    finish(&mut command, &format!("cargo xtask {}", args.join(" ")))
}
