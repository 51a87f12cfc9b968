//! Programs that services and images need. Finds them on the path, or installs them by apt as root, or tells the user
//! how.
//!
//! The servers in the packages are neither started now nor enabled for the next boot, because xtask starts its own on
//! other addresses. The Docker Engine is the exception: see `engine`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// A program, and packages that contain it. xtask installs the first package that the distribution has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    program: &'static str,
    packages: &'static [&'static str],
}

impl Tool {
    pub(crate) const fn program(&self) -> &'static str {
        self.program
    }
}

pub(crate) const REDIS: Tool = Tool { program: "redis-server", packages: &["redis-server"] };
/// Neo4j 5.26 runs on Java 17 and 21. Debian 13 has no Java 17.
pub(crate) const JAVA: Tool =
    Tool { program: "java", packages: &["openjdk-17-jre-headless", "openjdk-21-jre-headless"] };
pub(crate) const MAVEN: Tool = Tool { program: "mvn", packages: &["maven"] };
const DOCKER: Tool = Tool { program: "dockerd", packages: &["docker.io"] };
/// The engine makes its networks with iptables, but Debian's package only recommends it. Cuts are iptables rules too.
pub(crate) const IPTABLES: Tool = Tool { program: "iptables", packages: &["iptables"] };
/// `docker.io` contains it up to Debian 12 and in Ubuntu, where this package does not exist.
const DOCKER_CLIENT: Tool = Tool { program: "docker", packages: &["docker-cli"] };
pub(crate) const BUSYBOX: Tool = Tool { program: "busybox", packages: &["busybox-static"] };
pub(crate) const HAPROXY: Tool = Tool { program: "haproxy", packages: &["haproxy"] };
pub(crate) const COMPOSE: Tool = Tool { program: "docker-compose", packages: &["docker-compose"] };
/// Compilers of `cargo xtask dist`: C against musl, and C for ARM.
pub(crate) const MUSL: Tool = Tool { program: "musl-gcc", packages: &["musl-tools"] };
pub(crate) const ARM_COMPILER: Tool =
    Tool { program: "aarch64-linux-gnu-gcc", packages: &["gcc-aarch64-linux-gnu"] };
/// Tests and chaos send signals with it. Slim images do not contain it.
pub(crate) const KILL: Tool = Tool { program: "kill", packages: &["procps"] };

/// The browser of `tests/console`, the program that drives it, and letters that look the same on every machine.
pub(crate) const BROWSER: [Tool; 2] = [
    Tool { program: "chromium", packages: &["chromium", "chromium-browser"] },
    Tool { program: "chromedriver", packages: &["chromium-driver", "chromium-chromedriver"] },
];

/// A client of others, for tests of TLS.
pub(crate) const CURL: Tool = Tool { program: "curl", packages: &["curl"] };

/// What `tests/drivers` and `tests/frameworks` need. The Java driver is compiled, so a JRE does not suffice; the Go
/// driver needs Go 1.24; Debian 12 has 1.19, and a newer one in its backports.
pub(crate) const LANGUAGES: [Tool; 6] = [
    PYTHON,
    Tool { program: "node", packages: &["nodejs"] },
    Tool { program: "npm", packages: &["npm"] },
    Tool { program: "javac", packages: &["openjdk-17-jdk-headless", "openjdk-21-jdk-headless"] },
    MAVEN,
    GO,
];
pub(crate) const PYTHON: Tool = Tool { program: "python3", packages: &["python3-venv"] };
pub(crate) const GO: Tool = Tool { program: "go", packages: &["golang-go"] };

/// Packages whose servers must not run beside ours.
const SERVERS: [&str; 2] = ["redis-server", "haproxy"];

/// Longest wait for apt's locks, which another apt may hold (for example automatic upgrades).
const LOCKED_MAX_S: u64 = 300;

