//! The nodes of the tree. Each has its parts in the order of the text.

use std::borrow::Cow;

/// The tokens of a node: from its first one to before `to`, as places among the tokens of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first token.
    pub from: usize,
    /// The token behind the last one.
    pub to: usize,
}

/// A name: of a variable, label, type, key, function or parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name<'t> {
    pub(super) text: Cow<'t, str>,
    /// Whether it has backticks in the text.
    pub is_quoted: bool,
}

impl Name<'_> {
    /// Without backticks.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As it is written in a statement.
    #[must_use]
    pub fn written(&self) -> Cow<'_, str> {
        if self.is_quoted {
            Cow::Owned(format!("`{}`", self.text.replace('`', "``")))
        } else {
            Cow::Borrowed(&self.text)
        }
    }

    /// Whether it is the number of a parameter: `$0`.
    #[must_use]
    pub fn is_number(&self) -> bool {
        !self.is_quoted && self.text.starts_with(|first: char| first.is_ascii_digit() || first == '.')
    }

    /// The same name, without its text.
    #[must_use]
    pub fn into_owned(self) -> Name<'static> {
        Name { text: Cow::Owned(self.text.into_owned()), is_quoted: self.is_quoted }
    }
}

/// A query: the branches of its `UNION`, each with its clauses.
#[derive(Debug, Default)]
pub struct Query<'t> {
    /// At least one, and each has a clause.
    pub branches: Vec<Vec<Clause<'t>>>,
}

/// A clause.
#[derive(Debug)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum Clause<'t> {
    Match(Match<'t>),
    Unwind {
        list: Expr<'t>,
        name: Name<'t>,
    },
    With(Projection<'t>),
    Return(Projection<'t>),
    /// `CALL { … }`.
    Call(Subquery<'t>),
    /// `CALL a.procedure(…) YIELD column`. It may do anything, so the tree has no parts of it.
    Procedure,
    LoadCsv {
        source: Expr<'t>,
        name: Name<'t>,
    },
    Create(Vec<Path<'t>>),
    Merge {
        path: Path<'t>,
        on_create: Vec<Change<'t>>,
        on_match: Vec<Change<'t>>,
    },
    Set(Vec<Change<'t>>),
    Remove(Vec<Change<'t>>),
    Delete {
        targets: Vec<Expr<'t>>,
        is_detach: bool,
    },
    Foreach {
        name: Name<'t>,
        list: Expr<'t>,
        body: Vec<Clause<'t>>,
    },
    Finish,
}

/// `MATCH`, and the paths with a `WHERE` in `EXISTS { … }`, `COUNT { … }` and comprehensions.
#[derive(Debug, Default)]
pub struct Match<'t> {
    /// `OPTIONAL MATCH`.
    pub is_optional: bool,
    /// `REPEATABLE ELEMENTS`, `DIFFERENT RELATIONSHIPS`.
    pub has_mode: bool,
    /// `USING INDEX …`. A hint does not change a result.
    pub has_hints: bool,
    /// At least one.
    pub paths: Vec<Path<'t>>,
    /// `WHERE`.
    pub condition: Option<Expr<'t>>,
}

/// `CALL (a, b) { … }`.
#[derive(Debug)]
pub struct Subquery<'t> {
    /// The variables that it takes from outside.
    pub scope: Scope<'t>,
    /// What stands in its brackets.
    pub query: Query<'t>,
    /// `IN TRANSACTIONS`.
    pub in_transactions: bool,
}

/// The variables that a subquery takes from outside.
#[derive(Debug)]
pub enum Scope<'t> {
    /// `CALL (a, b) { … }`; none in `CALL { … }`, whose own `WITH` takes them.
    Names(Vec<Name<'t>>),
    /// `CALL (*) { … }`.
    All,
}

/// The body of `WITH` and `RETURN`.
#[derive(Debug, Default)]
pub struct Projection<'t> {
    /// `DISTINCT`.
    pub is_distinct: bool,
    /// It has a `*`, which stands before the items.
    pub is_all: bool,
    /// The items.
    pub items: Vec<Item<'t>>,
    /// `ORDER BY`.
    pub order: Vec<SortKey<'t>>,
    /// `SKIP`, `OFFSET` and `LIMIT`, as often as they stand there.
    pub bounds: Vec<(Bound, Expr<'t>)>,
    /// `WHERE`, which only a `WITH` has.
    pub condition: Option<Expr<'t>>,
}

impl<'t> Projection<'t> {
    /// The expressions behind the items.
    pub fn rest(&self) -> impl Iterator<Item = &Expr<'t>> {
        let order = self.order.iter().map(|key| &key.value);
        order.chain(self.bounds.iter().map(|(_, count)| count)).chain(&self.condition)
    }
}

/// An item of a projection.
#[derive(Debug)]
pub struct Item<'t> {
    /// What it is.
    pub value: Expr<'t>,
    /// The name behind `AS`.
    pub alias: Option<Name<'t>>,
}

impl<'t> Item<'t> {
    /// The variable behind the projection: the alias, or the variable that the item is.
    #[must_use]
    pub fn name(&self) -> Option<&Name<'t>> {
        self.alias.as_ref().or_else(|| self.value.variable())
    }
}

/// A key of `ORDER BY`.
#[derive(Debug)]
pub struct SortKey<'t> {
    /// What it is.
    pub value: Expr<'t>,
    /// `DESC`.
    pub is_descending: bool,
}

