//! The program from outside: `config`, usage errors and exit codes (INTERFACE section 3).

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first surprise; clippy knows #[test] functions only"
)]

use std::io::Write as _;
use std::process::{Command, Output};

use serde_json::Value;

fn hopcache(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hopcache"));
    command.args(args).env_clear().envs(environment.iter().copied());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn show_prints_values_with_their_sources_and_no_secret() {
    let file = file("[entry]\nttl = \"30s\"\n[cluster]\nkey = \"a key nobody may see\"\n");
    let path = file.path().to_str().unwrap();
    let args = ["config", "show", "--json", "--config", path, "--set", "refresh.beta=1.5"];
    let done = hopcache(&args, &[("HOPCACHE_STORE__URI", "redis://me:hunter2@cache:6379/1")]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let shown: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(shown["entry"]["ttl"]["value"], "30s");
    assert_eq!(shown["entry"]["ttl"]["source"], format!("{path}:2"));
    assert_eq!(shown["refresh"]["beta"]["source"], "flag --set");
    assert_eq!(shown["store"]["uri"]["value"], "redis://me:********@cache:6379/1");
    assert_eq!(shown["store"]["uri"]["source"], "environment HOPCACHE_STORE__URI");
    assert_eq!(shown["cluster"]["key"]["value"], "********");
    assert_eq!(shown["prefetch"]["depth"]["source"], "default");
    let table = hopcache(&args.map(|arg| if arg == "--json" { "--set=entry.grace=1" } else { arg }), &[]);
    let table = text(&table.stdout);
    assert!(table.contains("refresh.beta") && table.contains("flag --set"), "{table}");
    assert!(!table.contains("nobody may see"), "{table}");
}

#[test]
fn an_unknown_key_fails_with_a_suggestion() {
    let file = file("[refresh]\nbetta = 1.0\n");
    let path = file.path().to_str().unwrap();
    let done = hopcache(&["config", "check", "--config", path], &[]);
    assert_eq!(done.status.code(), Some(1));
    let expected =
        format!("hopcache: refresh.betta: no such key (read from {path}:2); did you mean refresh.beta?\n");
    assert_eq!(text(&done.stderr), expected);
    assert!(done.stdout.is_empty());
    let json = hopcache(&["config", "check", "--json", "--config", path], &[]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["ok"], false);
    assert_eq!(json["problems"].as_array().unwrap().len(), 1);
}

/// Orchestrators set variables to nothing. The node of the configuration is asked then.
#[test]
fn an_empty_variable_names_no_listener() {
    let around = [
        ("HOPCACHE_ADMIN_URL", ""),
        ("HOPCACHE_ADMIN_TOKEN", ""),
        ("HOPCACHE_NODE__ADMIN_ADDR", "127.0.0.1:9"),
    ];
    let said = text(&hopcache(&["status"], &around).stderr);
    assert!(said.contains("http://127.0.0.1:9"), "{said}");
}

#[test]
fn a_sound_configuration_passes_and_serve_refuses_an_unsound_one() {
    assert_eq!(hopcache(&["config", "check"], &[]).status.code(), Some(0));
    let refused = hopcache(&["serve", "--set", "refresh.workers=0"], &[]);
    assert_eq!(refused.status.code(), Some(2), "a flag is usage");
    assert_eq!(
        text(&refused.stderr),
        "hopcache: refresh.workers: 0 is not allowed (read from flag --set); allowed: a whole number, from 1 to 256\n"
    );
}

/// An error of the command line is wrong usage. An error of file or environment is a failed start.
#[test]
fn a_wrong_flag_is_usage_and_a_wrong_file_or_variable_a_failure() {
    let file = file("[refresh]\nworkers = 0\n");
    let path = file.path().to_str().unwrap();
    let of = |args: &[&str], environment: &[(&str, &str)]| hopcache(args, environment).status.code();
    assert_eq!(of(&["config", "check", "--set", "refresh.workers"], &[]), Some(2));
    assert_eq!(of(&["config", "check", "--set", "refresh.wrokers=1"], &[]), Some(2));
    assert_eq!(of(&["config", "check"], &[("HOPCACHE_REFRESH__WORKERS", "0")]), Some(1));
    assert_eq!(of(&["config", "check", "--config", path], &[]), Some(1));
    assert_eq!(of(&["config", "check", "--config", path, "--set", "refresh.beta=9"], &[]), Some(1));
}

#[test]
fn the_schema_describes_every_key() {
    let done = hopcache(&["config", "schema"], &[]);
    assert_eq!(done.status.code(), Some(0));
    let schema: Value = serde_json::from_slice(&done.stdout).unwrap();
    for (section, inside) in schema["properties"].as_object().unwrap() {
        for (name, key) in inside["properties"].as_object().unwrap() {
            assert!(key["description"].is_string(), "{section}.{name} has no description");
        }
    }
    assert_eq!(schema["properties"]["refresh"]["properties"]["beta"]["maximum"], 2.0);
    assert_eq!(schema["properties"]["entry"]["properties"]["ttl"]["default"], "1m");
}

#[test]
fn wrong_usage_exits_with_2() {
    let wrong: [&[&str]; 12] = [
        &["no-such-command"],
        &["query"],
        &["query", "RETURN 1", "-p", "no-equals-sign"],
        &["dev", "--nodes", "0"],
        &["dev", "--neo4j", "127.0.0.1:7687"],
        &["top", "--interval", "0s"],
        &["completions", "no-such-shell"],
        &["man"],
        &["purge"],
        &["invalidate"],
        &["invalidate", "--anything", "--label", "Person"],
        &["purge", "--all", "--database", "neo4j"],
    ];
    for args in wrong {
        let done = hopcache(args, &[]);
        assert_eq!(done.status.code(), Some(2), "{args:?}");
        assert!(done.stdout.is_empty() && !done.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn a_node_that_is_not_there_is_a_failure_that_names_the_url() {
    // A port that was free a moment ago, and that no other test gets.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    for args in [
        &["health"][..],
        &["status"],
        &["top", "--once"],
        &["drain"],
        &["purge", "--all"],
        &["invalidate", "--anything"],
        &["explain", "RETURN 1"],
    ] {
        let done = hopcache(args, &[("HOPCACHE_ADMIN_URL", &url)]);
        assert_eq!(done.status.code(), Some(1), "{args:?}");
        assert!(text(&done.stderr).contains(&url), "{args:?}: {}", text(&done.stderr));
    }
    let done = hopcache(&["query", "RETURN 1", "--url", &url], &[]);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains(&url));
}

/// The scripts and pages are made from the definition of the commands, so a new command is in them.
#[test]
fn shells_complete_and_manuals_describe_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = hopcache(&["completions", shell], &[]);
        assert_eq!(script.status.code(), Some(0), "{shell}");
        let script = text(&script.stdout);
        assert!(script.contains("explain") && script.contains("base-port"), "{shell}: {script}");
    }
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    let made = hopcache(&["man", pages.to_str().unwrap()], &[]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let listed = text(&made.stdout);
    for command in ["dev", "serve", "query", "explain", "status", "top", "purge", "config-show", "man"] {
        assert!(listed.lines().any(|page| page == format!("hopcache-{command}.1")), "{command}: {listed}");
    }
    let page = std::fs::read_to_string(pages.join("hopcache-explain.1")).unwrap();
    assert!(page.contains("HOPCACHE_USER") && page.contains("principal"), "{page}");
}

/// A cluster before a Neo4j that is not there ends at once, in words.
#[test]
fn dev_says_at_once_that_no_neo4j_answers() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("bolt://{}", held.local_addr().unwrap());
    drop(held);
    let done = hopcache(&["dev", "--neo4j", &uri], &[]);
    assert_eq!(done.status.code(), Some(1));
    let said = text(&done.stderr);
    assert!(said.starts_with(&format!("hopcache: no Neo4j answers at {uri}")), "{said}");
    assert!(said.contains("is it running"), "{said}");
    assert!(done.stdout.is_empty());
    let wrong = hopcache(&["dev", "--neo4j", "neo4j://db?policy=x"], &[]);
    assert!(text(&wrong.stderr).contains("a routing context"), "{}", text(&wrong.stderr));
}

/// F11: what each node of a cluster would keep to itself is refused, a key that all may read is warned of, and `--connect` connects.
#[test]
fn a_check_refuses_a_store_of_one_process_warns_of_open_keys_and_connects() {
    use std::os::unix::fs::PermissionsExt as _;

    let key = file("a key that every user of the machine may read");
    std::fs::set_permissions(key.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let key_file = format!("cluster.key_file={}", key.path().display());
    let seeds = ["--set", "cluster.seeds=10.0.0.1:7476,10.0.0.2:7476", "--set", &key_file];
    let apart = hopcache(&[&["config", "check"][..], &seeds].concat(), &[]);
    let said = text(&apart.stderr);
    assert_eq!(apart.status.code(), Some(1));
    assert!(said.contains("store.uri: \"memory:\" is inside one process"), "{said}");
    assert!(said.contains("chmod 600"), "{said}");
    std::fs::set_permissions(key.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
    let shared = ["config", "check", "--set", "store.uri=redis://127.0.0.1:9"];
    let sound = hopcache(&[&shared[..], &seeds].concat(), &[]);
    assert_eq!((sound.status.code(), text(&sound.stderr).contains("chmod")), (Some(0), false));
    let connected =
        hopcache(&[&shared[..], &["--set", "origin.uri=bolt://127.0.0.1:9", "--connect"]].concat(), &[]);
    let said = text(&connected.stderr);
    assert_eq!(connected.status.code(), Some(1), "{said}");
    assert!(said.contains("store.uri: ") && said.contains("origin.uri: "), "{said}");
    let sample = hopcache(&["config", "check", "--connect"], &[]);
    assert_eq!(sample.status.code(), Some(0), "{}", text(&sample.stderr));
}
