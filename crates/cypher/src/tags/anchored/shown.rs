//! What the last `RETURN` shows of nodes: by which parts of its rows a result tells which nodes it is about.
//!
//! Three kinds of nodes are followed. The **nodes of a column** are those that the client gets whole in it. The **nodes of a variable** are
//! those that it is bound to in the rows: each is in one of these rows, whole, as a map of its properties or by the value of one key. The nodes
//! of **deferred maps** are those whose maps come from earlier clauses ([`super::deferred`]). See "What the result shows" in
//! [`crate::tags::anchored`].

use std::collections::{BTreeMap, BTreeSet};

use crate::functions::FunctionKind;
use crate::syntax::tree::{Call, CallForm, Expr, MapProjectionItem, Operand, Projection, Tail};
use crate::tags::anchored::env::{Env, Held};
use crate::tags::anchored::holds::{Holds, has_name_twice};
use crate::tags::anchored::mentioned::Mentioned;

/// The most columns that are looked at.
const COLUMNS_MAX: usize = 64;

/// Nodes that a result shows, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShownNodes {
    pub(crate) places: Vec<Place>,
    /// Whether each place shows a part of them, and not all.
    pub(crate) are_parts: bool,
}

impl ShownNodes {
    /// Whether more of them can be seen than the value of one key.
    pub(crate) fn are_seen_beside(&self, key: &str) -> bool {
        self.places.iter().any(|place| match &place.shows {
            Shows::Nodes => true,
            Shows::Key(name) => name != key,
            Shows::Map { is_all, keys, .. } => *is_all || keys.iter().any(|name| name != key),
        })
    }
}

/// What the rows of a result show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShownRows {
    /// How many columns they have.
    pub(crate) columns: usize,
    /// By their numbers.
    pub(crate) nodes: Vec<ShownNodes>,
}

impl ShownRows {
    /// Nodes of which each of these places shows all. Returns their number.
    fn add(&mut self, places: Vec<Place>) -> u16 {
        let number = u16::try_from(self.nodes.len()).unwrap_or(u16::MAX);
        self.nodes.push(ShownNodes { places, are_parts: false });
        number
    }
}

/// A part of each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) column: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) shows: Shows,
}

/// A way into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// To each item of a list.
    Items,
    /// To one item of a list.
    Item(usize),
    /// To an entry of a map.
    Entry(String),
}

/// What a part of a row shows of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shows {
    /// All nodes in it, whole.
    Nodes,
    /// The value of this key.
    Key(String),
    /// A map with the values of keys.
    Map {
        /// All of them.
        is_all: bool,
        /// These.
        keys: Vec<String>,
        /// Entries with these names are something else.
        others: Vec<String>,
    },
}

impl Shows {
    /// Whether the value of this property can be seen.
    pub(crate) fn has(&self, key: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|name| name == key);
        match self {
            Self::Nodes => true,
            Self::Key(name) => name == key,
            Self::Map { is_all, keys, others } => (*is_all || is_in(keys)) && !is_in(others),
        }
    }
}

/// What the last `RETURN` shows, by the variables before it.
#[derive(Debug, Default)]
pub(crate) struct Showing<'a> {
    /// The numbers of the nodes of each column.
    columns: Vec<Option<u16>>,
    /// The numbers of the nodes of variables.
    variables: BTreeMap<&'a str, u16>,
    /// Whether each item is read of shown rows alone: its value decides neither which rows are shown nor their order.
    is_free: Vec<bool>,
    is_cut: bool,
}

