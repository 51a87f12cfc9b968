//! Steps that run beside the build. Each is a process of `xtask` itself, with its output in a file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result};

use super::steps::{self, Step};
use crate::command::finish;

/// A step's name, and the arguments of `cargo xtask` that run it.
pub(super) type Task = (&'static str, &'static [&'static str]);

/// This program's path. It is read once, before a build: the build replaces the file, and then the path of the running
/// program no longer exists.
pub(super) struct Xtask(PathBuf);

impl Xtask {
    pub(super) fn find() -> Result<Self> {
        std::env::current_exe().map(Self).context("xtask does not know its own path")
    }
}

/// Tasks that run one after another. If this is dropped without [`Beside::join`], the tasks run on to their end.
pub(super) struct Beside(JoinHandle<Vec<Step>>);

impl Beside {
    pub(super) fn start(root: &Path, xtask: &Xtask, tasks: &'static [Task]) -> Self {
        let (folder, program) = (root.join("target/gate"), xtask.0.clone());
        Self(std::thread::spawn(move || tasks.iter().map(|task| run(&folder, &program, *task)).collect()))
    }

    /// Waits for the last task.
    pub(super) fn join(self) -> Vec<Step> {
        // A panic of the thread is a panic of this program.
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn run(folder: &Path, program: &Path, (name, args): Task) -> Step {
    let start = Instant::now();
    let log = folder.join(format!("{}.log", name.replace(' ', "-")));
    let failure = process(&log, program, args).err().map(|error| format!("{error:#}"));
    let output = std::fs::read_to_string(&log).unwrap_or_default();
    steps::ended_beside(name, start.elapsed(), &output, failure)
}

fn process(log: &Path, program: &Path, args: &[&str]) -> Result<()> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().context("cannot share the log file")?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(output).stderr(errors);
    finish(&mut command, &format!("cargo xtask {}", args.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_run_in_order_and_a_failed_one_does_not_end_them() {
        let root = std::env::temp_dir().join(format!("hopcache-beside-{}", std::process::id()));
        let shell = Xtask(PathBuf::from("/bin/sh"));
        let tasks: &[Task] = &[("bad", &["-c", "echo one; exit 3"]), ("good step", &["-c", "echo two"])];
        let steps = Beside::start(&root, &shell, tasks).join();
        assert_eq!(steps.iter().map(|step| step.name).collect::<Vec<_>>(), ["bad", "good step"]);
        assert!(steps[0].failure.as_ref().is_some_and(|failure| failure.contains("exit status: 3")));
        assert!(steps[1].failure.is_none() && steps[1].is_beside);
        let log = std::fs::read_to_string(root.join("target/gate/good-step.log")).unwrap();
        assert_eq!(log, "two\n");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
