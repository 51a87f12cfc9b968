//! The forms that a text is known by.
//!
//! | module | texts with equal forms |
//! |---|---|
//! | [`normal`] | get the same answer: the key of a result has it |
//! | [`shared`] | get the same rows, under other column names: the key of a result has it instead, if there is one |
//! | [`pattern`] | differ in literals and parameters: costs and learning are kept by it |

pub mod normal;
pub mod pattern;
pub mod shared;
