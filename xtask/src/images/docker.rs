//! The `docker` client: lists, pulls and imports images. It does not decide what an image contains.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command::finish;

/// The label that this command writes on images that it made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) is_stand_in: bool,
    pub(super) content: Option<String>,
}

/// The labels of an image; nothing if there is no such image.
pub(super) fn labels(name: &str) -> Result<Option<Labels>> {
    let format = "{{json .Config.Labels}}";
    let output = Command::new("docker")
        .args(["image", "inspect", "--format", format, name])
        .stdin(Stdio::null())
        .output()
        .context("could not start docker")?;
    if !output.status.success() {
        return Ok(None);
    }
    let labels: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let text = |key: &str| labels[key].as_str().map(str::to_owned);
    Ok(Some(Labels { is_stand_in: text("hopcache.stand-in").is_some(), content: text("hopcache.content") }))
}

/// Whether this machine can pull images. Asks once, because without a registry every pull fails the same way.
#[derive(Debug, Default)]
pub(super) struct Registry {
    is_out_of_reach: bool,
}

impl Registry {
    /// Pulls an image. Returns whether that succeeded.
    pub(super) fn pull(&mut self, name: &str) -> Result<bool> {
        if self.is_out_of_reach {
            return Ok(false);
        }
        println!("{name}: pulling");
        // `timeout`, because behind a firewall that drops packets the engine tries for minutes.
        let output = Command::new("timeout")
            .args(["600", "docker", "pull", "--quiet", name])
            .stdin(Stdio::null())
            .output()
            .context("could not start docker pull")?;
        if output.status.success() {
            return Ok(true);
        }
        self.is_out_of_reach = true;
        let why = String::from_utf8_lossy(&output.stderr);
        println!(
            "{name}: cannot be pulled ({}); stand-ins are made",
            why.lines().next().unwrap_or("no answer")
        );
        Ok(false)
    }
}

/// Makes an image of the folder. `changes` are instructions of a Dockerfile.
pub(super) fn import(folder: &std::path::Path, changes: &[String], name: &str) -> Result<()> {
    let mut tar = Command::new("tar")
        .args(["--numeric-owner", "--owner=0", "--group=0", "-C"])
        .arg(folder)
        .args(["-c", "."])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("could not start tar")?;
    let archive = tar.stdout.take().context("tar has no output")?;
    let mut docker = Command::new("docker");
    docker.arg("import");
    for change in changes {
        docker.args(["--change", change]);
    }
    let output = docker.args(["-", name]).stdin(archive).output().context("could not start docker import")?;
    let packed = tar.wait().context("tar was lost")?;
    if !output.status.success() {
        bail!("docker import {name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    if !packed.success() {
        bail!("tar ended with {packed}");
    }
    // Removes the image that had the name before. Only images that xtask made have the label.
    let mut prune = Command::new("docker");
    prune.args(["image", "prune", "--force", "--filter", "label=hopcache.content"]).stdout(Stdio::null());
    finish(&mut prune, "docker image prune")
}
