//! Wrong rules: each forgets something. A pair catches one if the write changes the result and the wrong rule says "does
//! not touch".

use hopcache_tags::{Need, ReadTags, Touch, WriteEffects};

pub struct Rule {
    pub name: &'static str,
    forgets_need: fn(&Need) -> bool,
    /// What it takes a touch for; `None` forgets it.
    takes_for: fn(&Touch) -> Option<Touch>,
}

impl Rule {
    /// The wrong verdict.
    pub fn touches(&self, tags: &ReadTags, effects: &WriteEffects) -> bool {
        let needs = tags.needs().iter().filter(|need| !(self.forgets_need)(need)).cloned().collect();
        let effects = WriteEffects::from_parts(effects.touches().filter_map(self.takes_for));
        ReadTags::from_needs(needs).touched_by(&effects)
    }
}

const fn need(name: &'static str, forgets_need: fn(&Need) -> bool) -> Rule {
    Rule { name, forgets_need, takes_for: |touch| Some(touch.clone()) }
}

const fn touch(name: &'static str, takes_for: fn(&Touch) -> Option<Touch>) -> Rule {
    Rule { name, forgets_need: |_| false, takes_for }
}

fn unless(is_forgotten: bool, touch: &Touch) -> Option<Touch> {
    if is_forgotten { None } else { Some(touch.clone()) }
}

pub const WRONG_RULES: [Rule; 9] = [
    need("N1: forgets that a node without a label is found", |need| *need == Need::Nodes),
    need("N2: forgets labels", |need| matches!(need, Need::Label(_))),
    need("N3: forgets that a whole node shows its labels", |need| *need == Need::LabelsOfNodes),
    need("N5: forgets patterns without a type", |need| *need == Need::Relationships),
    need("N7: forgets that a whole node shows its keys", |need| *need == Need::NodeKeys),
    touch("T3: a deleted node counts as one without a label", |touch| match touch {
        Touch::NodeDeleted => Some(Touch::NodeCreated),
        other => Some(other.clone()),
    }),
    touch("T4: forgets the relationships that DETACH deletes", |touch| {
        unless(*touch == Touch::AnyRelationship, touch)
    }),
    touch("T6: forgets keys", |touch| unless(matches!(touch, Touch::NodeKey(_)), touch)),
    touch("T7: forgets keys that the text does not name", |touch| unless(*touch == Touch::AnyNodeKey, touch)),
];
