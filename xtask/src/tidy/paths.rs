//! The names in a source file: its imports, the paths in its code, the items and modules that it declares.
//!
//! Reads one file at a time. [`super::modules`] decides which file a path leads to.

use super::tokens::{self, Placed, Token};

/// A path as written: `use` of one name, or a path in the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Counted from 1.
    pub(super) line: usize,
    /// Modules that the file itself opens around it: `["tests"]` inside `mod tests { … }`.
    pub(super) inside: Vec<String>,
    /// At least one name. A glob import names the module only.
    pub(super) segments: Vec<String>,
    pub(super) kind: Kind,
    /// Under `#[cfg(test)]`.
    pub(super) is_test: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A path in the code.
    Code,
    /// `use a::b` or `use a::b as name`.
    Import { name: String, is_public: bool },
    /// `use a::*`.
    Glob { is_public: bool },
}

/// A module that the file declares. Its body is in this file or in its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) inside: Vec<String>,
    pub(super) name: String,
    pub(super) has_body: bool,
    pub(super) is_test: bool,
}

/// An item with a name: a type, function, constant, trait or macro.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) inside: Vec<String>,
    pub(super) name: String,
}

#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) references: Vec<Reference>,
    pub(super) modules: Vec<Declared>,
    pub(super) items: Vec<Item>,
}

pub(super) fn read(source: &str) -> Named {
    let mut reader = Reader { tokens: tokens::read(source), ..Reader::default() };
    reader.block(0, usize::MAX);
    reader.named
}

#[derive(Default)]
struct Reader {
    tokens: Vec<Placed>,
    named: Named,
    inside: Vec<String>,
    is_test: bool,
}

impl Reader {
    /// Reads from `at` until `end`.
    fn block(&mut self, mut at: usize, end: usize) {
        let end = end.min(self.tokens.len());
        while at < end {
            at = match self.tokens[at].word() {
                Some("mod") => self.module(at),
                Some("use") => self.import(at),
                Some(word) if declares_item(word) => {
                    self.item(at);
                    at + 1
                }
                Some(_) => self.path(at),
                None => at + 1,
            };
        }
    }

    fn module(&mut self, at: usize) -> usize {
        let Some(name) = self.tokens.get(at + 1).and_then(Placed::word).map(str::to_owned) else {
            return at + 1;
        };
        let has_body = self.tokens.get(at + 2).is_some_and(|placed| placed.is_symbol('{'));
        let is_test = self.is_test || self.has_test_attribute(at);
        self.named.modules.push(Declared {
            inside: self.inside.clone(),
            name: name.clone(),
            has_body,
            is_test,
        });
        if !has_body {
            return at + 2;
        }
        let behind = tokens::behind_bracket(&self.tokens, at + 2);
        let was_test = std::mem::replace(&mut self.is_test, is_test);
        self.inside.push(name);
        self.block(at + 3, behind);
        self.inside.pop();
        self.is_test = was_test;
        behind
    }

    /// Whether `#[cfg(test)]` stands before the item at `at`. Other attributes and a visibility may stand between.
    fn has_test_attribute(&self, at: usize) -> bool {
        let start = self.tokens[..at]
            .iter()
            .rposition(|placed| placed.is_symbol(';') || placed.is_symbol('}') || placed.is_symbol('{'));
        let before = &self.tokens[start.map_or(0, |at| at + 1)..at];
        before.windows(4).any(|four| {
            four[0].is_word("cfg")
                && four[1].is_symbol('(')
                && four[2].is_word("test")
                && four[3].is_symbol(')')
        })
    }

    fn item(&mut self, at: usize) {
        // `*const T` is a type.
        if at > 0 && self.tokens[at - 1].is_symbol('*') {
            return;
        }
        // `static mut A`, `macro_rules! a`.
        let is_between = |placed: &&Placed| placed.is_symbol('!') || placed.is_word("mut");
        let name = self.tokens[at + 1..].iter().find(|placed| !is_between(placed)).and_then(Placed::word);
        // `const fn a`: the `fn` says its name.
        if let Some(name) = name.filter(|name| *name != "fn") {
            self.named.items.push(Item { inside: self.inside.clone(), name: name.to_owned() });
        }
    }

    fn import(&mut self, at: usize) -> usize {
        // `impl Trait + use<'a>` is no import.
        if self.tokens.get(at + 1).is_some_and(|placed| placed.is_symbol('<')) {
            return at + 1;
        }
        let is_public = at > 0 && (self.tokens[at - 1].is_word("pub") || self.tokens[at - 1].is_symbol(')'));
        let is_test = self.is_test || self.has_test_attribute(at);
        let was_test = std::mem::replace(&mut self.is_test, is_test);
        let behind = self.import_tree(at + 1, &[], is_public);
        self.is_test = was_test;
        behind
    }

