//! Environment variables that begin like Hopcache's and set nothing: a warning, never a failed start (INTERFACE
//! section 3). Their values are not kept and never shown: they may be secrets of other programs.

use std::fmt;

/// A variable that sets nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedVariable {
    name: String,
    suggestion: Option<String>,
}

impl UnusedVariable {
    /// `suggest` names the variable that was probably meant. It is not called for variables of an orchestrator.
    pub(super) fn new(name: &str, suggest: impl Fn(&str) -> Option<String>) -> Self {
        let suggestion = if is_injected(name) { None } else { suggest(name) };
        Self { name: name.to_owned(), suggestion }
    }
}

/// Whether an orchestrator made it: Kubernetes injects `…_SERVICE_HOST`, `…_SERVICE_PORT`, `…_SERVICE_PORT_{name}`,
/// `…_PORT` and `…_PORT_{number}_{protocol}…` for every Service, and Docker's links did the same.
fn is_injected(name: &str) -> bool {
    let numbered = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_PORT")
        || name.contains("_SERVICE_PORT")
        || name.split("_PORT_").skip(1).any(numbered)
}

impl fmt::Display for UnusedVariable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: no such variable", self.name)?;
        match &self.suggestion {
            Some(known) => write!(out, "; did you mean {known}?"),
            None => Ok(()),
        }
    }
}

/// One sentence for each variable that a user may have meant, and one for all the others.
#[must_use]
pub fn warnings(unused: &[UnusedVariable]) -> Vec<String> {
    /// Names in a sentence.
    const NAMES_SHOWN_MAX: usize = 8;
    let (meant, others): (Vec<_>, Vec<_>) = unused.iter().partition(|variable| variable.suggestion.is_some());
    let mut warnings: Vec<String> = meant.iter().map(ToString::to_string).collect();
    if !others.is_empty() {
        let names: Vec<&str> =
            others.iter().take(NAMES_SHOWN_MAX).map(|variable| variable.name.as_str()).collect();
        let more = others.len() - names.len();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        warnings.push(format!(
            "{}{more}: no setting of hopcache, and ignored (orchestrators inject such variables)",
            names.join(", ")
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn injected_variables_share_one_sentence_and_misspelt_ones_have_their_own() {
        let names = [
            "HOPCACHE_NODE_A_SERVICE_HOST",
            "HOPCACHE_NODE_A_SERVICE_PORT",
            "HOPCACHE_NODE_A_SERVICE_PORT_CLIENTS",
            "HOPCACHE_NODE_A_PORT",
            "HOPCACHE_NODE_A_PORT_7475_TCP",
            "HOPCACHE_NODE_A_PORT_7475_TCP_ADDR",
            "HOPCACHE_ENTRY_TTL",
            "HOPCACHE_1",
            "HOPCACHE_2",
            "HOPCACHE_3",
        ];
        let suggest = |name: &str| (name == "HOPCACHE_ENTRY_TTL").then(|| "HOPCACHE_ENTRY__TTL".to_owned());
        let found = warnings(&names.map(|name| UnusedVariable::new(name, suggest)));
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "HOPCACHE_ENTRY_TTL: no such variable; did you mean HOPCACHE_ENTRY__TTL?");
        let last = found.last().unwrap();
        assert!(last.starts_with("HOPCACHE_NODE_A_SERVICE_HOST, HOPCACHE_NODE_A_SERVICE_PORT,"), "{last}");
        assert!(last.contains("HOPCACHE_2 and 1 more: "), "{last}");
        assert!(warnings(&[]).is_empty());
    }
}
