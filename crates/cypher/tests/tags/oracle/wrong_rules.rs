//! Wrong rules: each forgets something. A pair catches one if the write changes the result and the wrong rule says "does
//! not touch". Each has such a pair on [`GRAPH`].

use std::collections::BTreeSet;

use hopcache_cypher::tags::{Need, ReadTags, Touch, WriteEffects};

pub struct Rule {
    pub name: &'static str,
    wrong: Wrong,
    pub read: &'static str,
    pub write: &'static str,
}

enum Wrong {
    ForgetsNeed(fn(&Need) -> bool),
    ForgetsTouch(fn(&Touch) -> bool),
    /// Takes a need for another one.
    TakesNeed(fn(&Need) -> Need),
    /// Takes a touch for another one.
    Takes(fn(&Touch) -> Touch),
}

impl Rule {
    /// The wrong verdict.
    pub fn touches(&self, tags: &ReadTags, effects: &WriteEffects) -> bool {
        let mut needs = tags.needs().clone();
        let mut touches: BTreeSet<Touch> = effects.touches().cloned().collect();
        match &self.wrong {
            Wrong::ForgetsNeed(is_forgotten) => needs.retain(|need| !is_forgotten(need)),
            Wrong::ForgetsTouch(is_forgotten) => touches.retain(|touch| !is_forgotten(touch)),
            Wrong::TakesNeed(other) => needs = needs.iter().map(other).collect(),
            Wrong::Takes(other) => touches = touches.iter().map(other).collect(),
        }
        ReadTags::from_needs(needs).touched_by(&WriteEffects::from_parts(touches))
    }
}

pub const GRAPH: &str = "CREATE (:LA {g: $g, uid: 1, x: 1})-[:TR {x: 1}]->(:LB {g: $g, uid: 2, x: 2}),
    (:LA {g: $g, uid: 3, x: 3}), ({g: $g, uid: 4})";

/// Reads, and writes that change their results on [`GRAPH`], of shapes that random statements do not have. This crate
/// once took each pair for one that does not touch.
pub const TOUCHING: [(&str, &str); 7] = [
    ("MATCH (a:LA {g: $g}) WITH count(*) AS c WHERE COUNT { (a {g: $g}) } > 4 RETURN c", CREATE),
    ("MATCH (a:LA {g: $g}) WITH DISTINCT 1 AS c WHERE COUNT { (a {g: $g}) } > 4 RETURN c", CREATE),
    (RELATIONSHIP_X, "MATCH (m:LB {g: $g}), ({g: $g})-[n:TR]->() SET (head([{a: n}.a, m])).x = 9"),
    (
        RELATIONSHIP_X,
        "MATCH (n:LB {g: $g}), ({g: $g})-[r:TR]->() WITH collect(r) AS rs, n AS m SET (head([n IN rs | n])).x = 9",
    ),
    (
        RELATIONSHIP_X,
        "MATCH (n:LB {g: $g}) WITH n AS m SET (head(COLLECT { MATCH ({g: $g})-[n:TR]->() RETURN n })).x = 9",
    ),
    // Two nodes are found, and two are made.
    ("MATCH (n:LA {g: $g, uid: 1}) RETURN n.x", "MERGE (n:LA {g: $g}) SET n.x = 9 CREATE (:LB {g: $g})"),
    (
        "MATCH (n:LA {g: $g, uid: 1}) RETURN n.x",
        "MERGE (n:LA {g: $g}) SET n.x = 9 MERGE (m:LB {g: $g, uid: 8}) ON CREATE SET m.uid = 9",
    ),
];

/// No write touches anything.
pub static NOTHING: Rule = touch("nothing", |_| true, COUNT_ALL, CREATE);

const COUNT_ALL: &str = "MATCH (n {g: $g}) RETURN count(*)";
const COUNT_LA: &str = "MATCH (n:LA {g: $g}) RETURN count(*)";
const COUNT_LC: &str = "MATCH (n:LC {g: $g}) RETURN count(*)";
const COUNT_TR: &str = "MATCH ({g: $g})-[r:TR]->() RETURN count(r)";
const COUNT_ANY_TYPE: &str = "MATCH ({g: $g})-->() RETURN count(*)";
const NODE_X: &str = "MATCH (n:LA {g: $g}) RETURN n.x";
const COUNT_TO_LB: &str = "MATCH ({g: $g})-[:TR]->(b:LB) RETURN count(*)";
const RELATIONSHIP_X: &str = "MATCH ({g: $g})-[r:TR]->() RETURN r.x";
const ANY_RELATIONSHIP_X: &str = "MATCH ({g: $g})-[r]->() RETURN r.x";
/// The parser takes `m:LA | m` for two labels and reads no further, so `Anything` is all that the read needs.
const NODE_X_UNREAD: &str = "MATCH (n:LA {g: $g}) RETURN [m IN [n] WHERE m:LA | m.x] AS xs";

