//! `hopcache config show / check / schema`.

use anyhow::bail;
use clap::Subcommand;
use serde_json::json;

use super::{ConfigArgs, Output, table};
use crate::terminal::{print, print_json, say};

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
        ConfigCommand::Schema => print_json(&hopcache_config::schema()),
    }
}

fn show(args: &ConfigArgs, output: Output) -> anyhow::Result<()> {
    let hopcache_config::Loaded { report, unused, .. } = args.load()?;
    hopcache_config::warnings(&unused).iter().for_each(|warning| say(warning));
    if output == Output::Json {
        return print_json(&report.to_json());
    }
    let rows = report.lines().into_iter().map(|line| vec![line.key, line.value, line.source.to_string()]);
    print(&table::render(&["key", "value", "source"], rows))
}

fn check(args: &ConfigArgs, output: Output) -> anyhow::Result<()> {
    let result = args.load();
    let problems: Vec<String> = match &result {
        Ok(loaded) => loaded.settings.tls_problems(),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    };
    if output == Output::Json {
        let warnings =
            result.as_ref().map(|loaded| hopcache_config::warnings(&loaded.unused)).unwrap_or_default();
        print_json(&json!({"ok": problems.is_empty(), "problems": problems, "warnings": warnings}))?;
    }
    hopcache_config::warnings(&result?.unused).iter().for_each(|warning| say(warning));
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    say("The configuration is sound.");
    Ok(())
}
