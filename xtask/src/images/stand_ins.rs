//! Recipes of stand-ins for images of others, made from the distribution's packages with the real images' names, paths
//! and entry points. Each contains the parts of the real image that the compose file and the tests use.

use std::path::Path;

use anyhow::{Context, Result};

use super::root::Image;
use super::tools;
use crate::alerts;
use crate::services::{self, install};

/// `redis:7-alpine`.
pub(super) fn redis(root: &Path) -> Result<Image> {
    tools(&[install::REDIS])?;
    let mut image = Image::new("redis", 999, true);
    image.program("/usr/bin/redis-server", "/usr/local/bin/redis-server");
    image.program("/usr/bin/redis-cli", "/usr/local/bin/redis-cli");
    image.link("/usr/local/bin/redis-sentinel", "redis-server");
    image.file("/usr/local/bin/docker-entrypoint.sh", script(root, "redis")?, 0o755);
    image.change(path());
    image.change("WORKDIR /data");
    image.change("VOLUME /data");
    image.change("EXPOSE 6379");
    image.change(r#"ENTRYPOINT ["docker-entrypoint.sh"]"#);
    image.change(r#"CMD ["redis-server"]"#);
    Ok(image)
}

/// `haproxy:2.8`. The real image's stop signal is USR1 (a soft stop), but `docker import` takes no STOPSIGNAL.
pub(super) fn haproxy(root: &Path) -> Result<Image> {
    tools(&[install::HAPROXY])?;
    let mut image = Image::new("haproxy", 99, true);
    image.program("/usr/sbin/haproxy", "/usr/local/sbin/haproxy");
    image.file("/usr/local/bin/docker-entrypoint.sh", script(root, "haproxy")?, 0o755);
    image.file("/usr/local/etc/haproxy/.keep", Vec::new(), 0o644);
    image.change(path());
    image.change("USER 99:99");
    image.change(r#"ENTRYPOINT ["docker-entrypoint.sh"]"#);
    image.change(r#"CMD ["haproxy", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]"#);
    Ok(image)
}

/// `prom/prometheus:v2.53.0`.
pub(super) fn prometheus(root: &Path) -> Result<Image> {
    tools(&[])?;
    let mut image = Image::new("nobody", 65_534, true);
    for name in ["prometheus", "promtool"] {
        image.program(alerts::program(root, name)?, &format!("/bin/{name}"));
    }
    // Users of the image mount their own configuration.
    image.file("/etc/prometheus/prometheus.yml", b"global: {}\n".to_vec(), 0o644);
    image.change(path());
    image.change("WORKDIR /prometheus");
    image.change("VOLUME /prometheus");
    image.change("EXPOSE 9090");
    image.change(r#"ENTRYPOINT ["/bin/prometheus"]"#);
    image
        .change(r#"CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]"#);
    Ok(image)
}

/// `neo4j:5.26-community`: a real Neo4j from its Maven artifacts with this machine's Java.
pub(super) fn neo4j(root: &Path) -> Result<Image> {
    tools(&[install::JAVA])?;
    let jars = services::neo4j_jars(root)?;
    let mut image = Image::new("neo4j", 7474, true);
    let java = install::path_of("java").context("java is not on the path")?;
    let java = java.canonicalize().context("cannot resolve the path of java")?;
    let home = java.ancestors().nth(2).context("java is not in the `bin` of a Java home")?;
    // Without the parts that only compilers need.
    for part in ["bin", "conf", "lib"] {
        image.folder(home.join(part), &format!("/opt/java/{part}"));
    }
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

fn path() -> &'static str {
    "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

/// The script that starts the program: `cluster/images/NAME/entrypoint.sh`.
fn script(root: &Path, name: &str) -> Result<Vec<u8>> {
    let path = root.join("cluster/images").join(name).join("entrypoint.sh");
    std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}
