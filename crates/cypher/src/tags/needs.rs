//! The needs of a read, from its tree: rules N1 to N8 of [`crate::tags::rules`].

use std::collections::BTreeSet;

use crate::procedures::is_pure;
use crate::syntax::tree::{
    Clause, Element, Expr, Filter, LabelExpr, Match, Name, NewClause, Node, Path, Projection, Query,
    Relationship, Scope, Subquery,
};
use crate::tags::facts::{Carrier, Copies, Facts, Read};
use crate::tags::names::{Kinds, Names, plain_names};
use crate::tags::rules::Need;

/// Everything that `query` depends on; `None` if it copies too much.
pub(crate) fn needs<'q>(query: &'q Query<'q>, names: &Names<'q>) -> Option<BTreeSet<Need>> {
    let mut walk = Walk { names, needs: BTreeSet::new(), copies: Copies::default() };
    walk.query(query, &Bound::new(), Rows::Result);
    if walk.copies.are_too_many() { None } else { Some(walk.needs) }
}

/// Variables of nodes that an earlier clause has found.
pub(crate) type Bound<'a> = BTreeSet<&'a str>;

/// The need of a node's labels.
type LabelNeed<'f, 'a> = dyn Fn(&Node<'a>) -> fn(String) -> Need + 'f;

/// Where the rows of a query go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// To the client.
    Result,
    /// To the query around it, where their use counts.
    Inside,
}

struct Walk<'a, 'n> {
    names: &'n Names<'a>,
    needs: BTreeSet<Need>,
    copies: Copies,
}

