//! Maps of nodes that are made before the last `RETURN`, and that only the result is to tell: `WITH m {.id, .name} AS m RETURN collect(m)`
//! in a subquery. What such a map reads is read of nodes that the result shows, if nothing but the result depends on its values.
//!
//! A clause may pass a map on, put it into a list or another map, and take the first of a list. All else **uses** it: then each of its nodes
//! counts, shown or not. The last of a list uses it: `collect(DISTINCT m)` leaves a map out that is equal to an earlier one, so which is the
//! last depends on maps that nobody sees.

use crate::syntax::tree::{Expr, MapProjectionItem, Operand, Projection};
use crate::tags::anchored::holds::has_name_twice;
use crate::tags::anchored::mentioned::Mentioned;
use crate::tags::anchored::needs::{ReadEnv, Said, Walk};
use crate::tags::anchored::shown::{Place, ShownNodes, Shows, Step, is_collection, of_projection};
use crate::tags::names::Kinds;

/// Where a value has maps of one place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeferredMap {
    steps: Vec<Step>,
    shows: Shows,
    /// The number of its nodes.
    number: u16,
}

/// Whether the rows of a projection go on with the maps in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passes {
    Maps,
    NoMaps,
}

/// Finds maps in a value that stands behind these steps.
type Find<'a, W> = fn(&mut W, &'a Expr<'a>, &ReadEnv<'a>, &mut Vec<Step>, &mut Vec<DeferredMap>);

/// The most maps of one text that are followed.
const DEFERRED_MAX: usize = 64;

impl<'a> Walk<'a, '_> {
    /// Whether the rows of the projection depend on the values of its items.
    pub(super) fn groups(&self, projection: &'a Projection<'a>) -> bool {
        projection.is_distinct || projection.items.iter().any(|item| Mentioned::of(&item.value).may_aggregate)
    }

    /// Whether each item passes its maps on. Those of a key by which rows are one, do not.
    pub(super) fn passed_on(&self, projection: &'a Projection<'a>, passes: Passes) -> Vec<bool> {
        let groups = self.groups(projection);
        let may_pass = passes == Passes::Maps && !projection.is_distinct;
        let items = projection.items.iter();
        items.map(|item| may_pass && (!groups || is_of_collection(&item.value))).collect()
    }

    /// The variables of a projection hold these maps.
    pub(super) fn bind_maps(
        &mut self,
        projection: &'a Projection<'a>,
        maps: Vec<Vec<DeferredMap>>,
        env: &mut ReadEnv<'a>,
    ) {
        for (item, maps) in projection.items.iter().zip(maps) {
            let numbers: Vec<u16> = maps.iter().map(|map| map.number).collect();
            let is_followed = item.name().is_some_and(|name| env.set_maps(name.as_str(), maps));
            if !is_followed {
                self.used.extend(numbers);
            }
        }
    }

    /// What a value reads whose maps are passed on, and these maps.
    pub(super) fn defer(
        &mut self,
        expr: &'a Expr<'a>,
        env: &ReadEnv<'a>,
        steps: &mut Vec<Step>,
        found: &mut Vec<DeferredMap>,
    ) {
        if let Some((base, entries)) = projection_of_node(expr, env)
            && self.shown.nodes.len() < DEFERRED_MAX
        {
            let number = u16::try_from(self.shown.nodes.len()).unwrap_or(u16::MAX);
            self.shown.nodes.push(ShownNodes { places: Vec::new(), are_parts: true });
            found.push(DeferredMap { steps: steps.clone(), shows: of_projection(entries), number });
            let node = env.node(base).with_shown(Some(number));
            let said = Said { node, ends: None };
            for entry in entries {
                match entry {
                    MapProjectionItem::All => self.any_key(&Kinds::node(), &said),
                    MapProjectionItem::Key(key) => self.key(&Kinds::node(), key.as_str(), &said),
                    MapProjectionItem::Variable(_) | MapProjectionItem::Value(..) => {}
                }
            }
            return self.in_entries(entries, env, (steps, found), Self::defer);
        }
        if !self.follow(expr, env, (steps, found), Self::defer) {
            self.expr(expr, env);
        }
    }

    /// The result tells the maps of this value: in this column, if its value decides neither which rows are shown nor their order.
    pub(super) fn show(&mut self, expr: &'a Expr<'a>, env: &ReadEnv<'a>, column: Option<usize>) {
        let Some(column) = column else { return self.use_maps(expr, env) };
        let mut found = Vec::new();
        self.find(expr, env, &mut Vec::new(), &mut found);
        for DeferredMap { steps, shows, number } in found {
            if let Some(nodes) = self.shown.nodes.get_mut(usize::from(number)) {
                nodes.places.push(Place { column, steps, shows });
            }
        }
    }

    /// The maps of earlier clauses in a value of the last `RETURN`, whose own reads are known.
    fn find(
        &mut self,
        expr: &'a Expr<'a>,
        env: &ReadEnv<'a>,
        steps: &mut Vec<Step>,
        found: &mut Vec<DeferredMap>,
    ) {
        if let Some((_, entries)) = projection_of_node(expr, env) {
            return self.in_entries(entries, env, (steps, found), Self::find);
        }
        if !self.follow(expr, env, (steps, found), Self::find) {
            self.use_maps(expr, env);
        }
    }

    /// The maps of a value that passes maps on, found by `find` in its parts. Returns whether it is one.
    fn follow(
        &mut self,
        expr: &'a Expr<'a>,
        env: &ReadEnv<'a>,
        (steps, found): (&mut Vec<Step>, &mut Vec<DeferredMap>),
        find: Find<'a, Self>,
    ) -> bool {
        let mut inside = |walk: &mut Self, value: &'a Expr<'a>, step: Step| {
            steps.push(step);
            find(walk, value, env, steps, found);
            steps.pop();
        };
        match expr.alone() {
            Some(Operand::Variable(name)) => found.extend(held(env, name.as_str(), steps)),
            Some(Operand::List(items)) => {
                items.iter().enumerate().for_each(|(at, item)| inside(self, item, Step::Item(at)));
            }
            Some(Operand::Map(map)) => {
                if has_name_twice(map.entries.iter().map(|(name, _)| name.as_str())) {
                    return false;
                }
                for (name, value) in &map.entries {
                    inside(self, value, Step::Entry(name.as_str().to_owned()));
                }
            }
            Some(Operand::Call(call)) => match call.arguments.as_slice() {
                [of] if is_collection(call) => inside(self, of, Step::Items),
                [of] if call.function == "head" => {
                    let mut of_list = Vec::new();
                    find(self, of, env, &mut Vec::new(), &mut of_list);
                    for DeferredMap { steps: of_map, shows, number } in of_list {
                        match of_map.split_first() {
                            Some((Step::Items, rest)) => {
                                let steps = steps.iter().chain(rest).cloned().collect();
                                found.push(DeferredMap { steps, shows, number });
                            }
                            _ => drop(self.used.insert(number)),
                        }
                    }
                }
                _ => return false,
            },
            _ => return false,
        }
        true
    }

    /// The maps in the entries of `n {.id, other, name: value}`, found by `find` in the values.
    fn in_entries(
        &mut self,
        entries: &'a [MapProjectionItem<'a>],
        env: &ReadEnv<'a>,
        (steps, found): (&mut Vec<Step>, &mut Vec<DeferredMap>),
        find: Find<'a, Self>,
    ) {
        for entry in entries {
            let (MapProjectionItem::Variable(name) | MapProjectionItem::Value(name, _)) = entry else {
                continue;
            };
            steps.push(Step::Entry(name.as_str().to_owned()));
            match entry {
                MapProjectionItem::Value(_, value) => find(self, value, env, steps, found),
                _ => found.extend(held(env, name.as_str(), steps)),
            }
            steps.pop();
        }
    }

    /// Something depends on all maps that this expression mentions.
    pub(super) fn use_maps(&mut self, expr: &'a Expr<'a>, env: &ReadEnv<'a>) {
        if self.shown.nodes.is_empty() {
            return;
        }
        let mentioned = Mentioned::of(expr);
        if mentioned.has_more {
            return self.use_all(env);
        }
        let held = mentioned.names.iter().filter_map(|name| env.get(name));
        self.used.extend(held.flat_map(|held| held.maps.iter().map(|map| map.number)));
    }

    /// Something depends on all maps.
    pub(super) fn use_all(&mut self, env: &ReadEnv<'a>) {
        self.used.extend(env.all().flat_map(|held| held.maps.iter().map(|map| map.number)));
    }

    /// Of the nodes of used maps the result tells nothing.
    pub(super) fn forget_used(&mut self) {
        for number in &self.used {
            if let Some(nodes) = self.shown.nodes.get_mut(usize::from(*number)) {
                nodes.places.clear();
            }
        }
    }
}

