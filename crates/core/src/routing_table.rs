//! Which member of a Neo4j cluster serves a database: routing tables with their lives, and what a failure makes of them.
//!
//! Official drivers have the same rules (their sources, `Neo.ClientError.Cluster.NotALeader` and the two other codes below):
//! a member that takes no writes is no leader of that database any more; a member that does not serve the database is taken out of
//! its table; a member that cannot be reached is taken out of every table. A table without a leader has to be asked for
//! anew.
//!
//! Tables are bounded: the one that was learned first gives way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::bookmark::DatabaseUuid;
use crate::limits::{
    READER_LAG_MS_MAX, ROUTING_REFRESH_MS, ROUTING_TABLES_MAX, ROUTING_TTL_MS_MAX, ROUTING_TTL_MS_MIN,
};
use crate::time::{Millis, MonoTime};

/// A member: `host:port`, as the cluster names it.
pub type MemberName = Arc<str>;

/// Whose table it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableKey {
    /// That of a database; the name is in lower case.
    Database(String),
    /// That of the home database of a user, whoever impersonates whom.
    HomeOf([u8; 32], Option<String>),
}

/// What a cluster says of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// They take writes: one, or none while the cluster elects.
    pub leaders: Vec<MemberName>,
    /// They answer reads.
    pub readers: Vec<MemberName>,
    /// They tell the next table.
    pub routers: Vec<MemberName>,
    /// For how long it holds.
    pub ttl_ms: Millis,
}

/// What a failure says of the member that it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberFault {
    /// It does not lead this database. The statement did not run.
    NotLeader,
    /// It does not serve this database now.
    Unavailable,
    /// It cannot be reached, or the connection broke.
    Gone,
}

impl MemberFault {
    /// What Neo4j's own failure says; `None` if it says nothing of the member.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        match code {
            "Neo.ClientError.Cluster.NotALeader" | "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase" => {
                Some(Self::NotLeader)
            }
            "Neo.TransientError.General.DatabaseUnavailable" => Some(Self::Unavailable),
            _ => None,
        }
    }
}

/// Where a statement goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    /// To this member. With `is_due` the table is old enough to be asked for anew meanwhile.
    Known {
        /// The member.
        name: MemberName,
        /// See there.
        is_due: bool,
    },
    /// The table has to be asked for first.
    Unknown,
}

#[derive(Debug, Clone)]
struct Known {
    table: Table,
    learned: MonoTime,
}

/// All tables of this node.
#[derive(Debug, Clone, Default)]
pub struct RoutingTables(BTreeMap<TableKey, Known>);

impl RoutingTables {
    /// The leader of a database.
    #[must_use]
    pub fn leader(&self, key: &TableKey, now: MonoTime) -> Leader {
        let Some(Known { table, learned }) = self.0.get(key) else { return Leader::Unknown };
        let age = now.since(*learned);
        match table.leaders.first() {
            Some(name) if age < table.ttl_ms => {
                Leader::Known { name: Arc::clone(name), is_due: age >= Millis(ROUTING_REFRESH_MS) }
            }
            _ => Leader::Unknown,
        }
    }

    /// The readers of a database whose table holds.
    #[must_use]
    pub fn readers(&self, key: &TableKey, now: MonoTime) -> Vec<MemberName> {
        let holds = |known: &&Known| now.since(known.learned) < known.table.ttl_ms;
        self.0.get(key).filter(holds).map(|known| known.table.readers.clone()).unwrap_or_default()
    }

    /// Who may tell this table, the likeliest first: the routers of it, then those of the others. A table that has ended says
    /// who that is as well as ever.
    #[must_use]
    pub fn routers(&self, key: &TableKey) -> Vec<MemberName> {
        let own = self.0.get(key).into_iter();
        let others = self.0.iter().filter(|(each, _)| *each != key).map(|(_, known)| known);
        let mut seen = BTreeSet::new();
        let all = own.chain(others).flat_map(|known| &known.table.routers);
        all.filter(|name| seen.insert(Arc::clone(name))).cloned().collect()
    }

    /// Whether a table names one member only, as that of a single server does.
    #[must_use]
    pub fn is_alone(&self, key: &TableKey) -> bool {
        let Some(Known { table, .. }) = self.0.get(key) else { return false };
        let mut all = table.leaders.iter().chain(&table.readers).chain(&table.routers);
        all.next().is_some_and(|first| all.all(|name| name == first))
    }

    /// Whether this table was learned at that time or later.
    #[must_use]
    pub fn is_of(&self, key: &TableKey, time: MonoTime) -> bool {
        self.0.get(key).is_some_and(|known| known.learned >= time)
    }

    /// The cluster has told a table now.
    pub fn learn(&mut self, key: TableKey, table: Table, now: MonoTime) {
        if !self.0.contains_key(&key) && self.0.len() >= ROUTING_TABLES_MAX {
            let oldest = self.0.iter().min_by_key(|(_, known)| known.learned).map(|(key, _)| key.clone());
            oldest.into_iter().for_each(|key| drop(self.0.remove(&key)));
        }
        let ttl_ms = table.ttl_ms.clamp(Millis(ROUTING_TTL_MS_MIN), Millis(ROUTING_TTL_MS_MAX));
        self.0.insert(key, Known { table: Table { ttl_ms, ..table }, learned: now });
    }

