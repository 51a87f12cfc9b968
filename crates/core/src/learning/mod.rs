//! What sessions teach, and what is warmed by it: pure decisions. It runs nothing and keeps no time of its own.

pub mod budget;
pub mod gain;
pub mod precision;
