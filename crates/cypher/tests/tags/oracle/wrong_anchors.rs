//! Wrong rules of anchors, each with a pair on [`super::wrong_rules::GRAPH`] that shows it wrong. Some change the needs of any read; others
//! take the one text for another, as a reader would that has the error.

use hopcache_cypher::tags::anchored::{AnchoredNeed, AnchoredRead, AnchoredWrite, NeedFact, NeedRole};
use hopcache_cypher::tags::{Counters, Need};

pub struct AnchorRule {
    pub name: &'static str,
    wrong: Wrong,
    pub read: &'static str,
    pub write: &'static str,
}

enum Wrong {
    /// Of any read.
    Needs(fn(Vec<AnchoredNeed>) -> Vec<AnchoredNeed>),
    /// Takes the read for another one.
    Read(&'static str),
    /// Takes the write for these, all together.
    Writes(&'static [&'static str]),
}

impl AnchorRule {
    /// Whether it is a rule for any read.
    pub const fn is_general(&self) -> bool {
        matches!(self.wrong, Wrong::Needs(_))
    }

    /// The wrong verdict; the right one for other texts if the rule is about one pair.
    pub fn touches(
        &self,
        (text, read): (&str, &AnchoredRead),
        (written, write): (&str, &AnchoredWrite),
        params: &[u8],
        counters: &Counters,
    ) -> bool {
        let is_its_pair = text == self.read && written == self.write;
        match &self.wrong {
            Wrong::Needs(changed) => {
                let needs = changed(read.needs().to_vec());
                // Without a need, tags alone would decide.
                if needs.is_empty() {
                    return read.needs().is_empty() && read.touched_by(write);
                }
                AnchoredRead::from_parts(read.tags().clone(), needs).touched_by(write)
            }
            Wrong::Read(other) if is_its_pair => {
                let needs = AnchoredRead::of(other, params).needs().to_vec();
                AnchoredRead::from_parts(read.tags().clone(), needs).touched_by(write)
            }
            Wrong::Writes(others) if is_its_pair => {
                let others = others.iter().map(|other| AnchoredWrite::of(other, params).narrowed(counters));
                let touches = others.flat_map(|other| other.touches().to_vec()).collect();
                read.touched_by(&AnchoredWrite::from_parts(write.effects().clone(), touches))
            }
            Wrong::Read(_) | Wrong::Writes(_) => read.touched_by(write),
        }
    }
}

fn without(needs: Vec<AnchoredNeed>, is_forgotten: impl Fn(&NeedFact) -> bool) -> Vec<AnchoredNeed> {
    needs.into_iter().filter(|need| !is_forgotten(&need.fact)).collect()
}

fn all_refs(needs: Vec<AnchoredNeed>) -> Vec<AnchoredNeed> {
    let is_ref = |role: NeedRole| NeedRole { is_ref: true, ..role };
    let changed =
        |need: AnchoredNeed| AnchoredNeed { roles: need.roles.into_iter().map(is_ref).collect(), ..need };
    needs.into_iter().map(changed).collect()
}

fn near_detached(needs: Vec<AnchoredNeed>) -> Vec<AnchoredNeed> {
    let is_far = |need: &AnchoredNeed| {
        need.fact == NeedFact::Tag(Need::Detached)
            && need.roles.first().is_none_or(|role| role.constraint.keys.is_empty())
    };
    needs.into_iter().filter(|need| !is_far(need)).collect()
}

fn first_orders(needs: Vec<AnchoredNeed>) -> Vec<AnchoredNeed> {
    let mut kept: Vec<AnchoredNeed> = Vec::new();
    for need in needs {
        let is_turned = |other: &AnchoredNeed| {
            other.fact == need.fact && need.roles.len() == 2 && other.roles.iter().rev().eq(&need.roles)
        };
        if !kept.iter().any(is_turned) {
            kept.push(need);
        }
    }
    kept
}

const ID_1_X: &str = "MATCH (n {g: $g, uid: 1}) RETURN n.x";
const ID_1_ENDS: &str = "MATCH (n:LA {g: $g, uid: 1})-[:TR]->(m) RETURN count(m)";
const SET_ID_2_X: &str = "MATCH (n {g: $g, uid: 2}) SET n.x = 9";
const GETS_ID_1: &str = "MATCH (n {g: $g, uid: 2}) SET n.uid = 1";

