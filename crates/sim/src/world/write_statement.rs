//! The statements with which simulated clients write, and the usual reads whose answers each of them changes.
//!
//! In most worlds the usual reads return all nodes, and every write creates one. In tagged worlds the reads name labels and values
//! (`subject::TAGGED`), and most writes leave the answers of some reads as they are.

use crate::world::subject::USUAL;

/// The usual statements whose answers a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touches {
    changes: [bool; USUAL],
    ends: [bool; USUAL],
}

impl Touches {
    /// All of them.
    pub const ALL: Self = Self::of([true; USUAL]);

    const fn of(changes: [bool; USUAL]) -> Self {
        Self { changes, ends: changes }
    }

    /// The same of a write that ends all answers where a node hears of its labels and keys alone, or does not know that no node has two labels.
    const fn ending_all(self) -> Self {
        Self { ends: [true; USUAL], ..self }
    }

    /// Whether the answers of this statement may change. Of the statements that are not usual, nobody knows.
    #[must_use]
    pub fn has(self, statement: usize) -> bool {
        self.changes.get(statement).copied().unwrap_or(true)
    }

    /// Whether nodes may end the answers of this statement, because they do not know that nothing changes.
    #[must_use]
    pub fn may_end(self, statement: usize) -> bool {
        self.ends.get(statement).copied().unwrap_or(true)
    }
}

/// A statement that writes. The lexer takes it for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteStatement {
    /// The text.
    pub text: &'static str,
    /// What it changes.
    pub touches: Touches,
    /// The counter in its summary.
    pub(crate) counter: &'static str,
}

/// A write of most worlds.
pub const WRITE: &str = "CREATE (w:Written)";

/// The statement of a write that names its graph by itself. As at Neo4j, its bookmark is of its client's database, where
/// nothing was written.
pub const WRITE_BY_USE: &str = "USE neo4j CREATE (w:Written)";

/// A statement whose procedure commits by itself. What stands before the call makes it bypass the cache.
pub const WRITE_BY_CALL: &str = "WITH datetime() AS now CALL own.write(now) YIELD done RETURN done";

/// A statement that commits in parts.
pub const WRITE_IN_PARTS: &str =
    "UNWIND [1, 2] AS part CALL (part) { CREATE (w:Written) } IN TRANSACTIONS OF 1 ROW";

/// A write that touches the label `Left`.
pub const WRITE_LEFT: &str = "CREATE (w:Left {id: 1})";

/// A write that touches the label `Right`.
pub const WRITE_RIGHT: &str = "CREATE (w:Right {id: 2})";

/// A write that touches a property of the nodes with this value, of any label.
pub const WRITE_ONE: &str = "MATCH (w {id: 1}) SET w.name = 'one'";

/// A write after which a node has the other value.
pub const WRITE_MOVED: &str = "MATCH (w {id: 3}) SET w.id = 2";

/// The version that the writes below name: the origin shows its version where a read shows a value.
pub const SHOWN: i64 = 110;

/// A write that touches a property of the nodes of this version.
pub const WRITE_SHOWN: &str = "MATCH (w {id: 110}) SET w.name = 'shown'";

/// A write after which these nodes have the value of [`WRITE_ONE`].
pub const WRITE_SHOWN_MOVED: &str = "MATCH (w {id: 110}) SET w.id = 1";

/// A write that touches a property of all nodes of this label: also of those that have the other one too, once there are such nodes.
pub const WRITE_ALL_LEFT: &str = "MATCH (w:Left) SET w.name = 'left'";

/// A write that deletes all nodes of this label: also those that have the other one too.
pub const WRITE_DELETE_LEFT: &str = "MATCH (w:Left) DETACH DELETE w";

/// A write after which nodes have both labels.
pub const WRITE_BOTH: &str = "MATCH (w:Left) SET w:Right";

/// A write that touches a relationship type that nobody reads, and nothing else.
pub const WRITE_ELSEWHERE: &str = "MATCH (x:X), (y:Y) CREATE (x)-[:ELSEWHERE]->(y)";

/// The statement of writes in worlds that are not tagged.
const USUAL_WRITE: WriteStatement = created(WRITE, Touches::ALL);

/// The statements of writes in tagged worlds.
const TAGGED_WRITES: [WriteStatement; 11] = [
    created(WRITE_LEFT, Touches::of([true, false, true])),
    created(WRITE_RIGHT, Touches::of([false, true, true])),
    created("UNWIND [1, 2] AS id CREATE (w:Left:Right {id: id})", Touches::ALL),
    created("CREATE (w:Elsewhere)", Touches::of([false, false, true])),
    created("CREATE (w:Left:Right {id: 3})", Touches::of([false, false, true]).ending_all()),
    set(WRITE_ALL_LEFT, Touches::of([true, false, true]).ending_all()),
    set(WRITE_ONE, Touches::of([true, false, true]).ending_all()),
    set(WRITE_MOVED, Touches::of([false, true, true]).ending_all()),
    set(
        "MATCH (w:Right {id: 2}) SET w += {id: 2, name: 'two'}",
        Touches::of([false, true, true]).ending_all(),
    ),
    WriteStatement {
        text: WRITE_DELETE_LEFT,
        touches: Touches::of([true, false, true]).ending_all(),
        counter: "nodes-deleted",
    },
    WriteStatement {
        text: WRITE_ELSEWHERE,
        touches: Touches::of([false; USUAL]),
        counter: "relationships-created",
    },
];

const fn created(text: &'static str, touches: Touches) -> WriteStatement {
    WriteStatement { text, touches, counter: "nodes-created" }
}

const fn set(text: &'static str, touches: Touches) -> WriteStatement {
    WriteStatement { text, touches, counter: "properties-set" }
}

impl WriteStatement {
    /// Whether some node has both labels after it; `None`: as before.
    pub(crate) fn leaves_both(&self) -> Option<bool> {
        match self.text {
            WRITE_BOTH => Some(true),
            WRITE_DELETE_LEFT => Some(false),
            text => text.contains(":Left:Right").then_some(true),
        }
    }

    /// What it changes while some node has both labels.
    pub(crate) fn touches_where(&self, is_both: bool) -> Touches {
        let is_of_left = [WRITE_ALL_LEFT, WRITE_DELETE_LEFT].contains(&self.text);
        if is_both && is_of_left { Touches::ALL } else { self.touches }
    }

    /// The statements of writes in a world.
    #[must_use]
    pub fn of_world(is_tagged: bool) -> &'static [Self] {
        if is_tagged { &TAGGED_WRITES } else { &[USUAL_WRITE] }
    }

    /// The write with this text; none for another statement.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Self> {
        const OTHERS: [WriteStatement; 7] = [
            USUAL_WRITE,
            set(WRITE_SHOWN, Touches::ALL),
            set(WRITE_SHOWN_MOVED, Touches::ALL),
            WriteStatement { text: WRITE_BOTH, touches: Touches::ALL, counter: "labels-added" },
            created(WRITE_BY_USE, Touches::ALL),
            created(WRITE_BY_CALL, Touches::ALL),
            created(WRITE_IN_PARTS, Touches::ALL),
        ];
        TAGGED_WRITES.iter().chain(&OTHERS).find(|each| each.text == text).copied()
    }
}
