//! A response's `Cache-Status` (RFC 9211). Every hit writes it, so it needs one buffer and no tree.

use std::fmt::Write as _;

/// Why a node did not answer by itself (RFC 9211, 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Forward {
    /// The cache may not answer this request.
    Bypass,
    /// No answer was stored under the key.
    Miss,
}

impl Forward {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Miss => "miss",
        }
    }
}

/// How one node handled a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Handled {
    /// It answered with a stored answer.
    Hit,
    /// It passed the request on.
    Forward(Forward),
}

/// Whether the answer was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stored {
    /// The answer was stored.
    Yes,
    /// The answer was not stored.
    No,
}

/// Whether the request shared another one's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Collapsed {
    /// The request shared a run.
    Yes,
    /// The request had its own run.
    No,
}

/// A node's report about a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// Name of the node.
    pub node: &'a str,
    /// How it handled the request.
    pub handled: Handled,
    /// Whether it stored the answer.
    pub stored: Stored,
    /// Whether the request shared a run.
    pub collapsed: Collapsed,
    /// Seconds for which the answer stays fresh. A negative number: it has been stale for that long.
    pub ttl_s: Option<i64>,
    /// The query key, as it is shown.
    pub key: Option<&'a str>,
    /// Whether the answer is proved to be current.
    pub is_proved: bool,
    /// The detail: a token of RFC 9651 from a closed list of the node.
    pub detail: Option<&'static str>,
}

impl<'a> Member<'a> {
    /// A hit by `node`.
    #[must_use]
    pub fn hit(node: &'a str) -> Self {
        let (stored, collapsed) = (Stored::No, Collapsed::No);
        Self {
            node,
            handled: Handled::Hit,
            stored,
            collapsed,
            ttl_s: None,
            key: None,
            is_proved: false,
            detail: None,
        }
    }

    /// A request that `node` sent on.
    #[must_use]
    pub fn forward(node: &'a str, why: Forward) -> Self {
        Self { handled: Handled::Forward(why), ..Self::hit(node) }
    }
}

/// The header's value: the node nearest the origin first.
#[must_use]
pub fn write(members: &[Member<'_>]) -> String {
    let mut out = String::with_capacity(96 * members.len());
    for member in members {
        append(&mut out, member);
    }
    out
}

/// Appends a member to a value that may already hold members of nodes nearer the origin.
pub fn append(out: &mut String, member: &Member<'_>) {
    if !out.is_empty() {
        out.push_str(", ");
    }
    name(out, member.node);
    match member.handled {
        Handled::Hit => out.push_str("; hit"),
        Handled::Forward(why) => {
            out.push_str("; fwd=");
            out.push_str(why.as_str());
        }
    }
    if let Some(ttl_s) = member.ttl_s {
        // Writing into a String cannot fail.
        let _ = write!(out, "; ttl={ttl_s}");
    }
    if member.is_proved {
        out.push_str("; proved");
    }
    if member.stored == Stored::Yes {
        out.push_str("; stored");
    }
    if member.collapsed == Collapsed::Yes {
        out.push_str("; collapsed");
    }
    if let Some(key) = member.key {
        out.push_str("; key=");
        quoted(out, key);
    }
    if let Some(detail) = member.detail {
        out.push_str("; detail=");
        out.push_str(detail);
    }
}

/// The value of `Age` (RFC 9111, 5.1): whole seconds since the origin read, rounded down.
#[must_use]
pub fn age(age_ms: u64) -> String {
    (age_ms / 1000).to_string()
}

/// A node's name: a token where it can be one, else a string.
fn name(out: &mut String, node: &str) {
    let head = node.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '*');
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
    if head && node.bytes().all(rest) { out.push_str(node) } else { quoted(out, node) }
}

/// A string of RFC 9651. Characters that it cannot hold become `?`.
fn quoted(out: &mut String, text: &str) {
    out.push('"');
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        // Keys and nearly all names.
        out.push_str(text);
        out.push('"');
        return;
    }
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            ' '..='~' => out.push(letter),
            _ => out.push('?'),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contracts_examples_are_written() {
        let hit = Member { ttl_s: Some(42), key: Some("9f2c"), ..Member::hit("node-b") };
        let owner = Member { detail: Some("owner"), ..Member::forward("node-a", Forward::Miss) };
        let both = write(&[hit, owner]);
        assert_eq!(both, r#"node-b; hit; ttl=42; key="9f2c", node-a; fwd=miss; detail=owner"#);
        let miss = Member::forward("node-b", Forward::Miss);
        let miss = Member { stored: Stored::Yes, collapsed: Collapsed::Yes, key: Some("9f2c"), ..miss };
        assert_eq!(write(&[miss]), r#"node-b; fwd=miss; stored; collapsed; key="9f2c""#);
        let write_through = Member { detail: Some("write"), ..Member::forward("node-a", Forward::Bypass) };
        assert_eq!(write(&[write_through]), "node-a; fwd=bypass; detail=write");
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_names_it_is_a_structured_list(node: String, key: String, ttl in -1_000_i64..1_000) {
            let detail = Some("stale-if-error");
            let member = Member { ttl_s: Some(ttl), key: Some(&key), detail, ..Member::hit(&node) };
            let list: sfv::List = sfv::Parser::new(&write(&[member, member])).parse().unwrap();
            proptest::prop_assert_eq!(list.len(), 2);
        }
    }
}
