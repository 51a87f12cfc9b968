//! Names of functions and procedures with `*` for any part: `apoc.text.*`, `my.*.read`. It decides whether a name fits a pattern,
//! and nothing about what a name may do.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longest pattern, in bytes. Names of procedures have some forty.
pub const NAME_GLOB_BYTES_MAX: usize = 256;
/// Most patterns of one list: each is tried on each call of a new text.
pub const NAME_GLOBS_MAX: usize = 64;

/// A pattern of names. `*` stands for any characters, dots among them, or for none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NameGlob(Box<str>);

/// Why a text is no pattern of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameGlobError {
    /// It does not begin with a letter or `_`: a pattern that begins with `*` would allow names of any library.
    Start,
    /// It has a character that no name has.
    Character(char),
    /// It has more than [`NAME_GLOB_BYTES_MAX`] bytes.
    Length,
}

impl fmt::Display for NameGlobError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => out.write_str(
                "a pattern begins with a letter or _: name a library first, as in \"apoc.text.*\"",
            ),
            Self::Character(char) => {
                write!(
                    out,
                    "{char:?} is in no name: letters, digits, _ and dots are, and * stands for any of them"
                )
            }
            Self::Length => write!(out, "a pattern has at most {NAME_GLOB_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for NameGlobError {}

impl FromStr for NameGlob {
    type Err = NameGlobError;

    fn from_str(text: &str) -> Result<Self, NameGlobError> {
        let is_letter = |char: char| char.is_alphabetic() || char == '_';
        if !text.starts_with(is_letter) {
            return Err(NameGlobError::Start);
        }
        if text.len() > NAME_GLOB_BYTES_MAX {
            return Err(NameGlobError::Length);
        }
        let is_other = |char: char| !(is_letter(char) || char.is_numeric() || ".*".contains(char));
        match text.chars().find(|char| is_other(*char)) {
            Some(other) => Err(NameGlobError::Character(other)),
            None => Ok(Self(text.into())),
        }
    }
}

impl fmt::Display for NameGlob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl NameGlob {
    /// Whether `name` fits, in this case of letters. Takes time in proportion to both lengths, whatever the pattern is: each part
    /// between two `*` is looked for once, from where the part before it ends.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        let Some((start, rest)) = self.0.split_once('*') else { return *self.0 == *name };
        let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
        let inside = name.strip_prefix(start).and_then(|name| name.strip_suffix(end));
        let left = middle.split('*').try_fold(inside, |left, part| {
            let left = left?;
            left.find(part).map(|at| Some(&left[at + part.len()..]))
        });
        left.flatten().is_some()
    }

    /// The same pattern for names in lower case.
    #[must_use]
    pub fn lowered(&self) -> Self {
        Self(self.0.to_lowercase().into())
    }
}

/// A list of patterns. A name fits it if it fits one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameGlobs(Arc<[NameGlob]>);

impl NameGlobs {
    /// Whether `name` fits a pattern, in this case of letters.
    #[must_use]
    pub fn fit(&self, name: &str) -> bool {
        self.0.iter().any(|glob| glob.fits(name))
    }
}

impl FromIterator<NameGlob> for NameGlobs {
    fn from_iter<T: IntoIterator<Item = NameGlob>>(globs: T) -> Self {
        Self(globs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(glob: &str, name: &str) -> bool {
        glob.parse::<NameGlob>().unwrap().fits(name)
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (glob, name) in [
            ("my.read", "my.read"),
            ("apoc.text.*", "apoc.text.join"),
            ("apoc.*", "apoc.coll.sort.by"),
            ("apoc.*", "apoc."),
            ("a*c*b", "acb"),
            ("a*c*b", "a.c.cc.b"),
            ("a*b", "abb"),
            ("a**b", "ab"),
        ] {
            assert!(fits(glob, name), "{glob} {name}");
        }
        for (glob, name) in [
            ("my.read", "my.Read"),
            ("my.read", "my.reads"),
            ("apoc.text.*", "apoc.texts"),
            ("a*c*b", "ab"),
            ("aba*ba", "aba"),
            ("a*b*b", "ab"),
            ("a*", ""),
        ] {
            assert!(!fits(glob, name), "{glob} {name}");
        }
        assert!("Apoc.toX*".parse::<NameGlob>().unwrap().lowered().fits("apoc.toxy"));
    }

    #[test]
    fn a_pattern_names_a_library_first() {
        for text in ["*", "*.read", "", ".a", "1.a"] {
            assert_eq!(text.parse::<NameGlob>(), Err(NameGlobError::Start), "{text}");
        }
        for (text, char) in [("a b", ' '), ("a.b()", '('), ("a.[bc]", '['), ("a?", '?'), ("`a`.b", '`')] {
            let error = if char == '`' { NameGlobError::Start } else { NameGlobError::Character(char) };
            assert_eq!(text.parse::<NameGlob>(), Err(error), "{text}");
        }
        assert_eq!("a".repeat(257).parse::<NameGlob>(), Err(NameGlobError::Length));
        assert!("ä_1.b".parse::<NameGlob>().is_ok());
    }
}
