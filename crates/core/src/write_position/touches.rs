//! How one tag was touched: when last, when last without refinement, and by which kinds of touches.
//!
//! Invariants of a [`TagMark`]: each refined touch after `loose` is in each of both roles, in an entry or in the rest. So a touch that
//! no role separates from a need is not forgotten, whichever role is asked. All touches of an entry cover its keys.

use std::cell::OnceCell;

use arrayvec::ArrayVec;

use super::names::{NameId, NameTable};
use super::tag_positions::TagPositions;
use super::windows::Windows;
use crate::bookmark::TransactionId;
use crate::limits::{COVERED_KEYS_MAX, PAIRS_OF_READ_MAX, ROLE_ENTRIES_MAX, ROLE_LABELS_MAX};
use crate::tags::{
    AnchorGroup, AnchorHash, ClassId, ConstrainedKey, Cover, Key, KeyHash, NeedClasses, NeedRole, NeedsShape,
    RefinedRole, Refinement, Roles, TagId, Viewer,
};

const NEVER: TransactionId = TransactionId(0);

/// How one tag was touched.
#[derive(Debug, Clone)]
pub(super) struct TagMark {
    /// The last touch.
    pub(super) last: TransactionId,
    /// The last touch of which nothing more is known.
    loose: TransactionId,
    /// The latest transaction that came as a write, with all that is known of it.
    pub(super) told: TransactionId,
    /// What refines the touches after `loose`.
    roles: Option<Box<[RoleTouches; 2]>>,
}

/// The refined touches of one role of a tag.
#[derive(Debug, Clone)]
struct RoleTouches {
    /// The last touch that nothing separates from a need here.
    rest: TransactionId,
    entries: Vec<RoleEntry>,
}

/// The touches of one kind.
#[derive(Debug, Clone)]
struct RoleEntry {
    kind: RoleKind,
    last: TransactionId,
    windows: Windows,
}

/// What a touch says of a node, but for the values.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RoleKind {
    group: AnchorGroup,
    /// Sorted.
    cover: Cover<NameId>,
    /// Sorted.
    labels: ArrayVec<NameId, ROLE_LABELS_MAX>,
    labels_are_exact: bool,
    is_fresh: bool,
}

/// What a read needs, beside what the marks of a database say.
pub(super) struct Judge<'a> {
    pub(super) shape: &'a NeedsShape,
    pub(super) classes: &'a NeedClasses,
    viewer: Viewer,
    pub(super) names: &'a NameTable,
    positions: &'a TagPositions,
    /// What the nodes of the read certainly are; made when the first refined touch is judged.
    nodes: OnceCell<Vec<NeededNode<'a>>>,
}

/// What a node of a read certainly is, by this node's numbers of names.
struct NeededNode<'a> {
    keys: ArrayVec<NeededKey<'a>, COVERED_KEYS_MAX>,
    labels: ArrayVec<Option<NameId>, ROLE_LABELS_MAX>,
}

struct NeededKey<'a> {
    key: Key<Option<NameId>>,
    hash: KeyHash,
    gained: Option<[TagId; 2]>,
    classes: &'a [ClassId],
    is_shown: bool,
    /// See [`Judge::changed`]: each touch asks, and a result may show hundreds of values.
    changed: OnceCell<TransactionId>,
}

impl Default for TagMark {
    fn default() -> Self {
        Self { last: NEVER, loose: NEVER, told: NEVER, roles: None }
    }
}

impl TagMark {
    /// Takes a touch of which nothing more is known. Returns whether it ends more than before.
    pub(super) fn take_loose(&mut self, id: TransactionId) -> bool {
        if self.loose >= id {
            return false;
        }
        self.last = self.last.max(id);
        self.loose = id;
        self.forget_refined();
        true
    }

