//! Pairs of labels that would tell the nodes of a read from those of a write to come, if no node had both.

use std::collections::BTreeSet;

use super::reads::{NeedRole, NeedsShape};
use super::refined::{RefinedRole, Refinement, TouchedTags};
use crate::limits::PAIRS_OF_READ_MAX;

/// What is known of a node that a read needs and of a node that a write touches.
enum Relation {
    /// They are never one node.
    Apart,
    /// They are no one node if no node has both labels.
    ApartByLabels([Box<str>; 2]),
    /// They may be one node.
    Open,
}

impl NeedsShape {
    /// The pairs for this read, whatever its values are, and a write that touches this: the first of them, if they are many.
    #[must_use]
    pub fn pairs_beside(&self, touched: &TouchedTags) -> BTreeSet<[Box<str>; 2]> {
        let mut pairs = BTreeSet::new();
        let Some(refinement) = touched.refinement() else { return pairs };
        for (tag, needs) in self.by_tag() {
            if touched.tags().binary_search(tag).is_err() {
                continue;
            }
            for fact in refinement.facts_of(*tag) {
                for need in needs {
                    let of_role =
                        |(own, other): (&NeedRole, &RefinedRole)| self.relation((own, other), refinement);
                    let relations: Vec<Relation> = need.iter().zip(&fact.roles).map(of_role).collect();
                    if relations.iter().any(|relation| matches!(relation, Relation::Apart)) {
                        continue;
                    }
                    for relation in relations {
                        if let Relation::ApartByLabels(pair) = relation
                            && pairs.len() < PAIRS_OF_READ_MAX
                        {
                            pairs.insert(pair);
                        }
                    }
                }
            }
            if pairs.len() >= PAIRS_OF_READ_MAX {
                break;
            }
        }
        pairs
    }

    fn relation(&self, (own, other): (&NeedRole, &RefinedRole), refinement: &Refinement) -> Relation {
        if own.is_ref && other.is_fresh {
            return Relation::Apart;
        }
        let constraint = own.constraint.and_then(|place| self.constraints().get(usize::from(place)));
        let labels = constraint.map_or(&[][..], |constraint| &constraint.labels[..]);
        let has = |label: &str| other.labels.iter().any(|name| refinement.name(*name) == label);
        if other.labels_are_exact && !labels.iter().all(|label| has(label)) {
            return Relation::Apart;
        }
        match (labels.first(), other.labels.first()) {
            (Some(first), Some(name)) if !labels.iter().any(|label| has(label)) => {
                let mut pair = [first.clone(), refinement.name(*name).into()];
                pair.sort_unstable();
                Relation::ApartByLabels(pair)
            }
            _ => Relation::Open,
        }
    }
}
