//! The Debian package: the static program, the systemd unit, a configuration, completions and man pages.
//!
//! The unit is the one of `cluster/systemd`, with the package's paths, and without what an installation by hand has to
//! bring. `dpkg-deb` packs it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Release, Scratch, copy, pages, tell};
use crate::command::finish;

/// Maintainer scripts, by their names in `cluster/debian`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Lines of the unit that differ in the package: before, after. An empty text removes the line.
const UNIT_CHANGES: [(&str, &str); 5] = [
    (
        "ExecStart=/usr/local/bin/hopcache serve --config /etc/hopcache/node.toml",
        "ExecStart=/usr/bin/hopcache serve --config /etc/hopcache/hopcache.toml",
    ),
    ("LoadCredential=admin.token:/etc/hopcache/admin.token", ""),
    ("Environment=HOPCACHE_NODE__ADMIN_TOKEN_FILE=%d/admin.token", ""),
    // The user of sysusers.d, which files of TLS can be given to.
    (
        "# A user that exists while the node runs, and owns nothing.",
        "# The user of sysusers.d/hopcache.conf.",
    ),
    ("DynamicUser=yes", "User=hopcache\nDynamicUser=yes"),
];

pub(super) fn make(release: &Release, program: &Path, bill: &Path) -> Result<()> {
    let name = format!("hopcache_{}_amd64", release.version);
    let folder = Scratch::new(&release.folder, &name)?;
    let file = |from: &Path, to: &str, mode: &str| copy(from, &folder.0.join(to), mode);
    let packaging = release.root.join("cluster/debian");
    file(program, "usr/bin/hopcache", "0755")?;
    file(&packaging.join("hopcache.toml"), "etc/hopcache/hopcache.toml", "0644")?;
    file(&packaging.join("sysusers.conf"), "usr/lib/sysusers.d/hopcache.conf", "0644")?;
    let unit = release.root.join("cluster/systemd/hopcache.service");
    let unit = std::fs::read_to_string(&unit).with_context(|| format!("cannot read {}", unit.display()))?;
    write(&folder.0, "lib/systemd/system/hopcache.service", &packaged_unit(&unit)?)?;
    file(&packaging.join("copyright"), "usr/share/doc/hopcache/copyright", "0644")?;
    for document in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        file(&release.root.join(document), &format!("usr/share/doc/hopcache/{document}"), "0644")?;
    }
    file(bill, "usr/share/doc/hopcache/hopcache.cdx.json", "0644")?;
    manual(release, program, &folder.0)?;
    // Debian wants long documents compressed.
    let mut gzip = Command::new("gzip");
    let documents =
        ["CHANGELOG.md", "hopcache.cdx.json"].map(|name| format!("usr/share/doc/hopcache/{name}"));
    finish(gzip.current_dir(&folder.0).args(["-9", "-n"]).args(documents), "gzip")?;
    control(release, &folder.0)?;
    pack(release, &name)
}

/// Completions and man pages, where Debian's shells and `man` look for them.
fn manual(release: &Release, program: &Path, package: &Path) -> Result<()> {
    let made = Scratch::new(&release.folder, "pages")?;
    pages::write(&release.root, program, &made.0)?;
    let completions = [
        ("hopcache.bash", "usr/share/bash-completion/completions/hopcache"),
        ("_hopcache", "usr/share/zsh/vendor-completions/_hopcache"),
        ("hopcache.fish", "usr/share/fish/vendor_completions.d/hopcache.fish"),
    ];
    for (from, to) in completions {
        let from = made.0.join("completions").join(from);
        if from.exists() {
            copy(&from, &package.join(to), "0644")?;
        }
    }
    for entry in std::fs::read_dir(made.0.join("man")).into_iter().flatten() {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let to = package.join("usr/share/man/man1").join(name);
        copy(&path, &to, "0644")?;
        finish(Command::new("gzip").args(["-9", "-n"]).arg(&to), "gzip")?;
    }
    Ok(())
}

fn control(release: &Release, package: &Path) -> Result<()> {
    let mut size = Command::new("du");
    let size = super::output(size.args(["-sk", "--exclude=DEBIAN"]).arg(package))?;
    let size_kb = size.split_whitespace().next().unwrap_or("0");
    let control = format!(
        "Package: hopcache\nVersion: {}\nArchitecture: amd64\nMaintainer: The authors of Hopcache <hopcache@localhost>\n\
         Installed-Size: {size_kb}\nPre-Depends: init-system-helpers\nSection: database\nPriority: optional\n\
         Suggests: redis-server\n\
         Description: distributed query cache for Neo4j\n Several equal nodes speak Neo4j's own protocols, Bolt and the \
         HTTP Query API. For\n each query one of them asks Neo4j once for the whole cluster.\n",
        release.version
    );
    write(package, "DEBIAN/control", &control)?;
    write(package, "DEBIAN/conffiles", "/etc/hopcache/hopcache.toml\n")?;
    for script in SCRIPTS {
        let from = release.root.join("cluster/debian").join(script);
        copy(&from, &package.join("DEBIAN").join(script), "0755")?;
    }
    Ok(())
}

fn pack(release: &Release, name: &str) -> Result<()> {
    let mut dpkg = Command::new("dpkg-deb");
    // The time of every file, so that the same commit makes the same package.
    dpkg.current_dir(&release.folder).env("SOURCE_DATE_EPOCH", &release.time_s);
    finish(dpkg.args(["--root-owner-group", "-Zxz", "--build", name]), "dpkg-deb")?;
    tell(&release.folder.join(format!("{name}.deb")))
}

fn packaged_unit(unit: &str) -> Result<String> {
    // The comment on top tells how to install the unit by hand.
    let start = unit.find("[Unit]").context("the unit has no section [Unit]")?;
    let mut text =
        format!("# A Hopcache node. Its configuration: /etc/hopcache/hopcache.toml.\n{}", &unit[start..]);
    for (before, after) in UNIT_CHANGES {
        let line = format!("{before}\n");
        ensure!(text.contains(&line), "the systemd unit has no line {before:?}");
        let after = if after.is_empty() { String::new() } else { format!("{after}\n") };
        text = text.replace(&line, &after);
    }
    Ok(text)
}

fn write(package: &Path, file: &str, text: &str) -> Result<()> {
    let path = package.join(file);
    let folder = path.parent().context("a file has a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = include_str!("../../../cluster/systemd/hopcache.service");

    #[test]
    fn the_packaged_unit_has_the_packages_paths_and_keeps_its_restrictions() {
        let unit = packaged_unit(UNIT).unwrap();
        let lines: Vec<&str> = unit.lines().collect();
        for line in [
            "ExecStart=/usr/bin/hopcache serve --config /etc/hopcache/hopcache.toml",
            "LoadCredential=cluster.key:/etc/hopcache/cluster.key",
            "User=hopcache",
            "DynamicUser=yes",
            "CapabilityBoundingSet=",
            "AmbientCapabilities=",
            "ProtectSystem=strict",
            "NoNewPrivileges=yes",
        ] {
            assert!(lines.contains(&line), "{line}\n{unit}");
        }
        assert!(
            ["/usr/local", "admin.token", "node.toml", "ReadWritePaths="]
                .iter()
                .all(|wrong| !unit.contains(wrong)),
            "{unit}"
        );
    }

    #[test]
    fn a_unit_that_lacks_a_line_to_change_is_refused() {
        let error = packaged_unit(&UNIT.replace("DynamicUser=yes\n", "")).unwrap_err().to_string();
        assert!(error.contains("DynamicUser=yes"), "{error}");
    }
}
