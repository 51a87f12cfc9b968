//! Programs that services and images need: found on the path, else installed by apt when root, else named to the user.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A program and the distribution's package that brings it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    program: &'static str,
    package: &'static str,
}

pub(crate) const REDIS: Tool = Tool { program: "redis-server", package: "redis-server" };
pub(crate) const JAVA: Tool = Tool { program: "java", package: "openjdk-17-jre-headless" };
pub(crate) const MAVEN: Tool = Tool { program: "mvn", package: "maven" };
const DOCKER: Tool = Tool { program: "dockerd", package: "docker.io" };
/// The engine makes its networks with it, and Debian's package only recommends it.
pub(crate) const IPTABLES: Tool = Tool { program: "iptables", package: "iptables" };
/// Part of `docker.io` up to Debian 12 and in Ubuntu, where there is no such package.
const DOCKER_CLIENT: Tool = Tool { program: "docker", package: "docker-cli" };
pub(crate) const BUSYBOX: Tool = Tool { program: "busybox", package: "busybox-static" };
pub(crate) const HAPROXY: Tool = Tool { program: "haproxy", package: "haproxy" };
pub(crate) const PROMETHEUS: Tool = Tool { program: "prometheus", package: "prometheus" };

pub(crate) const COMPOSE: Tool = Tool { program: "docker-compose", package: "docker-compose" };

/// Installs what is not there, or says what is missing and how to get it.
pub(crate) fn missing(tools: &[Tool]) -> Result<()> {
    let absent: Vec<&Tool> = tools.iter().filter(|tool| !on_path(tool.program)).collect();
    if absent.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = absent.iter().map(|tool| tool.package).collect();
    if !is_root() || !on_path("apt-get") {
        bail!("{}", instructions(&absent));
    }
    println!("installing {}", packages.join(" "));
    apt(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages);
    apt(&arguments)?;
    match absent.iter().find(|tool| !on_path(tool.program)) {
        Some(tool) => {
            bail!("{} was installed, but `{}` is still not on the path", tool.package, tool.program)
        }
        None => Ok(()),
    }
}

/// The Docker Engine and its client.
pub(crate) fn docker() -> Result<()> {
    missing(&[DOCKER, IPTABLES])?;
    missing(&[DOCKER_CLIENT])
}

fn instructions(absent: &[&Tool]) -> String {
    let programs: Vec<&str> = absent.iter().map(|tool| tool.program).collect();
    let packages: Vec<&str> = absent.iter().map(|tool| tool.package).collect();
    format!(
        "missing: {}. Debian and Ubuntu: `sudo apt-get install {}`; or name running services by \
         HOPCACHE_TEST_REDIS, HOPCACHE_TEST_NEO4J_BOLT, HOPCACHE_TEST_NEO4J_HTTP and HOPCACHE_TEST_NEO4J_PASSWORD",
        programs.join(", "),
        packages.join(" ")
    )
}

fn apt(arguments: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .context("could not start apt-get")?;
    if !status.success() {
        bail!("`apt-get {}` ended with {status}", arguments.join(" "));
    }
    Ok(())
}

pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

pub(crate) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_name_each_missing_program_and_its_package() {
        let text = instructions(&[&JAVA, &REDIS]);
        assert!(text.contains("missing: java, redis-server."));
        assert!(text.contains("apt-get install openjdk-17-jre-headless redis-server"));
    }

    #[test]
    fn a_program_that_exists_is_found_and_another_is_not() {
        assert!(on_path("sh"));
        assert!(!on_path("no-such-program-of-hopcache"));
    }
}
