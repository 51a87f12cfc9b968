//! Readings of statements, remembered: normal form, pattern and tags of texts that come again and again. Lexing a text
//! takes several microseconds, and an application has few texts, which differ in their parameters only.
//!
//! A memory only: it decides nothing. Texts are part of the key as they are, with database and principal, so nothing
//! crosses either (I5).

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{KeyHasher, PrincipalScope};
use hopcache_core::limits::{
    FORMS_READ_MAX, PATTERN_TEXT_BYTES_MAX, STATEMENT_READ_BYTES_MAX, STATEMENTS_READ_MAX,
};
use hopcache_cypher::forms::pattern::pattern;
use hopcache_cypher::statement::Statement;
use hopcache_cypher::verdict::Allowed;
use hopcache_learning::after_hits::AfterHits;
use hopcache_learning::form::{Form, RealmTag};
use hopcache_learning::{FormId, PatternTag};
use lru::LruCache;
use parking_lot::Mutex;

use crate::model::ask::{Query, QueryParts};
use crate::model::text_facts::TextFacts;

/// A statement of one principal in one database, as learning sees it.
#[derive(Debug)]
pub(super) struct ReadStatement {
    pub(super) read: Statement,
    facts: Arc<TextFacts>,
    pub(super) pattern: PatternTag,
    pub(super) realm: RealmTag,
    /// The pattern's text for display; cut to the length that is kept.
    pub(super) text: String,
    /// What orders after its hits have brought.
    pub(super) after_hits: AfterHits,
}

type Whose = (Arc<str>, PrincipalScope, Arc<str>);

/// Statements and forms that were read not long ago.
pub(super) struct Statements {
    read: Mutex<LruCache<Whose, Arc<ReadStatement>>>,
    /// How a principal spells a normal form: a text that has come twice. One with a comment of its own in each request is none.
    spellings: Mutex<LruCache<Whose, Arc<str>>>,
    forms: Mutex<LruCache<FormId, Arc<(RealmTag, Form)>>>,
}

impl Statements {
    pub(super) fn new() -> Self {
        let bounded = |most| NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Self {
            read: Mutex::new(LruCache::new(bounded(STATEMENTS_READ_MAX))),
            spellings: Mutex::new(LruCache::new(bounded(STATEMENTS_READ_MAX))),
            forms: Mutex::new(LruCache::new(bounded(FORMS_READ_MAX))),
        }
    }

    /// The reading of a statement that this principal asks in this database.
    pub(super) fn read(
        &self,
        (database, scope): (&Arc<str>, PrincipalScope),
        statement: &Arc<str>,
        (hasher, allowed): (&KeyHasher, &Allowed),
    ) -> Arc<ReadStatement> {
        let whose = (Arc::clone(database), scope, Arc::clone(statement));
        let known = self.read.lock().get(&whose).cloned();
        if let Some(known) = known {
            if known.read.normal.as_str() != &**statement {
                let form = (Arc::clone(database), scope, known.read.normal.shared());
                self.spellings.lock().get_or_insert(form, || Arc::clone(statement));
            }
            return known;
        }
        let mut text = pattern(statement);
        let pattern = PatternTag::of(hasher, database, scope, &text);
        text.truncate(text.floor_char_boundary(PATTERN_TEXT_BYTES_MAX));
        let read = Statement::of(statement, allowed, hasher.shares_spellings());
        let realm = RealmTag::of(hasher, database, scope);
        let facts = Arc::new(TextFacts::of(Arc::clone(statement)));
        let after_hits = AfterHits::default();
        let read = Arc::new(ReadStatement { read, facts, pattern, realm, text, after_hits });
        if statement.len() <= STATEMENT_READ_BYTES_MAX {
            self.read.lock().put(whose, Arc::clone(&read));
        }
        read
    }

    /// A normal form as this principal spells it, as far as this node knows: what was learned is told in normal forms. Neo4j plans
    /// each spelling of a statement anew, which takes it longer than many a run.
    pub(super) fn spelled(
        &self,
        (database, scope): (&Arc<str>, PrincipalScope),
        normal: Arc<str>,
    ) -> Arc<str> {
        let form = (Arc::clone(database), scope, normal);
        let known = self.spellings.lock().get(&form).cloned();
        known.unwrap_or(form.2)
    }

    /// The query of these parts, without lexing a known statement.
    pub(super) fn query(&self, parts: QueryParts, lexicon: (&KeyHasher, &Allowed)) -> Query {
        let read = self.read((&parts.database, parts.identity.scope), &parts.statement, lexicon);
        Query::of_statement(parts, lexicon.0, (read.read.clone(), Arc::clone(&read.facts)))
    }

    /// The form of a definition, decoded; `None` if the bytes define none.
    pub(super) fn form(&self, id: FormId, definition: &Bytes) -> Option<Arc<(RealmTag, Form)>> {
        if let Some(known) = self.forms.lock().get(&id) {
            return Some(Arc::clone(known));
        }
        let form = Arc::new(Form::of_definition(definition)?);
        self.forms.lock().put(id, Arc::clone(&form));
        Some(form)
    }

    /// Forgets how statements were read. Forms do not depend on the settings.
    pub(super) fn forget(&self) {
        self.read.lock().clear();
        self.spellings.lock().clear();
    }

    /// Remembered statements, spellings and forms.
    pub(super) fn len(&self) -> usize {
        self.read.lock().len() + self.spellings.lock().len() + self.forms.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prefetch asks in the words of its clients, once a text has come twice; each principal in its own.
    #[test]
    fn a_normal_form_is_spelled_as_its_clients_do() {
        let (statements, hasher, allowed) = (Statements::new(), KeyHasher::new(b""), Allowed::default());
        let database: Arc<str> = Arc::from("neo4j");
        let scope = |user| PrincipalScope::of(&hasher, "basic", user, None);
        let whose = |user| (&database, scope(user));
        let asked: Arc<str> = Arc::from("MATCH (n:Film {slug: $slug})\n  RETURN n.title AS title");
        let read = |text: &Arc<str>, user| statements.read(whose(user), text, (&hasher, &allowed));
        let normal = read(&asked, "ann").read.normal.shared();
        assert_ne!(*normal, *asked);
        let spelled = |user| statements.spelled(whose(user), Arc::clone(&normal));
        assert_eq!(*spelled("ann"), *normal, "it has come once");
        read(&asked, "ann");
        assert_eq!((&*spelled("ann"), &*spelled("bob")), (&*asked, &*normal));
        // A text with a comment of its own for each request, which Neo4j would plan each time.
        read(&Arc::from("MATCH (n:Film {slug: $slug}) /* 7 */ RETURN n.title AS title"), "ann");
        assert_eq!(*spelled("ann"), *asked);
        statements.forget();
        assert_eq!(*spelled("ann"), *normal);
    }
}
