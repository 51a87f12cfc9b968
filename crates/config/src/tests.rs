//! The messages of a wrong configuration, which source wins, and that no text panics.

use std::path::Path;

use hopcache_core::time::Millis;
use proptest::prelude::*;

use super::catalog::{CATALOG, Kind};
use super::*;

fn from_text(text: &str) -> Result<LoadedConfig, ConfigErrors> {
    let mut layers = Layers::default();
    layers.add_file(text, Path::new("hopcache.toml"));
    finish(layers)
}

fn from(environment: &[(&str, &str)], sets: &[&str]) -> Result<LoadedConfig, ConfigErrors> {
    let environment = environment.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    load(&Sources { file: None, environment, sets: sets.iter().map(ToString::to_string).collect() })
}

fn errors(result: Result<LoadedConfig, ConfigErrors>) -> String {
    result
        .map(|loaded| format!("accepted: {:?}", loaded.settings))
        .unwrap_or_else(|errors| errors.to_string())
}

/// Wrong files, and their messages.
const WRONG_FILES: &[(&str, &str)] = &[
    (
        "[refresh]\nbeta = 3.5",
        "refresh.beta: 3.5 is not allowed (read from hopcache.toml:2); allowed: a number, from 0.5 to 2.0",
    ),
    (
        "[refresh]\n\nbeta = nan",
        "refresh.beta: \"nan\" is not allowed (read from hopcache.toml:3); allowed: a number, from 0.5 to 2.0",
    ),
    (
        "origin.max_concurrent = 0",
        "origin.max_concurrent: 0 is not allowed: it is out of range (read from hopcache.toml:1); allowed: \"adaptive\", or a whole number from 1 to 4096",
    ),
    (
        "origin.max_concurrent = \"many\"",
        "origin.max_concurrent: \"many\" is not allowed: it is neither \"adaptive\" nor a number (read from hopcache.toml:1); allowed: \"adaptive\", or a whole number from 1 to 4096",
    ),
    (
        "origin.line = \"longest\"",
        "origin.line: \"longest\" is not allowed (read from hopcache.toml:1); allowed: \"shortest\", \"arrival\"",
    ),
    (
        "refresh.workers = 0",
        "refresh.workers: 0 is not allowed (read from hopcache.toml:1); allowed: a whole number, from 1 to 256",
    ),
    (
        "refresh.mode = \"fast\"",
        "refresh.mode: \"fast\" is not allowed (read from hopcache.toml:1); allowed: \"plain\", \"topology_sensitive\", \"adaptive\"",
    ),
    (
        "entry.ttl = 60",
        "entry.ttl: 60 is not allowed: it has no unit (read from hopcache.toml:1); allowed: a duration such as \"250ms\", \"60s\" or \"10m\", from 0 to 10years",
    ),
    (
        "entry.ttl = \"99999999999999999999y\"",
        "entry.ttl: \"99999999999999999999y\" is not allowed: too long to be a duration (read from hopcache.toml:1); allowed: a duration such as \"250ms\", \"60s\" or \"10m\", from 0 to 10years",
    ),
    (
        "node.memory = \"1KiB\"",
        "node.memory: \"1KiB\" is not allowed (read from hopcache.toml:1); allowed: a size such as \"64KiB\" or \"256MiB\", from 1MiB to 1TiB",
    ),
    (
        "node.client_addr = \"localhost\"",
        "node.client_addr: \"localhost\" is not allowed: it has no port (read from hopcache.toml:1); allowed: host:port, for example 127.0.0.1:7475",
    ),
    (
        "node.name = \"a b\"",
        "node.name: \"a b\" is not allowed (read from hopcache.toml:1); allowed: 1 to 64 characters of A-Z a-z 0-9 . _ : -",
    ),
    (
        "origin.uri = \"neo4j://db:7687?policy=x\"",
        "origin.uri: \"neo4j://db:7687?policy=x\" is not allowed: a routing context (behind the ?) is not supported; leave it out (read from hopcache.toml:1); allowed: \"embedded:\", or bolt://, bolt+s:// or bolt+ssc:// with host:port for one server, or neo4j://, neo4j+s:// or neo4j+ssc:// for a cluster or Aura",
    ),
    (
        "origin.uri = \"bolt://me:hunter2@db\"",
        "origin.uri: ******** is not allowed: credentials do not belong here; use origin.user and origin.password_file (read from hopcache.toml:1); allowed: \"embedded:\", or bolt://, bolt+s:// or bolt+ssc:// with host:port for one server, or neo4j://, neo4j+s:// or neo4j+ssc:// for a cluster or Aura",
    ),
    (
        "cluster.name = \"no spaces\"",
        "cluster.name: \"no spaces\" is not allowed: it has other characters, or too many (read from hopcache.toml:1); allowed: 1 to 64 characters of A-Z a-z 0-9 . _ : -",
    ),
    (
        "node.ring_weight = 0.05",
        "node.ring_weight: 0.05 is not allowed (read from hopcache.toml:1); allowed: a number, from 0.1 to 10.0",
    ),
    (
        "cluster.key = 12345",
        "cluster.key: ******** is not allowed (read from hopcache.toml:1); allowed: a text",
    ),
    (
        "log.level = \"loud\"",
        "log.level: \"loud\" is not allowed: not a level (read from hopcache.toml:1); allowed: error, warn, info, debug, trace or off, also by module: \"warn,hopcache=debug\"",
    ),
    (
        "log.queries = \"yes\"",
        "log.queries: \"yes\" is not allowed (read from hopcache.toml:1); allowed: true or false",
    ),
    ("[entri]\nttl = \"1s\"", "entri.ttl: no such key (read from hopcache.toml:2); did you mean entry.ttl?"),
    ("[nodes]", "nodes: no such key (read from hopcache.toml:1); did you mean node?"),
    (
        "[zzz]\nqqq = 1",
        "zzz.qqq: no such key (read from hopcache.toml:2); `hopcache config schema` lists what there is",
    ),
    ("[node]\nttl = \"1s\"", "node.ttl: no such key (read from hopcache.toml:2); did you mean entry.ttl?"),
];

