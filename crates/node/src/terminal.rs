//! Writes data to stdout and messages to stderr. Decides nothing about their text.

use std::io::{IsTerminal as _, Write as _};

/// Prints a message on stderr. A closed stderr is not an error.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Data, on stdout. A reader that has left (`| head`) is not a failure either; any other error is.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_while_read(text).map(|_| ())
}

/// As [`print`], and whether somebody still reads: for commands that print without end.
pub(crate) fn print_while_read(text: &str) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// JSON data, on stdout.
pub(crate) fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    print(&serde_json::to_string_pretty(value)?)
}

/// Whether a person reads stdout.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}