    /// Takes a refined touch. Returns whether it may end more than before. Its anchors are the sketch's.
    ///
    /// A touch is not known because a later one is: nodes hear of writes in any order, and the later one may have other values.
    pub(super) fn take_refined(
        &mut self,
        refinement: &Refinement,
        (tag, names): (TagId, &mut NameTable),
        (id, since): (TransactionId, TransactionId),
    ) -> bool {
        if self.loose >= id {
            return false;
        }
        self.last = self.last.max(id);
        let mut is_later = false;
        let roles = self.roles.get_or_insert_default();
        for fact in refinement.facts_of(tag) {
            for (place, touches) in roles.iter_mut().enumerate() {
                let role = fact.roles.get(place);
                let kind = role.map(|role| RoleKind::of((tag, place), role, refinement, names));
                is_later |= touches.take(kind, id, since);
            }
        }
        is_later
    }

    /// Whether a touch after this one may be of a new node that has all of these labels. Of a label, each of its touches counts; of labels
    /// that are not known, only those of new nodes: a node that goes gets no label.
    pub(super) fn may_have_made(&self, after: TransactionId, labels: &[NameId]) -> bool {
        let Some([touches, _]) = self.roles.as_deref() else { return self.last > after };
        let may_be = |entry: &&RoleEntry| {
            let lacks = |label: &NameId| !entry.kind.labels.contains(label);
            let is_new = entry.kind.is_fresh || !labels.is_empty();
            is_new && !(entry.kind.labels_are_exact && labels.iter().any(lacks))
        };
        let mut later = touches.entries.iter().filter(|entry| entry.last > after);
        self.loose > after || touches.rest > after || later.any(|entry| may_be(&entry))
    }

    /// Adds the pairs of labels that would keep these needs from touches after this one.
    pub(super) fn want_pairs(
        &self,
        needs: &[Roles],
        judge: &Judge<'_>,
        (carried, pairs): (TransactionId, &mut Vec<[Box<str>; 2]>),
    ) {
        let Some(roles) = &self.roles else { return };
        for (role, touches) in needs.iter().flat_map(|need| need.iter().zip(roles.iter())) {
            let Some((place, node)) = role.constraint.and_then(|place| Some((place, judge.node(place)?)))
            else {
                continue;
            };
            let Some(own) =
                judge.shape.constraints().get(usize::from(place)).and_then(|of| of.labels.first())
            else {
                continue;
            };
            let ending = touches.entries.iter().filter(|entry| entry.last_of(role, judge) > carried);
            for entry in ending {
                let is_shared = node.labels.iter().flatten().any(|label| entry.kind.labels.contains(label));
                let is_known = judge.excluded_after(&entry.kind.labels, node).is_some();
                let other = entry.kind.labels.first().and_then(|label| judge.names.text(*label));
                let Some(other) = other.filter(|_| !is_shared && !is_known) else { continue };
                let mut pair = [own.clone(), other.into()];
                pair.sort_unstable();
                if pairs.len() < PAIRS_OF_READ_MAX && !pairs.contains(&pair) {
                    pairs.push(pair);
                }
            }
        }
    }

    /// Adds the keys by which writes have found the nodes of this tag, each with its last such write.
    pub(super) fn add_covered_keys(&self, found: &mut Vec<(TransactionId, Key<NameId>)>) {
        let entries = self.roles.iter().flat_map(|roles| roles.iter()).flat_map(|touches| &touches.entries);
        for entry in entries {
            let Cover::Keys(keys) = &entry.kind.cover else { continue };
            found.extend(keys.iter().map(|key| (entry.last, *key)));
        }
    }

    /// Nothing more is known of the touches up to this one. Returns whether that ends more than before.
    pub(super) fn unrefine(&mut self, up_to: TransactionId) -> bool {
        self.take_loose(self.last.min(up_to))
    }

    /// Only what is after the last loose touch can still end anything.
    fn forget_refined(&mut self) {
        if self.last <= self.loose {
            self.roles = None;
        }
        for touches in self.roles.iter_mut().flat_map(|roles| roles.iter_mut()) {
            touches.entries.retain(|entry| entry.last > self.loose);
        }
    }