impl<'a> Walk<'a, '_> {
    fn need(&mut self, need: Need) {
        self.needs.insert(need);
    }

    fn query(&mut self, query: &'a Query<'a>, bound: &Bound<'a>, rows: Rows) {
        for branch in &query.branches {
            let mut bound = bound.clone();
            branch.iter().for_each(|clause| self.clause(clause, &mut bound, rows));
        }
    }

    fn clause(&mut self, clause: &'a Clause<'a>, bound: &mut Bound<'a>, rows: Rows) {
        match clause {
            Clause::Match(matched) => self.matched(matched, bound),
            Clause::Unwind { list, name } => {
                self.expr(list, bound);
                bound.remove(name.as_str());
            }
            Clause::With(projection) => *bound = self.projection(projection, bound).0,
            Clause::Return(projection) => {
                let (_, carried) = self.projection(projection, bound);
                if rows == Rows::Result {
                    self.result(projection, &carried);
                }
            }
            Clause::Call(call) => self.call(call, bound),
            Clause::Finish => {}
            Clause::Procedure(called) if is_pure(&called.name) => {
                called.arguments.iter().chain(&called.condition).for_each(|expr| self.expr(expr, bound));
            }
            // N8: no read.
            Clause::Procedure(_)
            | Clause::LoadCsv { .. }
            | Clause::Create(_)
            | Clause::Merge { .. }
            | Clause::Set(_)
            | Clause::Remove(_)
            | Clause::Delete { .. }
            | Clause::Foreach { .. } => self.need(Need::Anything),
            Clause::New(clause) => self.new_clause(clause, bound, rows),
        }
    }

    fn new_clause(&mut self, clause: &'a NewClause<'a>, bound: &mut Bound<'a>, rows: Rows) {
        match clause {
            NewClause::Filter(condition) => self.expr(condition, bound),
            NewClause::Let(definitions) => {
                definitions.iter().for_each(|(_, value)| self.expr(value, bound));
                bound.retain(|known| definitions.iter().all(|(name, _)| name.as_str() != *known));
            }
            NewClause::For { list, name } => {
                self.expr(list, bound);
                bound.remove(name.as_str());
            }
            NewClause::Page(page) => page.rest().for_each(|expr| self.expr(expr, bound)),
            NewClause::Grouped { projection, keys, is_return } => {
                keys.iter().for_each(|key| self.expr(key, bound));
                let (passed, carried) = self.projection(projection, bound);
                if *is_return && rows == Rows::Result {
                    self.result(projection, &carried);
                }
                *bound = passed;
            }
            NewClause::Braces(query) => self.query(query, bound, rows),
            NewClause::When { cases, otherwise } => {
                for (condition, query) in cases {
                    self.expr(condition, bound);
                    self.query(query, bound, rows);
                }
                otherwise.iter().for_each(|query| self.query(query, bound, rows));
            }
            // The columns of a query are new names: no node behind them counts as one that was found before.
            NewClause::Next(queries) => {
                for (at, query) in queries.iter().enumerate() {
                    let bound = if at == 0 { bound.clone() } else { Bound::new() };
                    let rows = if at + 1 == queries.len() { rows } else { Rows::Inside };
                    self.query(query, &bound, rows);
                }
            }
        }
    }

    fn call(&mut self, call: &'a Subquery<'a>, bound: &Bound<'a>) {
        let inner = match &call.scope {
            Scope::All => bound.clone(),
            Scope::Names(names) => bound
                .iter()
                .filter(|name| names.iter().any(|other| other.as_str() == **name))
                .copied()
                .collect(),
        };
        self.query(&call.query, &inner, Rows::Inside);
    }

    /// The nodes of `bound` that have a name behind the projection, and what its items carry.
    ///
    /// Behind an aggregation or `DISTINCT`, `ORDER BY` and `WHERE` see these alone: in
    /// `MATCH (a:A) WITH count(*) AS c WHERE COUNT { (a) } > 1`, the second `a` is any node.
    fn projection(
        &mut self,
        projection: &'a Projection<'a>,
        bound: &Bound<'a>,
    ) -> (Bound<'a>, Vec<Carrier<'a>>) {
        let carried = projection.items.iter().flat_map(|item| self.folded(&item.value, bound)).collect();
        let passed = passed_on(projection, bound);
        projection.rest().for_each(|expr| self.expr(expr, &passed));
        (passed, carried)
    }

    /// The elements that the client gets.
    fn result(&mut self, projection: &'a Projection<'a>, carried: &[Carrier<'a>]) {
        let kinds = self.names.kinds(carried);
        self.whole(&kinds);
        if projection.is_all {
            let kinds = self.names.all();
            self.whole(&kinds);
        }
    }

    /// N3, N7: an element with everything that it shows.
    fn whole(&mut self, kinds: &Kinds<'_>) {
        if kinds.node {
            self.need(Need::LabelsOfNodes);
        }
        self.any_key(kinds);
    }

    /// N7.
    fn any_key(&mut self, kinds: &Kinds<'_>) {
        if kinds.node {
            self.need(Need::NodeKeys);
        }
        if !kinds.relationship {
            return;
        }
        match kinds.few_types() {
            Some(types) => types.for_each(|of| self.need(Need::RelationshipKeysOf(of.to_owned()))),
            None => self.need(Need::RelationshipKeys),
        }
    }

    /// N6.
    fn key(&mut self, kinds: &Kinds<'_>, key: &str) {
        if kinds.node {
            self.need(Need::NodeKey(key.to_owned()));
        }
        if !kinds.relationship {
            return;
        }
        match kinds.few_types() {
            Some(types) => types.for_each(|of| {
                self.need(Need::RelationshipKeyOf(of.to_owned(), key.to_owned()));
            }),
            None => self.need(Need::RelationshipKey(key.to_owned())),
        }
    }

    fn expr(&mut self, expr: &'a Expr<'a>, bound: &Bound<'a>) {
        self.folded(expr, bound);
    }

    /// As `expr`; what the expression carries.
    fn folded(&mut self, expr: &'a Expr<'a>, bound: &Bound<'a>) -> Vec<Carrier<'a>> {
        let facts = Facts::of(expr, &mut self.copies);
        for read in facts.reads {
            match read {
                Read::Key(of, key) => self.key(&self.names.kinds(&of), key),
                Read::AnyKey(of) => self.any_key(&self.names.kinds(&of)),
                Read::Labels(_, labels) => self.labels(labels, Need::LabelAt, bound),
                Read::AnyLabel(_) => self.need(Need::LabelsOfNodes),
                Read::Whole(of) if self.names.kinds(&of).is_none() => {}
                Read::Whole(_) => self.whole(&Kinds::any()),
                Read::Anything => self.needs.extend([Need::Anything, Need::Tokens]),
            }
        }
        facts.matches.into_iter().for_each(|matched| self.matched(matched, &mut bound.clone()));
        facts.queries.into_iter().for_each(|query| self.query(query, bound, Rows::Inside));
        facts.carried
    }

    /// N2, N3. `need` says whether the label is one by which the nodes are found.
    fn labels(&mut self, labels: &'a LabelExpr<'a>, need: fn(String) -> Need, bound: &Bound<'a>) {
        match labels {
            LabelExpr::Name(name) => self.need(need(name.as_str().to_owned())),
            LabelExpr::Any => self.need(Need::LabelsOfNodes),
            LabelExpr::Dynamic(names) => {
                self.expr(names, bound);
                self.need(Need::LabelsOfNodes);
            }
            LabelExpr::Not(inside) => self.labels(inside, need, bound),
            LabelExpr::And(parts) | LabelExpr::Or(parts) => {
                parts.iter().for_each(|part| self.labels(part, need, bound));
            }
        }
    }

    /// The paths in their order, those of `shortestPath` last: other paths bind their ends.
    fn matched(&mut self, matched: &'a Match<'a>, bound: &mut Bound<'a>) {
        for is_shortest in [false, true] {
            for path in matched.paths.iter().filter(|path| path.is_shortest == is_shortest) {
                self.path(path, bound);
            }
        }
        matched.condition.iter().for_each(|condition| self.expr(condition, bound));
    }

    /// N1, and the needs of the path's parts.
    fn path(&mut self, path: &'a Path<'a>, bound: &mut Bound<'a>) {
        if !is_found_otherwise(path, bound) {
            self.need(Need::Nodes);
        }
        let need =
            |node: &Node<'a>| if finds_itself(node, path, bound) { Need::Label } else { Need::LabelAt };
        self.elements(path, &need, bound);
        let nodes = path.elements.iter().filter_map(|element| match element {
            Element::Node(node) => node.name.as_ref(),
            _ => None,
        });
        bound.extend(nodes.map(Name::as_str));
    }

    /// `need`: whether the labels of a node are those by which it is found.
    fn elements(&mut self, path: &'a Path<'a>, need: &LabelNeed<'_, 'a>, bound: &Bound<'a>) {
        for element in &path.elements {
            match element {
                Element::Node(node) => {
                    let need = need(node);
                    node.labels.iter().for_each(|labels| self.labels(&labels.expr, need, bound));
                    self.filter(&node.filter, &Kinds::node(), bound);
                }
                Element::Relationship(found) => self.relationship(found, bound),
                Element::Group { path, condition, .. } => {
                    // What matches the inside of a group matches all of its relationships.
                    let inside: &LabelNeed<'_, 'a> =
                        if has_relationship(path) { &|_| Need::LabelAt } else { need };
                    self.elements(path, inside, bound);
                    condition.iter().for_each(|condition| self.expr(condition, bound));
                }
            }
        }
    }

    /// N4, N5.
    fn relationship(&mut self, found: &'a Relationship<'a>, bound: &Bound<'a>) {
        match &found.types {
            Some(types) => self.types(&types.expr, bound),
            None => self.need(Need::Relationships),
        }
        self.need(Need::Detached);
        let types = found.types.as_ref().and_then(|types| plain_names(&types.expr));
        self.filter(&found.filter, &Kinds::relationship(types), bound);
    }

    fn types(&mut self, types: &'a LabelExpr<'a>, bound: &Bound<'a>) {
        match types {
            LabelExpr::Name(name) => self.need(Need::Type(name.as_str().to_owned())),
            LabelExpr::And(parts) | LabelExpr::Or(parts) => {
                parts.iter().for_each(|part| self.types(part, bound));
            }
            LabelExpr::Any | LabelExpr::Not(_) => self.need(Need::Relationships),
            LabelExpr::Dynamic(names) => {
                self.expr(names, bound);
                self.need(Need::Relationships);
            }
        }
    }

    fn filter(&mut self, filter: &'a Filter<'a>, kinds: &Kinds<'_>, bound: &Bound<'a>) {
        filter.entries().for_each(|(key, _)| self.key(kinds, key.as_str()));
        if filter.parameter.is_some() {
            self.any_key(kinds);
        }
        filter.values().for_each(|value| self.expr(value, bound));
    }
}

/// The nodes of `bound` that have a name behind the `WITH`.
fn passed_on<'a>(projection: &'a Projection<'a>, bound: &Bound<'a>) -> Bound<'a> {
    let mut passed = if projection.is_all { bound.clone() } else { Bound::new() };
    for item in &projection.items {
        let Some(name) = item.name() else { continue };
        match item.value.variable() {
            Some(variable) if bound.contains(variable.as_str()) => passed.insert(name.as_str()),
            _ => passed.remove(name.as_str()),
        };
    }
    passed
}

