//! Lives of nodes and their epochs.
