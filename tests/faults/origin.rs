//! F25 to F29: a Neo4j that is gone, slow, failing, cut or too large, through a proxy.
