//! The Docker Engine of container tests and the compose file: an engine that already answers, or one that xtask starts.
//!
//! `down` stops only the engine that `up` started. It never stops an engine that answered before, or one that a package
//! starts.
//!
//! The engine uses the usual socket and data folder (`/var/lib/docker`), for three reasons: clients find it without
//! configuration, work trees share images of gigabytes, and the file system of `target` may not support overlay layers.
//! So images outlast `down`; `docker image prune -a` removes them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{folder, install, process};

/// Longest start. The engine starts in about a second; after a kill it first cleans up its old state.
const UP_MAX: Duration = Duration::from_secs(60);
/// Longest wait for the service of a package that was just installed.
const PACKAGE_STARTS_MAX: Duration = Duration::from_secs(3);

/// Starts an engine if none answers. Returns whether it started one.
pub(crate) fn up(root: &Path) -> Result<bool> {
    Programs::usual().up(&folder(root).join("docker"))
}

/// Whether the engine that `up` started is running.
pub(crate) fn is_ours(root: &Path) -> bool {
    process::running(&folder(root).join("docker/pid")).is_some()
}

/// Stops the engine that `up` started, and all its containers.
pub(crate) fn down(root: &Path) -> Result<()> {
    stop(&folder(root).join("docker"))
}

fn stop(home: &Path) -> Result<()> {
    let pid_file = home.join("pid");
    if !pid_file.exists() {
        return Ok(());
    }
    process::stop("docker", &pid_file)
}

/// Programs and folders of the engine.
struct Programs {
    client: PathBuf,
    engine: PathBuf,
    /// The engine's default pid file.
    pid_file: PathBuf,
    install: fn() -> Result<()>,
}

impl Programs {
    fn usual() -> Self {
        Self {
            client: "docker".into(),
            engine: "dockerd".into(),
            pid_file: "/var/run/docker.pid".into(),
            install: install::docker,
        }
    }

    fn up(&self, home: &Path) -> Result<bool> {
        if let Some(version) = self.version() {
            println!("docker: running, engine {version}");
            return Ok(false);
        }
        (self.install)()?;
        let starts_by_itself = process::wait_until(PACKAGE_STARTS_MAX, || self.version().is_some()).is_ok()
            // Two engines cannot share a data folder: the second ends at once, without an error that names the first.
            || (self.is_starting()
                && process::wait_until(UP_MAX, || self.version().is_some() || !self.is_starting()).is_ok()
                && self.version().is_some());
        if starts_by_itself {
            println!("docker: started by its package");
            return Ok(false);
        }
        std::fs::create_dir_all(home).with_context(|| format!("cannot create {}", home.display()))?;
        let (pid_file, log) = (home.join("pid"), home.join("dockerd.log"));
        // The engine refuses to start if its own pid file names a live process, and our process may have that pid by
        // then.
        let own_pid_file = home.join("dockerd.pid").display().to_string();
        let arguments = ["--pidfile".to_owned(), own_pid_file];
        process::start(&self.engine.display().to_string(), &arguments, &pid_file, &log)
            .with_context(|| process::log_tail(&log))?;
        let ended = || process::running(&pid_file).is_none();
        let waited = process::wait_until(UP_MAX, || ended() || self.version().is_some());
        match self.version() {
            // Our engine has ended because another one answers. The other one is not ours to stop.
            Some(version) if waited.is_ok() && !ended() => {
                println!("docker: started, engine {version}");
                Ok(true)
            }
            _ => {
                process::stop("docker", &pid_file)?;
                bail!(
                    "dockerd did not come up (it needs root and mounted cgroups):\n{}",
                    process::log_tail(&log)
                )
            }
        }
    }