/// Each message names the key, the value, its source, and the allowed values.
#[test]
fn messages_of_wrong_files() {
    for (text, message) in WRONG_FILES {
        assert_eq!(errors(from_text(text)), *message);
    }
    assert!(errors(from_text("[node\n")).starts_with("hopcache.toml:1: not valid TOML: "));
}

#[test]
fn messages_of_values_that_do_not_go_together() {
    let cases = [
        (
            "cluster.seeds = [\"127.0.0.1:7476\", \"db:7476\"]",
            "cluster.seeds: more than one node needs a key that all of them have: set cluster.key_file or cluster.key (it is db:7476, from hopcache.toml:1)",
        ),
        (
            "prefetch.kinds = [\"exact\", \"template\", \"exact\"]",
            "prefetch.kinds: \"exact\" is given twice: name each kind once (it is [\"exact\",\"template\",\"exact\"], from hopcache.toml:1)",
        ),
        (
            "node.peer_advertise = \"0.0.0.0:7476\"",
            "node.peer_advertise: it is where other nodes find this one: an address or name that they can connect to (it is 0.0.0.0:7476, from hopcache.toml:1)",
        ),
        (
            "node.admin_addr = \"0.0.0.0:7477\"",
            "node.admin_addr: beyond loopback the admin paths need a token: set node.admin_token_file, or use a loopback address (it is 0.0.0.0:7477, from hopcache.toml:1)",
        ),
        (
            "origin.auth = \"service\"",
            "origin.auth: needs origin.user and origin.password_file (it is \"service\", from hopcache.toml:1)",
        ),
        (
            "origin.classify = \"words\"",
            "origin.classify: nothing ends or proves what such a server has answered: set freshness.mode = \"ttl\" (it is \"words\", from hopcache.toml:1)",
        ),
        (
            "origin.uri = \"neo4j://a:7687\"\norigin.classify = \"words\"\nfreshness.mode = \"ttl\"",
            "origin.classify: it is for one server: use a bolt:// address in origin.uri (it is \"words\", from hopcache.toml:2)",
        ),
        (
            "origin.read_functions = [\"my.text.*\", \"*\"]",
            "origin.read_functions: a pattern begins with a letter or _: name a library first, as in \"apoc.text.*\" (it is \"*\", from hopcache.toml:1)",
        ),
        (
            "origin.read_procedures = [\"my.read()\"]",
            "origin.read_procedures: '(' is in no name: letters, digits, _ and dots are, and * stands for any of them (it is \"my.read()\", from hopcache.toml:1)",
        ),
        (
            "cluster.previous_key = \"short\"",
            "cluster.previous_key: a cluster key has at least 16 characters (it is ********, from hopcache.toml:1)",
        ),
        (
            "cluster.data_key = \"a key that is long enough\"\ncluster.data_key_file = \"data.key\"",
            "cluster.data_key: set cluster.data_key or cluster.data_key_file, not both (it is ********, from hopcache.toml:1)",
        ),
        (
            "cluster.previous_key = \"a key that is long enough\"",
            "cluster.previous_key: a second key is accepted beside cluster.key or cluster.key_file: set one of them (it is ********, from hopcache.toml:1)",
        ),
        (
            "cluster.key = \"short\"",
            "cluster.key: a cluster key has at least 16 characters (it is ********, from hopcache.toml:1)",
        ),
        (
            "node.admin_addr = \"127.0.0.1:7475\"",
            "node.admin_addr: must differ from node.client_addr (it is 127.0.0.1:7475, from hopcache.toml:1)",
        ),
        (
            "[node]\ndrain = \"10s\"\nserve_on = \"6s\"",
            "node.serve_on: serving on is a part of leaving, and requests need the rest to end: at most half of node.drain (it is \"6s\", from hopcache.toml:3)",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(errors(from_text(text)), message);
    }
}

#[test]
fn messages_of_the_environment_and_flags() {
    assert_eq!(
        errors(from(&[("HOPCACHE_ENTRY__TLL", "1s")], &[])),
        "HOPCACHE_ENTRY__TLL: no such variable; did you mean HOPCACHE_ENTRY__TTL?"
    );
    assert_eq!(
        errors(from(&[], &["node.allowed_hosts=ops.example.com:7477"])),
        "node.allowed_hosts: [\"ops.example.com:7477\"] is not allowed: a name has no scheme and no port, and an IP address needs no permission (read from flag --set); allowed: a list of host names, for example [\"ops.example.com\", \".example.com\"]"
    );
    assert_eq!(errors(from(&[], &["entry.ttl"])), "--set \"entry.ttl\": write it as section.key=value");
    assert_eq!(
        errors(from(&[("CACHE_XFETCH_BETA", "9")], &[])),
        "refresh.beta: 9.0 is not allowed (read from environment CACHE_XFETCH_BETA); allowed: a number, from 0.5 to 2.0"
    );
}

/// INTERFACE section 3: a name without `__` can belong to another program, and does not prevent the start. A name
/// with it is a mistake.
#[test]
fn variables_that_set_nothing_are_warned_about() {
    let injected = [
        ("HOPCACHE_NODE_A_SERVICE_HOST", "10.0.0.1"),
        ("HOPCACHE_NODE_A_PORT_7475_TCP", "tcp://10.0.0.1:7475"),
    ];
    let loaded = from(&[injected[0], injected[1], ("HOPCACHE_ENTRYTTL", "a secret")], &[]).unwrap();
    let found = warnings(&loaded.unused);
    assert_eq!(found[0], "HOPCACHE_ENTRYTTL: no such variable; did you mean HOPCACHE_ENTRY__TTL?");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(injected.iter().all(|(name, _)| found[1].contains(name)), "{found:?}");
    assert!(!format!("{found:?} {:?}", loaded.unused).contains("secret"), "values are never shown");
    for mine in
        ["HOPCACHE_CONFIG", "HOPCACHE_TEST_REDIS", "HOPCACHE_SERVICE_HOST", "HOPCACHE_PORT_7475_TCP", "PATH"]
    {
        assert!(from(&[(mine, "")], &[]).unwrap().unused.is_empty(), "{mine}");
    }
}

/// I9: the list of seeds has a bound.
#[test]
fn more_seeds_than_a_cluster_has_members_are_refused() {
    let seeds = vec!["\"db:7476\""; hopcache_core::limits::MEMBERS_MAX + 1].join(",");
    let message = errors(from_text(&format!("cluster.seeds = [{seeds}]")));
    let allowed = "allowed: a list of addresses such as [\"127.0.0.1:7476\"], at most 128";
    assert!(message.ends_with(allowed) && message.len() < 300, "{message}");
}

#[test]
fn every_problem_is_reported_at_once() {
    let all = from_text("entry.grace = -1\nentry.ttl_jitter = 2\nentry.tll = 1").unwrap_err();
    assert_eq!(all.0.len(), 3, "{all}");
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let mut layers = Layers::default();
    layers.add_file("[refresh]\nworkers = 5\nbeta = 0.6\nretry_max = 1\nqueue_size = 7", Path::new("f.toml"));
    let environment = [
        ("HOPCACHE_REFRESH__BETA", "0.7"),
        ("CACHE_XFETCH_BETA", "0.8"),
        ("CACHE_XFETCH_RETRY_MAX", "2"),
        ("CACHE_XFETCH_WORKERS", "6"),
    ];
    layers.add_environment(&environment.map(|(name, text)| (name.to_owned(), text.to_owned())));
    layers.add_set("refresh.workers=8");
    let loaded = finish(layers).unwrap();
    let refresh = &loaded.settings.refresh;
    assert_eq!((refresh.workers, refresh.beta, refresh.retry_max, refresh.queue_size), (8, 0.7, 2, 7));
    let source = |key: &str| loaded.report.source(key).to_string();
    assert_eq!(source("refresh.workers"), "flag --set");
    assert_eq!(source("refresh.beta"), "environment HOPCACHE_REFRESH__BETA");
    assert_eq!(source("refresh.retry_max"), "environment CACHE_XFETCH_RETRY_MAX");
    assert_eq!(source("refresh.queue_size"), "f.toml:5");
    assert_eq!(source("refresh.timeout"), "default");
}

#[test]
fn long_zero_and_shared_forms_are_read() {
    let environment = [
        ("CACHE_XFETCH_MIN_TTL", "90"),
        ("HOPCACHE_CLUSTER__SEEDS", "localhost:7476, 127.0.0.1:7476"),
        ("HOPCACHE_SERVICE_HOST", "10.0.0.1"),
        ("HOPCACHE_PORT_7475_TCP", "tcp://10.0.0.1:7475"),
    ];
    let sets = ["entry.ttl=3652d", "entry.stale_if_error=0", "node.memory=1073741824"];
    let settings = from(&environment, &sets).unwrap().settings;
    assert_eq!(settings.refresh.min_ttl, Millis(90_000));
    assert_eq!(settings.entry.ttl, Millis(3_652 * 86_400_000));
    assert_eq!(settings.entry.stale_if_error, Millis::ZERO);
    assert_eq!(settings.node.memory_bytes, 1 << 30);
    assert_eq!(settings.cluster.seeds.len(), 2);
    assert_eq!(from_text("entry.ttl = 0").unwrap().settings.entry.ttl, Millis::ZERO);
}

#[test]
fn secrets_come_from_files_beside_the_configuration_and_are_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("cluster.key"), "a key that is long enough\n").unwrap();
    let file = directory.path().join("hopcache.toml");
    std::fs::write(&file, "[cluster]\nseeds = [\"b:7476\"]\nkey_file = \"cluster.key\"\n[store]\nuri = \"redis://:hunter2@r:6379\"").unwrap();
    let loaded = load(&Sources { file: Some(file), ..Sources::default() }).unwrap();
    assert_eq!(loaded.settings.cluster.key.as_ref().unwrap().expose(), "a key that is long enough");
    let shown = format!("{:?} {}", loaded, loaded.report.to_json());
    assert!(!shown.contains("long enough") && !shown.contains("hunter2"), "{shown}");
}