const CREATE: &str = "CREATE ({g: $g})";
const CREATE_LA: &str = "CREATE (:LA {g: $g})";
const DELETE_TR: &str = "MATCH ({g: $g})-[r:TR]->() DELETE r";
const DELETE_LA: &str = "MATCH (n:LA {g: $g, uid: 3}) DELETE n";
const DETACH_LA: &str = "MATCH (n:LA {g: $g}) DETACH DELETE n";
const REMOVE_LB: &str = "MATCH (n:LB {g: $g}) REMOVE n:LB";
const SET_LC: &str = "MATCH (n:LA {g: $g}) SET n:LC";
const SET_NODE_X: &str = "MATCH (n:LA {g: $g}) SET n.x = 9";
const SET_RELATIONSHIP_X: &str = "MATCH ({g: $g})-[r:TR]->() SET r.x = 9";

const fn need(
    name: &'static str,
    is_forgotten: fn(&Need) -> bool,
    read: &'static str,
    write: &'static str,
) -> Rule {
    Rule { name, wrong: Wrong::ForgetsNeed(is_forgotten), read, write }
}

const fn touch(
    name: &'static str,
    is_forgotten: fn(&Touch) -> bool,
    read: &'static str,
    write: &'static str,
) -> Rule {
    Rule { name, wrong: Wrong::ForgetsTouch(is_forgotten), read, write }
}