pub static ANCHOR_RULES: [AnchorRule; 19] = [
    AnchorRule {
        name: "R7: forgets that anchored keys are needs",
        wrong: Wrong::Needs(|needs| {
            without(needs, |fact| matches!(fact, NeedFact::KeyLost(_) | NeedFact::KeyGained(_)))
        }),
        read: ID_1_X,
        write: GETS_ID_1,
    },
    AnchorRule {
        name: "R7: forgets nodes that get the value",
        wrong: Wrong::Needs(|needs| without(needs, |fact| matches!(fact, NeedFact::KeyGained(_)))),
        read: ID_1_X,
        write: GETS_ID_1,
    },
    AnchorRule {
        name: "R7: forgets nodes that lose the value",
        wrong: Wrong::Needs(|needs| without(needs, |fact| matches!(fact, NeedFact::KeyLost(_)))),
        read: ID_1_X,
        write: "MATCH (n {g: $g, uid: 1}) SET n.uid = 7",
    },
    AnchorRule {
        name: "R11: every node is found before",
        wrong: Wrong::Needs(all_refs),
        read: ID_1_ENDS,
        write: "MATCH (n {g: $g, uid: 1}) CREATE (n)-[:TR]->(:LB)",
    },
    AnchorRule {
        name: "R6: forgets DETACH DELETE of the far end",
        wrong: Wrong::Needs(near_detached),
        read: ID_1_ENDS,
        write: "MATCH (n {g: $g, uid: 2}) DETACH DELETE n",
    },
    AnchorRule {
        name: "R4: the first of two directions only",
        wrong: Wrong::Needs(first_orders),
        read: "MATCH (n:LA {g: $g, uid: 1})-[:TR]-(m) RETURN count(m)",
        write: "MATCH (a {g: $g, uid: 3}), (b {g: $g, uid: 1}) CREATE (a)-[:TR]->(b)",
    },
    read(
        "A1: takes OR for AND",
        "MATCH (n {g: $g}) WHERE n.uid = 1 OR n.x = 2 RETURN n.x",
        "MATCH (n {g: $g}) WHERE n.uid = 1 AND n.x = 2 RETURN n.x",
        SET_ID_2_X,
    ),
    read(
        "A1: takes NOT n.uid = 1 for an anchor",
        "MATCH (n {g: $g}) WHERE NOT n.uid = 1 RETURN n.x",
        "MATCH (n {g: $g}) WHERE n.uid = 1 RETURN n.x",
        SET_ID_2_X,
    ),
    read(
        "A1: 1 and 1.0 are of two classes",
        "MATCH (n {g: $g, uid: 2.0}) RETURN n.x",
        "MATCH (n {g: $g, uid: '2'}) RETURN n.x",
        SET_ID_2_X,
    ),
    read(
        "A2: keeps a condition of OPTIONAL MATCH behind it",
        "MATCH (n {g: $g}) OPTIONAL MATCH (n)-[:TR]->(m) WHERE n.uid = 1 RETURN n.x",
        "MATCH (n {g: $g}) MATCH (n)-[:TR]->(m) WHERE n.uid = 1 RETURN n.x",
        SET_ID_2_X,
    ),
    read(
        "A3: takes a shadowed name for the outer one",
        "MATCH (n {g: $g, uid: 1}), (m {g: $g, uid: 2}) RETURN [n IN [m] | n.x]",
        "MATCH (n {g: $g, uid: 1}), (m {g: $g, uid: 2}) RETURN n.x",
        SET_ID_2_X,
    ),
    read(
        "A3: a column of a UNION keeps a constraint",
        "CALL () { MATCH (n {g: $g, uid: 1}) RETURN n UNION MATCH (n {g: $g, uid: 2}) RETURN n } RETURN n.x",
        "CALL () { MATCH (n {g: $g, uid: 1}) RETURN n } RETURN n.x",
        SET_ID_2_X,
    ),
    read(
        "A3: follows names in their order and not at once",
        "WITH 2 AS a, 1 AS b WITH b AS a, a AS b MATCH (n {g: $g, uid: b}) RETURN n.x",
        "WITH 2 AS a, 1 AS b WITH b AS a WITH a AS b MATCH (n {g: $g, uid: b}) RETURN n.x",
        SET_ID_2_X,
    ),
    read(
        "limits: drops values beyond the bound",
        "MATCH (n {g: $g}) WHERE n.uid IN $many RETURN n.x",
        "MATCH (n {g: $g}) WHERE n.uid IN [1] RETURN n.x",
        SET_ID_2_X,
    ),
    writes(
        "W1: the map of a new node without later SETs",
        "MATCH (n:LA {g: $g, uid: 7}) RETURN count(*)",
        "CREATE (n:LA {g: $g, uid: 5}) SET n.uid = 7",
        &["CREATE (n:LA {g: $g, uid: 5})"],
    ),
    writes(
        "W1: exact labels in spite of a dynamic one",
        "MATCH (n:LA:LB {g: $g}) RETURN count(*)",
        "CREATE (n:LA {g: $g}) SET n:$('L' + 'B')",
        &["CREATE (n:LA {g: $g})"],
    ),
    writes(
        "W2: a node that MERGE finds is new",
        "MATCH (:LB {g: $g, uid: 2})<-[:TR]-(n)-[:TS]->(m) RETURN count(m)",
        "MERGE (n:LA {g: $g, uid: 1}) CREATE (n)-[:TS]->(:LC)",
        &["CREATE (n:LA {g: $g, uid: 1}) CREATE (n)-[:TS]->(:LC)"],
    ),
    writes(
        "W5: each SET sees the node as it was found",
        "MATCH (n {g: $g, uid: 7, x: 8}) RETURN count(*)",
        "MATCH (n {g: $g, uid: 1, x: 1}) SET n.uid = 7, n.x = 8",
        &["MATCH (n {g: $g, uid: 1, x: 1}) SET n.uid = 7", "MATCH (n {g: $g, uid: 1, x: 1}) SET n.x = 8"],
    ),
    writes(
        "W5: only the variable that is named gets a value",
        "MATCH (n {g: $g, uid: 7, x: 8}) RETURN count(*)",
        "MATCH (n {g: $g, uid: 1, x: 1}) WITH n, n AS m SET m.uid = 7 SET n.x = 8",
        &["MATCH (n {g: $g, uid: 1, x: 1}) SET n.uid = 7", "MATCH (n {g: $g, uid: 1, x: 1}) SET n.x = 8"],
    ),
];

const fn read(
    name: &'static str,
    read: &'static str,
    taken_for: &'static str,
    write: &'static str,
) -> AnchorRule {
    AnchorRule { name, wrong: Wrong::Read(taken_for), read, write }
}

const fn writes(
    name: &'static str,
    read: &'static str,
    write: &'static str,
    taken_for: &'static [&'static str],
) -> AnchorRule {
    AnchorRule { name, wrong: Wrong::Writes(taken_for), read, write }
}