    /// One branch of a `use`: names, then an end, a group, a star or another name. Returns the index after the branch.
    fn import_tree(&mut self, mut at: usize, prefix: &[String], is_public: bool) -> usize {
        let mut segments = prefix.to_vec();
        loop {
            let Some(placed) = self.tokens.get(at).cloned() else { return at };
            match placed.token {
                Token::PathSeparator => at += 1,
                Token::Symbol('*') => {
                    self.refer(placed.line, segments, Kind::Glob { is_public });
                    return at + 1;
                }
                Token::Symbol('{') => return self.import_group(at, &segments, is_public),
                Token::Word(word) if word == "as" => {
                    let name = self.tokens.get(at + 1).and_then(Placed::word).unwrap_or("_").to_owned();
                    self.refer(placed.line, segments, Kind::Import { name, is_public });
                    return at + 2;
                }
                Token::Word(word) => {
                    segments.push(word);
                    at += 1;
                    let goes_on = self
                        .tokens
                        .get(at)
                        .is_some_and(|next| next.token == Token::PathSeparator || next.is_word("as"));
                    if !goes_on {
                        self.import_of(placed.line, segments, is_public);
                        return at;
                    }
                }
                _ => return at + 1,
            }
        }
    }

    fn import_group(&mut self, open: usize, prefix: &[String], is_public: bool) -> usize {
        let behind = tokens::behind_bracket(&self.tokens, open);
        let mut at = open + 1;
        while at + 1 < behind {
            at =
                if self.tokens[at].is_symbol(',') { at + 1 } else { self.import_tree(at, prefix, is_public) };
        }
        behind
    }

    /// `a::{self}` imports `a`.
    fn import_of(&mut self, line: usize, mut segments: Vec<String>, is_public: bool) {
        if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
            segments.pop();
        }
        if let Some(name) = segments.last().cloned() {
            self.refer(line, segments, Kind::Import { name, is_public });
        }
    }

    /// Names joined by `::`. One name alone is no path.
    fn path(&mut self, start: usize) -> usize {
        let mut segments = Vec::new();
        let mut at = start;
        while let Some(word) = self.tokens.get(at).and_then(Placed::word) {
            segments.push(word.to_owned());
            at += 1;
            let goes_on = self.tokens.get(at).is_some_and(|next| next.token == Token::PathSeparator)
                && self.tokens.get(at + 1).is_some_and(|next| next.word().is_some());
            if !goes_on {
                break;
            }
            at += 1;
        }
        let is_before = |back: usize, symbol| start >= back && self.tokens[start - back].is_symbol(symbol);
        let is_tail = (start > 0 && self.tokens[start - 1].token == Token::PathSeparator)
            || (is_before(1, '.') && !is_before(2, '.'));
        // `pub(in crate::a)` limits the visibility and imports nothing.
        let is_visibility = start > 0 && self.tokens[start - 1].is_word("in") && segments[0] == "crate";
        if segments.len() > 1 && !is_tail && !is_visibility {
            self.refer(self.tokens[start].line, segments, Kind::Code);
        }
        at
    }

    fn refer(&mut self, line: usize, segments: Vec<String>, kind: Kind) {
        if segments.is_empty() {
            return;
        }
        let (inside, is_test) = (self.inside.clone(), self.is_test);
        self.named.references.push(Reference { line, inside, segments, kind, is_test });
    }
}

fn declares_item(word: &str) -> bool {
    matches!(word, "struct" | "enum" | "union" | "trait" | "fn" | "const" | "static" | "type" | "macro_rules")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(source: &str) -> Vec<String> {
        let line = |reference: &Reference| {
            let mut text = format!("{} {}", reference.line, reference.segments.join("::"));
            if let Kind::Glob { .. } = reference.kind {
                text += "::*";
            }
            if reference.is_test {
                text += " test";
            }
            text
        };
        read(source).references.iter().map(line).collect()
    }

    #[test]
    fn every_form_of_an_import_is_read() {
        let source = "use crate::a;\nuse crate::{b, c::{self, D as E}, f::*};\npub(crate) use super::g::H;\n";
        let expected =
            ["1 crate::a", "2 crate::b", "2 crate::c", "2 crate::c::D", "2 crate::f::*", "3 super::g::H"];
        assert_eq!(references(source), expected);
        let public = |reference: &Reference| matches!(reference.kind, Kind::Import { is_public: true, .. });
        assert_eq!(read(source).references.iter().filter(|reference| public(reference)).count(), 1);
    }

    #[test]
    fn a_path_in_the_code_is_read_and_text_is_not() {
        let source = "fn a() -> crate::b::C { crate::d::e::<u8>(\"crate::f::G\") } // crate::h::I\n";
        assert_eq!(references(source), ["1 crate::b::C", "1 crate::d::e"]);
        assert!(
            references("/// See [`crate::a::B`].\n/* crate::c::D */\npub(in crate::e) struct F;\n")
                .is_empty()
        );
    }

    #[test]
    fn what_stands_under_cfg_test_is_marked() {
        let source = "use a::B;\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    use super::*;\n}\nuse c::D;\n";
        assert_eq!(references(source), ["1 a::B", "5 super::* test", "7 c::D"]);
        let named = read(source);
        assert_eq!(named.references[1].inside, ["tests"]);
        assert!(named.modules[0].is_test && named.modules[0].has_body);
    }

    #[test]
    fn items_are_read_by_name() {
        let source = "pub struct A;\nconst fn b() {}\nstatic mut C: u8 = 1;\nmacro_rules! d { () => {} }\n";
        let names: Vec<String> = read(source).items.into_iter().map(|item| item.name).collect();
        assert_eq!(names, ["A", "b", "C", "d"]);
    }

    #[test]
    fn a_captured_lifetime_is_no_import() {
        assert!(references("fn a<'b>() -> impl C + use<'b> { d() }\n").is_empty());
    }
}