impl<'a> Showing<'a> {
    /// `RETURN` at the end of a query without `UNION`. Its nodes are added to `rows` here, before its items are read: a subquery in an
    /// item may make maps, which get numbers behind these.
    pub(crate) fn of<M>(projection: &'a Projection<'a>, env: &Env<'a, M>, rows: &mut ShownRows) -> Self {
        // Neo4j orders the columns of a `*`.
        if projection.is_all || projection.items.len() > COLUMNS_MAX {
            return Self::default();
        }
        rows.columns = projection.items.len();
        let mut showing = Self { is_cut: !projection.bounds.is_empty(), ..Self::default() };
        for (column, item) in projection.items.iter().enumerate() {
            let place = Place { column, steps: Vec::new(), shows: Shows::Nodes };
            let number = env.is_exact(&item.value).then(|| rows.add(vec![place]));
            showing.columns.push(number);
        }
        if !showing.is_cut {
            showing.is_free = vec![true; projection.items.len()];
        } else if let Some(sorted_by) = sorted_by(projection) {
            let is_free = |item: &crate::syntax::tree::Item<'_>| {
                item.name().is_some_and(|name| !sorted_by.contains(name.as_str()))
            };
            showing.is_free = projection.items.iter().map(is_free).collect();
        } else {
            return showing;
        }
        showing.find_variables(projection, env, rows);
        showing
    }

    fn find_variables<M>(&mut self, projection: &'a Projection<'a>, env: &Env<'a, M>, rows: &mut ShownRows) {
        let mut found = BTreeMap::new();
        for (column, item) in projection.items.iter().enumerate() {
            let mut at = Vec::new();
            add_places(&item.value, (column, &mut at), env, &mut found);
        }
        for (name, places) in found {
            // The nodes of a column that is the variable are its own.
            let whole = places.iter().find(|place| place.steps.is_empty() && place.shows == Shows::Nodes);
            let number = match whole.and_then(|place| self.columns.get(place.column).copied().flatten()) {
                Some(number) => {
                    if let Some(nodes) = rows.nodes.get_mut(usize::from(number)) {
                        nodes.places = places;
                    }
                    number
                }
                None => rows.add(places),
            };
            self.variables.insert(name, number);
        }
    }

    /// The number of the nodes that a column has whole; `None` if something else of a node may decide its values.
    pub(crate) fn of_column(&self, column: usize) -> Option<u16> {
        self.columns.get(column).copied().flatten()
    }

    /// The variables, with those that are shown as such.
    pub(crate) fn env<M>(&self, env: &Env<'a, M>) -> Env<'a, M> {
        let mut shown = env.clone();
        for (name, number) in &self.variables {
            let Some(held) = env.get(name) else { continue };
            shown.set(name, Held { node: held.node.with_shown(Some(*number)), ..held.copy() });
        }
        shown
    }

    /// Whether what the item reads is read of shown nodes.
    pub(crate) fn is_free(&self, column: usize) -> bool {
        self.is_free.get(column).copied().unwrap_or(false)
    }

    /// Whether that holds of what `ORDER BY` reads.
    pub(crate) const fn sorts_shown_alone(&self) -> bool {
        !self.is_cut
    }
}

impl<'a, M> Env<'a, M> {
    /// Whether the expression's value shows elements as they are, or reads of them what [`crate::tags::facts`] says that it reads. `point(n)`
    /// is not: it reads coordinates of a node, and the facts say that its value may hold the node.
    pub(crate) fn is_exact(&self, expr: &Expr<'_>) -> bool {
        expr.terms.iter().all(|term| {
            let tails = term.tail.iter().all(|tail| match tail {
                Tail::Key(_) | Tail::IsNull | Tail::IsNotNull => true,
                Tail::Index(index) => self.is_exact(index),
                Tail::Slice(from, to) => from.iter().chain(to).all(|bound| self.is_exact(bound)),
                Tail::Labels(_) | Tail::IsNormalized | Tail::IsTyped => false,
            });
            tails && self.is_exact_operand(&term.operand)
        })
    }

