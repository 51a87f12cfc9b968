//! Each row of the table, as people read it.

use hopcache_cypher::verdict::BypassReason;

use super::*;

fn unasked() -> Facts {
    Facts {
        verdict: Verdict::Unasked,
        decider: None,
        is_off: false,
        copy: None,
        bookmark: BookmarkFact::Seen,
        held_back_ms: None,
        is_too_large: false,
        run: None,
        store_error: None,
        direct: None,
        user: User { name: Some("ann".into()), has_results: true },
    }
}

fn copy() -> CopyFacts {
    CopyFacts {
        place: Place::Memory("node-b".into()),
        age_ms: 12_400,
        proved_ms_ago: Some(1_000),
        ttl_ms: 47_600,
        state: CopyState::Fresh,
        proved_at: Some(181),
        read_at: Some(170),
        has_proofs: true,
        unproved: Unproved::WrittenPast(None),
        ends_with: vec!["[:KNOWS]".into(), ".name of nodes".into()],
        database: "sales".into(),
        ended_by: None,
    }
}

fn cached(copy: CopyFacts) -> Facts {
    Facts { verdict: Verdict::Read, copy: Some(copy), ..unasked() }
}

fn told(facts: &Facts) -> String {
    let Sentence { summary, remedy } = facts.sentence();
    [Some(summary), remedy].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn by_age() -> CopyFacts {
    CopyFacts { proved_at: None, ..copy() }
}

fn stale() -> CopyFacts {
    CopyFacts { state: CopyState::Stale, ttl_ms: -15_000, age_ms: 75_000, ..by_age() }
}

fn check(rows: &[(Facts, &str)]) {
    for (facts, text) in rows {
        assert_eq!(told(facts), *text);
    }
}

#[test]
fn what_answers_or_never_may_has_its_sentence() {
    let bypass = |reason| Facts { verdict: Verdict::Bypass(reason), ..unasked() };
    let rows = [
        (Facts { is_off: true, ..unasked() }, "Not cached: caching is off. Set `entry.ttl` to more than 0."),
        (
            Facts {
                decider: Some(Decider { name: "date".into(), has_arguments: false }),
                ..bypass(Reason::Text(BypassReason::VolatileFunction))
            },
            "Not cached: `date()` changes by itself. Pass the day as a parameter.",
        ),
        (
            bypass(Reason::Write),
            "Not cached: Neo4j says that the statement writes. Nothing to do if it does. If a procedure in it only reads, ask for a read another way.",
        ),
        (
            Facts { bookmark: BookmarkFact::Unreadable, ..cached(copy()) },
            "Not cached: this node cannot read the bookmarks of the request. Send bookmarks as Neo4j or Hopcache gave them, of at most seven databases.",
        ),
        (
            cached(copy()),
            "Cached at node-b: read 12 s ago, proved current 1 s ago, at transaction 181. A write to :KNOWS or .name ends it.",
        ),
        (
            cached(CopyFacts { state: CopyState::Stale, ttl_ms: -9, ends_with: vec![], ..copy() }),
            "Cached at node-b: read 12 s ago, proved current 1 s ago, at transaction 181. No write ends it.",
        ),
        (
            cached(by_age()),
            "Cached at node-b: read 12 s ago, fresh for another 47 s, not proved. A write to :KNOWS or .name ends it. A write that did not go through Hopcache may have changed it since it was read, and all that was cached of this database before, of all users. If it is old, end it now: `hopcache invalidate --database sales --type KNOWS` for all users, or `hopcache purge --query-key` with its key for this user and text alone. A writer that tells of each write so ends what it changed at once; the rest stays proved only if every such writer tells and `freshness.watch_interval = \"0s\"`.",
        ),
        (
            cached(CopyFacts { place: Place::Store, read_at: None, ..by_age() }),
            "Cached in the store: read 12 s ago, fresh for another 47 s.",
        ),
        (
            Facts { bookmark: BookmarkFact::Later, ..cached(copy()) },
            "Cached at node-b: read 12 s ago at transaction 170, and the bookmark asks for a later one: the next request with it is a run. Nothing to do: that is what a bookmark asks for. The run's result answers the requests after it.",
        ),
    ];
    check(&rows);
}

#[test]
fn the_write_that_ended_a_copy_is_named() {
    let write = EndingWrite {
        ago_ms: 4_200,
        by: Some("node-a".into()),
        transaction: Some(709),
        is_told: false,
        touched: vec!["(:User {id: $id}).name".into()],
        has_values: true,
    };
    let ended = |ended_by| cached(CopyFacts { state: CopyState::Ended, ended_by, ..by_age() });
    let rest =
        "cached at node-b 12 s ago. The next request runs it; this result answers only if Neo4j fails.";
    let rows = [
        (ended(None), format!("Ended by a write: {rest}")),
        (
            ended(Some(write.clone())),
            format!(
                "Ended 4.2 s ago by a write to (:User {{id: $id}}).name through node-a, transaction 709: {rest}"
            ),
        ),
        (
            ended(Some(EndingWrite { has_values: false, by: None, ..write.clone() })),
            format!(
                "Ended 4.2 s ago by a write to (:User {{id: $id}}).name, transaction 709: {rest} That write names no value by which it finds \
                 what it changes, so it ends every result that reads this. Give its MATCH a key: `(n:User {{id: $id}})`."
            ),
        ),
        (
            ended(Some(EndingWrite { is_told: true, ..write.clone() })),
            format!(
                "Ended 4.2 s ago by an order at node-a to invalidate (:User {{id: $id}}).name, or by Neo4j's change data, \
                 transaction 709: {rest}"
            ),
        ),
        (
            ended(Some(EndingWrite { touched: vec![], transaction: None, ..write })),
            format!(
                "Ended 4.2 s ago by a write through node-a that may have changed anything: {rest} Hopcache does not know what that write \
                 changes: it calls a procedure, or uses Cypher that Hopcache does not read."
            ),
        ),
    ];
    for (facts, expected) in rows {
        assert_eq!(told(&facts), expected);
    }
}

#[test]
fn what_does_not_answer_by_itself_has_its_sentence() {
    let nobody = |name: Option<&str>| User { name: name.map(Into::into), has_results: false };
    let running = |followers| Some(Run { node: Some("node-b".into()), followers });
    let rows = [
        (
            Facts { held_back_ms: Some(800), ..cached(stale()) },
            "Held back for another 800 ms: its last runs brought no answer. Requests get the old result meanwhile, marked. Look for a lock or a slow plan at Neo4j (`SHOW TRANSACTIONS`), or raise `origin.timeout` if it needs longer.",
        ),
        (
            Facts { held_back_ms: Some(800), ..unasked() },
            "Held back for another 800 ms: its last runs brought no answer. Requests get 503 meanwhile. Look for a lock or a slow plan at Neo4j (`SHOW TRANSACTIONS`), or raise `origin.timeout` if it needs longer.",
        ),
        (
            Facts { is_too_large: true, ..unasked() },
            "Not cached: its last result was larger than `entry.max_bytes`, so each request runs it at Neo4j by itself. Return less (`LIMIT`, properties instead of whole nodes), or raise `entry.max_bytes`. 30 s after that result Hopcache tries again.",
        ),
        (
            cached(stale()),
            "Stale: cached at node-b 75 s ago, past its TTL for 15 s. It still answers, and is read anew. Raise `entry.ttl` if it may be older.",
        ),
        (
            cached(CopyFacts { state: CopyState::Expired, ..stale() }),
            "Expired: cached at node-b 75 s ago. The next request runs it; this result answers only if Neo4j fails. Raise `entry.ttl` if it may be older.",
        ),
        (
            cached(CopyFacts { state: CopyState::Ended, ..stale() }),
            "Ended by a write: cached at node-b 75 s ago. The next request runs it; this result answers only if Neo4j fails.",
        ),
        (
            cached(CopyFacts { state: CopyState::Unreadable, ..stale() }),
            "Not cached: the stored entry does not fit its checksum. The next request replaces it. Compare `cluster.key` and `cluster.data_key_file` of the nodes if this happens often.",
        ),
        (
            Facts { run: running(3), ..unasked() },
            "Not cached yet: it is being run at node-b; 3 requests wait for it.",
        ),
        (Facts { run: running(0), ..unasked() }, "Not cached yet: it is being run at node-b."),
        (
            Facts { store_error: Some("timed out".into()), ..unasked() },
            "Not cached: the store cannot be asked (timed out). Look at the store: `hopcache status` says what is wrong.",
        ),
        (
            Facts { user: nobody(Some("bob")), ..unasked() },
            "Not cached yet: neither its owner nor Redis has it for the user `bob`. Ask for it once. The node that you ask has no other result of this user: if your application asks as another one, name that user (`--principal`, HOPCACHE_USER).",
        ),
        (
            Facts { user: nobody(None), ..unasked() },
            "Not cached: nobody has asked without credentials. Entries are kept for each user: name the user of your application (`--principal`, HOPCACHE_USER).",
        ),
        (
            unasked(),
            "Not cached yet: nobody has asked for it as `ann` with these parameters, or its entry has expired, or was purged or evicted. Ask for it once. If it should be there, compare text and parameters with your application's.",
        ),
    ];
    check(&rows);
}

#[test]
fn many_needs_are_counted() {
    let needs = ["any node", ":A", ":B", "[:R]", ".x of nodes", ".y of relationships"];
    let all = CopyFacts { ends_with: needs.map(Into::into).to_vec(), ..copy() };
    assert_eq!(all.ends(), "A write to any node, :A, :B, :R or 2 more ends it.");
}

#[test]
fn the_command_that_ends_it_can_be_pasted() {
    let rows: [(&[&str], &str); 6] = [
        (&["(:Price {id: $id}).price", ".price of nodes"], "--label Price"),
        (&[".price of nodes", "[:SELLS]", ":Price"], "--label Price"),
        (&["(:A:B {id: $id})", "[:SELLS]"], "--type SELLS"),
        (&[":A|B", ".price of nodes that it shows"], "--key price"),
        (&["(:`a b` {id: 1})", ".a-b of nodes"], "--anything"),
        (&["any node"], "--anything"),
    ];
    for (needs, said) in rows {
        let ends_with = needs.iter().map(ToString::to_string).collect();
        let command = CopyFacts { ends_with, ..copy() }.invalidation();
        assert_eq!(command, format!("hopcache invalidate --database sales {said}"));
    }
}

/// A copy from before it grew too large answers until it ends.
#[test]
fn the_reason_is_the_one_that_a_request_would_get() {
    let too_large = Facts { is_too_large: true, ..unasked() };
    assert_eq!(too_large.bypass(), Some(Reason::TooLarge));
    assert_eq!(Facts { copy: Some(copy()), ..too_large }.bypass(), None);
    assert_eq!(Facts { bookmark: BookmarkFact::Unreadable, ..unasked() }.bypass(), Some(Reason::Bookmarks));
    assert_eq!(unasked().bypass(), None);
}

/// F3: the reason is the one that is so, with what to do about it.
#[test]
fn a_copy_that_is_not_proved_says_why() {
    let rows = [
        (Unproved::StoreAway(None), "The store has been away, so"),
        (
            Unproved::OriginAway(Some(Duration::from_secs(3 * 3_600))),
            "Neo4j has been away since 03:00:00 UTC, so",
        ),
        (Unproved::New, "Nothing to do: it is new."),
        (Unproved::WrittenPast(None), "Hopcache may have changed it"),
        (
            Unproved::WrittenPast(Some(PastWrite { ago_ms: 4_000, transaction: 52 })),
            "Hopcache, or a restart of Neo4j after which nodes count anew, noticed 4 s ago when the newest transaction was 52, may have changed it since it was read",
        ),
    ];
    for (unproved, text) in rows {
        let told = told(&cached(CopyFacts { unproved, ..by_age() }));
        assert!(told.contains(text), "{told}");
        let is_past = matches!(unproved, Unproved::WrittenPast(_));
        assert_eq!(
            told.contains("end it now: `hopcache invalidate --database sales --type KNOWS`"),
            is_past,
            "{told}"
        );
    }
}

#[test]
fn reads_that_are_run_directly_say_why() {
    let direct = Some(DirectFacts { reads: 100, hits: 2, run_us: 210, paying_percent: 43 });
    let facts = Facts { verdict: Verdict::Read, direct, ..unasked() };
    check(&[(
        facts.clone(),
        "Run directly at present: 2 of 100 reads hit, a run takes 0.2 ms. Caching pays from 43 % hits on. \
         Nothing to do: such reads are cached when they begin to return. `entry.only_if_it_pays = false` caches all of them.",
    )]);
    // A copy answers all the same.
    assert!(told(&Facts { copy: Some(copy()), ..facts }).starts_with("Cached at node-b"));
}
