//! What a new reading of the configuration changes in a running node: which keys take effect at once, and which need a
//! restart. The schema says so for each key (`x-reload`). Nothing here connects or logs.

use std::mem::discriminant;

use super::catalog::CATALOG;
use super::report::Report;
use super::settings::{OriginAuth, Settings};
use super::text::{MASK, Secret};
use super::uri::StoreUri;

/// A key whose value differs from the one in force. Secrets are masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `section.key`.
    pub key: String,
    /// The value in force, as TOML would write it.
    pub before: String,
    /// The value that was read.
    pub after: String,
}

/// Plain data: what a reload does.
#[derive(Debug, Clone)]
pub struct ReloadPlan {
    /// The keys that take effect at once.
    pub changed: Vec<Change>,
    /// The keys that stay as they are until the node starts again.
    pub needs_restart: Vec<Change>,
    /// The settings in force after the reload.
    pub settings: Settings,
    /// The same for people, each value with its source.
    pub report: Report,
}

/// Compares what is in force with what was read now.
#[must_use]
pub fn plan_reload(
    (settings, report): (&Settings, &Report),
    (read, new_report): (&Settings, &Report),
) -> ReloadPlan {
    let mut changes = report.changes(new_report);
    let told: Vec<String> = changes.iter().map(|change| change.key.clone()).collect();
    let hidden =
        hidden_changes(settings, read).into_iter().filter(|key| !told.iter().any(|told| told == key));
    changes.extend(hidden.map(|key| Change {
        key: key.to_owned(),
        before: MASK.to_owned(),
        after: format!("{MASK} (another content)"),
    }));
    // Without its token an admin listener beyond loopback would be open until the restart that also changes its address.
    let drops_token = settings.node.admin_token.is_some() && read.node.admin_token.is_none();
    // The node follows the file that it was started with.
    let is_other_file = |change: &Change| change.key == PASSWORD && told.iter().any(|told| told == PASSWORD);
    let takes = |change: &Change| {
        is_reloadable(&change.key) && !is_other_file(change) && !(drops_token && change.key == ADMIN_TOKEN)
    };
    let (changed, needs_restart): (Vec<Change>, Vec<Change>) = changes.into_iter().partition(takes);
    let (mut settings, mut report) = (settings.clone(), report.clone());
    settings.take_reloadable(read);
    for change in &changed {
        report.take(&change.key, new_report);
    }
    ReloadPlan { changed, needs_restart, settings, report }
}

const ADMIN_TOKEN: &str = "node.admin_token_file";
/// The node follows this file by itself (`origin.password_file`), so another content needs no restart.
const PASSWORD: &str = "origin.password_file";

fn is_reloadable(key: &str) -> bool {
    key == PASSWORD || CATALOG.get(key).is_some_and(|key| key.reloads)
}

/// Keys whose value looks the same and means another secret: files with another content, and masked texts.
fn hidden_changes(before: &Settings, after: &Settings) -> Vec<&'static str> {
    let text = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
    let password = |settings: &Settings| match &settings.origin.auth {
        OriginAuth::Service { password, .. } => Some(password.expose().to_owned()),
        OriginAuth::Passthrough => None,
    };
    let store = |settings: &Settings| match &settings.store {
        StoreUri::Redis(uri) => Some(uri.expose().to_owned()),
        StoreUri::Memory => None,
    };
    let (old, new) = (&before.cluster, &after.cluster);
    let has_same_auth = discriminant(&before.origin.auth) == discriminant(&after.origin.auth);
    [
        (ADMIN_TOKEN, text(&before.node.admin_token) != text(&after.node.admin_token)),
        ("cluster.key", text(&old.key) != text(&new.key)),
        ("cluster.previous_key", text(&old.previous_key) != text(&new.previous_key)),
        ("cluster.data_key", text(&old.data_key) != text(&new.data_key)),
        (PASSWORD, has_same_auth && password(before) != password(after)),
        ("store.uri", store(before) != store(after)),
    ]
    .into_iter()
    .filter_map(|(key, is_other)| is_other.then_some(key))
    .collect()
}

