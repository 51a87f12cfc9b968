//! What an expression reads and holds, from its tree. Tags need to know which properties and labels an expression reads, and
//! which graph elements its value may hold; neither depends on the operators between its terms.
//!
//! A function's value may hold the elements of its arguments, unless [`Fold::call`] says more. That of an unknown function may be any
//! element.

use crate::functions::FunctionKind;
use crate::syntax::tree::{
    Call, CallForm, Case, Clause, Each, Expr, LabelExpr, MapProjectionItem, Match, Operand, Query, Tail,
    Term, When,
};
use crate::tags::limits::COPIES_MAX;

/// What an expression reads, binds and holds.
#[derive(Debug, Default)]
pub(crate) struct Facts<'q> {
    pub(crate) reads: Vec<Read<'q>>,
    /// The graph elements that its value may be or hold.
    pub(crate) carried: Vec<Carrier<'q>>,
    /// The graph elements that maps in it may hold.
    pub(crate) in_maps: Vec<Carrier<'q>>,
    /// Variables that it binds: `x IN list`.
    pub(crate) bindings: Vec<(&'q str, Vec<Carrier<'q>>)>,
    pub(crate) matches: Vec<&'q Match<'q>>,
    pub(crate) queries: Vec<&'q Query<'q>>,
}

/// A graph element, or several of them, that a value may be or hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier<'q> {
    /// Those of a variable.
    Name(&'q str),
    /// Those in the maps that a variable holds: `x` of `x.key`, if `x` is a map of nodes.
    Inside(&'q str),
    /// Some node: `startNode(r)`.
    Node,
    /// Some relationship: `relationships(p)`.
    Relationship,
    /// Any element, also inside of maps and lists: what a function gives about which nothing is known.
    Any,
}

/// A read of an expression.
#[derive(Debug)]
pub(crate) enum Read<'q> {
    Key(Vec<Carrier<'q>>, &'q str),
    AnyKey(Vec<Carrier<'q>>),
    Labels(Vec<Carrier<'q>>, &'q LabelExpr<'q>),
    AnyLabel(Vec<Carrier<'q>>),
    /// Everything that the elements show, and what they are joined to.
    Whole(Vec<Carrier<'q>>),
    /// A function that reads the graph, or about which nothing is known.
    Anything,
}

/// How many carriers a walk has copied: `[a, b, c].x.y.z` copies three three times. Beyond [`COPIES_MAX`] facts are incomplete, and
/// the walk has to know nothing of the statement. It bounds time and memory for hostile texts.
#[derive(Debug, Default)]
pub(crate) struct Copies(usize);

impl Copies {
    pub(crate) fn are_too_many(&self) -> bool {
        self.0 > COPIES_MAX
    }
}

impl<'q> Facts<'q> {
    pub(crate) fn of(expr: &'q Expr<'q>, copies: &mut Copies) -> Self {
        Self::folded(copies, |fold| fold.expr(expr))
    }

    /// Whether it binds variables of its own: in a list, a pattern or a subquery.
    pub(crate) const fn has_scope(&self) -> bool {
        !(self.matches.is_empty() && self.queries.is_empty() && self.bindings.is_empty())
    }

    /// Whether a map that the expression makes may hold what the carrier stands for: the `n` of `{n: n}.n.x`.
    pub(crate) fn may_hold_in_map(&self, carrier: &Carrier<'q>) -> bool {
        let Carrier::Inside(name) = carrier else { return false };
        let is_named = |held: &Carrier<'q>| match held {
            Carrier::Name(other) | Carrier::Inside(other) => other == name,
            Carrier::Node | Carrier::Relationship | Carrier::Any => false,
        };
        self.in_maps.iter().any(is_named)
    }

    /// The same of an operand.
    pub(crate) fn of_operand(operand: &'q Operand<'q>, copies: &mut Copies) -> Self {
        Self::folded(copies, |fold| fold.operand(operand))
    }

    fn folded(copies: &mut Copies, read: impl FnOnce(&mut Fold<'q, '_>) -> Vec<Carrier<'q>>) -> Self {
        let mut fold = Fold { found: Self::default(), copies };
        let carried = read(&mut fold);
        Self { carried, ..fold.found }
    }
}

/// Each step adds to what was found, and returns what the value may hold.
struct Fold<'q, 'c> {
    found: Facts<'q>,
    copies: &'c mut Copies,
}

impl<'q> Fold<'q, '_> {
    fn copy(&mut self, carried: &[Carrier<'q>]) -> Vec<Carrier<'q>> {
        self.copies.0 += carried.len();
        if self.copies.are_too_many() { Vec::new() } else { carried.to_vec() }
    }

    fn expr(&mut self, expr: &'q Expr<'q>) -> Vec<Carrier<'q>> {
        let mut carried = Vec::new();
        expr.terms.iter().for_each(|term| carried.append(&mut self.term(term)));
        carried
    }

    fn exprs(&mut self, exprs: impl IntoIterator<Item = &'q Expr<'q>>) -> Vec<Carrier<'q>> {
        let mut carried = Vec::new();
        exprs.into_iter().for_each(|expr| carried.append(&mut self.expr(expr)));
        carried
    }

    fn term(&mut self, term: &'q Term<'q>) -> Vec<Carrier<'q>> {
        let carried = self.operand(&term.operand);
        term.tail.iter().fold(carried, |carried, tail| self.behind(carried, tail))
    }

    /// What a value holds with `tail` behind it.
    fn behind(&mut self, carried: Vec<Carrier<'q>>, tail: &'q Tail<'q>) -> Vec<Carrier<'q>> {
        match tail {
            Tail::Key(key) => return self.key(carried, key.as_str()),
            Tail::Index(index) => {
                self.expr(index);
                return match index.alone() {
                    // An element of a list.
                    Some(Operand::Number(digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                        carried
                    }
                    alone => match alone.and_then(Operand::plain_text) {
                        Some(key) => self.key(carried, key),
                        None => {
                            let read = Read::AnyKey(self.copy(&carried));
                            self.found.reads.push(read);
                            carried
                        }
                    },
                };
            }
            Tail::Slice(from, to) => {
                self.exprs(from.iter().chain(to).map(|bound| &**bound));
                return carried;
            }
            Tail::Labels(labels) => self.found.reads.push(Read::Labels(carried, &labels.expr)),
            Tail::IsNull | Tail::IsNotNull | Tail::IsNormalized | Tail::IsTyped => {}
        }
        Vec::new()
    }

    /// `operand.key`: the property of an element, or an entry of a map.
    fn key(&mut self, carried: Vec<Carrier<'q>>, key: &'q str) -> Vec<Carrier<'q>> {
        let read = Read::Key(self.copy(&carried), key);
        self.found.reads.push(read);
        inside(carried)
    }

    fn operand(&mut self, operand: &'q Operand<'q>) -> Vec<Carrier<'q>> {
        match operand {
            Operand::Number(_) | Operand::Text(_) | Operand::Constant(_) | Operand::Parameter(_) => {
                Vec::new()
            }
            Operand::Variable(name) => vec![Carrier::Name(name.as_str())],
            Operand::Parenthesised(inside) => self.expr(inside),
            Operand::List(items) => self.exprs(items),
            Operand::Map(map) => {
                let values = map.entries.iter().map(|(_, value)| value);
                let carried = self.exprs(values);
                self.hold_in_map(&carried);
                carried
            }
            Operand::MapProjection(base, entries) => self.map_projection(base.as_str(), entries),
            Operand::Case(case) => self.case(case),
            Operand::Call(call) => match property_tested(call) {
                Some((element, key)) => {
                    let carried = self.expr(element);
                    drop(self.key(carried, key));
                    Vec::new()
                }
                None => {
                    let carried = self.exprs(&call.arguments);
                    self.call(call, carried)
                }
            },
            Operand::ListComprehension(each) => {
                let list = self.bound_in_list(each);
                self.exprs(&each.condition);
                each.value.as_ref().map_or(list, |value| self.expr(value))
            }
            Operand::ListPredicate(each) => {
                let mut carried = self.bound_in_list(each);
                carried.append(&mut self.exprs(&each.condition));
                carried
            }
            Operand::Reduce(reduce) => {
                let mut carried = self.expr(&reduce.start);
                carried.append(&mut self.bound_in_list(&reduce.each));
                carried.append(&mut self.exprs(&reduce.each.value));
                self.bind(reduce.sum.as_str(), &carried);
                carried
            }
            Operand::PatternComprehension(parts) => {
                self.found.matches.push(&parts.0);
                self.expr(&parts.1)
            }
            Operand::Pattern(matched) => {
                self.found.matches.push(matched);
                let path = matched.paths.iter().filter(|path| !path.is_shortest);
                let names = path.flat_map(|path| path.elements.iter().filter_map(|element| element.name()));
                let carried: Vec<_> = names.map(|name| Carrier::Name(name.as_str())).collect();
                let is_shortest = matched.paths.iter().any(|path| path.is_shortest);
                if is_shortest { vec![Carrier::Node, Carrier::Relationship] } else { carried }
            }
            Operand::PatternSubquery(matched) => {
                self.found.matches.push(matched);
                Vec::new()
            }
            Operand::Subquery { query, is_collect } => {
                self.found.queries.push(query);
                if *is_collect { self.returned(query) } else { Vec::new() }
            }
        }
    }

    /// `carried` are values of a map.
    fn hold_in_map(&mut self, carried: &[Carrier<'q>]) {
        let mut copied = self.copy(carried);
        self.found.in_maps.append(&mut copied);
    }

    fn bind(&mut self, name: &'q str, carried: &[Carrier<'q>]) {
        let binding = (name, self.copy(carried));
        self.found.bindings.push(binding);
    }

    fn map_projection(&mut self, base: &'q str, entries: &'q [MapProjectionItem<'q>]) -> Vec<Carrier<'q>> {
        let mut carried = vec![Carrier::Inside(base)];
        for entry in entries {
            let mut held = match entry {
                MapProjectionItem::All => {
                    self.found.reads.push(Read::AnyKey(vec![Carrier::Name(base)]));
                    continue;
                }
                MapProjectionItem::Key(key) => {
                    self.found.reads.push(Read::Key(vec![Carrier::Name(base)], key.as_str()));
                    continue;
                }
                MapProjectionItem::Variable(name) => vec![Carrier::Name(name.as_str())],
                MapProjectionItem::Value(_, value) => self.expr(value),
            };
            self.hold_in_map(&held);
            carried.append(&mut held);
        }
        carried
    }

    fn case(&mut self, case: &'q Case<'q>) -> Vec<Carrier<'q>> {
        let mut carried = self.exprs(case.subject.iter().chain(&case.otherwise));
        for (values, result) in &case.branches {
            let values = values.iter().filter_map(|value| match value {
                When::Whole(value) | When::Half(value) => Some(value),
                When::Predicate => None,
            });
            carried.append(&mut self.exprs(values.chain([result])));
        }
        carried
    }

    /// `x IN list`: what the list holds, with `x` bound to its elements.
    fn bound_in_list(&mut self, each: &'q Each<'q>) -> Vec<Carrier<'q>> {
        let list = self.expr(&each.list);
        self.bind(each.name.as_str(), &list);
        list
    }

    /// What a function does with the elements of its arguments.
    fn call(&mut self, call: &'q Call<'q>, carried: Vec<Carrier<'q>>) -> Vec<Carrier<'q>> {
        match call.kind {
            Some(FunctionKind::Cypher) => self.call_of_cypher(&call.function, carried),
            Some(FunctionKind::Pure | FunctionKind::Volatile) => {
                let read = Read::Whole(self.copy(&carried));
                self.found.reads.push(read);
                self.hold_in_map(&carried);
                carried
            }
            Some(FunctionKind::Graph) | None => {
                self.found.reads.push(Read::Anything);
                self.hold_in_map(&[Carrier::Any]);
                vec![Carrier::Any]
            }
        }
    }

    fn call_of_cypher(&mut self, function: &str, carried: Vec<Carrier<'q>>) -> Vec<Carrier<'q>> {
        match function {
            // The value depends on which elements there are, and holds none. The type of a relationship never changes.
            "count" | "size" | "length" | "id" | "elementid" | "exists" | "isempty" | "type" => Vec::new(),
            "cardinality" | "path_length" => Vec::new(),
            // A number or a vector, and words among the arguments that look like variables.
            "vector" | "vector_distance" | "vector_norm" | "vector_dimension_count" => Vec::new(),
            // With another form than `property_tested` knows.
            "property_exists" => {
                self.found.reads.push(Read::Anything);
                Vec::new()
            }
            "labels" => {
                self.found.reads.push(Read::AnyLabel(carried));
                Vec::new()
            }
            "keys" | "properties" => {
                let read = Read::AnyKey(self.copy(&carried));
                self.found.reads.push(read);
                inside(carried)
            }
            "nodes" | "startnode" | "endnode" => vec![Carrier::Node],
            "relationships" => vec![Carrier::Relationship],
            _ => carried,
        }
    }

    /// What the rows of a subquery hold. What its items read counts where the subquery is walked.
    fn returned(&mut self, query: &'q Query<'q>) -> Vec<Carrier<'q>> {
        let returned = query.branches.iter().filter_map(|branch| branch.last());
        let items = returned.flat_map(|clause| match clause {
            Clause::Return(last) => last.items.as_slice(),
            _ => &[],
        });
        let mut carried = Vec::new();
        for item in items {
            let mut facts = Facts::of(&item.value, self.copies);
            carried.append(&mut facts.carried);
            self.found.in_maps.append(&mut facts.in_maps);
        }
        carried
    }
}

/// The element and the key of `property_exists(n, key)`, whose second argument is a name and no value.
fn property_tested<'q>(call: &'q Call<'q>) -> Option<(&'q Expr<'q>, &'q str)> {
    let [element, key] = call.arguments.as_slice() else { return None };
    let is_test = call.function == "property_exists" && call.form == CallForm::Plain;
    is_test.then_some((element, key.variable()?.as_str()))
}

/// What a property of these elements, or an entry of these maps, may hold. A property holds no element.
pub(crate) fn inside(carried: Vec<Carrier<'_>>) -> Vec<Carrier<'_>> {
    let deeper = |carrier| match carrier {
        Carrier::Name(name) | Carrier::Inside(name) => Some(Carrier::Inside(name)),
        Carrier::Node | Carrier::Relationship => None,
        Carrier::Any => Some(Carrier::Any),
    };
    carried.into_iter().filter_map(deeper).collect()
}