/// What bounds the rows of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum Bound {
    Skip,
    Offset,
    Limit,
}

/// A path of a pattern.
#[derive(Debug, Default)]
pub struct Path<'t> {
    /// `p = …`.
    pub name: Option<Name<'t>>,
    /// `ANY SHORTEST`, `ALL PATHS` and their like.
    pub has_selector: bool,
    /// `shortestPath(…)` or `allShortestPaths(…)`.
    pub is_shortest: bool,
    /// Its parts. Neo4j wants nodes and relationships in turn; this reader takes any order.
    pub elements: Vec<Element<'t>>,
}

/// A part of a path.
#[derive(Debug)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum Element<'t> {
    Node(Node<'t>),
    Relationship(Relationship<'t>),
    /// `((a)-[:R]->(b) WHERE …){1,3}`.
    Group {
        path: Path<'t>,
        condition: Option<Expr<'t>>,
        quantifier: Option<Length>,
    },
}

impl<'t> Element<'t> {
    /// The variable of a node or relationship.
    #[must_use]
    pub fn name(&self) -> Option<&Name<'t>> {
        match self {
            Self::Node(node) => node.name.as_ref(),
            Self::Relationship(found) => found.name.as_ref(),
            Self::Group { .. } => None,
        }
    }
}

/// `(name:Labels {key: value} WHERE …)`.
#[derive(Debug, Default)]
pub struct Node<'t> {
    /// Its variable.
    pub name: Option<Name<'t>>,
    /// Its labels.
    pub labels: Option<Labels<'t>>,
    /// Its properties and its condition.
    pub filter: Filter<'t>,
}

/// `-[name:TYPES*1..3 {key: value} WHERE …]->{2}`.
#[derive(Debug)]
pub struct Relationship<'t> {
    /// Where it points.
    pub arrow: Arrow,
    /// Whether no gap splits `<-`, `--` and `->`.
    pub is_glued: bool,
    /// Its variable.
    pub name: Option<Name<'t>>,
    /// Its types.
    pub types: Option<Labels<'t>>,
    /// `*1..3`. Its variable is a list then.
    pub length: Option<Length>,
    /// Its properties and its condition.
    pub filter: Filter<'t>,
    /// `{2}`, `+` or `*` behind it.
    pub quantifier: Option<Length>,
}

impl Relationship<'_> {
    /// Whether it matches zero relationships as well.
    #[must_use]
    pub fn may_be_empty(&self) -> bool {
        self.length.into_iter().chain(self.quantifier).any(|length| length.least == 0)
    }
}

/// Where a relationship points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum Arrow {
    None,
    Left,
    Right,
    Both,
}

/// How often a relationship or a group may follow itself.
#[derive(Debug, Clone, Copy)]
pub struct Length {
    /// At least so often.
    pub least: u64,
    /// At most so often.
    pub most: Option<u64>,
    /// Its tokens.
    pub tokens: Span,
}

/// The properties and the condition of a node or relationship in a pattern.
#[derive(Debug, Default)]
pub struct Filter<'t> {
    /// `{key: value}`.
    pub properties: Option<Map<'t>>,
    /// The parameter in place of a map: `(n $map)`.
    pub parameter: Option<Name<'t>>,
    /// `WHERE`.
    pub condition: Option<Expr<'t>>,
}

