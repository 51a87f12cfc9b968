//! The drivers, installed once below `target`, and their programs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// The versions that are tested. A new one is a new folder.
const PYTHON_DRIVER: &str = "neo4j==6.4.1";
const JAVASCRIPT_DRIVER: &str = "neo4j-driver@6.3.0";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("drivers").join(name.replace(['=', '@'], "-"))
}

fn programs(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/drivers").join(language)
}

fn succeed(command: &mut Command, needs: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{needs}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{needs}: {command:?} failed: {stderr}");
}

/// The interpreter that has Neo4j's Python driver.
fn python() -> PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let install = || {
        let folder = folder(PYTHON_DRIVER);
        let python = folder.join("bin/python");
        if !folder.join("complete").exists() {
            let needs = "this lane needs python3 with its module venv (Debian: python3-venv)";
            succeed(Command::new("python3").args(["-m", "venv"]).arg(&folder), needs);
            let needs = "this lane installs Neo4j's Python driver with pip";
            succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet", PYTHON_DRIVER]), needs);
            std::fs::write(folder.join("complete"), "").unwrap();
        }
        python
    };
    PYTHON.get_or_init(install).clone()
}

/// The folder that has Neo4j's JavaScript driver.
fn javascript() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let install = || {
        let folder = folder(JAVASCRIPT_DRIVER);
        if !folder.join("complete").exists() {
            std::fs::create_dir_all(&folder).unwrap();
            let needs = "this lane needs node and npm (Debian: nodejs, npm)";
            let mut npm = Command::new("npm");
            npm.current_dir(&folder).args(["install", "--no-audit", "--no-fund", "--prefix", "."]);
            succeed(npm.arg(JAVASCRIPT_DRIVER), needs);
            std::fs::write(folder.join("complete"), "").unwrap();
        }
        folder
    };
    FOLDER.get_or_init(install).clone()
}

/// Runs a program of `tests/drivers/python`; the lines that it prints.
pub fn run_python(program: &str, args: &[&str]) -> Vec<String> {
    lines(Command::new(python()).arg(programs("python").join(program)).args(args))
}

/// Runs a program of `tests/drivers/javascript`; the lines that it prints.
pub fn run_javascript(program: &str, args: &[&str]) -> Vec<String> {
    let modules = javascript().join("node_modules");
    let mut command = Command::new("node");
    lines(command.env("NODE_PATH", modules).arg(programs("javascript").join(program)).args(args))
}

/// A program that runs beside a test, and ends when the test has closed its stdin.
pub struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    /// A program of `tests/drivers/python`.
    pub fn python(program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(python());
        command.arg(programs("python").join(program)).args(args);
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

fn lines(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<String> = stdout.lines().map(str::to_owned).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{stdout}\n{errors}");
    lines
}
