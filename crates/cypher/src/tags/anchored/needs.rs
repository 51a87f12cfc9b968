//! The needs of a read with what the text says about the nodes of each: rules R1 to R11 of [`crate::tags::anchored`].

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::procedures::is_pure;
use crate::syntax::tree::{
    Clause, Element, Expr, Filter, LabelExpr, Match, Name, Path, Projection, Query, Relationship, Subquery,
};
use crate::tags::anchored::deferred::Passes;
use crate::tags::anchored::env::{Constraint, Ends, Env, Held};
use crate::tags::anchored::holds::Holds;
use crate::tags::anchored::hops::{HopRole, Hops};
use crate::tags::anchored::shape::{NeedFact, Needs, Role};
use crate::tags::anchored::shown::{Showing, ShownRows};
use crate::tags::facts::{Carrier, Copies, Facts, Read};
use crate::tags::names::{Kinds, Names, plain_names};
use crate::tags::needs::{finds_itself, has_relationship, is_found_otherwise};
use crate::tags::rules::Need;

/// A read makes no node.
pub(super) type ReadEnv<'a> = Env<'a, ()>;

/// Everything that `query` depends on, and the nodes that its result shows; `None` if it copies too much, or has a clause that is not
/// followed.
pub(super) fn needs<'q>(query: &'q Query<'q>, names: &Names<'q>) -> Option<(Needs, ShownRows)> {
    let needs = Needs::default();
    let (copies, shown, is_unknown) = (Copies::default(), ShownRows::default(), false);
    let mut walk = Walk { names, needs, copies, shown, used: BTreeSet::new(), is_unknown };
    let env = Env::new(Arc::new(names.shadowed().clone()));
    let rows = if query.branches.len() == 1 { Rows::Result } else { Rows::ResultOfUnion };
    walk.query(query, &env, rows);
    walk.forget_used();
    let is_known = !walk.copies.are_too_many() && !walk.is_unknown;
    is_known.then_some((walk.needs, walk.shown))
}

/// Where the rows of a query go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// To the client.
    Result,
    /// To the client, with those of other branches of a `UNION`.
    ResultOfUnion,
    /// To the query around it, whose clauses go on with its columns.
    Columns,
    /// To the expression around it, where their use counts.
    Inside,
}

pub(super) struct Walk<'a, 'n> {
    names: &'n Names<'a>,
    needs: Needs,
    copies: Copies,
    /// What the result shows. A number that is given stays: nodes are only added.
    pub(super) shown: ShownRows,
    /// The numbers of those of which more than the result tells.
    pub(super) used: BTreeSet<u16>,
    /// Whether it has met a clause that it does not follow: the tags decide.
    is_unknown: bool,
}

