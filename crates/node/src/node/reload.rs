//! A reload: reads the configuration again and tells each part that can change while the node runs. What each key needs is
//! said by the configuration's schema (`x-reload`), and `hopcache_config::plan_reload` compares. This file only gives the
//! result to the parts.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hopcache_config::{Change, ReloadPlan, Report, Settings, Sources, load, plan_reload};
use hopcache_engine::Engine;
use hopcache_fronts::front::FrontShared;
use hopcache_state::audit;
use hopcache_state::node_state::NodeState;
use hopcache_state::reload::{NotReloaded, Reload, Reloaded};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::{Node, policy};

/// A part that takes settings while the node runs. It holds its part weakly: a reload keeps nothing alive.
pub(super) type TakesSettings = Box<dyn Fn(&Settings) + Send + Sync>;

/// A part that remembers how statements were read.
pub(super) type ForgetsReadings = Box<dyn Fn() + Send + Sync>;

/// The parts of a node that a reload reaches.
#[derive(Default)]
pub(super) struct ReloadParts {
    settings: Mutex<Vec<TakesSettings>>,
    readings: Mutex<Vec<ForgetsReadings>>,
}

impl ReloadParts {
    /// Adds a part that takes settings.
    pub(super) fn add<T: Send + Sync + 'static>(&self, part: &Arc<T>, take: fn(&T, &Settings)) {
        let part = Arc::downgrade(part);
        let take = move |settings: &Settings| {
            if let Some(part) = part.upgrade() {
                take(&part, settings);
            }
        };
        self.settings.lock().push(Box::new(take));
    }

    /// Adds a part that remembers how statements were read.
    pub(super) fn add_reader<T: Send + Sync + 'static>(&self, part: &Arc<T>, forget: fn(&T)) {
        let part = Arc::downgrade(part);
        let forget = move || {
            if let Some(part) = part.upgrade() {
                forget(&part);
            }
        };
        self.readings.lock().push(Box::new(forget));
    }

    fn take(&self, settings: &Settings) {
        self.settings.lock().iter().for_each(|take| take(settings));
    }

    fn forget_readings(&self) {
        self.readings.lock().iter().for_each(|forget| forget());
    }
}

/// How long after a change readings are forgotten a second time. A request that was being read while the settings changed
/// is remembered right after it was read, so a second is ample.
const SECOND_FORGETTING: Duration = Duration::from_secs(1);

/// Reads the configuration of one node again.
struct Reloader {
    sources: Sources,
    in_force: Mutex<(Settings, Report)>,
    parts: Arc<ReloadParts>,
    state: Weak<NodeState>,
    runtime: Handle,
}

impl Node {
    /// From now on the node can read its configuration again: from `sources`, of which `settings` and `report` came.
    pub(crate) fn read_again_from(&self, sources: Sources, settings: Settings, report: Report) {
        let reloader = Reloader {
            sources,
            in_force: Mutex::new((settings, report)),
            parts: Arc::clone(&self.reload_parts),
            state: Arc::downgrade(&self.state),
            runtime: Handle::current(),
        };
        let _ = self.state.reload.set(Arc::new(reloader));
    }
}

impl Node {
    /// The parts that all fronts share, the engine, and the lines of requests.
    pub(super) fn add_reload_parts(&self, shared: &FrontShared) {
        let parts = &self.reload_parts;
        parts.add(&self.state.engine, |engine, settings| engine.set_policy(policy::policy(settings)));
        parts.add_reader(&self.state.engine, Engine::forget_readings);
        parts.add(&self.state.request_log, |log, settings| log.set(&settings.log));
        parts.add(&shared.credentials, |known, settings| known.set_grace(settings.entry.stale_if_error));
        parts.add(&shared.databases, |known, settings| known.set_grace(settings.entry.stale_if_error));
        parts.add(&shared.senders, |senders, settings| senders.set_learns(settings.prefetch.enabled));
        if let Some(hosts) = &shared.hosts {
            parts.add(hosts, |hosts, settings| hosts.allow(&settings.node.allowed_hosts));
        }
    }
}

impl Reload for Reloader {
    fn reload(&self, by: (&str, &str), is_dry_run: bool) -> Result<Reloaded, NotReloaded> {
        // One reload at a time: the next one compares with what this one puts in force.
        let mut in_force = self.in_force.lock();
        let planned = self.plan(&in_force);
        let ReloadPlan { changed, needs_restart, settings, report } = match planned {
            Ok(plan) => plan,
            Err(why) => {
                if !is_dry_run {
                    audit::reload(by, ("", ""), Some(&why.to_string()));
                    tracing::error!(%why, "the configuration cannot be used, nothing was changed: correct it, and reload again");
                }
                return Err(why);
            }
        };
        if !is_dry_run {
            self.put_in_force(&changed, &settings);
            if let Some(state) = self.state.upgrade() {
                state.report.store(Arc::new(report.clone()));
            }
            // Last: who reads these lines relies on it.
            audit::reload(by, (&keys(&changed), &keys(&needs_restart)), None);
            tell(&changed, &needs_restart);
            *in_force = (settings, report);
        }
        Ok(Reloaded { changed, needs_restart })
    }
}

impl Reloader {
    fn plan(&self, (settings, report): &(Settings, Report)) -> Result<ReloadPlan, NotReloaded> {
        let read = load(&self.sources)
            .map_err(|errors| NotReloaded(errors.0.iter().map(ToString::to_string).collect()))?;
        let problems = read.settings.tls_problems();
        if !problems.is_empty() {
            return Err(NotReloaded(problems));
        }
        Ok(plan_reload((settings, report), (&read.settings, &read.report)))
    }

    fn put_in_force(&self, changed: &[Change], settings: &Settings) {
        self.parts.take(settings);
        if changed.iter().any(|change| change.key.starts_with("log."))
            && let Err(why) = hopcache_ops::logging::reload(&settings.log)
        {
            tracing::error!(%why, "log.level stays as it is");
        }
        // They decide what is a read, and how each text was read is remembered.
        if changed.iter().any(|change| change.key.starts_with("origin.read_")) {
            self.parts.forget_readings();
            let parts = Arc::clone(&self.parts);
            self.runtime.spawn(async move {
                tokio::time::sleep(SECOND_FORGETTING).await;
                parts.forget_readings();
            });
        }
    }
}

fn keys(changes: &[Change]) -> String {
    changes.iter().map(|change| &*change.key).collect::<Vec<_>>().join(" ")
}

fn tell(changed: &[Change], needs_restart: &[Change]) {
    for Change { key, before, after } in changed {
        tracing::info!(key, before, after, "a setting has changed");
    }
    for Change { key, before, after } in needs_restart {
        tracing::warn!(key, before, after, "this setting changes only when the node starts again");
    }
    if changed.is_empty() && needs_restart.is_empty() {
        tracing::info!("the configuration is as before");
    }
}
