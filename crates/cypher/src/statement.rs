//! Everything that a node needs from a statement's text, by lexing it once: its normal form, the lexer's verdict, its
//! pattern and its shared form. A statement may have a megabyte (`STATEMENT_BYTES_MAX`), and each pass over that takes tens of
//! milliseconds.
//!
//! It decides nothing by itself: each part has its own module.

use hopcache_core::key::KeyForm;
use hopcache_core::pattern::PatternId;

use crate::forms::normal::NormalForm;
use crate::forms::pattern::id_of_tokens;
use crate::forms::shared::SharedForm;
use crate::lexer::{Token, tokens};
use crate::verdict::Lexed;

/// The results of one pass over a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Its normal form: equal for texts with the same answer.
    pub normal: NormalForm,
    /// Whether it may be a cacheable read. Its parameters are not known here: see [`Lexed::with_params`].
    pub lexed: Lexed,
    /// Its pattern.
    pub pattern: PatternId,
    /// Its shared form, if that was asked for, is proved, and the statement may be a cacheable read.
    pub shared: Option<SharedForm>,
}

impl Statement {
    /// Reads `text`. `procedures` are allowed besides the built-in list. `shares` asks for the shared form. Takes time
    /// linear in the length of the text.
    #[must_use]
    pub fn of(text: &str, procedures: &[String], shares: bool) -> Self {
        Self::of_tokens(text, &tokens(text).collect::<Vec<_>>(), procedures, shares)
    }

    /// The same, from its tokens.
    #[must_use]
    pub fn of_tokens(text: &str, tokens: &[Token], procedures: &[String], shares: bool) -> Self {
        let lexed = Lexed::of_tokens(text, tokens, procedures);
        let shared = if shares && lexed.may_read() { SharedForm::of_tokens(text, tokens) } else { None };
        Self {
            normal: NormalForm::of_tokens(text, tokens),
            lexed,
            pattern: id_of_tokens(text, tokens.iter().copied()),
            shared,
        }
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
    use crate::forms::pattern::OfText;
    use crate::lexer::LEXED;

    /// F45: a megabyte of text is lexed once, and each part equals its own module's result.
    #[test]
    fn a_statement_is_lexed_once() {
        for text in ["MATCH (n {id: 7}) RETURN n.x ;", "RETURN 1 ;;", "RETURN 'cut", "CREATE (n)", ""] {
            let before = LEXED.get();
            let read = Statement::of(text, &[], true);
            assert_eq!(LEXED.get() - before, 1, "{text:?}");
            let apart = (NormalForm::of(text), Lexed::of(text, &[]), PatternId::of(text));
            assert_eq!((read.normal, read.lexed, read.pattern), apart, "{text:?}");
            assert_eq!(read.shared, SharedForm::of(text), "{text:?}");
        }
    }
}
