//! A prefetch order: what the owner of a session asks of the owner of a candidate's key, and the answer.
//!
//! Nothing is decided here.

use std::sync::Arc;

use hopcache_core::node::NodeName;
use hopcache_learning::gain::CandidateKind;
use hopcache_learning::{FormId, SourceId};

use crate::model::ask::Query;
use crate::model::rendering::RenderingId;

/// A candidate that is to be read before it is asked.
#[derive(Debug, Clone)]
pub struct Order {
    /// What is to be run, as the identity that asked what it follows.
    pub query: Arc<Query>,
    /// The rendering that is made of it beforehand: that of the request which it follows.
    pub rendering: RenderingId,
    /// What was asked before.
    pub source: SourceId,
    /// By which successor of it the candidate came about.
    pub form: FormId,
    /// How it came about.
    pub kind: CandidateKind,
    /// How probable it is that it will be asked, as its launcher saw it: before calibration.
    pub p: f64,
    /// The node that launched it.
    pub by: NodeName,
}

/// What became of an order at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launch {
    /// A flight has begun. Whether it comes to a run, its ticket says: the store may have the value, or another node the
    /// lease; then it is counted as skipped like the others.
    Launched,
    /// Nothing was begun.
    Skipped(Skip),
}

/// Why an order was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    /// There is a fresh value; of an entry that was to be read before it expires, one that will not soon.
    Fresh,
    /// A flight or a refresh of it is under way, here or elsewhere.
    InFlight,
    /// The node's budget of launches is used up.
    Budget,
    /// Half of the origin's slots are in use, as many prefetches run as may, or the origin has no place for one now.
    OriginBusy,
    /// The origin is away or shedding, or the store in trouble.
    Degraded,
    /// The statement writes, or is not for the cache, by the lexer's or the server's word (I6).
    Write,
    /// The server's word on the statement could not be had (I6).
    Unclassified,
    /// The server refuses the statement.
    Refused,
    /// The last runs of it brought no answer.
    HeldBack,
    /// Its result is known to be too large to store.
    TooLarge,
    /// Prefetch, caching or sharing is off.
    Off,
    /// The key is not this node's, or the node leaves.
    Elsewhere,
    /// As many launched entries wait to be used as may.
    Full,
    /// The key's owner could not be asked. Said and counted by who asked.
    Unreached,
}

impl Skip {
    /// All of them, each at its [`Skip::place`].
    pub const ALL: [Self; 14] = [
        Self::Fresh,
        Self::InFlight,
        Self::Budget,
        Self::OriginBusy,
        Self::Degraded,
        Self::Write,
        Self::Unclassified,
        Self::Refused,
        Self::HeldBack,
        Self::TooLarge,
        Self::Off,
        Self::Elsewhere,
        Self::Full,
        Self::Unreached,
    ];

    /// Its place in [`Skip::ALL`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }

    /// As operators read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::InFlight => "in_flight",
            Self::Budget => "budget",
            Self::OriginBusy => "origin_busy",
            Self::Degraded => "degraded",
            Self::Write => "write",
            Self::Unclassified => "unclassified",
            Self::Refused => "refused",
            Self::HeldBack => "held_back",
            Self::TooLarge => "too_large",
            Self::Off => "off",
            Self::Elsewhere => "elsewhere",
            Self::Full => "full",
            Self::Unreached => "unreached",
        }
    }
}

/// The byte of a launch; those of [`Skip`] follow in their order.
const LAUNCHED: u8 = 0;

impl Launch {
    /// As a peer is told.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Launched => LAUNCHED,
            Self::Skipped(skip) => u8::try_from(skip.place() + 1).unwrap_or(u8::MAX),
        }
    }

    /// What a peer said; of a word that this version does not know only that nothing was launched.
    #[must_use]
    pub fn of_byte(byte: u8) -> Self {
        let place = usize::from(byte).checked_sub(1);
        place.map_or(Self::Launched, |place| {
            Self::Skipped(Skip::ALL.get(place).copied().unwrap_or(Skip::Unreached))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_as_it_went() {
        assert_eq!(Launch::of_byte(Launch::Launched.to_byte()), Launch::Launched);
        for (place, skip) in Skip::ALL.into_iter().enumerate() {
            assert_eq!(skip.place(), place);
            assert_eq!(Launch::of_byte(Launch::Skipped(skip).to_byte()), Launch::Skipped(skip));
        }
        assert_eq!(Launch::of_byte(200), Launch::Skipped(Skip::Unreached), "a later version's word");
    }
}
