//! What can be asked in a simulated cluster: statements, as principals, in databases. Two subjects never
//! share an answer (I5).

use std::sync::LazyLock;

use hopcache_core::cypher::normal::NormalForm;
use hopcache_engine::identity::Credentials;
use hopcache_engine::ports::OriginRun;

/// The databases.
pub const DATABASES: [&str; 2] = ["neo4j", "movies"];
/// The principals.
pub const PRINCIPALS: [&str; 3] = ["alice", "bob", "carol"];
/// The statements. The origin fails what `FAILS`, cannot plan what is `BROKEN`, calls `SLY` a write, and
/// changes data in what `DRIFTS`; what is `BIG` is too large to store and `HUGE` too large to pass through, and it runs
/// what is `ODD` though it could not plan it. The last says itself that it is not for the cache.
pub const STATEMENTS: [&str; 11] = [
    "MATCH (a) RETURN a",
    "MATCH (b) RETURN b",
    "MATCH (c) RETURN c",
    "MATCH (d:FAILS) RETURN d",
    "MATCH (e:BROKEN) RETURN e",
    "MATCH (f:SLY) RETURN f",
    "MATCH (g:DRIFTS) RETURN g",
    "MATCH (h:BIG) RETURN h",
    "MATCH (i:HUGE) RETURN i",
    "MATCH (j:ODD) RETURN j",
    "MATCH (k) RETURN k, rand()",
];
/// The first so many statements are reads like any other.
pub const USUAL: usize = 3;
/// So many are asked where nobody joins or leaves: more would make other worlds of the seeds that once found defects.
pub const ASKED_WITHOUT_JOINS: usize = 7;

/// A statement as a principal in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Place in [`STATEMENTS`].
    pub statement: usize,
    /// Place in [`PRINCIPALS`].
    pub principal: usize,
    /// Place in [`DATABASES`].
    pub database: usize,
}

impl Subject {
    /// What a run at the origin is about; none for what is not of these lists.
    #[must_use]
    pub fn of_run(run: &OriginRun) -> Option<Self> {
        let user = match &run.identity.credentials {
            Credentials::Basic { user, .. } => user.as_str(),
            _ => return None,
        };
        Some(Self {
            statement: statement_of(&run.statement)?,
            principal: PRINCIPALS.iter().position(|each| *each == user)?,
            database: DATABASES.iter().position(|each| **each == *run.database)?,
        })
    }

    /// Its number.
    #[must_use]
    pub const fn place(self) -> usize {
        (self.statement * PRINCIPALS.len() + self.principal) * DATABASES.len() + self.database
    }

    /// The subject of a number.
    #[must_use]
    pub const fn at(place: usize) -> Self {
        let (rest, database) = (place / DATABASES.len(), place % DATABASES.len());
        Self { statement: rest / PRINCIPALS.len(), principal: rest % PRINCIPALS.len(), database }
    }

    /// Whether it is a read like any other: cached, collapsed, under a lease.
    #[must_use]
    pub const fn is_usual(self) -> bool {
        self.statement < USUAL
    }

    /// Whether the origin calls it a write, before or after.
    #[must_use]
    pub fn is_write(self) -> bool {
        let text = STATEMENTS.get(self.statement).copied().unwrap_or_default();
        text.contains("SLY") || text.contains("DRIFTS") || text.contains("ODD")
    }

    /// Whether the origin calls it a read before it runs, and a change after.
    #[must_use]
    pub fn drifts(self) -> bool {
        STATEMENTS.get(self.statement).is_some_and(|text| text.contains("DRIFTS"))
    }

    /// Whether each of its clients may have a run, one way or another: what is no read, or too large to share.
    #[must_use]
    pub fn is_each_ones(self) -> bool {
        let text = STATEMENTS.get(self.statement).copied().unwrap_or_default();
        self.is_write() || text.contains("BIG") || text.contains("HUGE") || text.contains("rand()")
    }

    /// Whether its runs fail, in a world in which all is well.
    #[must_use]
    pub fn fails(self) -> bool {
        let text = STATEMENTS.get(self.statement).copied().unwrap_or_default();
        ["FAILS", "BROKEN", "HUGE"].iter().any(|each| text.contains(each))
    }
}

/// What is learned is run in its normal form.
static NORMAL: LazyLock<[NormalForm; STATEMENTS.len()]> = LazyLock::new(|| STATEMENTS.map(NormalForm::of));

fn statement_of(text: &str) -> Option<usize> {
    let place = STATEMENTS.iter().position(|each| *each == text);
    place.or_else(|| NORMAL.iter().position(|each| each.as_str() == text))
}

/// What an ask's trace context is: it travels with the request to the owner and to the origin, so whoever
/// acts for an ask shows which.
#[must_use]
pub fn trace_of_ask(ask: u32) -> String {
    format!("ask-{ask}")
}

/// The ask of a trace context.
#[must_use]
pub fn ask_of_trace(trace: &str) -> Option<u32> {
    trace.strip_prefix("ask-")?.parse().ok()
}