/// A table in a section is set by file, variable and flag, key by key, each with its source.
#[test]
fn a_table_in_a_section_has_keys_of_its_own() {
    let text = "[node]\nclient_tls = { cert_file = \"tls/cert.pem\", key_file = \"tls/key.pem\" }";
    let mut layers = Layers::default();
    layers.add_file(text, Path::new("/etc/hopcache/node.toml"));
    let variable = ("HOPCACHE_NODE__CLIENT_TLS__KEY_FILE".to_owned(), "/run/key.pem".to_owned());
    layers.add_environment(&[variable]);
    layers.add_set("node.admin_tls.cert_file=a.pem");
    layers.add_set("node.admin_tls.key_file=b.pem");
    layers.add_set("node.admin_tls.client_ca_file=c.pem");
    let loaded = finish(layers).unwrap();
    let client = loaded.settings.node.client_tls.unwrap();
    assert_eq!(client.cert_file, Path::new("/etc/hopcache/tls/cert.pem"), "beside the configuration");
    assert_eq!(client.key_file, Path::new("/run/key.pem"));
    let admin = loaded.settings.node.admin_tls.unwrap();
    assert_eq!(admin.client_ca_file.as_deref(), Some(Path::new("c.pem")));
    let json = loaded.report.to_json();
    assert_eq!(json["node"]["client_tls"]["cert_file"]["source"], "/etc/hopcache/node.toml:2");
    assert_eq!(
        json["node"]["client_tls"]["key_file"]["source"],
        "environment HOPCACHE_NODE__CLIENT_TLS__KEY_FILE"
    );
    let lines = loaded.report.lines();
    assert!(
        lines.iter().any(|line| line.key == "node.admin_tls.client_ca_file" && line.value == "\"c.pem\"")
    );
    assert!(from_text("[node]\nclient_tls = {}").unwrap().settings.node.client_tls.is_none());
}

