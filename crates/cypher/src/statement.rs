//! Everything that a node needs from a statement's text, by lexing it once: its normal form, whether it may be cached, its
//! pattern and its shared form. A statement may have a megabyte (`STATEMENT_BYTES_MAX` of the engine), and each pass over that takes
//! tens of milliseconds.
//!
//! Which statements may be cached is where the verdict on tokens and the tree meet. The verdict knows which functions, procedures and
//! clauses are harmless, wherever they stand. It cannot know what a newer Cypher puts beside them, so a text with syntax that
//! [`crate::syntax`] does not know is not cached.

use hopcache_core::key::KeyForm;
use hopcache_core::pattern::PatternId;

use crate::checks::schema::tokens_show_schema;
use crate::forms::normal::NormalForm;
use crate::forms::pattern::id_of_tokens;
use crate::forms::shared::SharedForm;
use crate::lexer::{Token, tokens};
use crate::limits::STATEMENT_BYTES_MAX;
use crate::syntax::Syntax;
use crate::verdict::{Allowed, BypassReason, TextVerdict};

/// The results of one pass over a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Its normal form: equal for texts with the same answer.
    pub normal: NormalForm,
    /// Whether it may be a cacheable read. Its parameters are not known here: see [`TextVerdict::with_params`].
    pub lexed: TextVerdict,
    /// Its pattern.
    pub pattern: PatternId,
    /// Its shared form, if that was asked for, is proved, and the statement may be a cacheable read.
    pub shared: Option<SharedForm>,
}

impl Statement {
    /// Reads `text`. `shares` asks for the shared form. Takes time linear in the length of the text.
    ///
    /// A text is a bypass if its syntax is not known, or it nests too deep to be read. Of a longer one than the reader reads, the
    /// tokens decide: it has a long literal or list.
    ///
    /// ```
    /// use hopcache_cypher::statement::Statement;
    /// use hopcache_cypher::verdict::{Allowed, Lexed};
    ///
    /// let verdict = |text| Statement::of(text, &Allowed::default(), true).lexed;
    /// assert_eq!(verdict("MATCH (n:A) RETURN n.x IS :: INTEGER AS x"), Lexed::PerhapsRead);
    /// assert_eq!(verdict("MATCH (n:A) SEARCH n IN (VECTOR INDEX i FOR $v LIMIT 3) RETURN n").as_str(), "unreadable");
    /// ```
    #[must_use]
    pub fn of(text: &str, allowed: &Allowed, shares: bool) -> Self {
        let tokens: Vec<Token> = tokens(text).collect();
        let normal = NormalForm::of_tokens(text, &tokens);
        let pattern = id_of_tokens(text, &tokens);
        let lexed = TextVerdict::of_tokens(text, &tokens, allowed);
        let mut read = Self { normal, lexed, pattern, shared: None };
        // The form's length, not the text's: texts that share a form share the verdict.
        let is_unread = read.normal.as_str().len() > STATEMENT_BYTES_MAX || tokens_show_schema(text, &tokens);
        if !lexed.may_read() || is_unread {
            return read;
        }
        match Syntax::of(text, &tokens) {
            Ok(syntax) if shares => read.shared = SharedForm::of_tree(text, &tokens, &syntax),
            Ok(_) => {}
            Err(_) => read.lexed = TextVerdict::Bypass(BypassReason::Unreadable),
        }
        read
    }

    /// The form that its key is made of.
    #[must_use]
    pub fn key_form(&self) -> KeyForm<'_> {
        match &self.shared {
            Some(shared) => KeyForm::Shared(shared.as_str()),
            None => KeyForm::Normal(self.normal.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::pattern::pattern_id;
    use crate::lexer::LEXED;

    /// F45: a megabyte of text is lexed once, and each part equals its own module's result.
    #[test]
    fn a_statement_is_lexed_once() {
        for text in ["MATCH (n {id: 7}) RETURN n.x ;", "RETURN 1 ;;", "RETURN 'cut", "CREATE (n)", ""] {
            let before = LEXED.get();
            let read = Statement::of(text, &Allowed::default(), true);
            assert_eq!(LEXED.get() - before, 1, "{text:?}");
            let apart = (NormalForm::of(text), TextVerdict::of(text, &Allowed::default()), pattern_id(text));
            assert_eq!((read.normal, read.lexed, read.pattern), apart, "{text:?}");
            assert_eq!(read.shared, SharedForm::of(text), "{text:?}");
        }
    }
}
