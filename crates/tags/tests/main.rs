//! The tests of this crate, in one program.

mod any_text;
mod oracle;
mod rules;
mod statements;
mod tokens;
mod volatile;
