//! A stand-in for `neo4j:5.26-community`: a real Neo4j from its Maven artifacts with this machine's Java.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::root::Image;
use super::stand_ins::script;
use super::tools;
use crate::services::{self, install};

pub(super) fn image(root: &Path) -> Result<Image> {
    tools(&[install::JAVA])?;
    let jars = services::neo4j_jars(root)?;
    let mut image = Image::new("neo4j", 7474, true);
    java(&mut image)?;
    image.folder(jars, "/var/lib/neo4j/lib");
    for name in ["conf", "import", "plugins", "run"] {
        image.file(&format!("/var/lib/neo4j/{name}/.keep"), Vec::new(), 0o644);
    }
    image.file("/data/.keep", Vec::new(), 0o644);
    image.file("/logs/.keep", Vec::new(), 0o644);
    image.link("/var/lib/neo4j/data", "/data");
    image.link("/var/lib/neo4j/logs", "/logs");
    image.file("/startup/docker-entrypoint.sh", script(root, "neo4j")?, 0o755);
    image.change("ENV PATH=/opt/java/bin:/usr/bin:/bin");
    image.change("WORKDIR /var/lib/neo4j");
    image.change("VOLUME /data /logs");
    image.change("EXPOSE 7474 7473 7687");
    image.change(r#"ENTRYPOINT ["/startup/docker-entrypoint.sh"]"#);
    image.change(r#"CMD ["neo4j"]"#);
    Ok(image)
}

/// The folder of this machine's Java, without the parts that only compilers need.
fn java(image: &mut Image) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join("java"));
    let java = found.find(|program| program.is_file()).context("java is not on the path")?;
    let java = java.canonicalize().context("cannot resolve the path of java")?;
    let home: PathBuf =
        java.parent().and_then(Path::parent).context("java is not in the `bin` of a Java home")?.to_owned();
    for part in ["bin", "conf", "lib"] {
        image.folder(home.join(part), &format!("/opt/java/{part}"));
    }
    Ok(())
}