/// The maps of a variable at a place.
fn held(env: &ReadEnv<'_>, name: &str, steps: &[Step]) -> Vec<DeferredMap> {
    let maps = env.get(name).map(|held| held.maps.as_slice()).unwrap_or_default();
    let at = |map: &DeferredMap| DeferredMap {
        steps: steps.iter().chain(&map.steps).cloned().collect(),
        shows: map.shows.clone(),
        number: map.number,
    };
    maps.iter().map(at).collect()
}

/// `n {…}` of a variable that is a node, without two entries of one name.
fn projection_of_node<'a>(
    expr: &'a Expr<'a>,
    env: &ReadEnv<'a>,
) -> Option<(&'a str, &'a [MapProjectionItem<'a>])> {
    let Some(Operand::MapProjection(base, entries)) = expr.alone() else { return None };
    (env.is_node(base.as_str()) && !has_twice(entries)).then_some((base.as_str(), entries))
}

/// `collect(…)`, `head(collect(…))`.
fn is_of_collection(expr: &Expr<'_>) -> bool {
    let Some(Operand::Call(call)) = expr.alone() else { return false };
    is_collection(call)
        || matches!((call.function.as_str(), call.arguments.as_slice()), ("head", [of]) if is_of_collection(of))
}

fn has_twice(entries: &[MapProjectionItem<'_>]) -> bool {
    has_name_twice(entries.iter().filter_map(|entry| match entry {
        MapProjectionItem::All => None,
        MapProjectionItem::Key(name)
        | MapProjectionItem::Variable(name)
        | MapProjectionItem::Value(name, _) => Some(name.as_str()),
    }))
}