impl Settings {
    /// Takes the settings of the keys that a reload may change. A test compares this list with the schema.
    fn take_reloadable(&mut self, read: &Self) {
        self.node.allowed_hosts.clone_from(&read.node.allowed_hosts);
        if read.node.admin_token.is_some() {
            self.node.admin_token.clone_from(&read.node.admin_token);
        }
        self.origin.read_functions.clone_from(&read.origin.read_functions);
        self.origin.read_procedures.clone_from(&read.origin.read_procedures);
        if let (OriginAuth::Service { password, .. }, OriginAuth::Service { password: new, .. }) =
            (&mut self.origin.auth, &read.origin.auth)
        {
            password.clone_from(new);
        }
        self.run_once_bytes = read.run_once_bytes;
        self.entry =
            super::EntrySection { share_spellings: self.entry.share_spellings, ..read.entry.clone() };
        self.refresh = super::RefreshSection {
            workers: self.refresh.workers,
            queue_size: self.refresh.queue_size,
            stampede_followers: self.refresh.stampede_followers,
            ..read.refresh.clone()
        };
        self.prefetch = super::PrefetchSection {
            max_patterns: self.prefetch.max_patterns,
            fallback_sessions: self.prefetch.fallback_sessions,
            ..read.prefetch.clone()
        };
        self.log = super::LogSection { format: self.log.format, ..read.log.clone() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LoadedConfig, Sources, load};

    fn loaded(sets: &[&str]) -> LoadedConfig {
        let sets = sets.iter().map(ToString::to_string).collect();
        load(&Sources { file: None, environment: Vec::new(), sets })
            .unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn plan(before: &LoadedConfig, after: &LoadedConfig) -> ReloadPlan {
        plan_reload((&before.settings, &before.report), (&after.settings, &after.report))
    }

    /// Another value than the default for each key that takes effect at once. A key without a row fails.
    const ROWS: [(&str, &str); 28] = [
        ("node.allowed_hosts", "ops.example.com"),
        ("origin.read_functions", "my.text.*"),
        ("origin.read_procedures", "my.report"),
        ("store.run_once_bytes", "1MiB"),
        ("entry.ttl", "7s"),
        ("entry.grace", "0.25"),
        ("entry.stale_if_error", "3m"),
        ("entry.ttl_jitter", "0.2"),
        ("entry.stale_target", "0.01"),
        ("entry.only_if_it_pays", "false"),
        ("entry.max_bytes", "1MiB"),
        ("refresh.enabled", "false"),
        ("refresh.mode", "plain"),
        ("refresh.beta", "1.5"),
        ("refresh.min_ttl", "7s"),
        ("refresh.timeout", "3s"),
        ("refresh.retry_enabled", "false"),
        ("refresh.retry_max", "5"),
        ("refresh.retry_backoff", "3.5"),
        ("prefetch.enabled", "false"),
        ("prefetch.max_queries", "2"),
        ("prefetch.depth", "2"),
        ("prefetch.yield_cores", "false"),
        ("prefetch.gossip", "false"),
        ("prefetch.kinds", "exact"),
        ("log.level", "warn"),
        ("log.queries", "true"),
        ("log.slow", "1s"),
    ];

    #[test]
    fn each_key_that_the_schema_calls_reloadable_is_taken_and_no_other() {
        let before = loaded(&[]);
        for (key, value) in ROWS.into_iter().chain([("log.requests", "true")]) {
            let after = loaded(&[&format!("{key}={value}")]);
            let plan = plan(&before, &after);
            assert!(plan.changed.iter().any(|change| change.key == key), "{key}: {plan:?}");
            assert_eq!(plan.needs_restart, [], "{key}");
            assert_eq!(format!("{:?}", plan.settings), format!("{:?}", after.settings), "{key}");
            assert_eq!(plan.report.value(key), after.report.value(key));
        }
        let rows = |key: &str| ROWS.iter().any(|(row, _)| *row == key);
        let apart = ["log.requests", ADMIN_TOKEN];
        let missing: Vec<&String> = CATALOG
            .values()
            .filter(|key| key.reloads)
            .map(|key| &key.path)
            .filter(|path| !rows(path))
            .collect();
        assert_eq!(missing, apart, "no row");
    }

    #[test]
    fn a_key_that_needs_a_restart_is_named_and_stays() {
        let before = loaded(&["entry.ttl=60s"]);
        for (key, value) in [
            ("node.memory", "1GiB"),
            ("origin.timeout", "5s"),
            ("freshness.mode", "ttl"),
            ("refresh.workers", "9"),
            ("prefetch.max_patterns", "9"),
            ("entry.share_spellings", "true"),
            ("log.format", "json"),
        ] {
            let after = loaded(&[&format!("{key}={value}"), "entry.ttl=7s"]);
            let plan = plan(&before, &after);
            let keys =
                |changes: &[Change]| changes.iter().map(|change| change.key.clone()).collect::<Vec<_>>();
            assert_eq!(
                (keys(&plan.changed), keys(&plan.needs_restart)),
                (vec!["entry.ttl".to_owned()], vec![key.to_owned()])
            );
            assert_eq!(plan.report.value(key), before.report.value(key), "the report shows what is in force");
            assert_eq!(
                format!("{:?}", plan.settings),
                format!("{:?}", loaded(&["entry.ttl=7s"]).settings),
                "{key}"
            );
        }
    }

    #[test]
    fn a_file_with_another_content_is_a_change_and_a_token_never_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let set = format!("node.admin_token_file={}", file.display());
        std::fs::write(&file, "first").unwrap();
        let before = loaded(&[&set]);
        std::fs::write(&file, "second").unwrap();
        let rotated = plan(&before, &loaded(&[&set]));
        assert_eq!(rotated.changed.iter().map(|change| &*change.key).collect::<Vec<_>>(), [ADMIN_TOKEN]);
        assert_eq!(rotated.settings.node.admin_token.unwrap().expose(), "second");
        assert!(!format!("{:?}", rotated.changed).contains("second"));
        let dropped = plan(&before, &loaded(&[]));
        assert_eq!(
            dropped.needs_restart.iter().map(|change| &*change.key).collect::<Vec<_>>(),
            [ADMIN_TOKEN]
        );
        assert_eq!(dropped.settings.node.admin_token.unwrap().expose(), "first");
    }
}