    /// A member has failed with a statement of this database.
    pub fn failed(&mut self, key: &TableKey, member: &str, fault: MemberFault) {
        let forget = |names: &mut Vec<MemberName>| names.retain(|name| **name != *member);
        match fault {
            MemberFault::NotLeader => {
                self.0.get_mut(key).into_iter().for_each(|known| forget(&mut known.table.leaders));
            }
            MemberFault::Unavailable => self.0.get_mut(key).into_iter().for_each(|known| {
                forget(&mut known.table.leaders);
                forget(&mut known.table.readers);
            }),
            MemberFault::Gone => self.0.values_mut().for_each(|known| {
                forget(&mut known.table.leaders);
                forget(&mut known.table.readers);
                // It may be back when the next table is needed, and may then be the only one who knows it.
            }),
        }
    }

    /// The members of all tables.
    #[must_use]
    pub fn members(&self) -> BTreeSet<MemberName> {
        let tables = self.0.values().map(|known| &known.table);
        tables
            .flat_map(|table| table.leaders.iter().chain(&table.readers).chain(&table.routers))
            .cloned()
            .collect()
    }

    /// The databases that a member leads.
    #[must_use]
    pub fn led_by(&self, member: &str) -> Vec<&str> {
        let leads = |known: &Known| known.table.leaders.iter().any(|name| **name == *member);
        let named = self.0.iter().filter_map(|(key, known)| match key {
            TableKey::Database(name) if leads(known) => Some(name.as_str()),
            _ => None,
        });
        named.collect()
    }
}

/// Whether a reader keeps up with the leaders of its databases, by what they have said to be their newest transactions.
#[derive(Debug, Clone, Default)]
pub struct ReaderLag(BTreeMap<DatabaseUuid, Behind>);

#[derive(Debug, Clone, Default)]
struct Behind {
    /// What the leader had then, and the reader had not.
    awaited: Option<(u64, MonoTime)>,
    /// Whether the reader had what it awaited last in time, and is in time for what it awaits.
    is_in_time: bool,
}

