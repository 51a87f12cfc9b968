//! Paths and methods of explicit transactions. Like the server this accepts a slash at the end.

use http::Method;

/// What a request does to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// `POST …/tx`
    Open,
    /// `POST …/tx/{id}`
    Run,
    /// `POST …/tx/{id}/commit`
    Commit,
    /// `DELETE …/tx/{id}`
    RollBack,
}

/// A request's verb, and the names in its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(super) verb: Verb,
    /// As in the path, with its percent signs.
    pub(super) database: String,
    /// The transaction's name, decoded. Empty for a new one.
    pub(super) id: String,
}

impl Endpoint {
    /// The name of a request's span: the method and the route, as for queries.
    pub(super) const fn route(&self) -> &'static str {
        match self.verb {
            Verb::Open => "POST /db/{database}/query/v2/tx",
            Verb::Run => "POST /db/{database}/query/v2/tx/{id}",
            Verb::Commit => "POST /db/{database}/query/v2/tx/{id}/commit",
            Verb::RollBack => "DELETE /db/{database}/query/v2/tx/{id}",
        }
    }

    /// `None` if no request about a transaction has this method and path.
    pub(crate) fn of(method: &Method, path: &str) -> Option<Self> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let (database, rest) = path.strip_prefix("/db/")?.split_once("/query/v2/tx")?;
        let names: Vec<&str> = match rest {
            "" => Vec::new(),
            rest => rest.strip_prefix('/')?.split('/').collect(),
        };
        let verb = match (method, &*names) {
            (&Method::POST, []) => Verb::Open,
            (&Method::POST, [_]) => Verb::Run,
            (&Method::POST, [_, "commit"]) => Verb::Commit,
            (&Method::DELETE, [_]) => Verb::RollBack,
            _ => return None,
        };
        let id = names.first().copied().unwrap_or_default();
        if database.is_empty() || database.contains('/') || (verb != Verb::Open && id.is_empty()) {
            return None;
        }
        let id = percent_encoding::percent_decode_str(id).decode_utf8_lossy().into_owned();
        Some(Self { verb, database: database.to_owned(), id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_by_the_server() {
        let of = |method: &Method, path: &str| {
            Endpoint::of(method, path).map(|found| (found.verb, found.database, found.id))
        };
        let found = |verb, database: &str, id: &str| Some((verb, database.to_owned(), id.to_owned()));
        let (post, delete) = (&Method::POST, &Method::DELETE);
        assert_eq!(of(post, "/db/neo4j/query/v2/tx"), found(Verb::Open, "neo4j", ""));
        assert_eq!(of(post, "/db/neo%34j/query/v2/tx/"), found(Verb::Open, "neo%34j", ""));
        assert_eq!(of(post, "/db/neo4j/query/v2/tx/a1b2"), found(Verb::Run, "neo4j", "a1b2"));
        assert_eq!(of(post, "/db/neo4j/query/v2/tx/a%22%20/"), found(Verb::Run, "neo4j", "a\" "));
        assert_eq!(of(post, "/db/neo4j/query/v2/tx/a1b2/commit"), found(Verb::Commit, "neo4j", "a1b2"));
        assert_eq!(of(delete, "/db/neo4j/query/v2/tx/a1b2"), found(Verb::RollBack, "neo4j", "a1b2"));
        for (method, path) in [
            (&Method::GET, "/db/neo4j/query/v2/tx"),
            (delete, "/db/neo4j/query/v2/tx"),
            (delete, "/db/neo4j/query/v2/tx/a1b2/commit"),
            (post, "/db/neo4j/query/v2/tx/a1b2/other"),
            (post, "/db/neo4j/query/v2/tx//commit"),
            (post, "/db/neo4j/query/v2/tx//"),
            (post, "/db/neo4j/query/v2/txa"),
            (post, "/db//query/v2/tx"),
            (post, "/db/a/b/query/v2/tx"),
            (post, "/db/neo4j/query/v2"),
        ] {
            assert_eq!(of(method, path), None, "{method} {path}");
        }
    }
}