/// Runs apt-get with a policy that keeps [`SERVERS`] from starting, unless the machine has its own policy. The shell
/// removes the policy also after Ctrl-C. xtask knows its policy again by the text, if SIGKILL left it behind.
const QUIETLY: &str = r#"
policy=$0
if [ ! -e "$policy" ] || grep -q 'cargo xtask of hopcache' "$policy"; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 130' HUP INT TERM
  printf '#!/bin/sh\n# By cargo xtask of hopcache, for the time of one installation.\ncase "$*" in %s) exit 101 ;; esac\n' \
    '*redis-server*|*haproxy*' >"$policy"
  chmod 755 "$policy"
fi
"$@""#;

/// Installs missing programs, or names them and says how to install them.
pub(crate) fn missing(tools: &[Tool]) -> Result<()> {
    let absent: Vec<&Tool> = tools.iter().filter(|tool| !on_path(tool.program)).collect();
    if absent.is_empty() {
        return Ok(());
    }
    if !is_root() || !on_path("apt-get") {
        bail!("{}", instructions(&absent, is_known));
    }
    update()?;
    let packages = absent.iter().map(|tool| package(tool, is_known)).collect::<Result<Vec<&str>>>()?;
    println!("installing {}", packages.join(" "));
    apt_install(&packages)?;
    match absent.iter().find(|tool| !on_path(tool.program)) {
        Some(tool) => {
            bail!(
                "{} was installed, but `{}` is still not on the path",
                tool.packages.join(" or "),
                tool.program
            )
        }
        None => Ok(()),
    }
}

/// The Docker Engine and its client.
pub(crate) fn docker() -> Result<()> {
    missing(&[DOCKER, IPTABLES])?;
    missing(&[DOCKER_CLIENT])
}

fn package(tool: &Tool, is_known: impl Fn(&str) -> bool) -> Result<&'static str> {
    let found = tool.packages.iter().find(|package| is_known(package));
    found.copied().with_context(|| {
        format!(
            "no package of this distribution is known to bring `{}` (looked for {}): install it by hand",
            tool.program,
            tool.packages.join(", ")
        )
    })
}

/// Whether apt can install the package. Before the first `apt-get update` it can install none.
fn is_known(package: &str) -> bool {
    let mut policy = Command::new("apt-cache");
    policy.args(["policy", package]).env("LC_ALL", "C").stdin(Stdio::null()).stderr(Stdio::null());
    policy.output().is_ok_and(|output| {
        let policy = String::from_utf8_lossy(&output.stdout).into_owned();
        policy.lines().any(|line| line.trim().starts_with("Candidate:") && !line.contains("(none)"))
    })
}

fn instructions(absent: &[&Tool], is_known: impl Fn(&str) -> bool) -> String {
    let programs: Vec<&str> = absent.iter().map(|tool| tool.program).collect();
    // Without apt's lists, any name is equally likely; the first is taken.
    let packages: Vec<&str> = absent
        .iter()
        .filter_map(|tool| package(tool, &is_known).ok().or(tool.packages.first().copied()))
        .collect();
    format!(
        "missing: {}. Debian and Ubuntu: `sudo apt-get install {}`; or name running services by \
         HOPCACHE_TEST_REDIS, HOPCACHE_TEST_NEO4J_BOLT, HOPCACHE_TEST_NEO4J_HTTP and HOPCACHE_TEST_NEO4J_PASSWORD",
        programs.join(", "),
        packages.join(" ")
    )
}

/// Fetches apt's lists. `apt-get update` does not wait for its lock by itself, so this retries.
fn update() -> Result<()> {
    for _ in 0..LOCKED_MAX_S / 5 {
        let output = apt_get(&mut Command::new("apt-get"), &["update", "-qq"])
            .output()
            .context("could not start apt-get")?;
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return Ok(());
        }
        if !why.contains("lock") {
            bail!("`apt-get update` ended with {}: {}", output.status, why.trim());
        }
        println!("apt-get update: another apt is at work, waiting");
        std::thread::sleep(Duration::from_secs(5));
    }
    bail!("`apt-get update`: another apt was at work for {LOCKED_MAX_S} s")
}

