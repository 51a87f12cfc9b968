//! What the failures of Hopcache's own say to a person, over both fronts: the reason, and what has become of the statement.

use hopcache_packstream::DEPTH_MAX;

/// The possible effects of a statement without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The statement reads, so nothing has changed.
    Harmless,
    /// The statement may have written, or may still write. The client has to check before it sends it again (I6).
    InDoubt,
    /// The statement's transaction is over, and Neo4j rolls it back.
    RolledBack,
}

impl Fate {
    /// What the client has to know, behind the reason of the failure.
    pub(super) const fn sentence(self) -> &'static str {
        match self {
            Self::Harmless => "",
            Self::InDoubt => IN_DOUBT,
            Self::RolledBack => ROLLED_BACK,
        }
    }
}

/// The sentence for such a statement, if it may write.
pub(super) const CARRIED_OUT: &str = " The statement was carried out: look before you send it again.";

/// The sentence for a statement in doubt.
const IN_DOUBT: &str = " A write may have been carried out, or still be: look before you send it again.";

/// The sentence for a transaction that has ended.
const ROLLED_BACK: &str = " The transaction is rolled back: begin again.";

pub(super) fn too_large(limit_bytes: usize, doubt: &str) -> String {
    format!(
        "The result is over {limit_bytes} bytes. Add a LIMIT, or run it over Bolt, which has no such bound.{doubt}"
    )
}

pub(super) fn too_deep(fate: Fate) -> String {
    let next = match fate {
        Fate::InDoubt => CARRIED_OUT,
        fate => fate.sentence(),
    };
    format!(
        "A value of the result nests deeper than {DEPTH_MAX} levels, and JSON ends there. Read it over Bolt.{next}"
    )
}

pub(super) fn unreachable(fate: Fate) -> String {
    match fate {
        Fate::RolledBack => format!("Neo4j cannot be reached.{ROLLED_BACK}"),
        _ => "Neo4j cannot be reached and there is no cached answer. Try again shortly.".to_owned(),
    }
}

pub(super) fn too_many_runs(fate: Fate) -> String {
    let next = match fate {
        Fate::RolledBack => ROLLED_BACK,
        _ => " Send fewer at a time, and try again shortly.",
    };
    format!("Too many statements of this user wait for Neo4j.{next}")
}

/// The failure of a request that a leaving node has not read yet.
pub(super) fn leaving_unread() -> String {
    leaving(Fate::Harmless)
}

/// Another node owns the key by then, and has the result of its run.
pub(super) fn leaving(fate: Fate) -> String {
    let next = match fate {
        Fate::Harmless => " Send the request again: other nodes answer it.",
        fate => fate.sentence(),
    };
    format!("This node is leaving, and ends before the answer can come.{next}")
}

/// A statement that found no slot was never sent and can be sent again. A statement whose answer found no room was sent.
pub(super) fn no_place(was_sent: bool, fate: Fate) -> String {
    match fate {
        Fate::InDoubt if was_sent => format!("There was no room for an answer of this size.{IN_DOUBT}"),
        Fate::RolledBack => format!("Too many statements, or too large answers, are under way.{ROLLED_BACK}"),
        _ => "Too many statements are under way. Try again shortly.".to_owned(),
    }
}

pub(super) fn unread(fate: Fate) -> String {
    let next = match fate {
        Fate::Harmless => " Try again; if it persists, purge the entry and report it.",
        fate => fate.sentence(),
    };
    format!("The answer could not be read.{next}")
}
