//! The Lua scripts, one for each operation, and the names of the keys they work on.
//!
//! A script is called by its digest. A server that does not know it yet gets the text once. So SCRIPT LOAD is not
//! needed, and a restarted or failed-over server gets the script again by itself.

use hopcache_core::key::{ClusterTag, DatabaseTag, QueryKey, ServerTag};
use redis::{Cmd, Script};

/// Both keys of a slot, with the hash tag that puts them into one slot of a cluster.
pub(super) fn slot_keys(key: &QueryKey) -> [String; 2] {
    let name = key.to_hex();
    [format!("hopcache:v5:{{{name}}}:e"), format!("hopcache:v5:{{{name}}}:l")]
}

/// The marks of written databases of a cluster, the nodes that listen, and the reports of watchers, in one slot.
pub(super) fn written_keys(cluster: ClusterTag) -> [String; 5] {
    ["marks", "nodes", "reports", "log", "pieces"]
        .map(|part| format!("hopcache:v5:{{written-{:016x}}}:{part}", cluster.0))
}

/// What the store remembers of a name at an address of Neo4j.
pub(super) fn remembered_key(cluster: ClusterTag, (origin, name): (ServerTag, DatabaseTag)) -> String {
    format!("hopcache:v5:{{written-{:016x}}}:at-{:016x}-{:016x}", cluster.0, origin.0, name.0)
}

/// The pattern of SCAN.
pub(super) const SLOT_PATTERN: &str = "hopcache:v5:{*}:[el]";
/// The invalidation log.
pub(super) const LOG_KEY: &str = "hopcache:v5:log";

/// The key that a ping writes and removes.
pub(super) const PING_KEY: &str = "hopcache:v5:ping";

/// The query key in a key's name.
pub(super) fn key_of_name(name: &[u8]) -> Option<QueryKey> {
    let text = std::str::from_utf8(name).ok()?.strip_prefix("hopcache:v5:{")?;
    QueryKey::from_hex(text.split_once('}')?.0)
}

/// Whether a call may be carried out a second time when it is unknown whether the first one was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Redis may have carried out a command whose answer was lost, and a second one would say something else. Such a loss is
    /// reported as a timeout, and the engine then asks again in its own way.
    Never,
    /// Once, on a new connection, when the connection turns out to be closed: after a restart of Redis, or of an idle
    /// connection, the first call finds out (F46).
    Once,
    /// As [`Repeat::Once`], and again after each failed attempt to connect, until the deadline. For invalidations: an operator
    /// prefers a wait to the message that the store has just restarted.
    UntilDeadline,
}

/// One script: its text and its digest.
pub(super) struct Lua {
    text: &'static str,
    script: Script,
    pub(super) repeat: Repeat,
}

impl Lua {
    fn new(text: &'static str, repeat: Repeat) -> Self {
        Self { text, script: Script::new(text), repeat }
    }

    /// The call by digest.
    pub(super) fn by_digest(&self, keys: &[String]) -> Cmd {
        Self::call("EVALSHA", self.script.get_hash(), keys)
    }

    /// The call with the text.
    pub(super) fn by_text(&self, keys: &[String]) -> Cmd {
        Self::call("EVAL", self.text, keys)
    }

    fn call(verb: &str, script: &str, keys: &[String]) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(keys.len()).arg(keys);
        command
    }
}

macro_rules! slot_script {
    ($file:literal, $repeat:expr) => {
        Lua::new(
            concat!(
                include_str!("lua/life.lua"),
                include_str!("lua/slot.lua"),
                include_str!(concat!("lua/", $file))
            ),
            $repeat,
        )
    };
}

macro_rules! log_script {
    ($file:literal, $repeat:expr) => {
        Lua::new(
            concat!(
                include_str!("lua/life.lua"),
                include_str!("lua/log.lua"),
                include_str!(concat!("lua/", $file))
            ),
            $repeat,
        )
    };
}

/// All scripts.
pub(super) struct Scripts {
    pub(super) get_or_lease: Lua,
    pub(super) commit: Lua,
    pub(super) renew: Lua,
    pub(super) release: Lua,
    pub(super) peek: Lua,
    pub(super) invalidate: Lua,
    pub(super) log_append: Lua,
    pub(super) log_since: Lua,
    pub(super) tell_written: Lua,
    pub(super) hear_written: Lua,
    pub(super) report: Lua,
    pub(super) remember: Lua,
    pub(super) ping: Lua,
}

impl Scripts {
    /// Each operation, and how often it may be repeated.
    pub(super) fn new() -> Self {
        use Repeat::{Never, Once, UntilDeadline};
        Self {
            // A second one would find the lease of the first (F21).
            get_or_lease: slot_script!("get_or_lease.lua", Never),
            // A second one would be fenced by the first.
            commit: slot_script!("commit.lua", Never),
            renew: slot_script!("renew.lua", Once),
            // A second one would report that there was no lease.
            release: slot_script!("release.lua", Never),
            peek: slot_script!("peek.lua", Once),
            invalidate: slot_script!("invalidate.lua", UntilDeadline),
            log_append: log_script!("log_append.lua", UntilDeadline),
            log_since: log_script!("log_since.lua", Once),
            tell_written: Lua::new(include_str!("lua/tell_written.lua"), Once),
            hear_written: Lua::new(
                concat!(include_str!("lua/life.lua"), include_str!("lua/hear_written.lua")),
                Once,
            ),
            report: Lua::new(concat!(include_str!("lua/life.lua"), include_str!("lua/report.lua")), Once),
            remember: Lua::new(include_str!("lua/remember.lua"), Once),
            // With the right to ask that every other script needs.
            ping: Lua::new(concat!(include_str!("lua/life.lua"), include_str!("lua/ping.lua")), Once),
        }
    }
}