    /// The last touch that may end one of these needs, or a later one, if it is later than `known`; else `known`.
    pub(super) fn needed(&self, needs: &[Roles], judge: &Judge<'_>, known: TransactionId) -> TransactionId {
        let mut latest = known.max(self.loose);
        for need in needs {
            if self.last <= latest {
                break;
            }
            latest = latest.max(self.last_of(need, judge));
        }
        latest
    }

    /// Of a tag of nodes that get a value of a key: the last touch by which one may have got this value, or a later one.
    fn last_gain(&self, needed: &NeededKey<'_>, class: ClassId, judge: &Judge<'_>) -> TransactionId {
        let Some([touches, _]) = self.roles.as_deref() else { return self.last };
        let of_entry = |entry: &RoleEntry| {
            if entry.kind.cover.covers(&needed.key) {
                judge.last(AnchorHash::of(entry.kind.group, needed.hash, class)).min(entry.last)
            } else {
                entry.last
            }
        };
        let known = self.loose.max(touches.rest);
        touches.entries.iter().map(of_entry).max().unwrap_or(NEVER).max(known)
    }

    fn last_of(&self, need: &Roles, judge: &Judge<'_>) -> TransactionId {
        let Some(touches) = &self.roles else { return self.last };
        let of_role = |(role, touches): (&NeedRole, &RoleTouches)| touches.last_of(role, judge);
        need.iter().zip(touches.iter()).map(of_role).min().unwrap_or(self.last)
    }
}

impl Default for RoleTouches {
    fn default() -> Self {
        Self { rest: NEVER, entries: Vec::new() }
    }
}

impl RoleTouches {
    fn take(&mut self, kind: Option<RoleKind>, id: TransactionId, since: TransactionId) -> bool {
        if self.rest >= id {
            return false;
        }
        let Some(kind) = kind.filter(RoleKind::can_separate) else {
            self.take_rest(id);
            return true;
        };
        if self.put(RoleEntry { kind, last: id, windows: Windows::of(id, since) }) {
            if self.entries.len() > ROLE_ENTRIES_MAX {
                self.make_room();
            }
            return true;
        }
        false
    }

    fn take_rest(&mut self, id: TransactionId) {
        self.rest = self.rest.max(id);
        self.entries.retain(|entry| entry.last > self.rest);
    }

    /// Returns whether it is later than the entry of its kind.
    fn put(&mut self, entry: RoleEntry) -> bool {
        match self.entries.iter_mut().find(|own| own.kind == entry.kind) {
            Some(own) => {
                let is_later = own.last < entry.last;
                own.last = own.last.max(entry.last);
                own.windows.join(&entry.windows);
                is_later
            }
            None => {
                self.entries.push(entry);
                true
            }
        }
    }

    /// Two entries become one that covers only the keys of both: the oldest that have a key in common, and whose anchors are of one group.
    /// If there are no such two, nothing separates the touches of the oldest any more.
    fn make_room(&mut self) {
        self.entries.sort_by_key(|entry| entry.last);
        let places = 0..self.entries.len();
        let mut pairs =
            places.clone().flat_map(|one| places.clone().skip(one + 1).map(move |other| (one, other)));
        let joined = |(one, other): (usize, usize)| {
            let kind = self.entries[one].kind.both(&self.entries[other].kind)?;
            Some((one, other, kind))
        };
        match pairs.find_map(joined) {
            Some((one, other, kind)) => {
                let RoleEntry { last, mut windows, .. } = self.entries.remove(other);
                windows.join(&self.entries.remove(one).windows);
                self.put(RoleEntry { kind, last, windows });
            }
            None => {
                let oldest = self.entries.remove(0);
                self.take_rest(oldest.last);
            }
        }
    }

    fn last_of(&self, role: &NeedRole, judge: &Judge<'_>) -> TransactionId {
        let mut latest = self.rest;
        for entry in &self.entries {
            if entry.last > latest {
                latest = latest.max(entry.last_of(role, judge));
            }
        }
        latest
    }
}

