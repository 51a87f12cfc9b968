//! The Docker Engine: networks, containers attached to them, faults, and that nothing is left behind.
//!
//! Every container and network carries the run's label. The tests remove them at their end. A helper process removes
//! them after any end of the run, and the next run removes the rest.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use bollard::Docker;
use bollard::models::{
    EndpointIpamConfig, EndpointSettings, Ipam, IpamConfig, NetworkConnectRequest, NetworkCreateRequest,
    NetworkDisconnectRequest,
};
use testcontainers::core::ContainerRequest;
use testcontainers::runners::AsyncRunner;
use testcontainers::{GenericImage, ImageExt};

/// Names the run that a container or network belongs to, by its process.
const RUN: &str = "hopcache-contain.run";
/// Names the test.
pub const TEST: &str = "hopcache-contain.test";

/// A client of the engine; one for each use, since its connections end with the runtime of the test that made it.
fn docker() -> Docker {
    Docker::connect_with_unix_defaults().expect("a Docker Engine: run cargo xtask test")
}

/// Labels of this run; the first call sees to it that nothing is left behind.
pub fn labels(test: &str) -> HashMap<String, String> {
    static TIDY: OnceLock<()> = OnceLock::new();
    TIDY.get_or_init(|| {
        remove_what_dead_runs_left();
        outlive();
    });
    HashMap::from([(RUN.to_owned(), run()), (TEST.to_owned(), test.to_owned())])
}

fn run() -> String {
    std::process::id().to_string()
}

/// The `docker` client, for tidying up: it also works while a test is unwinding.
fn client(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).stdin(Stdio::null()).output();
    let output = output.expect("the docker client: run cargo xtask test");
    assert!(output.status.success(), "docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn remove_what_dead_runs_left() {
    let labels = format!("{{{{.Label \"{RUN}\"}}}}");
    let filter = format!("label={RUN}");
    for list in [&["ps", "--all"][..], &["network", "ls"]] {
        let listed = client(&[list, &["--filter", &filter, "--format", &labels]].concat());
        for run in listed.lines().filter(|run| !std::path::Path::new("/proc").join(run).exists()) {
            remove(run, None);
        }
    }
}

/// Removes containers, with their volumes, and then networks; `$@` are filters.
const REMOVE: &str = r#"
docker ps --all --quiet "$@" | xargs --no-run-if-empty docker rm --force --volumes
docker network ls --quiet "$@" | xargs --no-run-if-empty docker network rm
"#;

/// Removes the containers and networks of a run, or of one of its tests.
fn remove(run: &str, test: Option<&str>) {
    let mut command = Command::new("sh");
    command.args(["-c", REMOVE, "sh", "--filter", &format!("label={RUN}={run}")]);
    if let Some(test) = test {
        command.args(["--filter", &format!("label={TEST}={test}")]);
    }
    let _ = command.stdin(Stdio::null()).output().expect("sh");
}

/// Removes the containers and networks of one test of this run.
pub fn remove_test(test: &str) {
    remove(&run(), Some(test));
}

/// Ids and names of a test's containers.
pub fn containers_of(test: &str) -> Vec<(String, String)> {
    let (run, test) = (format!("label={RUN}={}", run()), format!("label={TEST}={test}"));
    let listed =
        client(&["ps", "--all", "--filter", &run, "--filter", &test, "--format", "{{.ID}} {{.Names}}"]);
    let pairs = listed.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(id, name)| (id.to_owned(), name.to_owned())).collect()
}

/// Starts a process that waits for the end of this one (the end of its own input), and then removes the rest.
fn outlive() {
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", &format!("cat >/dev/null\n{REMOVE}"), "sh"]);
    command.args(["--filter", &format!("label={RUN}={}", run())]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    // Its input stays open as long as this process lives.
    std::mem::forget(child.expect("setsid"));
}

/// A network without a way out. When a container is taken off it, packets for its address are lost: nothing is refused.
#[derive(Debug, Clone)]
pub struct Network {
    pub name: String,
    third: u8,
}

impl Network {
    pub async fn create(name: &str, test: &str) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        NEXT.fetch_add(u8::try_from(std::process::id() % 200).unwrap(), Ordering::Relaxed);
        let name = format!("hopcache-contain-{}-{name}", run());
        let mut refused = String::new();
        for _ in 0..100 {
            let third = NEXT.fetch_add(1, Ordering::Relaxed);
            let subnet = IpamConfig { subnet: Some(format!("10.213.{third}.0/24")), ..IpamConfig::default() };
            let request = NetworkCreateRequest {
                name: name.clone(),
                internal: Some(true),
                labels: Some(labels(test)),
                ipam: Some(Ipam { config: Some(vec![subnet]), ..Ipam::default() }),
                ..NetworkCreateRequest::default()
            };
            match docker().create_network(request).await {
                Ok(_) => return Self { name, third },
                // Another run of these tests has the addresses.
                Err(error) => refused = error.to_string(),
            }
        }
        panic!("no network: {refused}");
    }

    /// The address of a place on it.
    pub fn addr(&self, place: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.third, place)
    }

    /// Puts a container on it, always with the same address at the same place.
    pub async fn connect(&self, container: &str, place: u8) {
        let addr = EndpointIpamConfig {
            ipv4_address: Some(self.addr(place).to_string()),
            ..EndpointIpamConfig::default()
        };
        let request = NetworkConnectRequest {
            container: container.to_owned(),
            endpoint_config: Some(EndpointSettings {
                ipam_config: Some(addr),
                ..EndpointSettings::default()
            }),
        };
        docker().connect_network(&self.name, request).await.unwrap();
    }

    pub async fn disconnect(&self, container: &str) {
        let request = NetworkDisconnectRequest { container: container.to_owned(), force: Some(false) };
        docker().disconnect_network(&self.name, request).await.unwrap();
    }
}

/// A container of one test, known by its id.
#[derive(Debug, Clone)]
pub struct Container {
    pub id: String,
}

impl Container {
    /// Starts it on the default bridge, by which the host reaches it.
    pub async fn start(request: ContainerRequest<GenericImage>, name: &str, test: &str) -> Self {
        let request = request
            .with_container_name(format!("hopcache-contain-{}-{test}-{name}", run()))
            .with_labels(labels(test))
            .with_host_config_modifier(|config| config.publish_all_ports = Some(false));
        let started = request.start().await;
        let started = started.unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let id = started.id().to_owned();
        // Ended by its label, also where the test that started it is not the last that uses it.
        std::mem::forget(started);
        Self { id }
    }

    /// Its address on the default bridge; another one after a restart.
    pub async fn addr(&self) -> Ipv4Addr {
        self.on_bridge(|bridge| bridge.ip_address).await
    }

    /// The host, as containers reach it.
    pub async fn host_addr(&self) -> Ipv4Addr {
        self.on_bridge(|bridge| bridge.gateway).await
    }

    async fn on_bridge(&self, part: impl FnOnce(EndpointSettings) -> Option<String>) -> Ipv4Addr {
        let about = docker().inspect_container(&self.id, None).await.unwrap();
        let mut networks = about.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
        let addr = networks.remove("bridge").and_then(part).unwrap_or_default();
        addr.parse().unwrap_or_else(|_| panic!("{} has no address; its log:\n{}", self.id, self.logs()))
    }

    pub async fn pause(&self) {
        docker().pause_container(&self.id).await.unwrap();
    }

    pub async fn unpause(&self) {
        docker().unpause_container(&self.id).await.unwrap();
    }

    /// The container's output so far, on both streams.
    pub fn logs(&self) -> String {
        let output = Command::new("docker").args(["logs", "--timestamps", &self.id]).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}
