//! The anchor of a read: the label and property that find the graph node it starts from. It also has the question to
//! the server about how many relationships that node has.
//!
//! An anchor is certain, or there is none. Any text gives one or none, without a panic. A condition that is not
//! certainly an equality on a property of a labelled node of the first `MATCH` gives none. The anchor decides nothing
//! about what may be cached. A node without a label is no anchor: the server would scan all nodes for it.

use hopcache_core::key::AnchorParts;
use hopcache_packstream::{Reader, Token as Packed, Writer};

use crate::lexer::{Token, tokens};
use crate::limits::{ANCHOR_EQUALITIES_MAX, ANCHOR_TEXT_BYTES_MAX, ANCHOR_VALUE_BYTES_MAX};
use crate::syntax::tree::{
    Clause, Element, Expr, LabelExpr, Match, Name as TreeName, Node, Operand, Sign, Tail, Term,
};
use crate::syntax::{Prefix, Syntax};

/// A name in a statement. The embedded graph knows no backticks, so a name that needs none gets none.
pub type Name = TreeName<'static>;

/// The start of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// Label of the node; the first one if it has several.
    pub label: Name,
    /// The property in the equality.
    pub key: Name,
    /// The value of the property: an integer, a string or a boolean, as PackStream.
    pub value: Vec<u8>,
}

/// Where the reads of one text start, whatever their parameters are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnchorForm {
    /// The first one with a scalar is the anchor.
    equalities: Vec<Equality>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Equality {
    label: Name,
    key: Name,
    value: Operated,
}

/// The other side of an equality.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Operated {
    /// A literal, as PackStream.
    Literal(Vec<u8>),
    /// The parameter of this name.
    Parameter(Box<str>),
}

impl AnchorForm {
    /// Reads a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self { equalities: Self::read(text).unwrap_or_default() }
    }

    fn read(text: &str) -> Option<Vec<Equality>> {
        if text.len() > ANCHOR_TEXT_BYTES_MAX {
            return None;
        }
        let tokens: Vec<Token> = tokens(text).collect();
        let begins_match = |first: &Token| first.text(text).eq_ignore_ascii_case("MATCH");
        if !tokens.get(Prefix::of(text, &tokens).tokens).is_some_and(begins_match) {
            return None;
        }
        let syntax = Syntax::of(text, &tokens).ok()?;
        // A second branch starts elsewhere.
        let [clauses] = syntax.query.branches.as_slice() else { return None };
        let Some(Clause::Match(matched)) = clauses.first() else { return None };
        let mut found = Vec::new();
        find(matched, &mut found);
        found.truncate(ANCHOR_EQUALITIES_MAX);
        Some(found)
    }

    /// The label, the key and the parameter of the first equality, if it is one with a parameter.
    #[must_use]
    pub fn parameter(&self) -> Option<(&Name, &Name, &str)> {
        match self.equalities.first()? {
            Equality { label, key, value: Operated::Parameter(name) } => Some((label, key, name)),
            Equality { value: Operated::Literal(_), .. } => None,
        }
    }

    /// The anchor of a run with these parameters (one PackStream map), if it certainly has one.
    #[must_use]
    pub fn with(&self, params: &[u8]) -> Option<Anchor> {
        self.equalities.iter().find_map(|Equality { label, key, value }| {
            let value = match value {
                Operated::Literal(value) => Some(value.clone()),
                Operated::Parameter(name) => parameter(name, params),
            };
            let value = value.filter(|value| value.len() <= ANCHOR_VALUE_BYTES_MAX)?;
            Some(Anchor { label: label.clone(), key: key.clone(), value })
        })
    }
}

impl Anchor {
    /// The anchor of `text` with these parameters (one PackStream map), if it certainly has one.
    #[must_use]
    pub fn of(text: &str, params: &[u8]) -> Option<Self> {
        AnchorForm::of(text).with(params)
    }

    /// What its tags are made of.
    #[must_use]
    pub fn parts(&self) -> AnchorParts<'_> {
        AnchorParts { label: self.label.as_str(), key: self.key.as_str(), value: &self.value }
    }

    /// The statement that asks for the node's degree, with its one parameter in [`Anchor::degree_params`]. If there is
    /// an index, Neo4j 5.26 plans an index seek, a limit of one row, and a read of the degree that it keeps for each
    /// node (`getDegree`). `count { (n)--() }` has the same plan, but the embedded graph does not know it. `MATCH (n
    /// …)--() RETURN count(*)` scans all relationships if there is no index.
    #[must_use]
    pub fn degree_statement(&self) -> String {
        let (label, key) = (self.label.written(), self.key.written());
        format!("MATCH (n:{label} {{{key}: $value}}) WITH n LIMIT 1 RETURN size([(n)--() | 1]) AS degree")
    }

    /// One PackStream map.
    #[must_use]
    pub fn degree_params(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.map(1);
        writer.string("value");
        writer.raw(&self.value);
        writer.into_bytes()
    }
}

fn equality(label: &TreeName<'_>, key: &TreeName<'_>, value: Operated) -> Equality {
    Equality { label: label.clone().into_owned(), key: key.clone().into_owned(), value }
}

