//! The arms as configurations of the same binary: nothing else differs between them, requests included.

/// `prefetch.max_patterns` where the configuration does not say.
const PATTERNS_DEFAULT: usize = 256;

/// The kinds of prefetch, and whether nodes share what they learn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Arm {
    /// No prefetch.
    Off,
    /// Queries that were seen before, with their parameters.
    Exact,
    /// Statements whose parameters are bound to earlier parameters and results.
    Template,
    /// All kinds: these two, and entries that overlap.
    Both,
    /// As `both`, but each node learns alone.
    BothAlone,
}

impl Arm {
    pub(super) const ALL: [Self; 5] = [Self::Off, Self::Exact, Self::Template, Self::Both, Self::BothAlone];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Exact => "exact",
            Self::Template => "template",
            Self::Both => "both",
            Self::BothAlone => "both, gossip off",
        }
    }

    const fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Off => &[],
            Self::Exact => &["exact"],
            Self::Template => &["template"],
            Self::Both | Self::BothAlone => &["exact", "template", "overlap"],
        }
    }

    /// `[prefetch]`, with room for this many patterns if that is more than the default. Requests name their sessions,
    /// because all sessions share the load's connections.
    pub(super) fn section(self, patterns: usize) -> String {
        if self == Self::Off {
            return "[prefetch]\nenabled = false\n".to_owned();
        }
        let room =
            if patterns > PATTERNS_DEFAULT { format!("max_patterns = {patterns}\n") } else { String::new() };
        format!("{}{room}", section(self.kinds(), self != Self::BothAlone))
    }
}

/// `[prefetch]` with these kinds of candidates, for requests that name their sessions.
pub(crate) fn section(kinds: &[&str], gossip: bool) -> String {
    format!("[prefetch]\nenabled = true\nkinds = {kinds:?}\ngossip = {gossip}\nfallback_sessions = false\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_differ_in_configuration_only_and_all_do() {
        let sections: std::collections::BTreeSet<String> = Arm::ALL.map(|arm| arm.section(6)).into();
        assert_eq!(sections.len(), Arm::ALL.len());
        assert_eq!(
            Arm::BothAlone.section(256),
            "[prefetch]\nenabled = true\nkinds = [\"exact\", \"template\", \"overlap\"]\ngossip = false\nfallback_sessions = false\n"
        );
        assert!(Arm::Both.section(600).ends_with("max_patterns = 600\n"));
    }
}
