//! The subjects of requests in a simulated cluster: a statement, as a principal, in a database. Two subjects never
//! share an answer (I5).

use std::sync::LazyLock;

use hopcache_cypher::forms::normal::NormalForm;
use hopcache_engine::identity::Credentials;
use hopcache_engine::ports::OriginRun;

/// The databases.
pub const DATABASES: [&str; 2] = ["neo4j", "movies"];
/// The principals.
pub const PRINCIPALS: [&str; 3] = ["alice", "bob", "carol"];
/// The statements. The origin fails `FAILS`, cannot plan `BROKEN`, calls `SLY` a write, and changes data in `DRIFTS`.
/// `BIG` has a result that is too large to store, and `HUGE` one that is too large to pass through. The origin runs
/// `ODD` although it cannot plan it, and does not say what it is. The last statement says itself that it must not be cached.
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
/// The first statements, up to this index, are plain reads.
pub const USUAL: usize = 3;
/// The usual statements of tagged worlds, in the places of those in [`STATEMENTS`].
pub const TAGGED: [&str; USUAL] =
    ["MATCH (a:Left {id: 1}) RETURN a", "MATCH (b:Right {id: 2}) RETURN b", STATEMENTS[2]];
/// The number of statements in worlds without joins and leaves. A higher number would change the worlds of the seeds
/// that once found defects.
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
    /// The subject of a run at the origin. None for a query outside of these lists.
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

    /// Whether each client of the subject may have its own run: the statement is no read, or its result is too large to
    /// share.
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

/// A learned query runs in its normal form.
static NORMAL: LazyLock<[NormalForm; STATEMENTS.len()]> = LazyLock::new(|| STATEMENTS.map(NormalForm::of));
static NORMAL_TAGGED: LazyLock<[NormalForm; USUAL]> = LazyLock::new(|| TAGGED.map(NormalForm::of));

fn statement_of(text: &str) -> Option<usize> {
    let in_texts = |texts: &[&str]| texts.iter().position(|each| *each == text);
    let in_forms = |forms: &[NormalForm]| forms.iter().position(|each| each.as_str() == text);
    let place = in_texts(&STATEMENTS).or_else(|| in_texts(&TAGGED));
    place.or_else(|| in_forms(&*NORMAL)).or_else(|| in_forms(&*NORMAL_TAGGED))
}

/// The trace context of a request. It travels with the request to the owner and to the origin, so each action for the
/// request shows the request.
#[must_use]
pub fn trace_of_ask(ask: u32) -> String {
    format!("ask-{ask}")
}

/// The trace context of a write.
#[must_use]
pub fn trace_of_write(write: u32) -> String {
    format!("write-{write}")
}

/// The write of a trace context.
#[must_use]
pub fn write_of_trace(trace: &str) -> Option<u32> {
    trace.strip_prefix("write-")?.parse().ok()
}

/// The ask of a trace context.
#[must_use]
pub fn ask_of_trace(trace: &str) -> Option<u32> {
    trace.strip_prefix("ask-")?.parse().ok()
}
