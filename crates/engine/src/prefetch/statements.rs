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
}

type Whose = (Arc<str>, PrincipalScope, Arc<str>);

/// Statements and forms that were read not long ago.
pub(super) struct Statements {
    read: Mutex<LruCache<Whose, Arc<ReadStatement>>>,
    forms: Mutex<LruCache<FormId, Arc<(RealmTag, Form)>>>,
}

impl Statements {
    pub(super) fn new() -> Self {
        let bounded = |most| NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Self {
            read: Mutex::new(LruCache::new(bounded(STATEMENTS_READ_MAX))),
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
        if let Some(known) = self.read.lock().get(&whose) {
            return Arc::clone(known);
        }
        let mut text = pattern(statement);
        let pattern = PatternTag::of(hasher, database, scope, &text);
        text.truncate(text.floor_char_boundary(PATTERN_TEXT_BYTES_MAX));
        let read = Statement::of(statement, allowed, hasher.shares_spellings());
        let realm = RealmTag::of(hasher, database, scope);
        let facts = Arc::new(TextFacts::of(Arc::clone(statement)));
        let read = Arc::new(ReadStatement { read, facts, pattern, realm, text });
        if statement.len() <= STATEMENT_READ_BYTES_MAX {
            self.read.lock().put(whose, Arc::clone(&read));
        }
        read
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
    }

    /// Remembered statements and forms.
    pub(super) fn len(&self) -> usize {
        self.read.lock().len() + self.forms.lock().len()
    }
}
