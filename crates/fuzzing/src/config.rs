//! The configuration: a file, variables and flags. For any input the answer is settings or a list of errors, and it
//! shows no secret.

use std::cell::OnceCell;

use hopcache_config::{Problem, Sources, load};

/// A line that begins so is a variable, `NAME=text`.
const VARIABLE: &str = "#env ";
/// A line that begins so is a flag, `section.key=text`.
const FLAG: &str = "#set ";
/// Stands for a secret in the seeds.
const SECRET: &str = "hc-secret-0123456789";

thread_local! {
    /// One file for each thread, in memory where the machine has such a file system.
    static FILE: OnceCell<tempfile::NamedTempFile> = const { OnceCell::new() };
}

pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (mut environment, mut sets) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix(VARIABLE) {
            let (name, value) = rest.split_once('=').unwrap_or((rest, ""));
            environment.push((name.to_owned(), value.to_owned()));
        } else if let Some(rest) = line.strip_prefix(FLAG) {
            sets.push(rest.to_owned());
        }
    }
    let file = FILE.with(|file| {
        let file = file.get_or_init(|| tempfile::NamedTempFile::new_in(folder()).expect("a file"));
        std::fs::write(file.path(), bytes).expect("a file can be written");
        file.path().to_owned()
    });
    match load(&Sources { file: Some(file), environment, sets }) {
        Ok(loaded) => {
            let lines = loaded.report.lines();
            assert!(!lines.is_empty());
            let keys = [&loaded.settings.cluster.key, &loaded.settings.node.admin_token];
            for secret in keys.into_iter().flatten() {
                shows_nothing_of(secret.expose(), &text, &format!("{loaded:?} {}", loaded.report.to_json()));
            }
        }
        Err(errors) => {
            assert!(!errors.0.is_empty());
            for problem in &errors.0 {
                let message = problem.to_string();
                assert!(!message.is_empty());
                // A parser's message may repeat no part of a file that holds secrets.
                assert!(!matches!(problem, Problem::Syntax { .. }) || !message.contains(SECRET), "{message}");
            }
        }
    }
}

/// A secret that occurs once in the input occurs nowhere in the output.
fn shows_nothing_of(secret: &str, input: &str, shown: &str) {
    if secret.len() >= 12 && input.matches(secret).count() == 1 {
        assert!(!shown.contains(secret), "a secret is shown");
    }
}

fn folder() -> std::path::PathBuf {
    let memory = std::path::PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        format!(
            "[node]\nname = \"node-a\"\nclient_addr = \"127.0.0.1:7475\"\nmemory = \"256MiB\"\n\
             [cluster]\nseeds = [\"127.0.0.1:7476\", \"[::1]:7\"]\nkey = \"{SECRET}\"\nvirtual_nodes = 1000\n"
        ),
        format!(
            "[origin]\nuri = \"bolt://127.0.0.1:7687\"\nauth = \"service\"\nuser = \"neo4j\"\npassword = \"{SECRET}\"\n\
             max_concurrent = 32\ntimeout = \"30s\"\n[store]\nuri = \"redis://user:{SECRET}@127.0.0.1:6379/3\"\n"
        ),
        "[entry]\nttl = \"60s\"\ngrace = 0.5\nstale_if_error = \"10m\"\nttl_jitter = nan\nmax_bytes = \"8MiB\"\n".to_owned(),
        "#env CACHE_XFETCH_BETA=1.0\n#env HOPCACHE_ENTRY__TTL=1h 30m\n#set refresh.mode=adaptive\n#set node.memory=1e99\n".to_owned(),
        "[refresh]\nenabled = true\nmode = \"plain\"\nbeta = 2.0\nworkers = 4\n[prefetch]\ndepth = 1\n[log]\nformat = \"json\"\n".to_owned(),
        "[store]\nuri = \"redis+sentinel://h:1,h:2/name\"\n[node]\nadmin_addr = \"0.0.0.0:1\"\n".to_owned(),
        "[nodes]\nmemroy = 1979-05-27\nx = [1, {a = 0xff}]\n[entry.ttl]\na = '''x'''\n".to_owned(),
        format!("[cluster]\nkey = {SECRET}\n"),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect()
}