impl<'t> Filter<'t> {
    /// The properties that it names.
    pub fn entries(&self) -> impl Iterator<Item = &(Name<'t>, Expr<'t>)> {
        self.properties.iter().flat_map(|map| &map.entries)
    }

    /// The values of the properties, and the condition.
    pub fn values(&self) -> impl Iterator<Item = &Expr<'t>> {
        self.entries().map(|(_, value)| value).chain(&self.condition)
    }
}

/// `{key: value, …}`.
#[derive(Debug)]
pub struct Map<'t> {
    /// Its keys and values.
    pub entries: Vec<(Name<'t>, Expr<'t>)>,
    /// With its brackets.
    pub tokens: Span,
}

/// The labels of a node, or the types of a relationship, behind `:` or `IS`.
#[derive(Debug)]
pub struct Labels<'t> {
    /// Which they are.
    pub expr: LabelExpr<'t>,
    /// `IS` stands before them, and no `:`.
    pub is_worded: bool,
    /// Whether this reader knows which `|` belong to them, and that `IS` begins labels.
    pub is_certain: bool,
    /// Without the `:` or `IS`.
    pub tokens: Span,
}

/// An expression of labels or types.
#[derive(Debug)]
pub enum LabelExpr<'t> {
    /// `A`.
    Name(Name<'t>),
    /// `$($param)`, `$(expression)`, `$any(…)`, `$all(…)`.
    Dynamic(Box<Expr<'t>>),
    /// `%`.
    Any,
    /// `!A`.
    Not(Box<LabelExpr<'t>>),
    /// `A:B`, `A&B`.
    And(Vec<LabelExpr<'t>>),
    /// `A|B`.
    Or(Vec<LabelExpr<'t>>),
}

/// An item of `SET` or `REMOVE`.
#[derive(Debug)]
pub enum Change<'t> {
    /// `n.key = value`, `n[key] = value`; without a value in `REMOVE`.
    Key {
        /// What has the key.
        target: Target<'t>,
        /// The last key of the item.
        key: Key<'t>,
        /// The new value.
        value: Option<Expr<'t>>,
    },
    /// `n = map` with `is_replaced`, or `n += map`.
    Keys {
        /// What has the keys.
        target: Target<'t>,
        /// The map.
        value: Expr<'t>,
        /// Whether all other keys go.
        is_replaced: bool,
    },
    /// `n:Label`.
    Labels {
        /// What has the labels.
        target: Target<'t>,
        /// The labels.
        labels: Labels<'t>,
    },
}

impl<'t> Change<'t> {
    /// What is changed.
    #[must_use]
    pub fn target(&self) -> &Target<'t> {
        match self {
            Self::Key { target, .. } | Self::Keys { target, .. } | Self::Labels { target, .. } => target,
        }
    }
}

/// What a change is made to: `n`, `(CASE … END)`, and `n.a` in `n.a.b`.
#[derive(Debug)]
pub struct Target<'t> {
    /// A variable, or an expression in brackets.
    pub base: Operand<'t>,
    /// How many keys stand between the base and the last key.
    pub keys_between: usize,
}

impl<'t> Target<'t> {
    /// The variable, if the target is one and nothing else.
    #[must_use]
    pub fn variable(&self) -> Option<&Name<'t>> {
        if self.keys_between == 0 { self.base.variable() } else { None }
    }
}

/// A property key.
#[derive(Debug)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum Key<'t> {
    Name(Name<'t>),
    /// `n[expression]`.
    Dynamic(Expr<'t>),
}

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
    MapProjection(Name<'t>, Vec<Projected<'t>>),
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
    pub(super) fn has_inner(&self) -> bool {
        let is_value = |expr: &Expr<'_>| expr.alone().is_some_and(Operand::is_value);
        match self {
            Self::Number(_) | Self::Text(_) | Self::Constant(_) | Self::Parameter(_) | Self::Variable(_) => {
                false
            }
            Self::Parenthesised(_) | Self::List(_) | Self::Case(_) | Self::Call(_) => false,
            Self::Map(map) => !map.entries.iter().all(|(_, value)| is_value(value)),
            Self::MapProjection(_, entries) => {
                !entries.iter().all(|entry| matches!(entry, Projected::All | Projected::Key(_)))
            }
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
pub enum Projected<'t> {
    /// `.*`.
    All,
    /// `.key`.
    Key(Name<'t>),
    /// `other`.
    Variable(Name<'t>),
    /// `key: value`.
    Value(Expr<'t>),
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