impl RoleEntry {
    fn last_of(&self, role: &NeedRole, judge: &Judge<'_>) -> TransactionId {
        if self.kind.is_fresh && role.is_ref {
            return NEVER;
        }
        let Some(node) = role.constraint.and_then(|place| judge.node(place)) else { return self.last };
        let has = |label: &Option<NameId>| label.is_some_and(|label| self.kind.labels.contains(&label));
        if self.kind.labels_are_exact && !node.labels.iter().all(has) {
            return NEVER;
        }
        let last = match judge.excluded_after(&self.kind.labels, node) {
            Some(excluded) if self.last <= judge.positions.accounted().reached => {
                self.windows.last_beside(excluded)
            }
            _ => self.last,
        };
        let covered = node.keys.iter().filter(|needed| self.kind.cover.covers(&needed.key));
        covered.filter(|needed| judge.knows(needed, self.last)).fold(last, |last, needed| {
            let mut touched = NEVER;
            for class in needed.classes {
                touched = touched.max(judge.last(AnchorHash::of(self.kind.group, needed.hash, *class)));
                // Nothing is told apart any more.
                if touched >= last {
                    return last;
                }
            }
            // Nobody changes a node that its statement has made.
            let changed = if self.kind.is_fresh { NEVER } else { judge.changed(needed) };
            touched = touched.max(self.windows.last_beside(changed));
            last.min(touched.max(judge.last_unknown(needed)))
        })
    }
}

impl RoleKind {
    fn of(at: (TagId, usize), role: &RefinedRole, refinement: &Refinement, names: &mut NameTable) -> Self {
        let texts: ArrayVec<&str, ROLE_LABELS_MAX> =
            role.labels.iter().map(|label| refinement.name(*label)).collect();
        let group = AnchorGroup::of(at, &texts, role.labels_are_exact, role.is_fresh);
        let mut known = |name: u8| names.know(refinement.name(name));
        let cover = match &role.cover {
            Cover::Keys(keys) => {
                let mut keys: ArrayVec<_, COVERED_KEYS_MAX> =
                    keys.iter().filter_map(|key| known_key(*key, &mut known)).collect();
                keys.sort_unstable();
                Cover::Keys(keys)
            }
            Cover::AllBut(uncovered) => {
                let uncovered = uncovered.iter().map(|name| known(*name)).collect::<Option<ArrayVec<_, _>>>();
                uncovered.map_or_else(Cover::nothing, |mut names: ArrayVec<_, COVERED_KEYS_MAX>| {
                    names.sort_unstable();
                    Cover::AllBut(names)
                })
            }
        };
        let mut labels: ArrayVec<NameId, ROLE_LABELS_MAX> =
            role.labels.iter().filter_map(|label| known(*label)).collect();
        let labels_are_exact = role.labels_are_exact && labels.len() == role.labels.len();
        labels.sort_unstable();
        Self { group, cover, labels, labels_are_exact, is_fresh: role.is_fresh }
    }

    /// Whether there is a need from which it is separated.
    fn can_separate(&self) -> bool {
        self.is_fresh || self.labels_are_exact || !self.labels.is_empty() || !self.cover.is_nothing()
    }

    /// The kind of the touches of both, if they have one group of anchors, and a key in common.
    fn both(&self, other: &Self) -> Option<Self> {
        let cover = self.cover.both(&other.cover);
        let is_of_group = Self { cover: other.cover.clone(), ..self.clone() } == *other;
        (is_of_group && !cover.is_nothing()).then(|| Self { cover, ..self.clone() })
    }
}

fn known_key(key: Key<u8>, known: &mut impl FnMut(u8) -> Option<NameId>) -> Option<Key<NameId>> {
    Some(match key {
        Key::Property(name) => Key::Property(known(name)?),
        Key::ElementId => Key::ElementId,
        Key::Id => Key::Id,
    })
}

