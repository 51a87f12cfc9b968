//! Promise I5: a node checks credentials before it serves a hit, and serves no request from another principal's entry.
//! (Accepted credentials expire after 30 s: `crates/fronts/src/credentials/check/tests.rs` shows it on a clock of its
//! own, and `tests/faults/isolation/password_change.rs` on three nodes.)

use serde_json::json;

use crate::differential::http::{Answer, Request, basic};
use crate::differential::start::{Node, neo4j};

/// A user of Neo4j that is dropped with this value.
struct User(String);

const PASSWORD: &str = "right-password";

impl User {
    fn create(name: &str) -> Self {
        let user = Self(format!("{name}x{}", std::process::id()));
        user.administer(&format!(
            "CREATE OR REPLACE USER {} SET PASSWORD '{PASSWORD}' CHANGE NOT REQUIRED",
            user.0
        ));
        user
    }

    fn administer(&self, statement: &str) {
        let answer = Request::statement(statement).path("/db/system/query/v2").send(neo4j());
        assert_eq!(answer.status, 202, "{statement}: {}", answer.text());
    }

    fn ask(&self, node: &Node, password: &str) -> Answer {
        Request::statement("RETURN 'for each their own' AS x").login(&self.0, password).send(node.client)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        Request::statement(&format!("DROP USER {} IF EXISTS", self.0))
            .path("/db/system/query/v2")
            .send(neo4j());
    }
}

fn key(answer: &Answer) -> String {
    answer.cache().split("key=").nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_wrong_password_never_meets_the_entry_of_the_right_one() {
    let node = Node::start();
    let user = User::create("qacred");
    assert!(user.ask(&node, PASSWORD).is_stored());
    assert!(user.ask(&node, PASSWORD).is_hit());
    // Two, since Neo4j locks a user out at the third.
    for wrong in ["wrong-password", ""] {
        let refused = user.ask(&node, wrong);
        assert_eq!((refused.status, refused.code().as_str()), (401, "Neo.ClientError.Security.Unauthorized"));
        assert_eq!(refused.cache(), "", "the answer shows nothing of entries");
    }
    let nobody = Request::statement("RETURN 'for each their own' AS x").without("Authorization");
    assert_eq!(nobody.send(node.client).status, 401);
    assert!(user.ask(&node, PASSWORD).is_hit(), "the right one is served on");
}

#[test]
fn two_users_share_no_entry() {
    let node = Node::start();
    let (ann, bob) = (User::create("qaann"), User::create("qabob"));
    let (of_ann, of_bob) = (ann.ask(&node, PASSWORD), bob.ask(&node, PASSWORD));
    assert!(of_ann.is_stored() && of_bob.is_stored(), "{} {}", of_ann.cache(), of_bob.cache());
    assert_ne!(key(&of_ann), key(&of_bob));
    assert!(ann.ask(&node, PASSWORD).is_hit() && bob.ask(&node, PASSWORD).is_hit());
    // An impersonated user is another principal. This edition of Neo4j refuses impersonation, and hopcache passes the
    // refusal on.
    let body = json!({"statement": "RETURN 'for each their own' AS x", "impersonatedUser": bob.0});
    let as_bob = Request::query(&body).login(&ann.0, PASSWORD).send(node.client);
    assert_eq!((as_bob.status, as_bob.code().as_str()), (400, "Neo.ClientError.Statement.ArgumentError"));
    assert!(!as_bob.is_hit());
}

/// Old and new password are different identities. The new one is accepted at once. When Neo4j refuses a run with the
/// old one, the node stops accepting it.
#[test]
fn a_changed_password_is_accepted_at_once() {
    let node = Node::start();
    let user = User::create("qachange");
    assert!(user.ask(&node, PASSWORD).is_stored());
    user.administer(&format!("ALTER USER {} SET PASSWORD 'another-password' CHANGE NOT REQUIRED", user.0));
    let new = user.ask(&node, "another-password");
    assert!(new.status == 202 && new.is_hit(), "the same principal: {} {}", new.status, new.cache());
}

/// Similar names. Neo4j decides which of them are the same user. Hopcache answers the same, serves only accepted users,
/// and shares no key between two names of a user.
#[test]
fn names_nearly_alike_are_each_their_own() {
    let node = Node::start();
    let (small, large) = (User::create("qacase"), User::create("QACASE"));
    let of_small = small.ask(&node, PASSWORD);
    let of_large = large.ask(&node, PASSWORD);
    assert!(of_small.is_stored() && of_large.is_stored(), "{} {}", of_small.cache(), of_large.cache());
    assert_ne!(key(&of_small), key(&of_large));
    assert!(small.ask(&node, PASSWORD).is_hit() && large.ask(&node, PASSWORD).is_hit());
    let with = |authorization: &str| {
        Request::statement("RETURN 'for each their own' AS x").header("Authorization", authorization)
    };
    let mixed = small.0.replace("qacase", "QaCase");
    for authorization in [
        basic(&mixed, PASSWORD),
        basic("", PASSWORD),
        basic("", ""),
        basic(&format!("{}\0", small.0), PASSWORD),
        basic(&format!("{} ", small.0), PASSWORD),
        // Each asks twice, at hopcache and at Neo4j: a third wrong password of one user would lock the user out.
        basic(&format!("{}:", large.0), PASSWORD),
        basic(&small.0, &format!("{PASSWORD}\0")),
        format!("Bearer {}", small.0),
        format!("Bearer {PASSWORD}"),
    ] {
        let (here, there) = (with(&authorization).send(node.client), with(&authorization).send(neo4j()));
        assert_eq!(
            (here.status, here.code()),
            (there.status, there.code()),
            "{authorization}: {}",
            here.text()
        );
        assert!(!here.is_hit() && here.status != 202, "{authorization}: {}", here.text());
    }
}

/// Neo4j accepts a database's name in any case. No request reads another database's entry by it.
#[test]
fn databases_are_told_apart_and_their_names_case_is_not() {
    let node = Node::start();
    let user = User::create("qadatabase");
    let ask = |database: &str| {
        let request = Request::statement("RETURN 'for each their own' AS x").login(&user.0, PASSWORD);
        request.path(&format!("/db/{database}/query/v2")).send(node.client)
    };
    let of_neo4j = ask("neo4j");
    assert!(of_neo4j.is_stored(), "{}", of_neo4j.cache());
    let in_capitals = ask("NEO4J");
    assert_eq!((in_capitals.status, key(&in_capitals)), (202, key(&of_neo4j)), "{}", in_capitals.text());
    let of_system = ask("system");
    assert!(!of_system.is_hit() && key(&of_system) != key(&of_neo4j), "{}", of_system.cache());
    let of_none = ask("nosuchdatabase");
    assert_eq!(of_none.status, 404, "{}", of_none.text());
    assert!(!of_none.is_hit());
}