    fn is_exact_operand(&self, operand: &Operand<'_>) -> bool {
        let all = |exprs: &[Expr<'_>]| exprs.iter().all(|expr| self.is_exact(expr));
        match operand {
            Operand::Number(_) | Operand::Text(_) | Operand::Constant(_) | Operand::Parameter(_) => true,
            Operand::Variable(name) => self.is_exact_name(name.as_str()),
            Operand::Parenthesised(inside) => self.is_exact(inside),
            Operand::List(items) => all(items),
            Operand::Map(map) => map.entries.iter().all(|(_, value)| self.is_exact(value)),
            Operand::MapProjection(base, entries) => {
                self.is_exact_name(base.as_str())
                    && entries.iter().all(|entry| match entry {
                        MapProjectionItem::All | MapProjectionItem::Key(_) => true,
                        MapProjectionItem::Variable(name) => self.is_exact_name(name.as_str()),
                        MapProjectionItem::Value(_, value) => self.is_exact(value),
                    })
            }
            Operand::Call(call) => {
                matches!(call.form, CallForm::Plain | CallForm::Distinct | CallForm::Star)
                    && passes_elements(call)
                    && all(&call.arguments)
            }
            _ => false,
        }
    }

    /// Whether the variable is a node, or null.
    pub(crate) fn is_node(&self, name: &str) -> bool {
        self.is_exact_name(name) && self.get(name).is_some_and(|held| matches!(held.holds, Holds::Nodes))
    }

    pub(crate) fn is_exact_name(&self, name: &str) -> bool {
        self.follows(name) && self.get(name).is_some_and(|held| held.is_exact)
    }
}

/// Functions of one row whose values are, or hold, their arguments' elements, or those that these lead to, or show what the facts know.
pub(crate) const OF_ELEMENTS: [&str; 16] = [
    "coalesce",
    "elementid",
    "endnode",
    "head",
    "id",
    "keys",
    "labels",
    "last",
    "nodes",
    "properties",
    "relationships",
    "reverse",
    "size",
    "startnode",
    "tail",
    "type",
];

/// One of [`OF_ELEMENTS`], or an aggregate of that kind.
fn passes_elements(call: &Call<'_>) -> bool {
    let function = call.function.as_str();
    let is_known = OF_ELEMENTS.contains(&function) || matches!(function, "collect" | "count");
    is_known && call.kind == Some(FunctionKind::Cypher)
}

/// Adds the places of a value that show all nodes of a variable. What may be null where the variable is not, or leaves items out, is none.
fn add_places<'a, M>(
    expr: &'a Expr<'a>,
    (column, at): (usize, &mut Vec<Step>),
    env: &Env<'a, M>,
    found: &mut BTreeMap<&'a str, Vec<Place>>,
) {
    let [term] = expr.terms.as_slice() else { return };
    if !term.signs.is_empty() {
        return;
    }
    let mut add = |name: &'a str, shows: Shows, steps: &[Step]| {
        if env.is_node(name) {
            found.entry(name).or_default().push(Place { column, steps: steps.to_vec(), shows });
        }
    };
    match (&term.operand, term.tail.as_slice()) {
        (Operand::Variable(name), []) => add(name.as_str(), Shows::Nodes, at),
        (Operand::Variable(name), [Tail::Key(key)]) => {
            add(name.as_str(), Shows::Key(key.as_str().to_owned()), at);
        }
        (Operand::MapProjection(base, entries), []) => add(base.as_str(), of_projection(entries), at),
        (Operand::Parenthesised(inside), []) => add_places(inside, (column, at), env, found),
        (Operand::Map(map), []) if !has_name_twice(map.entries.iter().map(|(name, _)| name.as_str())) => {
            for (name, value) in &map.entries {
                at.push(Step::Entry(name.as_str().to_owned()));
                add_places(value, (column, at), env, found);
                at.pop();
            }
        }
        (Operand::List(items), []) => {
            for (place, item) in items.iter().enumerate() {
                at.push(Step::Item(place));
                add_places(item, (column, at), env, found);
                at.pop();
            }
        }
        (Operand::Call(call), []) if is_collection(call) => {
            let [collected] = call.arguments.as_slice() else { return };
            // It leaves nulls out: of `collect(n.id)` a node without an id would be hidden.
            let is_null_without_node = matches!(
                collected.alone(),
                Some(Operand::Variable(_) | Operand::MapProjection(..) | Operand::Map(_) | Operand::List(_))
            );
            if is_null_without_node {
                at.push(Step::Items);
                add_places(collected, (column, at), env, found);
                at.pop();
            }
        }
        _ => {}
    }
}

pub(crate) fn is_collection(call: &Call<'_>) -> bool {
    call.function == "collect" && matches!(call.form, CallForm::Plain | CallForm::Distinct)
}

/// What `n {.*, .id, other, name: value}` shows of n.
pub(crate) fn of_projection(entries: &[MapProjectionItem<'_>]) -> Shows {
    let (mut is_all, mut keys, mut others) = (false, Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            MapProjectionItem::All => is_all = true,
            MapProjectionItem::Key(key) => keys.push(key.as_str().to_owned()),
            MapProjectionItem::Variable(name) | MapProjectionItem::Value(name, _) => {
                others.push(name.as_str().to_owned());
            }
        }
    }
    Shows::Map { is_all, keys, others }
}

/// The names that `ORDER BY` has, if all rows are those of the matches, and nothing else decides which rows are shown: no `DISTINCT`, and
/// no aggregate. `None` if that is not known.
fn sorted_by<'a>(projection: &'a Projection<'a>) -> Option<BTreeSet<&'a str>> {
    let (mut of_items, mut of_order) = (Mentioned::default(), Mentioned::default());
    projection.items.iter().for_each(|item| of_items.add(&item.value));
    projection.order.iter().for_each(|key| of_order.add(&key.value));
    let may_group = projection.is_distinct || of_items.may_aggregate || of_order.may_aggregate;
    (!may_group && !of_order.has_more).then_some(of_order.names)
}
