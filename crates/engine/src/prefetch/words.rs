//! What became of observations, and of what nodes tell each other of what they have learned, in words from closed lists.
//! Decides nothing.

/// What became of observations of answered requests, at their entry node or at the owner of their session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservationWord {
    /// Told to the owner of their session, or this node is it.
    Sent,
    /// More waited at the entry node than may.
    Dropped,
    /// Of a query that is too long to be learned.
    TooLong,
    /// Of a session that asked more often than anybody who waits for answers.
    Crowded,
    /// The owner of their session could not be told.
    Unreached,
    /// Taken by the owner of their session.
    Taken,
    /// More waited at the owner of their session than may.
    Refused,
    /// Came after another of their session, and were learned.
    Learned,
    /// Taken, but nobody looked for what may follow: the fields of too many others were waited for.
    Unconsidered,
}

impl ObservationWord {
    /// As operators read them, each at its [`ObservationWord::place`].
    pub const NAMES: [&str; 9] = [
        "sent",
        "dropped",
        "too_long",
        "crowded",
        "unreached",
        "taken",
        "refused",
        "learned",
        "unconsidered",
    ];

    /// Its place in [`ObservationWord::NAMES`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }
}

/// What became of what nodes tell each other of what they have learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareWord {
    /// A piece was spread.
    Spread,
    /// A piece could not be spread; what it said is pulled.
    Unspread,
    /// A count or a definition was news.
    Merged,
    /// It was not, or not any more.
    Known,
    /// A piece or a page was refused: unreadable, of another version, or over a bound.
    Refused,
    /// A page was pulled from a node.
    Pulled,
    /// A node that was asked for a page did not answer.
    Unreached,
}

impl ShareWord {
    /// As operators read them, each at its [`ShareWord::place`].
    pub const NAMES: [&str; 7] = ["spread", "unspread", "merged", "known", "refused", "pulled", "unreached"];

    /// Its place in [`ShareWord::NAMES`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A label that moved would count something else under an old name.
    #[test]
    fn each_word_is_at_its_place() {
        for (word, name) in [
            (ObservationWord::Sent, "sent"),
            (ObservationWord::Dropped, "dropped"),
            (ObservationWord::TooLong, "too_long"),
            (ObservationWord::Crowded, "crowded"),
            (ObservationWord::Unreached, "unreached"),
            (ObservationWord::Taken, "taken"),
            (ObservationWord::Refused, "refused"),
            (ObservationWord::Learned, "learned"),
            (ObservationWord::Unconsidered, "unconsidered"),
        ] {
            assert_eq!(ObservationWord::NAMES[word.place()], name);
        }
        for (word, name) in [
            (ShareWord::Spread, "spread"),
            (ShareWord::Unspread, "unspread"),
            (ShareWord::Merged, "merged"),
            (ShareWord::Known, "known"),
            (ShareWord::Refused, "refused"),
            (ShareWord::Pulled, "pulled"),
            (ShareWord::Unreached, "unreached"),
        ] {
            assert_eq!(ShareWord::NAMES[word.place()], name);
        }
    }
}