#[test]
fn messages_of_tls_keys() {
    for (text, message) in [
        (
            "node.client_tls.crt_file = \"a\"",
            "node.client_tls.crt_file: no such key (read from hopcache.toml:1); did you mean node.client_tls.cert_file?",
        ),
        (
            "node.admin_tls.cert_file = \"a\"",
            "node.admin_tls.key_file: TLS needs a certificate and its key: set cert_file and key_file (it is not set, from default)",
        ),
        (
            "node.admin_tls.client_ca_file = \"a\"",
            "node.admin_tls.cert_file: TLS needs a certificate and its key: set cert_file and key_file (it is not set, from default)",
        ),
        (
            "origin.ca_file = \"a\"",
            "origin.ca_file: only bolt+s:// and neo4j+s:// check a certificate: write origin.uri with it, or leave this out (it is a, from hopcache.toml:1)",
        ),
        (
            "[store]\nuri = \"redis://r\"\nca_file = \"a\"",
            "store.ca_file: only rediss:// checks a certificate: write store.uri with it, or leave this out (it is a, from hopcache.toml:3)",
        ),
    ] {
        assert_eq!(errors(from_text(text)), message);
    }
}

#[test]
fn the_defaults_of_the_interface_are_in_force() {
    let settings = from(&[], &[]).unwrap().settings;
    assert_eq!(settings.node.client_addr.to_string(), "127.0.0.1:7475");
    assert_eq!(settings.origin.uri, OriginUri::Embedded);
    assert!(settings.node.name.as_str().ends_with(":7476"));
    assert_eq!((settings.entry.grace, settings.entry.max_bytes), (0.5, 8 << 20));
}

