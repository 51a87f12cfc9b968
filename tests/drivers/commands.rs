//! The commands of the documentation, as they stand there: each one runs here before `hopcache dev`, or is listed with what
//! tries it elsewhere. A new command in a document fails the test until somebody decides which.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::process::{ports_in_a_row, program};
use crate::support::say;

/// Documents with commands.
const DOCUMENTS: [&str; 16] = [
    "README.md",
    "docs/tour.md",
    "docs/install.md",
    "docs/clients.md",
    "docs/console.md",
    "docs/guides/debug-a-miss.md",
    "docs/guides/graphql.md",
    "docs/guides/graphrag.md",
    "docs/guides/kubernetes.md",
    "docs/guides/sizing.md",
    "docs/guides/upgrading.md",
    "docs/operating/deploy.md",
    "docs/operating/explain.md",
    "docs/operating/invalidate.md",
    "docs/operating/upgrade.md",
    "docs/SECURITY.md",
];

/// The gate's step `compose` starts docker-compose.cluster.yml. compose.yaml was tried by hand, with both versions of Compose:
/// docs/benchmarks/2026-11-26-product has the log.
const COMPOSE: &str = "docker-compose.cluster.yml: the gate's step `compose`; compose.yaml: by hand";

/// Beginnings of commands that need more than a node, and what tries them.
const ELSEWHERE: [(&str, &str); 22] = [
    ("cargo demo", "this test: `hopcache dev` itself"),
    ("hopcache serve", "every test of the lane `cluster`"),
    ("cargo xtask test", "it runs this test"),
    ("HOPCACHE_TEST_PICTURES=", "the gate runs that test, without pictures"),
    ("HOPCACHE_TEST_TRANSCRIPT=", "the gate runs that test, without a transcript"),
    ("cargo xtask images", "the gate's step `compose`"),
    ("cluster/make-secrets.sh", "the gate's step `compose`"),
    ("docker compose", COMPOSE),
    ("docker-compose", COMPOSE),
    (
        "curl -si -u neo4j:$(cat",
        "needs the secrets of docker-compose.cluster.yml; the gate's step `compose` asks it the same",
    ),
    ("kubectl", "nothing: no Kubernetes here; `cargo xtask step helm-chart` checks the chart"),
    (
        "helm ",
        "`cargo xtask step helm-chart` renders the chart; installed and upgraded by hand: docs/benchmarks/2026-11-26-product",
    ),
    ("apt install", "`cargo xtask dist`"),
    ("editor", "nothing"),
    ("systemctl", "the gate's step `systemd` checks the unit"),
    ("openssl", "tests/support/authority.rs makes certificates in the test itself"),
    ("export HOPCACHE_USER", "this test sets them"),
    ("examples/", "tests/drivers/examples.rs"),
    ("cd ", "nothing"),
    ("git clone", "nothing"),
    ("pip install", "tests/drivers/install.sh"),
    ("npm install", "tests/drivers/install.sh"),
];

/// Of three nodes, four ports each with a distance of ten.
const PORTS: u16 = 24;

/// A cluster as the README starts it, on free ports.
struct Dev {
    process: Child,
    base: u16,
}

impl Dev {
    fn start() -> Self {
        for _ in 0..20 {
            let base = ports_in_a_row(PORTS);
            let mut process = Command::new(program())
                .args(["dev", "--json", "--base-port", &base.to_string()])
                .env_remove("HOPCACHE_USER")
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            // It prints one object when it serves, and ends its output when it cannot.
            let mut output = std::io::BufReader::new(process.stdout.take().unwrap());
            let mut screen = String::new();
            let read = std::io::BufRead::read_line(&mut output, &mut screen);
            if read.is_ok_and(|bytes| bytes > 0) {
                return Self { process, base };
            }
            let _ = process.wait();
        }
        panic!("hopcache dev does not start");
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The commands of a document's blocks of shell, each with its continuation lines and without its comment.
fn commands(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut block: Option<&str> = None;
    let mut goes_on = false;
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language) };
            goes_on = false;
            continue;
        }
        let said = match block {
            Some("sh") => Some(line),
            Some("console") if goes_on => Some(line),
            Some("console") => line.strip_prefix("$ "),
            _ => None,
        };
        let Some(said) = said.map(|said| said.split("   #").next().unwrap_or(said).trim()) else { continue };
        let (said, continues) = match said.strip_suffix('\\') {
            Some(said) => (said.trim_end(), true),
            None => (said, false),
        };
        match found.last_mut() {
            Some(last) if goes_on => {
                last.push(' ');
                last.push_str(said);
            }
            _ if said.is_empty() || said.starts_with('#') => continue,
            _ => found.push(said.to_owned()),
        }
        goes_on = continues;
    }
    found
}

