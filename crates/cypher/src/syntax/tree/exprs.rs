//! Expressions and their operands.

use super::{Labels, Map, Match, Name, Query, Span};
use crate::functions::FunctionKind;

/// An expression: terms with operators between them, in the order of the text. It has no precedence. Who needs one, finds that
/// `OR`, `XOR`, `AND`, `NOT` bind weaker than all others, in this order.
#[derive(Debug)]
pub struct Expr<'t> {
    /// At least one.
    pub terms: Vec<Term<'t>>,
    /// Its tokens.
    pub tokens: Span,
}

impl<'t> Expr<'t> {
    /// The operand that the expression is, if it is nothing more. Brackets around it do not count.
    #[must_use]
    pub fn alone(&self) -> Option<&Operand<'t>> {
        let [term] = self.terms.as_slice() else { return None };
        match term.alone()? {
            Operand::Parenthesised(inside) => inside.alone(),
            operand => Some(operand),
        }
    }

    /// The variable that the expression is.
    #[must_use]
    pub fn variable(&self) -> Option<&Name<'t>> {
        self.alone().and_then(Operand::variable)
    }
}

/// An operand with what stands before and behind it.
#[derive(Debug)]
pub struct Term<'t> {
    /// The operator between the term before and this one; none in the first term.
    pub operator: Option<Operator>,
    /// `NOT`, `-`, `+` before the operand.
    pub signs: Vec<Sign>,
    /// The operand.
    pub operand: Operand<'t>,
    /// What stands behind the operand.
    pub tail: Vec<Tail<'t>>,
    /// Its tokens, without the operator.
    pub tokens: Span,
}

impl<'t> Term<'t> {
    /// The operand, if nothing stands before and behind it.
    #[must_use]
    pub fn alone(&self) -> Option<&Operand<'t>> {
        if self.signs.is_empty() && self.tail.is_empty() { Some(&self.operand) } else { None }
    }
}

/// An operator with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator {
    /// `+`, `<=`, `AND`, `STARTS WITH` and so on, in upper case.
    pub sign: &'static str,
    /// Whether its characters have no gap between them.
    pub is_glued: bool,
}

/// What stands before an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum Sign {
    Not,
    Minus,
    Plus,
}