    /// Whether an engine runs that xtask did not start. It may not answer yet.
    fn is_starting(&self) -> bool {
        let pid = std::fs::read_to_string(&self.pid_file).unwrap_or_default();
        let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.trim())).unwrap_or_default();
        let engine = self.engine.file_name().unwrap_or_default();
        !pid.trim().is_empty() && engine == name.trim()
    }

    /// The version of the engine that answers.
    fn version(&self) -> Option<String> {
        let output = Command::new("timeout")
            .arg("5")
            .arg(&self.client)
            .args(["version", "--format", "{{.Server.Version}}"])
            .stdin(Stdio::null())
            .output()
            .ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// The tests replace the engine and its client by scripts: a second engine would break the networks of the first.
#[cfg(test)]
mod tests {
    use super::*;

    /// A test's own folder, whose `dockerd` answers after `up` exists.
    struct Machine {
        folder: PathBuf,
        programs: Programs,
    }

    impl Machine {
        fn new(name: &str, engine: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("hopcache-engine-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let here = folder.display();
            let script = |name: &str, text: String| {
                let path = folder.join(name);
                process::script(&path, &text);
                path
            };
            let client = script("docker", format!("[ \"$1\" = version ] && cat {here}/up 2>/dev/null"));
            let engine = script(
                "dockerd",
                format!("echo started >>{here}/starts\n{engine}").replace("HERE", &here.to_string()),
            );
            let programs =
                Programs { client, engine, pid_file: folder.join("other.pid"), install: || Ok(()) };
            Self { folder, programs }
        }

        fn home(&self) -> PathBuf {
            self.folder.join("services/docker")
        }

        /// How often an engine was started.
        fn starts(&self) -> usize {
            std::fs::read_to_string(self.folder.join("starts")).map_or(0, |text| text.lines().count())
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = stop(&self.home());
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    /// Starts to answer, and ends on SIGTERM.
    const GOOD: &str = "trap 'rm -f HERE/up; exit 0' TERM\necho 20.10 >HERE/up\nwhile :; do sleep 0.1; done";

    #[test]
    fn one_that_answers_is_neither_started_nor_stopped() {
        let machine = Machine::new("answers", GOOD);
        std::fs::write(machine.folder.join("up"), "20.10").unwrap();
        assert!(!machine.programs.up(&machine.home()).unwrap());
        stop(&machine.home()).unwrap();
        assert_eq!((machine.starts(), machine.programs.version().is_some()), (0, true));
    }

    #[test]
    fn where_none_answers_one_is_started_and_exactly_that_is_stopped() {
        let machine = Machine::new("none", GOOD);
        assert!(machine.programs.up(&machine.home()).unwrap());
        assert!(!machine.programs.up(&machine.home()).unwrap(), "it runs already");
        assert_eq!(machine.starts(), 1);
        assert!(process::running(&machine.home().join("pid")).is_some());
        stop(&machine.home()).unwrap();
        assert_eq!(machine.programs.version(), None, "it still runs");
        assert!(!machine.home().join("pid").exists());
    }

    #[test]
    fn one_that_cannot_start_is_told_by_its_own_words_and_leaves_nothing() {
        let machine = Machine::new("broken", "echo 'Devices cgroup is not mounted' >&2\nexit 1");
        let error = format!("{:#}", machine.programs.up(&machine.home()).unwrap_err());
        assert!(error.contains("cgroup is not mounted"), "{error}");
        assert_eq!(process::running(&machine.home().join("pid")), None);
    }

    /// The package has started an engine, which does not answer at once.
    #[test]
    fn one_that_is_starting_is_waited_for_and_not_started_again() {
        let machine = Machine::new("slow", &format!("sleep 4\n{GOOD}"));
        let mut other = Command::new(&machine.programs.engine).spawn().unwrap();
        std::fs::write(&machine.programs.pid_file, other.id().to_string()).unwrap();
        assert!(!machine.programs.up(&machine.home()).unwrap());
        assert_eq!(machine.starts(), 1);
        process::signal("-TERM", other.id()).unwrap();
        other.wait().unwrap();
    }
}
