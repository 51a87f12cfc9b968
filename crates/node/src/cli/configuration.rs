//! `hopcache config show / check / schema`.

use clap::Subcommand;
use serde_json::json;

use super::{ConfigArgs, Output, print, print_json, say, table};
use crate::config;

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print every key with its value and where it came from; secrets are masked
    Show(ConfigArgs),
    /// Check it, and say everything that is wrong
    Check(ConfigArgs),
    /// Print the JSON schema of the file
    Schema,
}

pub(super) fn execute(command: &ConfigCommand, output: Output) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Show(args) => show(args, output),
        ConfigCommand::Check(args) => check(args, output),
        ConfigCommand::Schema => print_json(&config::schema()),
    }
}

fn show(args: &ConfigArgs, output: Output) -> anyhow::Result<()> {
    let report = args.load()?.report;
    if output == Output::Json {
        return print_json(&report.to_json());
    }
    let rows = report.lines().into_iter().map(|line| vec![line.key, line.value, line.source.to_string()]);
    print(&table::render(&["key", "value", "source"], rows))
}

fn check(args: &ConfigArgs, output: Output) -> anyhow::Result<()> {
    let result = args.load();
    if output == Output::Json {
        let problems: Vec<String> = match &result {
            Ok(_) => Vec::new(),
            Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
        };
        print_json(&json!({"ok": problems.is_empty(), "problems": problems, "warnings": []}))?;
    }
    result?;
    say("The configuration is sound.");
    Ok(())
}