/// A range that its own default does not pass would stop every start.
#[test]
fn every_default_passes_its_own_check_and_every_bound_can_be_read() {
    let defaults = serde_json::to_value(Document::default()).unwrap();
    for (path, key) in CATALOG.iter() {
        let value = &defaults.pointer(&format!("/{}", path.replace('.', "/"))).unwrap();
        assert!(key.in_range(value), "{path}: {value}");
        let ranged = matches!(key.kind, Kind::Duration | Kind::Size | Kind::Integer | Kind::Number);
        assert!(!ranged || key.allowed().contains(", from "), "{path}: {}", key.allowed());
    }
}

#[test]
fn a_development_cluster_has_ports_ten_apart_and_one_key() {
    let base = from(&[], &[]).unwrap().settings;
    let options = DevOptions { nodes: 3, base_port: 7475, base: base.clone() };
    let nodes = dev_settings(&options, &Secret::new("a key for this test")).unwrap();
    let ports: Vec<u16> = nodes.iter().map(|node| node.node.client_addr.port).collect();
    assert_eq!(ports, [7475, 7485, 7495]);
    assert!(nodes.iter().all(|node| node.cluster.seeds.len() == 3 && node.cluster.key.is_some()));
    assert!(dev_settings(&DevOptions { nodes: 3, base_port: 65_530, base }, &Secret::new("k")).is_err());
}

