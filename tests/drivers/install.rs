//! The drivers, installed below `target` by `install.sh`, and their programs.
//!
//! `HOPCACHE_TEST_DRIVERS=all` for every version of the file `versions`; `cargo xtask drivers` sets it.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;

const LANGUAGES: [&str; 4] = ["python", "javascript", "java", "go"];
/// The newest version of a language is first.
const VERSIONS: &str = include_str!("versions");

/// A file of `tests/drivers`.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/drivers").join(name)
}

/// One version of a language's driver.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    pub language: &'static str,
    pub version: &'static str,
}

impl Driver {
    /// The newest one of a language.
    pub fn newest(language: &str) -> Self {
        Self::every().find(|driver| driver.language == language).expect("a language of `versions`")
    }

    /// The newest one of each language, or all of them if `HOPCACHE_TEST_DRIVERS` asks for them.
    pub fn tested() -> Vec<Self> {
        match std::env::var("HOPCACHE_TEST_DRIVERS").as_deref() {
            Ok("all") => Self::every().collect(),
            Ok(other) => panic!("HOPCACHE_TEST_DRIVERS: all, not {other:?}"),
            Err(_) => Self::newest_of_each(),
        }
    }

    fn every() -> impl Iterator<Item = Self> {
        VERSIONS.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (language, version) = line.split_once(' ').expect("a language and a version");
            Self { language, version }
        })
    }

    /// Its first number.
    pub fn major(self) -> u32 {
        self.version.split('.').next().and_then(|major| major.parse().ok()).expect("a version")
    }

    /// The newest one of each language.
    pub fn newest_of_each() -> Vec<Self> {
        LANGUAGES.map(Self::newest).to_vec()
    }

    /// Runs one of the programs of its language; the lines that it prints.
    pub fn run(self, program: &str, args: &[&str]) -> Vec<String> {
        lines(self.command(program).args(args))
    }

    fn command(self, program: &str) -> Command {
        let folder = self.installed();
        let programs = folder.join("programs");
        match self.language {
            "python" => {
                let mut command = Command::new(folder.join("venv/bin/python"));
                command.arg(programs.join(format!("{program}.py")));
                command
            }
            "javascript" => {
                let mut command = Command::new("node");
                command.env("NODE_PATH", folder.join("node_modules"));
                command.arg(programs.join(format!("{program}.js")));
                command
            }
            "java" => {
                let mut command = java(&folder);
                let class = program[..1].to_uppercase() + &program[1..];
                command.arg(format!("{0}/classes:{0}/lib/*", folder.display())).arg(class);
                command
            }
            _ => Command::new(folder.join(program)),
        }
    }

    /// Its folder, which has the driver and the programs.
    pub fn installed(self) -> PathBuf {
        static INSTALLED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("drivers")
            .join(format!("{}-{}", self.language, self.version));
        // Other tests that need a driver wait for it here.
        let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !installed.get_or_insert_default().contains(&folder) {
            let mut install = Command::new(file("install.sh"));
            lines(install.args([self.language, self.version]).arg(&folder));
            installed.get_or_insert_default().insert(folder.clone());
        }
        folder
    }
}

/// A JVM that starts soon, up to its class path.
pub fn java(folder: &Path) -> Command {
    let mut command = Command::new("java");
    command.current_dir(folder);
    command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m", "-cp"]);
    command
}

/// A program that runs beside a test, and ends when the test has closed its stdin.
pub struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    /// A program of `tests/drivers/python`.
    pub fn python(program: &str, args: &[&str]) -> Self {
        Self::of(Driver::newest("python"), program, args)
    }

    /// A program of a driver's language.
    pub fn of(driver: Driver, program: &str, args: &[&str]) -> Self {
        let mut command = driver.command(program);
        command.args(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Ends it; its last line.
    pub fn finish(mut self) -> String {
        drop(self.child.stdin.take());
        let last = self.line();
        assert!(self.child.wait().unwrap().success(), "{last}");
        last
    }
}

/// Runs a command to its end; the lines that it prints.
pub fn lines(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<String> = stdout.lines().map(str::to_owned).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{stdout}\n{errors}");
    lines
}
