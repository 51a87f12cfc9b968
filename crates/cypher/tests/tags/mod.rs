//! Tags: what a read depends on, what a write touches, and which texts have any.

mod anchored;
mod anchored_apps;
mod any_text;
mod calls;
mod cypher25;
mod exclusions;
mod forms;
mod narrower;
mod oracle;
mod relationship_keys;
mod rules;
mod shown;
mod shown_history;
mod statements;
mod tokens;
mod volatile;
mod words;
