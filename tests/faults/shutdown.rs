//! F12: SIGTERM and drain under load; what a node hands back.
