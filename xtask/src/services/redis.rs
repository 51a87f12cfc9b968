//! The distribution's `redis-server` on loopback, in memory only.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::environment::Environment;
use super::process;

const HEALTHY_MAX: Duration = Duration::from_secs(10);

pub(super) fn pid_file(folder: &Path) -> PathBuf {
    folder.join("redis/pid")
}

pub(super) fn up(folder: &Path, environment: &mut Environment) -> Result<()> {
    let pid_file = pid_file(folder);
    if let (Some(pid), Some(url)) = (process::running(&pid_file), &environment.redis) {
        println!("redis: running, pid {pid}, {url}");
        return Ok(());
    }
    process::stop("redis", &pid_file)?;
    let home = folder.join("redis");
    std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let port = process::free_port()?;
    let log = folder.join("redis.log");
    let config = home.join("redis.conf");
    // No persistence: tests own all data. redis-server replaces its command line by a title and address. The title
    // keeps the configuration's path, by which xtask knows the process again.
    let text = format!(
        "bind 127.0.0.1\nport {port}\nsave \"\"\nappendonly no\ndaemonize no\n\
         proc-title-template \"{{title}} {{listen-addr}} {{config-file}}\"\n"
    );
    std::fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
    process::start("redis-server", &[config.display().to_string()], &pid_file, &log)?;
    process::wait_until(HEALTHY_MAX, || answers_ping(port))
        .with_context(|| format!("redis did not answer:\n{}", process::log_tail(&log)))?;
    let url = format!("redis://127.0.0.1:{port}");
    println!("redis: started, {url}");
    environment.redis = Some(url);
    environment.write(folder)
}

fn answers_ping(port: u16) -> bool {
    let ping = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok(&answer == b"+PONG")
    };
    ping().unwrap_or(false)
}