pub static WRONG_RULES: [Rule; 33] = [
    need("N1: forgets nodes without a label", |need| *need == Need::Nodes, COUNT_ALL, CREATE),
    need("N2: forgets labels", |need| matches!(need, Need::Label(_)), COUNT_LA, CREATE_LA),
    need("N2: forgets labels at ends", |need| matches!(need, Need::LabelAt(_)), COUNT_TO_LB, REMOVE_LB),
    Rule {
        name: "N2: each node is found otherwise",
        wrong: Wrong::TakesNeed(|need| match need {
            Need::Label(name) => Need::LabelAt(name.clone()),
            other => other.clone(),
        }),
        read: COUNT_LA,
        write: CREATE_LA,
    },
    need(
        "N3: forgets that labels are shown",
        |need| *need == Need::LabelsOfNodes,
        "MATCH (n:LA {g: $g}) RETURN labels(n)",
        SET_LC,
    ),
    need("N4: forgets types", |need| matches!(need, Need::Type(_)), COUNT_TR, DELETE_TR),
    need(
        "N5: forgets patterns without a type",
        |need| *need == Need::Relationships,
        COUNT_ANY_TYPE,
        DELETE_TR,
    ),
    need("N6: forgets keys of nodes", |need| matches!(need, Need::NodeKey(_)), NODE_X, SET_NODE_X),
    need("N4, N5: forgets DETACH DELETE", |need| *need == Need::Detached, COUNT_TR, DETACH_LA),
    need(
        "N6: forgets keys of relationships",
        |need| matches!(need, Need::RelationshipKeyOf(..)),
        RELATIONSHIP_X,
        SET_RELATIONSHIP_X,
    ),
    need(
        "N6: forgets keys of relationships of any type",
        |need| matches!(need, Need::RelationshipKey(_)),
        ANY_RELATIONSHIP_X,
        SET_RELATIONSHIP_X,
    ),
    need(
        "N7: forgets that a node shows its keys",
        |need| *need == Need::NodeKeys,
        "MATCH (n:LA {g: $g}) RETURN n",
        SET_NODE_X,
    ),
    need(
        "N7: forgets that a relationship shows its keys",
        |need| matches!(need, Need::RelationshipKeysOf(_)),
        "MATCH ({g: $g})-[r:TR]->() RETURN r",
        SET_RELATIONSHIP_X,
    ),
    need(
        "N7: forgets that a relationship of any type shows its keys",
        |need| *need == Need::RelationshipKeys,
        "MATCH ({g: $g})-[r]->() RETURN r",
        SET_RELATIONSHIP_X,
    ),
    need("N8: forgets what it cannot read", |need| *need == Need::Anything, NODE_X_UNREAD, SET_NODE_X),
    touch("T1: forgets new nodes", |touch| *touch == Touch::NodeCreated, COUNT_ALL, CREATE),
    touch(
        "T1: forgets labels of new nodes",
        |touch| matches!(touch, Touch::NewLabel(_)),
        COUNT_LA,
        CREATE_LA,
    ),
    touch(
        "T2, T4: forgets relationships",
        |touch| matches!(touch, Touch::Relationship(_)),
        COUNT_TR,
        "MATCH (a:LA {g: $g}) CREATE (a)-[:TR]->(:LB)",
    ),
    touch("T3: forgets deleted nodes", |touch| *touch == Touch::NodeDeleted, COUNT_ALL, DELETE_LA),
    Rule {
        name: "T3: a deleted node counts as one without a label",
        wrong: Wrong::Takes(|touch| match touch {
            Touch::NodeDeleted => Touch::NodeCreated,
            other => other.clone(),
        }),
        read: COUNT_LA,
        write: DELETE_LA,
    },
    touch(
        "T4: forgets the relationships that DETACH deletes",
        |touch| *touch == Touch::Detached,
        COUNT_TR,
        DETACH_LA,
    ),
    touch(
        "T4: forgets relationships whose type the text does not name",
        |touch| *touch == Touch::AnyRelationship,
        COUNT_TR,
        "MATCH ({g: $g})-[r]->() DELETE r",
    ),
    touch("T5: forgets labels", |touch| matches!(touch, Touch::LabelChanged(_)), COUNT_LC, SET_LC),
    touch("T6: forgets keys of nodes", |touch| matches!(touch, Touch::NodeKey(_)), NODE_X, SET_NODE_X),
    touch(
        "T6: forgets keys of relationships",
        |touch| matches!(touch, Touch::RelationshipKeyOf(..)),
        RELATIONSHIP_X,
        SET_RELATIONSHIP_X,
    ),
    touch(
        "T6: forgets keys of relationships whose type the text does not name",
        |touch| matches!(touch, Touch::RelationshipKey(_)),
        RELATIONSHIP_X,
        "MATCH ({g: $g})-[r]->() SET r.x = 9",
    ),
    Rule {
        name: "T6: a relationship has each type that the statement names",
        wrong: Wrong::Takes(|touch| match touch {
            Touch::RelationshipKey(key) => Touch::RelationshipKeyOf("TS".to_owned(), key.clone()),
            other => other.clone(),
        }),
        read: RELATIONSHIP_X,
        write: "MATCH ({g: $g})-[r]->() SET r.x = 9",
    },
    touch(
        "T7: forgets keys of nodes that the text does not name",
        |touch| *touch == Touch::AnyNodeKey,
        NODE_X,
        "MATCH (n:LA {g: $g}) SET n = {g: $g, x: 9}",
    ),
    touch(
        "T7: forgets keys of relationships that the text does not name",
        |touch| matches!(touch, Touch::AnyRelationshipKeyOf(_)),
        RELATIONSHIP_X,
        "MATCH ({g: $g})-[r:TR]->() SET r = {x: 9}",
    ),
    touch(
        "T7: forgets keys of relationships of which the text names neither type nor key",
        |touch| *touch == Touch::AnyRelationshipKey,
        RELATIONSHIP_X,
        "MATCH ({g: $g})-[r]->() SET r = {x: 9}",
    ),
    touch(
        "T9: forgets unknown labels of new nodes",
        |touch| *touch == Touch::NewAnyLabel,
        COUNT_LA,
        "CREATE (:$('L' + 'A') {g: $g})",
    ),
    touch(
        "T9: forgets unknown labels",
        |touch| *touch == Touch::AnyLabelChanged,
        COUNT_LC,
        "MATCH (n:LA {g: $g}) SET n:$('L' + 'C')",
    ),
    touch(
        "T10: forgets what it cannot read",
        |touch| *touch == Touch::Anything,
        NODE_X,
        "MATCH (n:LA {g: $g}) WHERE [m IN [n] WHERE m:LA | m.x] = [n.x] SET n.x = 9",
    ),
];
