//! The query key: it decides whether two requests may share an answer (promise I5).
//!
//! Everything is hashed with BLAKE3 keyed from the cluster's secret, each part behind its length, so that
//! no byte can move from one part to the next. The format's version is in every hash. The values are the
//! same on every platform and in every release: `tests/golden/query_keys.json` pins them, since a changed
//! hash empties every cache in production.

use std::fmt;

use crate::pattern::PatternId;

/// Version of the hashed content. A change of normal form, parameters or order of parts needs a new one.
pub const KEY_FORMAT_VERSION: u8 = 1;

/// Keyed 256-bit digest of database, principal scope, normal form and canonical parameters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct QueryKey(pub [u8; 32]);

/// Keyed 256-bit digest of the asking principal: scheme, user, impersonated user. Never of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PrincipalScope(pub [u8; 32]);

/// Keyed 64-bit digest of a database name, inside entries and leases. A purge of a database matches by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct DatabaseTag(pub u64);

/// Keyed 64-bit digest of nothing: it tells the nodes of one cluster from those of others that use the same store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterTag(pub u64);

/// Keyed 64-bit digest of a Neo4j's address: nodes with the same `origin.uri` have the same one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerTag(pub u64);

/// Keyed 128-bit digest of an anchor, or of its label and key alone: the key of a node's memory of degrees. It is never
/// stored or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnchorTag(pub [u8; 16]);

/// The parts of a query key. None has a default.
#[derive(Debug, Clone, Copy)]
pub struct KeyMaterial<'a> {
    /// The database as the client named it; case does not matter, and an alias counts as a name of its own.
    pub database: &'a str,
    /// The asking principal.
    pub scope: PrincipalScope,
    /// The query.
    pub form: KeyForm<'a>,
    /// The parameters as one PackStream map from `hopcache_packstream::encode_canonical`.
    pub params: &'a [u8],
}

/// The form of a text that its key is made of. The two kinds have keys of their own: no form of one kind has the key of a form of
/// the other kind, whatever their letters are.
#[derive(Debug, Clone, Copy)]
pub enum KeyForm<'a> {
    /// The text in normal form (`hopcache_cypher::forms::normal`).
    Normal(&'a str),
    /// The form that it has in common with other spellings of the query (`hopcache_cypher::forms::shared`).
    Shared(&'a str),
}

/// Plain data: the parts of an anchor (`hopcache_cypher::anchor`) that its tags are made of.
#[derive(Debug, Clone, Copy)]
pub struct AnchorParts<'a> {
    /// Label of the graph node.
    pub label: &'a str,
    /// The property that finds it.
    pub key: &'a str,
    /// The value of the property, as PackStream.
    pub value: &'a [u8],
}

/// Makes keys, scopes and tags of one cluster.
#[derive(Clone)]
pub struct KeyHasher {
    query: [u8; 32],
    /// For shared forms: so the key of a form is never that of a text that looks like it.
    shared: [u8; 32],
    shares_spellings: bool,
    scope: [u8; 32],
    database: [u8; 32],
    anchor: [u8; 32],
    learning: [u8; 32],
    reading: [u8; 32],
}

/// A node's reading of a statement and the key that it computed, for another node.
#[derive(Debug, Clone, Copy)]
pub struct KeyedReading<'a> {
    /// The key.
    pub key: &'a QueryKey,
    /// The database as the client named it.
    pub database: &'a str,
    /// The asking principal.
    pub scope: PrincipalScope,
    /// The statement as the client sent it.
    pub statement: &'a str,
    /// Its normal form, if it is included.
    pub normal: Option<&'a str>,
    /// Its pattern.
    pub pattern: PatternId,
    /// The parameters, one PackStream map.
    pub params: &'a [u8],
}