/// What stands behind an operand.
#[derive(Debug)]
pub enum Tail<'t> {
    /// `.key`.
    Key(Name<'t>),
    /// `[index]`.
    Index(Box<Expr<'t>>),
    /// `[from..to]`.
    Slice(Option<Box<Expr<'t>>>, Option<Box<Expr<'t>>>),
    /// `:Label`, and `IS Label`, which is not certain.
    Labels(Labels<'t>),
    /// `IS NULL`.
    IsNull,
    /// `IS NOT NULL`.
    IsNotNull,
    /// `IS NFC NORMALIZED`, `IS NOT NORMALIZED`.
    IsNormalized,
    /// `IS :: INTEGER`. The tree does not say which type.
    IsTyped,
}

/// An operand of an expression.
#[derive(Debug)]
pub enum Operand<'t> {
    /// A number as it is written.
    Number(&'t str),
    /// A string as it is written, with its quotes.
    Text(&'t str),
    /// `TRUE`, `FALSE` or `NULL`, in upper case.
    Constant(&'static str),
    /// `$name`, `$0`.
    Parameter(Name<'t>),
    /// A variable. Of one that is named like a keyword, the tree is not certain.
    Variable(Name<'t>),
    /// `(expression)`.
    Parenthesised(Box<Expr<'t>>),
    /// `[a, b]`.
    List(Vec<Expr<'t>>),
    /// `{key: value}`.
    Map(Map<'t>),
    /// `n {.key, .*, other, key: value}`.
    MapProjection(Name<'t>, Vec<MapProjectionItem<'t>>),
    /// `CASE … END`.
    Case(Box<Case<'t>>),
    /// `name(argument, …)`.
    Call(Box<Call<'t>>),
    /// `[x IN list WHERE condition | value]`.
    ListComprehension(Box<Each<'t>>),
    /// `[(a)--(b) WHERE condition | value]`: what is matched, and the value.
    PatternComprehension(Box<(Match<'t>, Expr<'t>)>),
    /// `all(x IN list WHERE condition)`, and `any`, `none`, `single`.
    ListPredicate(Box<Each<'t>>),
    /// `reduce(sum = start, x IN list | value)`.
    Reduce(Box<Reduce<'t>>),
    /// `(a)--(b)` as a value, and `shortestPath(…)`. Its one path.
    Pattern(Box<Match<'t>>),
    /// `EXISTS { (a)--(b) WHERE … }`, `COUNT { … }`.
    PatternSubquery(Box<Match<'t>>),
    /// `EXISTS { MATCH … }`, `COUNT { … }`, and `COLLECT { … }` with `is_collect`. Only the last one's value holds elements.
    Subquery {
        /// What stands in its brackets.
        query: Box<Query<'t>>,
        /// `COLLECT`.
        is_collect: bool,
    },
}

impl<'t> Operand<'t> {
    /// Whether it has patterns, subqueries or variables of its own, or a map of more than values.
    pub(in crate::syntax) fn has_inner(&self) -> bool {
        let is_value = |expr: &Expr<'_>| expr.alone().is_some_and(Operand::is_value);
        match self {
            Self::Number(_) | Self::Text(_) | Self::Constant(_) | Self::Parameter(_) | Self::Variable(_) => {
                false
            }
            Self::Parenthesised(_) | Self::List(_) | Self::Case(_) | Self::Call(_) => false,
            Self::Map(map) => !map.entries.iter().all(|(_, value)| is_value(value)),
            Self::MapProjection(_, entries) => !entries
                .iter()
                .all(|entry| matches!(entry, MapProjectionItem::All | MapProjectionItem::Key(_))),
            _ => true,
        }
    }

    /// Whether it is a literal or a parameter.
    fn is_value(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Text(_) | Self::Constant(_) | Self::Parameter(_))
    }

    /// The string of a literal, if it has no escape.
    #[must_use]
    pub fn plain_text(&self) -> Option<&'t str> {
        let Self::Text(written) = self else { return None };
        written.get(1..written.len() - 1).filter(|inside| !inside.contains('\\'))
    }

    /// The variable that the operand is, also in brackets.
    #[must_use]
    pub fn variable(&self) -> Option<&Name<'t>> {
        match self {
            Self::Variable(name) => Some(name),
            Self::Parenthesised(inside) => inside.variable(),
            _ => None,
        }
    }
}

/// An entry of a map projection.
#[derive(Debug)]
pub enum MapProjectionItem<'t> {
    /// `.*`.
    All,
    /// `.key`.
    Key(Name<'t>),
    /// `other`.
    Variable(Name<'t>),
    /// `key: value`.
    Value(Name<'t>, Expr<'t>),
}

/// `CASE subject WHEN value THEN result ELSE otherwise END`.
#[derive(Debug)]
pub struct Case<'t> {
    /// What the values are compared with.
    pub subject: Option<Expr<'t>>,
    /// The conditions or values of each `WHEN`, and the result.
    pub branches: Vec<(Vec<When<'t>>, Expr<'t>)>,
    /// `ELSE`.
    pub otherwise: Option<Expr<'t>>,
}

/// After `WHEN`.
#[derive(Debug)]
pub enum When<'t> {
    /// A value or a condition.
    Whole(Expr<'t>),
    /// The second half of a condition: `> 3`, `STARTS WITH 'a'`.
    Half(Expr<'t>),
    /// The same without an operand: `IS NOT NULL`, `:: INTEGER`.
    Predicate,
}

/// `name(argument, …)`.
#[derive(Debug)]
pub struct Call<'t> {
    /// The parts of `a.b.name`.
    pub name: Vec<Name<'t>>,
    /// In lower case, with its dots. Neo4j ignores case by Unicode's rules here; other letters than ASCII stay as they are.
    pub function: String,
    /// What is known of the function, if anything is.
    pub kind: Option<FunctionKind>,
    /// What stands in its brackets.
    pub arguments: Vec<Expr<'t>>,
    /// Whether the arguments alone stand there: no `*`, no `ALL`, and none of the words of `trim(BOTH 'a' FROM x)`.
    pub form: CallForm,
}

/// What else stands in the brackets of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallForm {
    /// Nothing else.
    Plain,
    /// `DISTINCT` before the arguments.
    Distinct,
    /// `*`, and nothing else.
    Star,
    /// `ALL`, `DISTINCT *`, or words of `trim`.
    Worded,
}

/// A variable that is bound to the elements of a list, and what is made of each.
#[derive(Debug)]
pub struct Each<'t> {
    /// The variable.
    pub name: Name<'t>,
    /// The list.
    pub list: Expr<'t>,
    /// `WHERE`.
    pub condition: Option<Expr<'t>>,
    /// Behind `|`.
    pub value: Option<Expr<'t>>,
}

/// `reduce(sum = start, x IN list | value)`.
#[derive(Debug)]
pub struct Reduce<'t> {
    /// The name of the sum.
    pub sum: Name<'t>,
    /// Its first value.
    pub start: Expr<'t>,
    /// `x IN list | value`.
    pub each: Each<'t>,
}