/// Whether a new node can match the path only with a new label, over a new relationship, or not at all.
///
/// Relationships that may be absent join their ends to one node, so a match of the whole path may be one node: then
/// it has the labels of all nodes of the path. Otherwise every node of a match has a relationship of the path.
pub(crate) fn is_found_otherwise(path: &Path<'_>, bound: &Bound<'_>) -> bool {
    let mut nodes = path.elements.iter().filter_map(|element| match element {
        Element::Node(node) => Some(node),
        _ => None,
    });
    if path.is_shortest {
        // `shortestPath` fails if both ends are the same node, so its ends count apart.
        return nodes.all(|node| is_anchored(node, bound));
    }
    nodes.any(|node| is_anchored(node, bound)) || has_relationship(path)
}

/// Whether a new node can match `node` without a new relationship of the path, and without being another node of it that was found
/// before.
pub(crate) fn finds_itself(node: &Node<'_>, path: &Path<'_>, bound: &Bound<'_>) -> bool {
    let is_bound = |node: &Node<'_>| node.name.as_ref().is_some_and(|name| bound.contains(name.as_str()));
    if path.is_shortest {
        return !is_bound(node);
    }
    // One with relationships that may be absent may be one node, and has the labels of all of its nodes then.
    let mut nodes = path.elements.iter().filter_map(|element| match element {
        Element::Node(node) => Some(node),
        _ => None,
    });
    !has_relationship(path) && !nodes.any(is_bound)
}

/// Whether the node has a label, or is a node that was found before.
fn is_anchored(node: &Node<'_>, bound: &Bound<'_>) -> bool {
    let is_bound = node.name.as_ref().is_some_and(|name| bound.contains(name.as_str()));
    is_bound || node.labels.as_ref().is_some_and(|labels| !may_match_unlabelled(&labels.expr))
}

/// Whether every match of the path has a relationship.
pub(crate) fn has_relationship(path: &Path<'_>) -> bool {
    path.elements.iter().any(|element| match element {
        Element::Node(_) => false,
        Element::Relationship(found) => !found.may_be_empty(),
        Element::Group { path, quantifier, .. } => {
            quantifier.is_none_or(|length| length.least > 0) && has_relationship(path)
        }
    })
}

/// Whether a node with none of the expression's labels may match it. A `!` counts as one that may.
fn may_match_unlabelled(labels: &LabelExpr<'_>) -> bool {
    match labels {
        LabelExpr::Name(_) => false,
        LabelExpr::Any | LabelExpr::Dynamic(_) | LabelExpr::Not(_) => true,
        LabelExpr::And(parts) => parts.iter().all(may_match_unlabelled),
        LabelExpr::Or(parts) => parts.iter().any(may_match_unlabelled),
    }
}
