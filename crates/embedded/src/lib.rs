//! embedded