impl<'a> Walk<'a, '_> {
    /// A need that no constraint narrows.
    fn need(&mut self, need: Need) {
        self.needs.add(NeedFact::Tag(need), &[]);
    }

    /// A need of a node.
    fn need_at(&mut self, need: Need, node: &Arc<Constraint>) {
        self.needs.add(NeedFact::Tag(need), &[Role::at(node)]);
    }

    /// A need of a relationship.
    fn need_between(&mut self, need: &Need, ends: Option<&Ends>) {
        let Some(ends) = ends else { return self.need(need.clone()) };
        let (out, into) = (Role::at(&ends.out), Role::at(&ends.into));
        self.needs.add(NeedFact::Tag(need.clone()), &[out.clone(), into.clone()]);
        if !ends.is_directed {
            self.needs.add(NeedFact::Tag(need.clone()), &[into, out]);
        }
    }

    /// What the rows of the query hold, if it has one branch that says so.
    fn query(&mut self, query: &'a Query<'a>, env: &ReadEnv<'a>, rows: Rows) -> Option<ReadEnv<'a>> {
        let mut columns = None;
        for branch in &query.branches {
            let mut env = env.clone();
            columns = None;
            for clause in branch {
                columns = self.clause(clause, &mut env, rows);
            }
        }
        columns.filter(|_| query.branches.len() == 1)
    }

    /// The columns of a `RETURN`.
    fn clause(&mut self, clause: &'a Clause<'a>, env: &mut ReadEnv<'a>, rows: Rows) -> Option<ReadEnv<'a>> {
        match clause {
            Clause::Match(matched) => self.matched(matched, env),
            Clause::Unwind { list, name } => {
                let facts = self.expr(list, env);
                let held = env.held_item(list, &facts);
                env.set(name.as_str(), held);
            }
            Clause::With(projection) => *env = self.projection(projection, env, Passes::Maps),
            Clause::Return(projection) => {
                let showing = match rows {
                    Rows::Result => Showing::of(projection, env, &mut self.shown),
                    Rows::ResultOfUnion => Showing::default(),
                    Rows::Columns => return Some(self.projection(projection, env, Passes::Maps)),
                    Rows::Inside => return Some(self.projection(projection, env, Passes::NoMaps)),
                };
                self.result(projection, &showing, env);
            }
            Clause::Call(call) => self.call(call, env),
            Clause::Finish => {}
            Clause::Procedure(called) if is_pure(&called.name) => {
                called.arguments.iter().chain(&called.condition).for_each(|expr| drop(self.expr(expr, env)));
                self.use_all(env);
                *env = env.emptied();
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
            Clause::New(_) => self.is_unknown = true,
        }
        None
    }

    fn call(&mut self, call: &'a Subquery<'a>, env: &mut ReadEnv<'a>) {
        let inner = env.of_subquery(call);
        let rows = if call.query.branches.len() == 1 { Rows::Columns } else { Rows::Inside };
        if let Some(columns) = self.query(&call.query, &inner, rows) {
            env.take_columns(&columns);
        }
    }

    /// What is in scope behind the projection.
    fn projection(
        &mut self,
        projection: &'a Projection<'a>,
        env: &ReadEnv<'a>,
        passes: Passes,
    ) -> ReadEnv<'a> {
        let (mut facts, mut maps) = (Vec::new(), Vec::new());
        let passed_on = self.passed_on(projection, passes);
        for (item, passes) in projection.items.iter().zip(passed_on) {
            let mut deferred = Vec::new();
            facts.push(if passes {
                self.defer(&item.value, env, &mut Vec::new(), &mut deferred);
                Facts::of(&item.value, &mut self.copies)
            } else {
                self.expr(&item.value, env)
            });
            maps.push(deferred);
        }
        if projection.is_all && self.groups(projection) {
            self.use_all(env);
        }
        let mut passed = env.projected(projection, &facts);
        self.bind_maps(projection, maps, &mut passed);
        self.rest(projection, env, &passed);
        passed
    }

    /// `ORDER BY`, `SKIP`, `LIMIT` and `WHERE`. They see what the projection passes, and the names of before it, by which they may use maps.
    fn rest(&mut self, projection: &'a Projection<'a>, before: &ReadEnv<'a>, passed: &ReadEnv<'a>) {
        for expr in projection.rest() {
            self.use_maps(expr, before);
            self.expr(expr, passed);
        }
    }

    /// R8, R12: what the last `RETURN` reads, and the elements that the client gets.
    fn result(&mut self, projection: &'a Projection<'a>, showing: &Showing<'a>, env: &ReadEnv<'a>) {
        let shown = showing.env(env);
        let mut facts = Vec::new();
        for (column, item) in projection.items.iter().enumerate() {
            let of = self.read(&item.value, if showing.is_free(column) { &shown } else { env });
            self.show(&item.value, env, showing.is_free(column).then_some(column));
            for carrier in &of.carried {
                let kinds = self.kinds(carrier, &of, env);
                let said = Said::of(carrier, env);
                let node = showing.of_column(column).map(|number| said.node.with_shown(Some(number)));
                self.whole(&kinds, &Said { node: node.unwrap_or(said.node), ..said });
            }
            facts.push(of);
        }
        let sorted = if showing.sorts_shown_alone() { &shown } else { env };
        let passed = sorted.projected(projection, &facts);
        self.rest(projection, env, &passed);
        if projection.is_all {
            self.use_all(env);
            self.whole(&self.names.all(), &Said::default());
        }
    }

    fn whole(&mut self, kinds: &Kinds<'_>, of: &Said) {
        if kinds.node {
            self.need_at(Need::LabelsOfNodes, &of.node);
        }
        self.any_key(kinds, of);
    }

    pub(super) fn any_key(&mut self, kinds: &Kinds<'_>, of: &Said) {
        if kinds.node {
            self.need_at(Need::NodeKeys, &of.node);
        }
        if !kinds.relationship {
            return;
        }
        match kinds.few_types() {
            Some(types) => types.for_each(|name| {
                self.need_between(&Need::RelationshipKeysOf(name.to_owned()), of.ends.as_ref());
            }),
            None => self.need_between(&Need::RelationshipKeys, of.ends.as_ref()),
        }
    }

    /// R7, R9.
    pub(super) fn key(&mut self, kinds: &Kinds<'_>, key: &str, of: &Said) {
        if kinds.node && of.node.has(key) {
            let role = [Role::at(&of.node)];
            self.needs.add(NeedFact::KeyLost(key.to_owned()), &role);
            self.needs.add(NeedFact::KeyGained(key.to_owned()), &role);
        } else if kinds.node {
            self.need_at(Need::NodeKey(key.to_owned()), &of.node);
        }
        if !kinds.relationship {
            return;
        }
        match kinds.few_types() {
            Some(types) => types.for_each(|name| {
                let need = Need::RelationshipKeyOf(name.to_owned(), key.to_owned());
                self.need_between(&need, of.ends.as_ref());
            }),
            None => self.need_between(&Need::RelationshipKey(key.to_owned()), of.ends.as_ref()),
        }
    }

    /// What an expression reads, and that it uses what deferred maps in it have read.
    pub(super) fn expr(&mut self, expr: &'a Expr<'a>, env: &ReadEnv<'a>) -> Facts<'a> {
        self.use_maps(expr, env);
        self.read(expr, env)
    }

    fn read(&mut self, expr: &'a Expr<'a>, env: &ReadEnv<'a>) -> Facts<'a> {
        let facts = Facts::of(expr, &mut self.copies);
        for read in &facts.reads {
            match read {
                Read::Key(of, key) => {
                    // An entry of a map is no property.
                    let elements = |of: &&Carrier<'a>| !matches!(env.holds_of(of), Holds::Maps(_));
                    let of: Vec<Carrier<'a>> = of.iter().filter(elements).copied().collect();
                    self.each(&of, (&facts, env), |walk, kinds, of| walk.key(kinds, key, of));
                }
                Read::AnyKey(of) => self.each(of, (&facts, env), Self::any_key),
                Read::Labels(of, labels) => {
                    let node = match of.as_slice() {
                        [only] => Said::of(only, env).node,
                        _ => Arc::default(),
                    };
                    self.labels(labels, Need::LabelAt, &node, env);
                }
                Read::AnyLabel(of) => match of.as_slice() {
                    [only] => self.need_at(Need::LabelsOfNodes, &Said::of(only, env).node),
                    _ => self.need(Need::LabelsOfNodes),
                },
                Read::Whole(of) if self.names.kinds(of).is_none() => {}
                Read::Whole(_) => self.whole(&Kinds::any(), &Said::default()),
                Read::Anything => [Need::Anything, Need::Tokens].into_iter().for_each(|need| self.need(need)),
            }
        }
        facts.matches.iter().for_each(|matched| self.matched(matched, &mut env.clone()));
        facts.queries.iter().for_each(|query| drop(self.query(query, env, Rows::Inside)));
        facts
    }

    fn each(
        &mut self,
        carriers: &[Carrier<'a>],
        (facts, env): (&Facts<'a>, &ReadEnv<'a>),
        mut need: impl FnMut(&mut Self, &Kinds<'a>, &Said),
    ) {
        for carrier in carriers {
            let kinds = self.kinds(carrier, facts, env);
            need(self, &kinds, &Said::of(carrier, env));
        }
    }

    /// The kinds of the elements that a carrier of an expression with these facts stands for at this place.
    fn kinds(&self, carrier: &Carrier<'a>, facts: &Facts<'a>, env: &ReadEnv<'a>) -> Kinds<'a> {
        let named = || self.names.kinds(std::slice::from_ref(carrier));
        if facts.may_hold_in_map(carrier) {
            return named();
        }
        match env.holds_of(carrier) {
            Holds::Nothing => Kinds::none(),
            Holds::Nodes => Kinds::node(),
            Holds::Relationships => Kinds { node: false, ..named() },
            Holds::Maps(_) | Holds::AsNamed => named(),
        }
    }

    /// R1, R2.
    fn labels(
        &mut self,
        labels: &'a LabelExpr<'a>,
        need: fn(String) -> Need,
        node: &Arc<Constraint>,
        env: &ReadEnv<'a>,
    ) {
        match labels {
            LabelExpr::Name(name) => self.need_at(need(name.as_str().to_owned()), node),
            LabelExpr::Any => self.need_at(Need::LabelsOfNodes, node),
            LabelExpr::Dynamic(names) => {
                self.expr(names, env);
                self.need_at(Need::LabelsOfNodes, node);
            }
            LabelExpr::Not(inside) => self.labels(inside, need, node, env),
            LabelExpr::And(parts) | LabelExpr::Or(parts) => {
                parts.iter().for_each(|part| self.labels(part, need, node, env));
            }
        }
    }

    /// A1, A2, and the needs of the paths: those of `shortestPath` last, as other paths bind their ends.
    fn matched(&mut self, matched: &'a Match<'a>, env: &mut ReadEnv<'a>) {
        let mut inner = env.constrained(matched);
        for is_shortest in [false, true] {
            for path in matched.paths.iter().filter(|path| path.is_shortest == is_shortest) {
                self.path(path, &mut inner);
            }
        }
        matched.condition.iter().for_each(|condition| drop(self.expr(condition, &inner)));
        if matched.is_optional {
            inner.restore_constraints(env);
        }
        *env = inner;
    }

    fn path(&mut self, path: &'a Path<'a>, env: &mut ReadEnv<'a>) {
        let bound = env.bound();
        let hops = Hops::of(path, env);
        if !is_found_otherwise(path, &bound) {
            // Other paths may be one node with the constraints of all of its nodes, or two nodes.
            let alone = hops.node(0).filter(|_| path.elements.len() == 1);
            self.need_at(Need::Nodes, &alone.unwrap_or_default());
        }
        for (at, element) in path.elements.iter().enumerate() {
            match element {
                Element::Node(node) => {
                    let need = if finds_itself(node, path, &bound) { Need::Label } else { Need::LabelAt };
                    let of = Said { node: hops.node(at).unwrap_or_default(), ends: None };
                    node.labels.iter().for_each(|labels| self.labels(&labels.expr, need, &of.node, env));
                    self.filter(&node.filter, &Kinds::node(), &of, env);
                }
                Element::Relationship(found) => self.relationship(found, hops.roles(at), env),
                Element::Group { path: inside, condition, .. } => {
                    let is_linked = has_relationship(inside);
                    self.group(inside, is_linked || !finds_alone(path, &bound), env);
                    condition.iter().for_each(|condition| drop(self.expr(condition, env)));
                }
            }
        }
        hops.bind(path, env);
    }

    /// The inside of a group has no constraints: each of its variables is a list.
    fn group(&mut self, path: &'a Path<'a>, is_linked: bool, env: &ReadEnv<'a>) {
        for element in &path.elements {
            match element {
                Element::Node(node) => {
                    let need = if is_linked { Need::LabelAt } else { Need::Label };
                    let none = Said::default();
                    node.labels.iter().for_each(|labels| self.labels(&labels.expr, need, &none.node, env));
                    self.filter(&node.filter, &Kinds::node(), &none, env);
                }
                Element::Relationship(found) => self.relationship(found, None, env),
                Element::Group { path, condition, .. } => {
                    self.group(path, is_linked || has_relationship(path), env);
                    condition.iter().for_each(|condition| drop(self.expr(condition, env)));
                }
            }
        }
    }

    /// R4, R5, R6.
    fn relationship(&mut self, found: &'a Relationship<'a>, roles: Option<[HopRole; 2]>, env: &ReadEnv<'a>) {
        match &found.types {
            Some(types) => self.types(&types.expr, found, roles.as_ref(), env),
            None => self.found(&Need::Relationships, found, roles.as_ref()),
        }
        match &roles {
            Some(roles) => roles.iter().for_each(|role| self.need_at(Need::Detached, &role.node)),
            None => self.need(Need::Detached),
        }
        let types = found.types.as_ref().and_then(|types| plain_names(&types.expr));
        let ends = roles.map(|[left, right]| ReadEnv::ends(found, &left.node, &right.node));
        self.filter(&found.filter, &Kinds::relationship(types), &Said { node: Arc::default(), ends }, env);
    }

    /// A relationship that the pattern finds.
    fn found(&mut self, need: &Need, found: &Relationship<'_>, roles: Option<&[HopRole; 2]>) {
        use crate::syntax::tree::Arrow;
        let Some([left, right]) = roles else { return self.need(need.clone()) };
        let [left, right] = [left, right].map(|role| Role { is_ref: role.is_ref, ..Role::at(&role.node) });
        let mut add = |out: &Role, into: &Role| {
            self.needs.add(NeedFact::Tag(need.clone()), &[out.clone(), into.clone()]);
        };
        if found.arrow != Arrow::Left {
            add(&left, &right);
        }
        if found.arrow != Arrow::Right {
            add(&right, &left);
        }
    }

    fn types(
        &mut self,
        types: &'a LabelExpr<'a>,
        found: &'a Relationship<'a>,
        roles: Option<&[HopRole; 2]>,
        env: &ReadEnv<'a>,
    ) {
        match types {
            LabelExpr::Name(name) => self.found(&Need::Type(name.as_str().to_owned()), found, roles),
            LabelExpr::And(parts) | LabelExpr::Or(parts) => {
                parts.iter().for_each(|part| self.types(part, found, roles, env));
            }
            LabelExpr::Any | LabelExpr::Not(_) => self.found(&Need::Relationships, found, roles),
            LabelExpr::Dynamic(names) => {
                self.expr(names, env);
                self.found(&Need::Relationships, found, roles);
            }
        }
    }

    fn filter(&mut self, filter: &'a Filter<'a>, kinds: &Kinds<'_>, of: &Said, env: &ReadEnv<'a>) {
        filter.entries().for_each(|(key, _)| self.key(kinds, key.as_str(), of));
        if filter.parameter.is_some() {
            self.any_key(kinds, of);
        }
        filter.values().for_each(|value| drop(self.expr(value, env)));
    }
}

/// What is said about the element of which something is read.
#[derive(Default)]
pub(super) struct Said {
    pub(super) node: Arc<Constraint>,
    pub(super) ends: Option<Ends>,
}

impl Said {
    fn of(carrier: &Carrier<'_>, env: &ReadEnv<'_>) -> Self {
        let held = if let Carrier::Name(name) = carrier { env.get(name) } else { None };
        let of = |held: &Held<()>| Self { node: Arc::clone(&held.node), ends: held.ends.clone() };
        held.map(of).unwrap_or_default()
    }
}

/// Whether a new node can match the path without a relationship, and is no node that was found before.
fn finds_alone(path: &Path<'_>, bound: &crate::tags::needs::Bound<'_>) -> bool {
    let is_bound = |name: &Name<'_>| bound.contains(name.as_str());
    !has_relationship(path) && !path.elements.iter().filter_map(Element::name).any(is_bound)
}
