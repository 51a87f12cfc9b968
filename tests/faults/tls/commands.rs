//! The commands of `hopcache` over https: with a private authority, with a wrong one, and on the node's own machine.

use std::path::Path;
use std::process::{Command, Output};

use super::Served;
use crate::support::authority::Authority;

fn hopcache(config: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hopcache"));
    command.env_clear().args(arguments);
    if let Some(config) = config {
        command.env("HOPCACHE_CONFIG", config);
    }
    command.output().unwrap()
}

/// The exit code, and both outputs.
fn ended(done: &Output) -> (i32, String) {
    let text = [&done.stdout[..], &done.stderr[..]].concat();
    (done.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_trust_the_authority_they_are_given() {
    let served = Served::plainly().await;
    let other = Authority::new(served.dir.path(), "other");
    let client = format!("https://localhost:{}", served.node.addrs.client.port());
    let admin = format!("https://localhost:{}", served.node.addrs.admin.port());
    let (ours, theirs) = (served.authority.ca_file.to_str().unwrap(), other.ca_file.to_str().unwrap());
    let commands: [(&[&str], &str, &str); 7] = [
        (&["query", "--user", "ann", "--password", "sesame", "RETURN 'asked' AS what"], "--url", "asked"),
        (&["explain", "RETURN 1 AS one"], "--admin-url", "Not cached"),
        (&["status"], "--admin-url", "node-a"),
        (&["health"], "--admin-url", "ready"),
        (&["successors"], "--admin-url", ""),
        (&["purge", "--all"], "--admin-url", ""),
        (&["drain"], "--admin-url", ""),
    ];
    for (arguments, flag, answer) in commands {
        let url = if flag == "--url" { &*client } else { &*admin };
        let ask = |ca_file: &[&str]| ended(&hopcache(None, &[arguments, &[flag, url], ca_file].concat()));
        let (code, text) = ask(&["--ca-file", theirs]);
        let advice = "name its authority with --ca-file or HOPCACHE_CA_FILE";
        assert!(code == 1 && text.contains(advice), "{arguments:?}: {code}: {text}");
        let (code, text) = ask(&["--ca-file", ours]);
        assert!(code == 0 && text.contains(answer), "{arguments:?}: {code}: {text}");
    }
}

/// A health check in the node's container finds the node by its configuration. It also works with a broken new pair in
/// the files, while the node serves with the old one. Other commands there trust only the configuration's certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_know_the_node_of_their_environment() {
    let served = Served::plainly().await;
    let config = Some(served.node.config());
    for arguments in [&["health"][..], &["health", "--live"], &["status"], &["purge", "--all"]] {
        let (code, text) = ended(&hopcache(config, arguments));
        assert_eq!(code, 0, "{arguments:?}: {text}");
    }
    let query = ["query", "--user", "ann", "--password", "sesame", "RETURN 'asked' AS what"];
    let (code, text) = ended(&hopcache(config, &query));
    assert!(code == 0 && text.contains("asked"), "{code}: {text}");
    let (code, text) = ended(&hopcache(config, &["config", "check"]));
    assert!(code == 0 && text.contains("sound"), "{code}: {text}");

    let stray = served.authority.server(served.dir.path(), "stray");
    std::fs::copy(&stray.cert_file, &served.pair.cert_file).unwrap();
    let (code, text) = ended(&hopcache(config, &["health"]));
    assert_eq!(code, 0, "a node that serves with the old pair is healthy: {text}");
    let (code, text) = ended(&hopcache(config, &["status"]));
    assert!(code == 1 && text.contains("its certificate is not the certificate in"), "{code}: {text}");
    let (code, text) = ended(&hopcache(config, &["config", "check"]));
    assert!(code == 1 && text.contains("node.client_tls") && text.contains("are no pair"), "{code}: {text}");
    let (code, text) = ended(&hopcache(config, &["serve"]));
    assert!(code == 1 && text.contains("are no pair"), "a start with it says so: {code}: {text}");
}