impl KeyHasher {
    /// A hasher for the cluster that has this secret; nodes and releases with the same secret agree. The
    /// secret may be empty: keys are then still collision-resistant, but not secret.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self {
            query: blake3::derive_key("hopcache 2026-11-21 query key", secret),
            shared: blake3::derive_key("hopcache 2026-11-26 query key of a shared form", secret),
            shares_spellings: false,
            scope: blake3::derive_key("hopcache 2026-11-21 principal scope", secret),
            database: blake3::derive_key("hopcache 2026-11-21 database tag", secret),
            anchor: blake3::derive_key("hopcache 2026-11-21 anchor tag", secret),
            learning: blake3::derive_key("hopcache 2026-11-21 learning tag", secret),
            reading: blake3::derive_key("hopcache 2026-11-22 reading of a statement", secret),
        }
    }

    /// The same hasher. If `shares`, statements that differ in spelling only are read for their shared form, and share a
    /// key ([`KeyForm::Shared`]).
    #[must_use]
    pub fn sharing_spellings(self, shares: bool) -> Self {
        Self { shares_spellings: shares, ..self }
    }

    /// Whether statements that differ in spelling only share a key.
    #[must_use]
    pub fn shares_spellings(&self) -> bool {
        self.shares_spellings
    }

    /// The key of a query.
    #[must_use]
    pub fn query_key(&self, material: &KeyMaterial<'_>) -> QueryKey {
        let database = database_name(material.database);
        let (key, text) = match material.form {
            KeyForm::Shared(shared) => (&self.shared, shared),
            KeyForm::Normal(normal) => (&self.query, normal),
        };
        QueryKey(digest(key, &[database.as_bytes(), &material.scope.0, text.as_bytes(), material.params]))
    }

    /// Proves that a node with this cluster's secret, and this version of keys, has read this statement and computed
    /// this key. The check takes one hash over the text; reading it again would take a pass over its tokens.
    #[must_use]
    pub fn reading_proof(&self, said: &KeyedReading<'_>) -> [u8; 32] {
        let (has_normal, normal): (&[u8], _) = said.normal.map_or((b"", ""), |normal| (b"normal", normal));
        let parts = [
            &said.key.0[..],
            said.database.as_bytes(),
            &said.scope.0,
            said.statement.as_bytes(),
            has_normal,
            normal.as_bytes(),
            &said.pattern.0.to_be_bytes(),
            said.params,
        ];
        digest(&self.reading, &parts)
    }

    /// A 64-bit tag for learning. `kind` names the kind of thing, so that two kinds never share a tag.
    pub fn learning_tag(&self, kind: &[u8], parts: [&[u8]; 3]) -> u64 {
        let [first, second, third] = parts;
        first_quarter(digest(&self.learning, &[kind, first, second, third]))
    }

    /// [`Self::learning_tag`] of something in a database as a principal sees it: nothing learned crosses either (I5).
    pub fn scoped_learning_tag(&self, kind: &[u8], database: &str, scope: PrincipalScope, of: &[u8]) -> u64 {
        self.learning_tag(kind, [database_name(database).as_bytes(), &scope.0, of])
    }

    /// The digest of a session's id in a database, of a principal. It has 256 bits, because it has a place on the ring.
    pub fn session_digest(&self, database: &str, scope: PrincipalScope, id: &[u8]) -> [u8; 32] {
        digest(&self.learning, &[b"session", database_name(database).as_bytes(), &scope.0, id])
    }
}

/// Shows no key: with one of them a reader of the store could test guesses.
impl fmt::Debug for KeyHasher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeyHasher(…)")
    }
}

impl PrincipalScope {
    /// The scope of a user who logs on by `scheme` (`none`, `basic`, `bearer`) and acts as `impersonated`, if given.
    /// Neo4j distinguishes user names by case. For `bearer`, `user` is the token, since nothing else identifies the
    /// user.
    #[must_use]
    pub fn of(hasher: &KeyHasher, scheme: &str, user: &str, impersonated: Option<&str>) -> Self {
        let (acts, other): (&[u8], _) = impersonated.map_or((b"self", ""), |other| (b"other", other));
        Self(digest(&hasher.scope, &[scheme.as_bytes(), user.as_bytes(), acts, other.as_bytes()]))
    }
}

impl DatabaseTag {
    /// The tag of a database, named in any case.
    #[must_use]
    pub fn of(hasher: &KeyHasher, database: &str) -> Self {
        Self(first_quarter(digest(&hasher.database, &[database_name(database).as_bytes()])))
    }
}

impl ClusterTag {
    /// The tag of the cluster with this hasher.
    #[must_use]
    pub fn of(hasher: &KeyHasher) -> Self {
        Self(first_quarter(digest(&hasher.database, &[b"", b"cluster"])))
    }
}

impl ServerTag {
    /// The tag of the server at this address.
    #[must_use]
    pub fn of(hasher: &KeyHasher, uri: &str) -> Self {
        Self(first_quarter(digest(&hasher.database, &[b"", b"origin", uri.as_bytes()])))
    }
}

impl AnchorTag {
    /// The tag of a graph node as a principal sees it: rights may hide relationships (I5).
    #[must_use]
    pub fn of(hasher: &KeyHasher, database: &str, scope: PrincipalScope, anchor: AnchorParts<'_>) -> Self {
        let AnchorParts { label, key, value } = anchor;
        let database = database_name(database);
        let parts = [database.as_bytes(), label.as_bytes(), key.as_bytes(), &scope.0, value];
        Self::first_half(digest(&hasher.anchor, &parts))
    }

    /// The tag of a label and key for all principals: whether there is an index for them.
    #[must_use]
    pub fn of_property(hasher: &KeyHasher, database: &str, anchor: AnchorParts<'_>) -> Self {
        let AnchorParts { label, key, .. } = anchor;
        let database = database_name(database);
        Self::first_half(digest(&hasher.anchor, &[database.as_bytes(), label.as_bytes(), key.as_bytes()]))
    }

    fn first_half(digest: [u8; 32]) -> Self {
        let (head, _) = digest.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
        Self(*head)
    }
}

/// The name as Neo4j resolves it: in lower case. Names are ASCII there (letters, digits, dots and dashes),
/// and Unicode's tables differ between releases of Rust, so only ASCII is lowered.
fn database_name(database: &str) -> String {
    database.to_ascii_lowercase()
}

fn first_quarter(digest: [u8; 32]) -> u64 {
    let (head, _) = digest.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*head)
}

fn digest(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&[KEY_FORMAT_VERSION]);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

impl QueryKey {
    /// 64 hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Debug for QueryKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "QueryKey({}…)", &self.to_hex()[..12])
    }
}