proptest! {
    /// I13: no text panics, whether it is TOML or not.
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = from_text(&text);
    }

    /// I13: no value under a known key panics, from the file or the environment.
    #[test]
    fn any_value_is_read_or_refused(key in 0_usize..100, text in "\\PC{0,40}", number in any::<f64>()) {
        let paths: Vec<&String> = CATALOG.keys().collect();
        let path = paths[key % paths.len()];
        let _ = from_text(&format!("{path} = {text}"));
        let _ = from_text(&format!("{path} = {text:?}"));
        let _ = from_text(&format!("{path} = {number:?}"));
        let _ = from(&[], &[&format!("{path}={text}")]);
    }

    /// What is written is read back as the same.
    #[test]
    fn durations_and_sizes_survive_their_text(ms in 0..315_576_000_000_u64, bytes in any::<u64>()) {
        prop_assert_eq!(parse_duration(&format_duration(Millis(ms))), Ok(Millis(ms)));
        prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
    }
}

#[test]
fn a_list_of_names_is_bounded() {
    let list = |count: usize| format!("origin.read_procedures = [{}]", vec!["\"my.p*\""; count].join(", "));
    let read = from_text(&list(64)).unwrap().settings.origin.read_procedures;
    assert!(read.len() == 64 && read[0].fits("my.procedure") && !read[0].fits("my.other"));
    assert!(errors(from_text(&list(65))).contains("a list has at most 64 names"));
}

/// Aura's console gives the last one to copy.
#[test]
fn a_cluster_is_named_by_its_scheme() {
    for (text, shown) in [
        ("neo4j://db", "neo4j://db:7687"),
        ("neo4j+ssc://[::1]:99/", "neo4j+ssc://[::1]:99"),
        ("neo4j+s://0a1b2c3d.databases.neo4j.io", "neo4j+s://0a1b2c3d.databases.neo4j.io:7687"),
    ] {
        let uri: OriginUri = text.parse().unwrap();
        assert!(matches!(uri, OriginUri::Bolt { is_cluster: true, .. }), "{uri:?}");
        assert_eq!(uri.to_string(), shown);
    }
    assert!(matches!("bolt://db".parse(), Ok(OriginUri::Bolt { is_cluster: false, .. })));
}