impl<'a> Judge<'a> {
    pub(super) fn new(
        (shape, classes, viewer): (&'a NeedsShape, &'a NeedClasses, Viewer),
        names: &'a NameTable,
        positions: &'a TagPositions,
    ) -> Self {
        Self { shape, classes, viewer, names, positions, nodes: OnceCell::new() }
    }

    /// The last transaction that touched the anchor, or a later one.
    fn last(&self, anchor: AnchorHash) -> TransactionId {
        self.positions.sketch().map_or(NEVER, |sketch| sketch.last(anchor))
    }

    /// The last transaction after which a node may have got one of these values of the key, or a later one. Of a key that nobody changes:
    /// never.
    fn changed(&self, needed: &NeededKey<'_>) -> TransactionId {
        let Some(gained) = needed.gained else { return NEVER };
        *needed.changed.get_or_init(|| {
            let marks = gained.iter().filter_map(|tag| self.positions.mark(*tag));
            let of_mark = |mark: &TagMark| {
                let of_class = |class: &ClassId| mark.last_gain(needed, *class, self);
                needed.classes.iter().map(of_class).max().unwrap_or(NEVER)
            };
            marks.map(of_mark).max().unwrap_or(NEVER).max(self.last_foreign())
        })
    }

    /// Whether a touch of this transaction can be told from the nodes with this value. Schedule, of a result that shows the node 7:
    ///   51 changes its id to 42, and this node has not heard of it yet · 52 changes the name of the node 42, is told and answered · without
    ///   this condition the result would stay, with the name of before.
    /// A read that finds the node by its id is another case: 52 does not change its result, and 51 is not answered.
    fn knows(&self, needed: &NeededKey<'_>, id: TransactionId) -> bool {
        !needed.is_shown || needed.gained.is_none() || id <= self.positions.accounted().reached
    }

    /// The last transaction that may have changed a shown value, and of which nobody knows what it changed.
    fn last_unknown(&self, needed: &NeededKey<'_>) -> TransactionId {
        if needed.is_shown && needed.gained.is_some() { self.last_foreign() } else { NEVER }
    }

    /// The last foreign transaction, also one whose mark has not come yet.
    fn last_foreign(&self) -> TransactionId {
        self.positions.last_foreign().max(self.positions.accounted().foreign)
    }

    /// The transaction after which no node of these labels was touched that is this one; `None` if that is not known.
    fn excluded_after(&self, labels: &[NameId], node: &NeededNode<'_>) -> Option<TransactionId> {
        let mut after = None::<TransactionId>;
        for own in node.labels.iter().flatten() {
            for other in labels {
                if own == other {
                    return None;
                }
                let of_pair = self.positions.excluded_after(self.viewer, [*own, *other]);
                after = of_pair.map(|of_pair| after.map_or(of_pair, |after| after.min(of_pair))).or(after);
            }
        }
        after
    }

    fn node(&self, place: u16) -> Option<&NeededNode<'a>> {
        self.nodes.get_or_init(|| self.found_nodes()).get(usize::from(place))
    }

    fn found_nodes(&self) -> Vec<NeededNode<'a>> {
        let label = |name: &str| self.names.find(name, KeyHash::of(Key::Property(name)));
        let mut nodes = Vec::with_capacity(self.shape.constraints().len());
        for (place, constraint) in self.shape.constraints().iter().enumerate() {
            let start = self.shape.start_of(place);
            let key = |(at, constrained): (usize, &'a ConstrainedKey)| {
                let classes = self.classes.of_key(start.saturating_add(at));
                let key = constrained.key.as_ref().map(|name| self.names.find(name, constrained.hash));
                (!classes.is_empty()).then_some(NeededKey {
                    key,
                    hash: constrained.hash,
                    gained: constrained.gained,
                    classes,
                    is_shown: constrained.is_shown,
                    changed: OnceCell::new(),
                })
            };
            nodes.push(NeededNode {
                keys: constraint.keys.iter().enumerate().filter_map(key).collect(),
                labels: constraint.labels.iter().map(|name| label(name)).collect(),
            });
        }
        nodes
    }
}
