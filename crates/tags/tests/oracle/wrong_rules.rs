//! Wrong rules: the oracle has to catch each of them, or it proves nothing about the right ones.

use std::collections::BTreeSet;

use hopcache_tags::{Need, ReadTags, Touch, WriteEffects};

use crate::{Rules, run};

/// Pairs after which a wrong rule must have been found.
const PAIRS_MAX: usize = 4_000;

fn needs_without(tags: &ReadTags, is_forgotten: fn(&Need) -> bool) -> ReadTags {
    ReadTags::from_needs(tags.needs().iter().filter(|need| !is_forgotten(need)).cloned().collect())
}

fn effects_without(effects: &WriteEffects, is_forgotten: fn(&Touch) -> bool) -> WriteEffects {
    WriteEffects::from_parts(effects.touches().filter(|touch| !is_forgotten(touch)).cloned())
}

fn caught(needs: fn(ReadTags) -> ReadTags, effects: fn(WriteEffects) -> WriteEffects) {
    let account = run(&Rules { needs, effects }, PAIRS_MAX, 1);
    assert!(!account.wrong.is_empty(), "{} pairs, none wrong", account.untouched);
}

/// N1: a node without a label is found although it has none.
#[test]
fn a_read_that_forgets_the_set_of_all_nodes_is_caught() {
    caught(|tags| needs_without(&tags, |need| *need == Need::Nodes), |effects| effects);
}

/// N3: a whole node shows its labels.
#[test]
fn a_read_that_forgets_the_other_labels_of_its_nodes_is_caught() {
    caught(|tags| needs_without(&tags, |need| *need == Need::LabelsOfNodes), |effects| effects);
}

/// N5: a pattern without a type matches any.
#[test]
fn a_read_that_forgets_relationships_without_a_type_is_caught() {
    caught(|tags| needs_without(&tags, |need| *need == Need::Relationships), |effects| effects);
}

/// N7: a whole node shows its properties.
#[test]
fn a_read_that_forgets_the_keys_of_whole_nodes_is_caught() {
    caught(|tags| needs_without(&tags, |need| *need == Need::NodeKeys), |effects| effects);
}

/// T3: the labels of a deleted node are not known. Here it counts as a node without a label.
#[test]
fn a_deletion_that_forgets_the_labels_of_its_node_is_caught() {
    caught(
        |tags| tags,
        |effects| {
            let without_label = |touch: &Touch| match touch {
                Touch::NodeDeleted => Touch::NodeCreated,
                other => other.clone(),
            };
            WriteEffects::from_parts(effects.touches().map(without_label).collect::<BTreeSet<_>>())
        },
    );
}

/// T4: `DETACH` deletes relationships.
#[test]
fn a_detach_that_forgets_its_relationships_is_caught() {
    caught(|tags| tags, |effects| effects_without(&effects, |touch| *touch == Touch::AnyRelationship));
}

/// T6: a key is set on a node with other labels too.
#[test]
fn a_write_that_forgets_keys_is_caught() {
    caught(|tags| tags, |effects| effects_without(&effects, |touch| matches!(touch, Touch::NodeKey(_))));
}

/// T7: keys that the text does not name.
#[test]
fn a_write_that_forgets_unknown_keys_is_caught() {
    caught(|tags| tags, |effects| effects_without(&effects, |touch| *touch == Touch::AnyNodeKey));
}