/// The command with this cluster's ports and the test's program.
fn at(command: &str, base: u16) -> String {
    let here = command.replace("cargo demo ", "hopcache ").replace("localhost:", "127.0.0.1:");
    // In one pass: a port that was put in may have the digits of another one.
    let number = |digits: &str| match digits.parse::<u16>() {
        Ok(port @ 7_475..=7_498) => (base + port - 7_475).to_string(),
        _ => digits.to_owned(),
    };
    let (mut out, mut digits) = (String::new(), String::new());
    for letter in here.chars() {
        if letter.is_ascii_digit() {
            digits.push(letter);
        } else {
            out.push_str(&number(&std::mem::take(&mut digits)));
            out.push(letter);
        }
    }
    out + &number(&digits)
}

fn run(script: &str, dev: &Dev, path: &str) -> Result<String, String> {
    let mut shell = Command::new("bash")
        .args(["-euo", "pipefail", "-s"])
        .current_dir(std::env::temp_dir())
        .env("PATH", path)
        .env("ADMIN_URL", format!("http://127.0.0.1:{}", dev.base + 2))
        .env("HOPCACHE_ADMIN_URL", format!("http://127.0.0.1:{}", dev.base + 2))
        .env("HOPCACHE_USER", "neo4j")
        .env("HOPCACHE_PASSWORD", "secret")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let done = shell.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    let is_refused = said.contains("HTTP/1.1 4") || said.contains("HTTP/1.1 5");
    if done.status.success() && !is_refused { Ok(said) } else { Err(format!("{}: {said}", done.status)) }
}

#[test]
fn the_commands_of_the_documentation_run_as_they_stand_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dev = Dev::start();
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(program(), bin.path().join("hopcache")).unwrap();
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    let (mut ran, mut elsewhere) = (0, 0);
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        // A document defines functions that its later commands use.
        let mut functions = String::new();
        for command in commands(&text) {
            let is_here = command.starts_with("cargo demo explain") || command.starts_with("hopcache ");
            let listed = ELSEWHERE.iter().find(|(begin, _)| command.starts_with(begin));
            if command.contains("() {") {
                functions.push_str(&at(&command, dev.base));
                functions.push('\n');
            } else if listed.is_some_and(|(begin, _)| !is_here || *begin == "hopcache serve") {
                elsewhere += 1;
            } else {
                let began = Instant::now();
                let script = format!("{functions}{}", at(&command, dev.base));
                let said = run(&script, &dev, &path);
                assert!(said.is_ok(), "{document}: {command}\n{}", said.unwrap_err());
                assert!(began.elapsed() < Duration::from_secs(60), "{document}: {command}");
                ran += 1;
            }
        }
    }
    assert!(ran >= 10, "{ran} commands ran");
    say(&format!("{ran} commands of the documents ran, {elsewhere} are tried elsewhere"));
}

/// `hopcache top` on a terminal that has no size yet: it goes on, draws a frame for each interval and no more, and ends by Ctrl-C.
#[test]
fn top_lives_on_a_terminal_without_a_size() {
    let dev = Dev::start();
    let seconds = 4;
    let top = format!("timeout --preserve-status -s INT {seconds} {} top --interval 1s", program().display());
    let ran = Command::new("script")
        .args([
            "--quiet",
            "--return",
            "--command",
            &format!("stty cols 0 rows 0 && stty size && {top}"),
            "/dev/null",
        ])
        .env("HOPCACHE_ADMIN_URL", format!("http://127.0.0.1:{}", dev.base + 2))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let seen = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && seen.starts_with("0 0"), "{}: {seen}", ran.status);
    let frames = seen.matches("nodes answer").count();
    assert!((1..=seconds).contains(&frames), "{frames} frames: {seen}");
    assert!(seen.contains("node-c") && !seen.contains("panicked"), "names are in one piece: {seen}");
}

#[test]
fn ports_are_put_in_once() {
    assert_eq!(
        at("curl localhost:7475/a; curl localhost:7485", 17_476),
        "curl 127.0.0.1:17476/a; curl 127.0.0.1:17486"
    );
}

#[test]
fn a_command_has_its_continuation_and_no_comment() {
    let text = "```sh\ncurl -i \\\n  http://x   # twice\n# a comment\n```\n```console\n$ ask 1\noutput\n```\n```toml\nkey = 1\n```\n";
    assert_eq!(commands(text), ["curl -i http://x", "ask 1"]);
}