impl ReaderLag {
    /// The leader and the reader have said now which transaction is their newest. Whether the reader may be used: it has what the
    /// leader has, or a read that waits for it there waits at most about [`READER_LAG_MS_MAX`]. Of a reader that is behind for the
    /// first time that is not known.
    pub fn keeps_up(&mut self, database: DatabaseUuid, (leader, reader): (u64, u64), now: MonoTime) -> bool {
        if self.0.len() >= ROUTING_TABLES_MAX {
            self.0.clear();
        }
        let behind = self.0.entry(database).or_default();
        if reader >= leader {
            *behind = Behind::default();
            return true;
        }
        let is_late = |since: MonoTime| now.since(since) >= Millis(READER_LAG_MS_MAX);
        match behind.awaited {
            Some((id, since)) if reader < id => behind.is_in_time &= !is_late(since),
            Some((_, since)) => {
                *behind = Behind { awaited: Some((leader, now)), is_in_time: !is_late(since) };
            }
            None => behind.awaited = Some((leader, now)),
        }
        behind.is_in_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<MemberName> {
        of.iter().map(|name| MemberName::from(*name)).collect()
    }

    fn table(leaders: &[&str], ttl_s: u64) -> Table {
        let (readers, routers) = (names(&["b:1", "c:1"]), names(&["a:1", "b:1", "c:1"]));
        Table { leaders: names(leaders), readers, routers, ttl_ms: Millis(ttl_s * 1_000) }
    }

    fn key(name: &str) -> TableKey {
        TableKey::Database(name.to_owned())
    }

    fn at(seconds: u64) -> MonoTime {
        MonoTime::default() + Millis(seconds * 1_000)
    }

    fn led(name: &str, is_due: bool) -> Leader {
        Leader::Known { name: name.into(), is_due }
    }

    #[test]
    fn a_table_holds_for_its_ttl_and_is_due_before_it() {
        let mut tables = RoutingTables::default();
        assert_eq!(tables.leader(&key("neo4j"), at(0)), Leader::Unknown);
        tables.learn(key("neo4j"), table(&["a:1"], 300), at(10));
        assert_eq!(tables.leader(&key("neo4j"), at(10)), led("a:1", false));
        assert_eq!(tables.leader(&key("neo4j"), at(15)), led("a:1", true));
        assert_eq!(tables.leader(&key("neo4j"), at(310)), Leader::Unknown);
        assert_eq!(tables.leader(&key("system"), at(10)), Leader::Unknown, "each database has its own");
        assert!(tables.readers(&key("neo4j"), at(310)).is_empty());
        assert_eq!(tables.routers(&key("neo4j")).len(), 3, "they are asked for the next table");
        assert_eq!(tables.routers(&key("system")).len(), 3, "and for those of other databases");
        // A life of no time serves whoever has asked. A life of a day ends sooner.
        tables.learn(key("neo4j"), table(&["a:1"], 0), at(20));
        assert_eq!(tables.leader(&key("neo4j"), at(20)), led("a:1", false));
        assert_eq!(tables.leader(&key("neo4j"), at(21)), Leader::Unknown);
        tables.learn(key("neo4j"), table(&["a:1"], 1_000_000), at(20));
        assert_eq!(tables.leader(&key("neo4j"), at(20 + 3_600)), Leader::Unknown);
    }

    #[test]
    fn what_is_forgotten_depends_on_the_failure() {
        let mut tables = RoutingTables::default();
        let learn = |tables: &mut RoutingTables| {
            tables.learn(key("neo4j"), table(&["b:1"], 300), at(0));
            tables.learn(key("other"), table(&["b:1"], 300), at(0));
        };
        let seen = |tables: &RoutingTables, name: &str| {
            let has_leader = tables.leader(&key(name), at(1)) != Leader::Unknown;
            (has_leader, tables.readers(&key(name), at(1)).len())
        };
        learn(&mut tables);
        tables.failed(&key("neo4j"), "b:1", MemberFault::NotLeader);
        assert_eq!((seen(&tables, "neo4j"), seen(&tables, "other")), ((false, 2), (true, 2)));
        learn(&mut tables);
        tables.failed(&key("neo4j"), "b:1", MemberFault::Unavailable);
        assert_eq!((seen(&tables, "neo4j"), seen(&tables, "other")), ((false, 1), (true, 2)));
        learn(&mut tables);
        tables.failed(&key("neo4j"), "b:1", MemberFault::Gone);
        assert_eq!((seen(&tables, "neo4j"), seen(&tables, "other")), ((false, 1), (false, 1)));
        assert_eq!(tables.routers(&key("neo4j")).len(), 3);
        learn(&mut tables);
        tables.failed(&key("neo4j"), "c:1", MemberFault::NotLeader);
        assert_eq!(tables.leader(&key("neo4j"), at(1)), led("b:1", false), "another member's failure");
        let one = Table { leaders: names(&["a:1"]), readers: names(&["a:1"]), ..Table::default() };
        tables.learn(key("one"), one, at(0));
        assert!(tables.is_alone(&key("one")) && !tables.is_alone(&key("neo4j")));
        assert_eq!(tables.led_by("b:1"), ["neo4j", "other"]);
        assert_eq!(tables.members().len(), 3);
    }

    #[test]
    fn codes_mean_what_they_mean_to_official_drivers() {
        let of = MemberFault::of_code;
        assert_eq!(of("Neo.ClientError.Cluster.NotALeader"), Some(MemberFault::NotLeader));
        assert_eq!(of("Neo.ClientError.General.ForbiddenOnReadOnlyDatabase"), Some(MemberFault::NotLeader));
        assert_eq!(of("Neo.TransientError.General.DatabaseUnavailable"), Some(MemberFault::Unavailable));
        for other in ["Neo.ClientError.Statement.AccessMode", "Neo.TransientError.Transaction.LeaseExpired"] {
            assert_eq!(of(other), None);
        }
    }

    /// Of two readers that are always some transactions behind, the one that reaches each of them soon keeps up.
    #[test]
    fn a_reader_that_lags_is_told_from_one_that_is_just_behind() {
        let database = DatabaseUuid([1; 16]);
        let at = |ms: u64| MonoTime::default() + Millis(ms);
        let (mut near, mut far) = (ReaderLag::default(), ReaderLag::default());
        // The leader writes each 10 ms. One reader is 20 ms behind it, the other 500 ms.
        let asked: Vec<_> = (100..200_u64)
            .map(|id| {
                let now = at(10 * id);
                let near = near.keeps_up(database, (id, id - 2), now);
                (near, far.keeps_up(database, (id, id - 50), now))
            })
            .collect();
        assert!(asked[..2].iter().all(|(near, _)| !near), "not known yet");
        assert!(asked[2..].iter().all(|(near, _)| *near));
        assert!(asked.iter().all(|(_, far)| !far));
        assert!(far.keeps_up(database, (300, 300), at(5_000)), "it has caught up");
        let other = DatabaseUuid([2; 16]);
        assert!(!near.keeps_up(other, (9, 1), at(5_000)), "each database by itself");
    }

    #[test]
    fn tables_are_bounded() {
        let mut tables = RoutingTables::default();
        for number in 0..=ROUTING_TABLES_MAX {
            let time = at(u64::try_from(number).unwrap());
            tables.learn(key(&format!("db{number}")), table(&["a:1"], 3_600), time);
        }
        let seen = |number: usize| tables.leader(&key(&format!("db{number}")), at(600));
        assert_eq!((seen(0), seen(1)), (Leader::Unknown, led("a:1", true)));
    }
}
