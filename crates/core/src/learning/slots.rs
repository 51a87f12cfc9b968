//! Counts and how they add up: slots of absolute counts, rows of slots.
//!
//! Decides how two counts of one slot merge (the larger one stands, since both are absolute) and how a slot decays.
//! Never decides which slots exist.

/// What one life of one node has counted of a source and form in one epoch. Absolute, so that hearing it twice, late
/// or not at all changes nothing in the end (THEORY: never gossip increments).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tally {
    /// How often the form followed the source; in the row of `FormId::ANY`, how often the source was seen.
    pub seen: u32,
    /// How often a prefetch of it was launched.
    pub launched: u32,
    /// How many of those were used, late ones included.
    pub used: u32,
}

/// Tallies of several nodes and epochs, each halved with every epoch of its age.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Decayed {
    /// See [`Tally::seen`].
    pub seen: f64,
    /// See [`Tally::launched`].
    pub launched: f64,
    /// See [`Tally::used`].
    pub used: f64,
}
