//! One node's part of a snapshot, as JSON. It shows no literal and no parameter. The parts of all nodes have one form, so
//! that the page can add them up.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hopcache_core::hot::HotCounts;
use hopcache_core::limits::CONSOLE_EVERY_MS;
use hopcache_core::node::NodeName;
use hopcache_core::tags::TagId;
use hopcache_engine::{Crowd, DatabasePositions};
use hopcache_ops::hot::{HotKey, HotPattern, Hottest};
use hopcache_ops::sentences::parts::effect;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::series;
use crate::views;
use hopcache_state::node_state::NodeState;

/// Makes a node's parts.
pub(super) struct Parts {
    state: Arc<NodeState>,
    /// The last one. Several nodes with open consoles may ask for one in the same second.
    last: Mutex<Option<(Instant, Value)>>,
}

impl Parts {
    pub(super) fn new(state: Arc<NodeState>) -> Self {
        Self { state, last: Mutex::new(None) }
    }

    /// This node's name.
    pub(super) fn name(&self) -> &str {
        self.state.engine.me().node.as_str()
    }

    /// The nodes that may be able to answer, without this one.
    pub(super) fn others(&self) -> Vec<(NodeName, SocketAddr)> {
        let me = &self.state.engine.me().node;
        let members = self.state.members.members().into_iter();
        let others = members.filter(|member| member.name != *me && !member.is_lost);
        others.map(|member| (member.name, member.peer_addr)).collect()
    }

    /// A part that is at most half as old as the pause between two snapshots.
    pub(super) fn recent(&self) -> Value {
        let mut last = self.last.lock();
        let is_young = |made: &Instant| made.elapsed() < Duration::from_millis(CONSOLE_EVERY_MS / 2);
        if let Some((made, part)) = &*last
            && is_young(made)
        {
            return part.clone();
        }
        let part = self.part();
        *last = Some((Instant::now(), part.clone()));
        part
    }

    fn part(&self) -> Value {
        let state = &self.state;
        let reasons = state.reasons_not_ready();
        let degraded = state.degraded();
        let since = state.since(&degraded);
        let effects: BTreeMap<&str, _> =
            degraded.iter().map(|(part, _)| (part.as_str(), effect(part.as_str()))).collect();
        let degraded: BTreeMap<&str, _> =
            degraded.into_iter().map(|(part, why)| (part.as_str(), why)).collect();
        let hottest = state.hot.hottest();
        json!({
            "name": self.name(),
            "version": env!("CARGO_PKG_VERSION"),
            "ready": reasons.is_empty(),
            "reasons": reasons,
            "degraded": degraded,
            "since": since,
            "effects": effects,
            "troubles": views::troubles(state),
            "ring": {
                "epoch": format!("{:016x}", state.engine.view().epoch().0),
                "members": views::members(state),
            },
            "series": series::of_exposition(&state.meters.render_of_node(views::readings(state))),
            "written": self.written(&hottest),
            "hot": self.hot(&hottest),
            "crowds": self.crowds(),
        })
    }

    fn hot(&self, Hottest { every, keys, patterns }: &Hottest) -> Value {
        let ring = self.state.engine.view();
        let keys = keys.iter().map(|(key, about, counts)| {
            let HotKey { pattern, database, note } = about;
            let owner = ring.owner(key).map(NodeName::as_str);
            let about =
                json!({"key": key.to_hex(), "pattern": &**pattern, "database": &**database, "owner": owner});
            counted(about, *note, counts)
        });
        let patterns = patterns.iter().map(|(id, about, counts)| {
            let HotPattern { text, note, tags } = about;
            let tags: Vec<&str> = tags.iter().map(|(_, word)| word.as_str()).collect();
            counted(json!({"id": format!("{:016x}", id.0), "pattern": &**text, "tags": tags}), *note, counts)
        });
        json!({"every": every, "keys": keys.collect::<Vec<_>>(), "patterns": patterns.collect::<Vec<_>>()})
    }

    fn crowds(&self) -> Value {
        let fetch = self.state.engine.fetch();
        let under_way = self.state.engine.path().crowds_under_way().into_iter();
        let under_way =
            under_way.map(|crowd| json!({"key": crowd.key.to_hex(), "followers": crowd.followers}));
        let ended = fetch.crowds_ended().into_iter().map(|(crowd, since)| {
            let Crowd { key, pattern, followers, took_ms } = crowd;
            json!({
                "key": key.to_hex(),
                "pattern": pattern,
                "followers": followers,
                "took_ms": took_ms.map(|took| took.0),
                "ended_ms_ago": since.0,
            })
        });
        json!({"under_way": under_way.collect::<Vec<_>>(), "ended": ended.collect::<Vec<_>>()})
    }

    /// The marks of writes. A mark is a number; the hot patterns that depend on it have its word.
    fn written(&self, hottest: &Hottest) -> Vec<Value> {
        let mut words: BTreeMap<TagId, (&str, u32)> = BTreeMap::new();
        for (tag, word) in hottest.patterns.iter().flat_map(|(_, about, _)| &about.tags) {
            words.entry(*tag).or_insert((word.as_str(), 0)).1 += 1;
        }
        let positions = self.state.engine.writes().database_positions().into_iter();
        positions.map(|positions| database(positions, &words)).collect()
    }
}

fn database(positions: DatabasePositions, words: &BTreeMap<TagId, (&str, u32)>) -> Value {
    let tags = positions.tags.iter().map(|(tag, at)| {
        let known = tag.and_then(|tag| words.get(&tag));
        let word = match tag {
            None => Some("anything"),
            Some(TagId::FOREIGN) => Some("writes past Hopcache"),
            Some(TagId::TOKENS) => Some("new labels, types and keys"),
            Some(_) => known.map(|(word, _)| *word),
        };
        json!({"word": word, "at": at, "patterns": known.map_or(0, |(_, patterns)| *patterns)})
    });
    json!({
        "database": positions.name.as_deref(),
        "epoch": positions.epoch,
        "newest": positions.newest,
        "tags": tags.collect::<Vec<_>>(),
    })
}

/// The row with its figures.
fn counted(mut row: Value, note: Option<&'static str>, counts: &HotCounts) -> Value {
    let rounded = |value: f64| (value * 1e3).round() / 1e3;
    let share = |part: f64| rounded(counts.rate_per_s() * part / counts.requests().max(f64::MIN_POSITIVE));
    let figures = [
        ("note", json!(note)),
        ("rate_per_s", json!(rounded(counts.rate_per_s()))),
        ("hits_per_s", json!(share(counts.hits))),
        ("bypass_per_s", json!(share(counts.bypasses))),
        ("hit_ratio", json!(counts.hit_ratio().map(rounded))),
        ("miss_ms", json!(counts.miss_mean_ms().map(rounded))),
    ];
    if let Value::Object(row) = &mut row {
        row.extend(figures.map(|(name, value)| (name.to_owned(), value)));
    }
    row
}
