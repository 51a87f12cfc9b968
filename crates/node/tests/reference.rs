//! `docs/reference`: pages that are generated from the code, so that they cannot lag behind it. Each test renders a page
//! and compares it with the file. With `HOPCACHE_WRITE_REFERENCE=1` it writes the file instead (`cargo xtask reference`).

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first surprise; clippy knows #[test] functions only"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use hopcache_config::RefreshSection;
use hopcache_ops::meters::{Exposition, Meters, Readings, all};
use serde_json::Value;

/// The variable that makes these tests write the pages.
const WRITE: &str = "HOPCACHE_WRITE_REFERENCE";

const FROM_CODE: &str = "<!-- `cargo xtask reference` writes this page from the code. Do not edit it. -->\n";

/// Compares a page with its file, or writes the file.
fn check(name: &str, page: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&file, page).unwrap();
        return;
    }
    let on_disk = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(on_disk == page, "docs/reference/{name} is not what the code says: run `cargo xtask reference`");
}

/// A text as the cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The values that a key accepts, in words.
fn allowed(schema: &Value) -> String {
    let word = |name: &str| schema.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    if let Some(text) = word("x-allowed") {
        return text;
    }
    let choices = schema.get("enum").or_else(|| schema.pointer("/items/enum")).and_then(Value::as_array);
    // An enumeration whose values are described has one `const` for each.
    let described = || schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<String> = match choices {
        Some(choices) => choices.iter().filter(|choice| !choice.is_null()).map(shown).collect(),
        None => described().filter_map(|choice| choice.get("const")).map(shown).collect(),
    };
    if !names.is_empty() {
        return names.join(", ");
    }
    let bound = |plain: &str, written: &str| schema.get(plain).or_else(|| schema.get(written)).map(bare);
    let kind = kind(schema);
    match (bound("minimum", "x-min"), bound("maximum", "x-max")) {
        (Some(low), Some(high)) => format!("{kind}, {low} to {high}"),
        (Some(low), None) => format!("{kind}, {low} or more"),
        (None, Some(high)) => format!("{kind}, at most {high}"),
        (None, None) => kind,
    }
}

fn kind(schema: &Value) -> String {
    let typed = |schema: &Value| match schema.get("type") {
        Some(Value::String(name)) => Some(name.clone()),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).find(|name| *name != "null").map(ToOwned::to_owned)
        }
        _ => None,
    };
    let of_choices = || schema.get("anyOf")?.as_array()?.iter().find_map(typed);
    let kind = schema.get("x-kind").and_then(Value::as_str).map(ToOwned::to_owned);
    let kind = kind.or_else(|| typed(schema)).or_else(of_choices).unwrap_or_default();
    if kind == "array" { "list".to_owned() } else { kind }
}

/// A value without the quotes of JSON.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn shown(value: &Value) -> String {
    format!("`{}`", bare(value))
}

fn default_of(schema: &Value) -> String {
    match schema.get("default") {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "`\"\"`".to_owned(),
        Some(value) => shown(value),
    }
}

fn add_keys(page: &mut String, path: &str, schema: &Value) {
    for (name, inside) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{name}");
        if inside.get("properties").is_some() {
            add_keys(page, &path, inside);
            continue;
        }
        let text = inside.get("description").and_then(Value::as_str).unwrap_or_default();
        let alias = inside.get("x-env").and_then(Value::as_str);
        let alias = alias.map_or_else(String::new, |name| format!(" Also `{name}`."));
        let (allowed, default) = (cell(&allowed(inside)), cell(&default_of(inside)));
        assert!(!allowed.is_empty(), "{path}: the page would not say which values are allowed");
        let reload = if inside.get("x-reload") == Some(&Value::Bool(true)) { "yes" } else { "" };
        writeln!(page, "| `{path}` | {default} | {allowed} | {reload} | {}{alias} |", cell(text)).unwrap();
    }
}

#[test]
fn the_page_of_the_configuration_is_current() {
    let schema = hopcache_config::schema();
    let mut page = format!("{FROM_CODE}# Configuration\n\n");
    page.push_str(
        "A flag (`--set section.key=value`) overrides the environment (`HOPCACHE_SECTION__KEY`), which overrides the file\n\
         (TOML; `--config` or `HOPCACHE_CONFIG`), which overrides the default. An unknown key or a wrong value stops the\n\
         start. `hopcache config show` prints each value with its source; `hopcache config schema` prints the JSON schema.\n\n\
         *Reload*: with `yes` a running node takes another value at SIGHUP, `hopcache reload` or `POST /admin/v1/reload`. Other keys need\n\
         a restart, and a reload names those that differ. Certificates, and the password of `origin.password_file`, are read again\n\
         when their files change, without an order.\n",
    );
    for (section, inside) in schema["properties"].as_object().unwrap() {
        writeln!(
            page,
            "\n## `[{section}]`\n\n| key | default | allowed | reload | meaning |\n|---|---|---|---|---|"
        )
        .unwrap();
        add_keys(&mut page, section, inside);
    }
    check("configuration.md", &page);
}

/// The type of each metric, as the exposition says it.
fn kinds() -> Vec<(String, String)> {
    let exposition =
        Meters::with(&RefreshSection::default()).render(Readings::default(), Exposition::Prometheus, "");
    let types = exposition.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .filter_map(|line| line.split_once(' '))
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect()
}

#[test]
fn the_page_of_the_metrics_is_current() {
    let kinds = kinds();
    let kind_of =
        |name: &str| kinds.iter().find(|(known, _)| known == name).map_or("", |(_, kind)| kind.as_str());
    let mut metrics: Vec<_> = all().collect();
    metrics.sort_by_key(|metric| metric.name);
    let mut page = format!("{FROM_CODE}# Metrics\n\n");
    page.push_str(
        "`GET /metrics` on the admin listener, in Prometheus' text format. Labels and their values:\n\
         [Monitor with metrics](../operating/metrics.md).\n\n| metric | type | meaning |\n|---|---|---|\n",
    );
    for metric in metrics {
        writeln!(page, "| `{}` | {} | {} |", metric.name, kind_of(metric.name), cell(metric.help)).unwrap();
    }
    check("metrics.md", &page);
}

/// What the program says of itself or of a command.
fn help(command: &[&str]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_hopcache"));
    let done = program.args(command).arg("--help").env_clear().output().unwrap();
    assert!(done.status.success(), "{command:?}");
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The commands below a help text, in its order.
fn commands_of(help: &str) -> Vec<String> {
    let below = help.split_once("\nCommands:\n").map_or("", |(_, below)| below);
    let lines = below.lines().take_while(|line| line.starts_with("  "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(ToOwned::to_owned).collect()
}

#[test]
fn the_page_of_the_commands_is_current() {
    let top = help(&[]);
    let commands = commands_of(&top);
    assert!(commands.iter().any(|name| name == "serve"), "{commands:?}");
    let mut page = format!("{FROM_CODE}# Commands\n\n```text\n{top}\n```\n");
    for command in &commands {
        let text = help(&[command]);
        writeln!(page, "\n## `hopcache {command}`\n\n```text\n{text}\n```").unwrap();
        for below in commands_of(&text) {
            writeln!(
                page,
                "\n### `hopcache {command} {below}`\n\n```text\n{}\n```",
                help(&[command, &below])
            )
            .unwrap();
        }
    }
    check("commands.md", &page);
}
