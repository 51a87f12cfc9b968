//! I5 and F37: principals that share a cluster see and cost each other nothing.
