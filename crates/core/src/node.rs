//! The identity of a node: a name that survives restarts, and an incarnation that does not.

use std::fmt;

use crate::limits::NODE_NAME_LEN_MAX;

/// A node's configured name. 1 to [`NODE_NAME_LEN_MAX`] characters of `A-Z a-z 0-9 . _ : -`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "&str")]
pub struct NodeName(std::sync::Arc<str>);

/// Why a text is no node name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a node name has 1 to {NODE_NAME_LEN_MAX} characters of A-Z a-z 0-9 . _ : -, not {0:?}")]
pub struct BadNodeName(pub String);

impl NodeName {
    /// Checks and keeps a name.
    ///
    /// # Errors
    /// [`BadNodeName`] with the text that was refused.
    pub fn new(text: &str) -> Result<Self, BadNodeName> {
        let fits = !text.is_empty() && text.len() <= NODE_NAME_LEN_MAX;
        let clean = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte));
        if fits && clean { Ok(Self(text.into())) } else { Err(BadNodeName(text.chars().take(80).collect())) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for NodeName {
    type Error = BadNodeName;

    fn try_from(text: &str) -> Result<Self, BadNodeName> {
        Self::new(text)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// One life of a node's process, drawn at random at its start. So a holder that was killed and came back under the same
/// name is known to have lost its leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Incarnation(pub u64);

/// The holder of a lease: a node in one of its lives. Written `name#incarnation` in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Holder {
    /// The node.
    pub node: NodeName,
    /// Its life.
    pub incarnation: Incarnation,
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}#{:016x}", self.node, self.incarnation.0)
    }
}

impl std::str::FromStr for Holder {
    type Err = BadNodeName;

    fn from_str(text: &str) -> Result<Self, BadNodeName> {
        let refused = || BadNodeName(text.chars().take(80).collect());
        let (name, life) = text.rsplit_once('#').ok_or_else(refused)?;
        let incarnation = u64::from_str_radix(life, 16).map_err(|_| refused())?;
        Ok(Self { node: NodeName::new(name)?, incarnation: Incarnation(incarnation) })
    }
}
