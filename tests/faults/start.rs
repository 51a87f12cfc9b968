//! Nodes that start while Redis or Neo4j is away, or with wrong passwords, and recover by themselves.
