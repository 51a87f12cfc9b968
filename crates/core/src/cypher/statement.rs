//! Everything that a node needs from a statement's text, by lexing it once: its normal form, the lexer's verdict and
//! its pattern. A statement may have a megabyte (`STATEMENT_BYTES_MAX`), and each pass over that takes tens of
//! milliseconds.
//!
//! It decides nothing by itself: each of the three has its own module.

use super::lexer::{Token, tokens};
use super::normal::NormalForm;
use super::pattern::PatternId;
use super::verdict::Lexed;

/// The results of one pass over a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Its normal form: equal for texts with the same answer.
    pub normal: NormalForm,
    /// Whether it may be a cacheable read. Its parameters are not known here: see [`Lexed::with_params`].
    pub lexed: Lexed,
    /// Its pattern.
    pub pattern: PatternId,
}

impl Statement {
    /// Reads `text`. `procedures` are allowed besides the built-in list. Takes time linear in the length of the text.
    #[must_use]
    pub fn of(text: &str, procedures: &[String]) -> Self {
        let tokens: Vec<Token> = tokens(text).collect();
        Self {
            normal: NormalForm::of_tokens(text, &tokens),
            lexed: Lexed::of_tokens(text, &tokens, procedures),
            pattern: PatternId::of_tokens(text, tokens.into_iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lexer::LEXED;
    use super::*;

    /// F45: a megabyte of text is lexed once, and each of the three equals its own module's result.
    #[test]
    fn a_statement_is_lexed_once() {
        for text in ["MATCH (n {id: 7}) RETURN n.x ;", "RETURN 1 ;;", "RETURN 'cut", "CREATE (n)", ""] {
            let before = LEXED.get();
            let read = Statement::of(text, &[]);
            assert_eq!(LEXED.get() - before, 1, "{text:?}");
            let apart = (NormalForm::of(text), Lexed::of(text, &[]), PatternId::of(text));
            assert_eq!((read.normal, read.lexed, read.pattern), apart, "{text:?}");
        }
    }
}