/// The nodes of the patterns, left to right, then the `WHERE`. What is behind a part that is no chain of nodes and single
/// relationships gives none.
fn find(matched: &Match<'_>, found: &mut Vec<Equality>) {
    if matched.has_mode {
        return;
    }
    let mut labelled = Vec::new();
    for path in &matched.paths {
        if path.is_shortest || path.has_selector {
            return;
        }
        for (place, element) in path.elements.iter().enumerate() {
            match element {
                Element::Node(node) if place.is_multiple_of(2) => {
                    let Some(label) = first_label(node) else { continue };
                    let entries = node.filter.entries();
                    found.extend(
                        entries.filter_map(|(key, value)| Some(equality(label, key, operated(value)?))),
                    );
                    let is_whole = node.filter.parameter.is_none() && node.filter.condition.is_none();
                    labelled
                        .extend(node.name.as_ref().filter(|_| is_whole).map(|name| (name.as_str(), label)));
                }
                Element::Relationship(each) if place % 2 == 1 && each.quantifier.is_none() => {}
                Element::Group { quantifier: None, .. } if place.is_multiple_of(2) => {}
                _ => return,
            }
        }
    }
    if let Some(condition) = matched.condition.as_ref().filter(|_| !matched.has_hints) {
        find_in(condition, &labelled, found);
    }
}

/// A label that the node certainly has: the first one of `:A:B`.
fn first_label<'q>(node: &'q Node<'q>) -> Option<&'q TreeName<'q>> {
    let labels = node.labels.as_ref().filter(|labels| !labels.is_worded)?;
    let name = |label: &'q LabelExpr<'q>| match label {
        LabelExpr::Name(name) => Some(name),
        _ => None,
    };
    match &labels.expr {
        LabelExpr::And(parts) if parts.iter().all(|part| name(part).is_some()) => name(parts.first()?),
        one => name(one),
    }
}

/// The equalities that the condition always requires: each a part of an `AND` at its top level.
fn find_in(condition: &Expr<'_>, labelled: &[(&str, &TreeName<'_>)], found: &mut Vec<Equality>) {
    let is = |term: &Term<'_>, signs: &[&str]| {
        term.operator.is_some_and(|operator| signs.contains(&operator.sign))
    };
    if condition.terms.iter().any(|term| is(term, &["OR", "XOR"])) {
        return;
    }
    for conjunct in condition.terms.chunk_by(|_, next| !is(next, &["AND"])) {
        let [one, other] = conjunct else { continue };
        if !is(other, &["="]) {
            continue;
        }
        let of_property = |property: &Term<'_>, value: &Term<'_>| {
            let ([Tail::Key(key)], Operand::Variable(name)) = (property.tail.as_slice(), &property.operand)
            else {
                return None;
            };
            let (_, label) = labelled.iter().find(|(known, _)| *known == name.as_str())?;
            let value = operated_term(value).filter(|_| property.signs.is_empty())?;
            Some(equality(label, key, value))
        };
        found.extend(of_property(one, other));
        found.extend(of_property(other, one));
    }
}

fn operated(value: &Expr<'_>) -> Option<Operated> {
    let [term] = value.terms.as_slice() else { return None };
    operated_term(term)
}

/// A scalar, as PackStream, or the parameter that may hold one.
fn operated_term(term: &Term<'_>) -> Option<Operated> {
    if !term.tail.is_empty() {
        return None;
    }
    let literal = match (&term.operand, term.signs.as_slice()) {
        (Operand::Number(digits), [Sign::Minus]) => integer("-", digits)?,
        (Operand::Number(digits), []) => integer("", digits)?,
        (Operand::Text(quoted), []) => string(quoted)?,
        (Operand::Constant(word), []) if *word != "NULL" => packed(|writer| writer.bool(*word == "TRUE")),
        (Operand::Parameter(name), []) if !name.is_number() => {
            return Some(Operated::Parameter(name.as_str().into()));
        }
        _ => return None,
    };
    (literal.len() <= ANCHOR_VALUE_BYTES_MAX).then_some(Operated::Literal(literal))
}

fn parameter(name: &str, params: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(params);
    let Ok(Packed::Map(pairs)) = reader.token() else { return None };
    for _ in 0..pairs {
        let is_it = reader.key().ok()? == name;
        let value = reader.skip().ok()?;
        if is_it {
            let scalar = Reader::new(value).token().ok()?;
            let is_scalar = matches!(scalar, Packed::Int(_) | Packed::Str(_) | Packed::Bool(_));
            return is_scalar.then(|| value.to_vec());
        }
    }
    None
}

/// Decimal digits without a leading zero, which might be an octal number's.
fn integer(sign: &str, digits: &str) -> Option<Vec<u8>> {
    let is_plain =
        digits == "0" || !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = format!("{sign}{digits}").parse().ok().filter(|_| is_plain)?;
    Some(packed(|writer| writer.int(number)))
}

/// The text of a literal. `\u` is not among the escapes read here: the server decodes it before it forms tokens.
fn string(quoted: &str) -> Option<Vec<u8>> {
    let inside = quoted.get(1..quoted.len().checked_sub(1)?)?;
    let mut text = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(char) = chars.next() {
        text.push(match char {
            '\\' => match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                same @ ('\\' | '\'' | '"') => same,
                _ => return None,
            },
            other => other,
        });
    }
    Some(packed(|writer| writer.string(&text)))
}

fn packed(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new();
    write(&mut writer);
    writer.into_bytes()
}
