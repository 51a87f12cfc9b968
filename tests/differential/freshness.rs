//! The request's `Cache-Control` and hints (INTERFACE section 1).

use crate::differential::http::{Answer, Request};
use crate::differential::start::Node;

fn ask(node: &Node, statement: &str, control: &str) -> Answer {
    Request::statement(statement).header("Cache-Control", control).send(node.client)
}

#[test]
fn a_request_says_what_it_accepts_from_the_cache() {
    let node = Node::start();
    let text = "RETURN 'fresh' AS x";
    let none = ask(&node, text, "only-if-cached");
    assert_eq!((none.status, none.code().as_str()), (504, "Hopcache.ClientError.NotCached"));
    assert!(none.header("retry-after").is_none(), "to repeat it cannot help");
    let bypassed = ask(&node, text, "no-store");
    assert!(bypassed.is_bypass() && bypassed.cache().contains("detail=no-store"), "{}", bypassed.cache());
    assert_eq!(ask(&node, text, "only-if-cached").status, 504, "no-store leaves nothing");
    assert!(ask(&node, text, "no-cache").is_stored());
    let cached = ask(&node, text, "only-if-cached");
    assert!(cached.is_hit() && cached.header("age").is_some(), "{}", cached.cache());
    for accepts in ["max-age=60", "max-stale", "max-stale=5", "max-age=60, only-if-cached", "unknown=1"] {
        assert!(ask(&node, text, accepts).is_hit(), "{accepts}");
    }
    for runs in ["no-cache", "max-age=0"] {
        let fresh = ask(&node, text, runs);
        assert!(fresh.is_stored(), "{runs}: {}", fresh.cache());
        assert_eq!(fresh.shown(), cached.shown());
    }
    assert!(ask(&node, text, "no-store").is_bypass());
    assert!(node.ask(text).is_hit(), "no-store of one takes nothing from others");
}

#[test]
fn a_hint_shortens_the_life_of_an_entry() {
    let node = Node::start();
    let ask =
        |text: &str, hint: &str| Request::statement(text).header("Hopcache-Hint", hint).send(node.client);
    let ttl_s = |answer: &Answer| {
        let ttl = answer.cache().split("ttl=").nth(1).and_then(|rest| rest.split(';').next());
        ttl.and_then(|ttl| ttl.parse::<i64>().ok()).unwrap()
    };
    let short = ask("RETURN 'short' AS x", "ttl=20, degree=500, volatility=1.5");
    assert!(short.is_stored() && (1..=22).contains(&ttl_s(&short)), "{}", short.cache());
    // A caller cannot make hopcache keep values that the operator does not keep (threats: amplification by hints).
    let long = ask("RETURN 'long' AS x", "ttl=315360000");
    assert!(ttl_s(&long) <= 66, "{}", long.cache());
    assert!(!ask("RETURN 'never' AS x", "ttl=0").is_stored());
    assert!(!ask("RETURN 'never' AS x", "ttl=0").is_hit());
}
