//! Faults of an answer: where it ends, and what comes instead of the rest.

/// A fault of a run's answer. Bytes count from its RUN's answer on.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// After this many bytes the connection is closed.
    CutAfter(usize),
    /// After this many bytes no more bytes come.
    StallAfter(usize),
    /// After this many bytes come some that are no Bolt, and then none.
    GarbageAfter(usize),
    /// The server never sees the run; this code and message answer it.
    Fail(&'static str, &'static str),
}

/// How an answer is spoilt.
pub(super) struct SpoiltEnd {
    /// Bytes of those just read that are still passed on.
    pub(super) keep: usize,
    /// The bytes instead of the rest; none if the connection is closed.
    pub(super) last_words: Option<Vec<u8>>,
}

impl Trouble {
    /// After how many bytes the answer ends, and what comes then.
    pub(super) fn end(&self) -> Option<(usize, Option<Vec<u8>>)> {
        match self {
            Self::CutAfter(limit) => Some((*limit, None)),
            Self::StallAfter(limit) => Some((*limit, Some(Vec::new()))),
            Self::GarbageAfter(limit) => Some((*limit, Some(garbage()))),
            Self::Fail(..) => None,
        }
    }
}

/// 0xC7 is no marker of PackStream. As the length of a chunk it asks for more of them; the zeros fill that up
/// and end the message.
fn garbage() -> Vec<u8> {
    let mut bytes = vec![0xC7; 70_000];
    bytes.resize(190_000, 0);
    bytes
}
