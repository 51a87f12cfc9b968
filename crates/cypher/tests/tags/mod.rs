//! Tags: what a read depends on, what a write touches, and which texts have any.

mod any_text;
mod calls;
mod oracle;
mod rules;
mod statements;
mod tokens;
mod volatile;
