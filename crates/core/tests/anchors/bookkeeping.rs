//! The table's rule without its bounds, and without numbers in place of anchors.

use std::collections::BTreeMap;

use hopcache_core::bookmark::TransactionId;
use hopcache_core::tags::{AnchorHash, ClassId, Key, Refiner, TagId, TouchedRole};

use super::history::{KEYS, LABELS, Need, Needed, Role, Write, classes_of};

/// What touches of one kind have in common but for the cover: their anchors are one set.
type Group = (u64, usize, Vec<usize>, bool, bool);
/// The keys that are covered, of those that needs may have.
type Covered = [bool; 3];
type Kind = (Group, Covered, Option<Vec<usize>>);

/// The table's rule, without bounds and numbers of anchors.
#[derive(Default)]
pub(super) struct Bookkeeping {
    all: TransactionId,
    last: BTreeMap<u64, TransactionId>,
    loose: BTreeMap<u64, TransactionId>,
    kinds: BTreeMap<(u64, usize), BTreeMap<Kind, TransactionId>>,
    anchors: BTreeMap<(Group, usize, ClassId), TransactionId>,
    /// The last transaction of each place of the sketch.
    places: BTreeMap<usize, TransactionId>,
}

fn raise<K: Ord>(map: &mut BTreeMap<K, TransactionId>, key: K, id: TransactionId) {
    let known = map.entry(key).or_default();
    *known = id.max(*known);
}

fn hash_of(group: &Group, key: usize, class: ClassId) -> AnchorHash {
    let (tag, place, labels, labels_are_exact, is_fresh) = group.clone();
    let labels: Vec<&str> = labels.iter().map(|label| LABELS[*label]).collect();
    let keys: &[(Key<&str>, &[ClassId])] = &[(KEYS[key], &[class])];
    let role = TouchedRole { keys, labels: &labels, labels_are_exact, is_fresh, ..TouchedRole::default() };
    let mut refiner = Refiner::default();
    let roles = [TouchedRole::default(), role];
    refiner.fact(TagId(tag), &roles[1 - place..]);
    refiner.finish([]).refinement().unwrap().anchors()[0]
}

impl Bookkeeping {
    pub(super) fn of(writes: &[&Write]) -> Self {
        let mut book = Self::default();
        for write in writes {
            let id = write.id();
            let Some(touches) = &write.touches else {
                book.all = book.all.max(id);
                continue;
            };
            for touch in touches {
                let of_tag = touches.iter().filter(|other| other.tag == touch.tag);
                let is_loose = of_tag.clone().any(|touch| touch.roles.is_none());
                raise(&mut book.last, touch.tag, id);
                match touch.roles.as_deref().filter(|_| !is_loose) {
                    Some(roles) => (0..2).for_each(|place| book.take(touch.tag, place, roles.get(place), id)),
                    None => raise(&mut book.loose, touch.tag, id),
                }
            }
        }
        book
    }

    fn take(&mut self, tag: u64, place: usize, role: Option<&Role>, id: TransactionId) {
        let nothing = || ((tag, place, Vec::new(), false, false), [false; 3], None);
        let kind = role.map_or_else(nothing, |role| {
            let group = (tag, place, role.labels.clone(), role.labels_are_exact, role.is_fresh);
            (group, std::array::from_fn(|key| role.covers(key)), role.all_but.clone())
        });
        for (key, numbers) in role.iter().flat_map(|role| role.keys.iter()).filter(|(key, _)| kind.1[**key]) {
            for class in classes_of(numbers) {
                raise(&mut self.anchors, (kind.0.clone(), *key, class), id);
                let places = hash_of(&kind.0, *key, class).places();
                places.into_iter().for_each(|place| raise(&mut self.places, place, id));
            }
        }
        raise(self.kinds.entry((tag, place)).or_default(), kind, id);
    }

    /// `None`: a bound or a collision decides.
    pub(super) fn needed(&self, need: &Need) -> Option<TransactionId> {
        let mut latest = self.all;
        for tag in need.tags.iter().filter(|tag| self.last.contains_key(tag)) {
            let mut of_roles = Vec::new();
            for (place, needed) in need.roles.iter().enumerate() {
                let none = BTreeMap::new();
                let kinds = self.kinds.get(&(*tag, place)).unwrap_or(&none);
                if kinds.len() > 8 {
                    return None;
                }
                let mut of_role = TransactionId(0);
                for ((group, covered, _), last) in kinds {
                    of_role = of_role.max(self.of_kind(group, covered, *last, needed)?);
                }
                of_roles.push(of_role);
            }
            let refined = of_roles.into_iter().min().unwrap_or(self.last[tag]);
            latest = latest.max(refined).max(self.loose.get(tag).copied().unwrap_or_default());
        }
        Some(latest)
    }

    fn of_kind(
        &self,
        group: &Group,
        covered: &Covered,
        last: TransactionId,
        needed: &Needed,
    ) -> Option<TransactionId> {
        let (.., labels, labels_are_exact, is_fresh) = group;
        let lacks = |label: &usize| !labels.contains(label);
        if (*is_fresh && needed.is_ref) || (*labels_are_exact && needed.labels.iter().any(lacks)) {
            return Some(TransactionId(0));
        }
        let mut least = last;
        for (key, numbers) in
            needed.keys.iter().filter(|(key, numbers)| covered[**key] && !numbers.is_empty())
        {
            let mut most = TransactionId(0);
            for class in classes_of(numbers) {
                let exact = self.anchors.get(&(group.clone(), *key, class)).copied().unwrap_or_default();
                let at = |place| self.places.get(&place).copied().unwrap_or_default();
                let places = hash_of(group, *key, class).places();
                if places.map(at).into_iter().min() != Some(exact) {
                    return None;
                }
                most = most.max(exact);
            }
            least = least.min(most);
        }
        Some(least)
    }
}