fn apt_install(packages: &[&str]) -> Result<()> {
    let lock = format!("DPkg::Lock::Timeout={LOCKED_MAX_S}");
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends", "-o", &lock];
    arguments.extend(["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]);
    arguments.extend(packages);
    let mut shell = Command::new("sh");
    shell.args(["-c", QUIETLY, "/usr/sbin/policy-rc.d", "apt-get"]);
    let status = apt_get(&mut shell, &arguments).status().context("could not start sh")?;
    if !status.success() {
        bail!("`apt-get install {}` ended with {status}", packages.join(" "));
    }
    for server in SERVERS.iter().filter(|server| packages.contains(server)) {
        if Path::new("/run/systemd/system").exists() {
            // Best effort. If this fails, the package's server starts at the next boot.
            let _ = Command::new("systemctl").args(["--quiet", "disable", server]).status();
        }
        println!("{server}: installed; the package's own server is not started");
    }
    Ok(())
}

fn apt_get<'a>(command: &'a mut Command, arguments: &[&str]) -> &'a mut Command {
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C").stdin(Stdio::null())
}

pub(crate) fn on_path(program: &str) -> bool {
    path_of(program).is_some()
}

pub(crate) fn path_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

pub(crate) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::super::process;
    use super::*;

    #[test]
    fn instructions_name_each_missing_program_and_its_package() {
        let text = instructions(&[&JAVA, &REDIS], |_| false);
        assert!(text.contains("missing: java, redis-server."));
        assert!(text.contains("apt-get install openjdk-17-jre-headless redis-server"));
    }

    #[test]
    fn the_first_package_that_the_distribution_has_is_taken_and_none_is_told() {
        let debian_13 = |package: &str| package != "openjdk-17-jre-headless";
        assert_eq!(package(&JAVA, debian_13).unwrap(), "openjdk-21-jre-headless");
        assert_eq!(package(&JAVA, |_| true).unwrap(), "openjdk-17-jre-headless");
        let error = package(&JAVA, |_| false).unwrap_err().to_string();
        assert!(error.contains("`java`") && error.contains("openjdk-21-jre-headless"), "{error}");
    }

    #[test]
    fn a_program_that_exists_is_found_and_another_is_not() {
        assert!(on_path("sh"));
        assert!(!on_path("no-such-program-of-hopcache"));
    }

    /// A test's own folder.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("hopcache-install-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        /// The policy's exit codes during an installation, one for each server.
        fn asked(&self) -> String {
            let policy = self.0.join("policy-rc.d");
            let ask = format!(
                "for s in '--quiet redis-server' haproxy.service docker.service; do {} $s start; echo $?; done",
                policy.display()
            );
            let output =
                Command::new("sh").args(["-c", QUIETLY]).arg(&policy).args(["sh", "-c", &ask]).output();
            String::from_utf8(output.unwrap().stdout).unwrap().replace('\n', " ")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn servers_are_not_started_by_their_packages_and_the_policy_is_gone_afterwards() {
        let folder = Folder::new("policy");
        assert_eq!(folder.asked(), "101 101 0 ");
        assert!(!folder.0.join("policy-rc.d").exists());
    }

    #[test]
    fn a_policy_that_an_ended_run_left_is_taken_over_and_one_of_the_machine_stays() {
        let folder = Folder::new("left");
        let policy = folder.0.join("policy-rc.d");
        std::fs::write(&policy, "#!/bin/sh\n# By cargo xtask of hopcache, killed\n").unwrap();
        assert_eq!(folder.asked(), "101 101 0 ");
        assert!(!policy.exists());
        process::script(&policy, "exit 104");
        assert_eq!(folder.asked(), "104 104 104 ");
        assert!(policy.exists());
    }
}
