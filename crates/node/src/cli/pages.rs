//! `hopcache completions` and `hopcache man`: made from the definition of the command line, so that they agree with it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};
use serde_json::json;

use super::{Cli, Output};
use crate::terminal::{print, print_json, say};

/// Which shell.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell: `source <(hopcache completions bash)`
    #[arg(value_enum)]
    shell: Shell,
}

/// Where to.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Directory for the pages; it is created
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(super) fn completions(args: &CompletionsArgs, output: Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "hopcache", &mut script);
    let script = String::from_utf8(script)?;
    match output {
        Output::Json => print_json(&json!({"shell": args.shell.to_string(), "script": script})),
        Output::Text => print(&script),
    }
}

pub(super) fn man(args: &ManArgs, output: Output) -> anyhow::Result<()> {
    let directory = &args.directory;
    write_pages(directory).with_context(|| format!("{}", directory.display()))?;
    let mut pages: Vec<String> = std::fs::read_dir(directory)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("hopcache") && name.ends_with(".1"))
        .collect();
    pages.sort_unstable();
    match output {
        Output::Json => print_json(&json!({"directory": directory, "pages": pages})),
        Output::Text => {
            say(&format!("{} pages; read one: man {}", pages.len(), directory.join("hopcache.1").display()));
            print(&pages.join("\n"))
        }
    }
}

fn write_pages(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)
}
