//! What is beyond a bound ends too much, and never too little.

use hopcache_core::limits::{
    ANCHOR_CLASSES_MAX, COVERED_KEYS_MAX, REFINED_ANCHORS_MAX, REFINED_FACTS_MAX, REFINED_NAMES_MAX,
    ROLE_ENTRIES_MAX, SKETCH_IDLE_MS, SKETCHES_MAX, WRITTEN_NAMES_MAX, WRITTEN_TAGS_MAX,
    WRITTEN_TAGS_OF_WRITE_MAX,
};
use hopcache_core::tags::{NotARefinement, Refinement};
use hopcache_core::time::Millis;

use super::*;

fn of_keys<'a>(keys: &'a [(Key<&'a str>, &'a [ClassId])]) -> TouchedRole<'a> {
    TouchedRole { keys, ..TouchedRole::default() }
}

/// `MATCH (n {id: …, k0: …, …}) SET n.name = …`.
fn with_keys(id: u64, names: &[&str]) -> TouchedTags {
    let (id, other) = ([ClassId(id)], [ClassId(1)]);
    let all: Vec<(Key<&str>, &[ClassId])> = std::iter::once((ID, &id[..]))
        .chain(names.iter().map(|name| (Key::Property(*name), &other[..])))
        .collect();
    touched(NAME_KEY, &[TouchedRole { keys: &all, ..TouchedRole::default() }])
}

/// One way more to find the node than there are entries: two of them become one with the keys of both, and the key of all still separates.
#[test]
fn entries_of_a_role_become_one_with_fewer_keys() {
    let mut table = WritePositionTable::default();
    let names: Vec<String> = (0..=ROLE_ENTRIES_MAX).map(|number| format!("k{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        take(&mut table, 50 + number as u64, &with_keys(42, &[name]));
    }
    let last = 50 + ROLE_ENTRIES_MAX as u64;
    assert_eq!((needed_by(&table, ID, &[7]), needed_by(&table, ID, &[42])), (0, last));
    let of = |name: &str, class| needed_by(&table, Key::Property(name), &[class]);
    assert_eq!(of(&names[ROLE_ENTRIES_MAX], 2), last - 1, "the other entries do not cover it");
    // What the two said of other keys is forgotten, though it separates one of them from the read. All later writes made the node.
    let mut table = WritePositionTable::default();
    take(&mut table, 50, &with_keys(42, &["k0"]));
    take(&mut table, 51, &with_keys(42, &["k1"]));
    let of = |table: &WritePositionTable| {
        needed(table, NAME_KEY, &[(NodeConstraint::new([Key::Property("k0")], []), true)], &[&[2]])
    };
    for (number, name) in names[2..].iter().enumerate() {
        assert_eq!(of(&table), 51);
        let role = TouchedRole { labels: &[name], is_fresh: true, ..TouchedRole::default() };
        take(&mut table, 52 + number as u64, &touched(NAME_KEY, &[role]));
    }
    assert_eq!(of(&table), 51, "an entry of both covers what both cover");
    // No key in common: the oldest entry separates nothing any more, the later ones do.
    let mut table = WritePositionTable::default();
    for (number, name) in names.iter().enumerate() {
        let keys: &[(Key<&str>, &[ClassId])] = &[(Key::Property(name), &[ClassId(1)])];
        let role = TouchedRole { keys, ..TouchedRole::default() };
        take(&mut table, 50 + number as u64, &touched(NAME_KEY, &[role]));
    }
    assert_eq!(needed_by(&table, Key::Property("k0"), &[2]), last);
    let two = |names: [&str; 2]| NodeConstraint::new(names.map(Key::Property), []);
    let all_but_first = [(two(["k0", "k1"]), false)];
    assert_eq!(needed(&table, NAME_KEY, &all_but_first, &[&[2], &[2]]), last);
}

#[test]
fn too_many_tags_are_anything_also_where_they_are_refined() {
    let mut table = WritePositionTable::default();
    for tag in 0..=WRITTEN_TAGS_MAX as u64 {
        let keys: &[(Key<&str>, &[ClassId])] = &[(ID, &[ClassId(42)])];
        let of_tag = touched(TagId(tag), &[TouchedRole { keys, ..TouchedRole::default() }]);
        take(&mut table, 100 + tag, &of_tag);
    }
    let newest = 100 + WRITTEN_TAGS_MAX as u64;
    assert_eq!(table.records(), [WriteRecord::of_all(NAME, mark(1, 0, newest))]);
    assert_eq!(needed_by(&table, ID, &[7]), newest);
    take(&mut table, newest + 1, &by_id(42));
    assert_eq!((needed_by(&table, ID, &[7]), needed_by(&table, ID, &[42])), (newest, newest + 1));
}

/// The ninth database with anchors has none, until another one has been quiet for long: that one's writes so far are loose then.
#[test]
fn a_few_databases_have_a_sketch() {
    let mut table = WritePositionTable::default();
    let name = |database: u8| DatabaseTag(u64::from(database));
    let mut write = |database: u8, id, now| {
        table.take_event(&event(name(database), mark(database, 0, id), &by_id(42)), now);
        let shape = NeedsShape::new(
            vec![NodeConstraint::new([ID], [])],
            &[ShapeNeed {
                tags: [NAME_KEY].into(),
                roles: [NeedRole { constraint: Some(0), is_ref: false }].into_iter().collect(),
            }],
            [],
        );
        let of = |database: u8| {
            table.learn(
                name(database),
                hopcache_core::write_position::KnownDatabase::by_answer(position(database), now),
            );
            let classes = NeedClasses::new([[ClassId(7)]]);
            table
                .needed_by(name(database), Depends::OnNeeds(&shape, &classes, Viewer::default()))
                .unwrap()
                .position()
                .unwrap()
                .id
                .0
        };
        [1, database].map(of)
    };
    for database in 1..=SKETCHES_MAX as u8 {
        assert_eq!(write(database, 50, NOW + Millis(u64::from(database))), [0, 0]);
    }
    let ninth = SKETCHES_MAX as u8 + 1;
    assert_eq!(write(ninth, 50, NOW + Millis(SKETCH_IDLE_MS)), [0, 50]);
    assert_eq!(
        write(ninth, 51, NOW + Millis(SKETCH_IDLE_MS + 1)),
        [50, 50],
        "the first one gave its own away"
    );
    assert_eq!(write(1, 52, NOW + Millis(SKETCH_IDLE_MS + 1)), [52, 52], "the second one is not idle yet");
}

fn position(database: u8) -> Position {
    Position { database: DatabaseUuid([database; 16]), id: TransactionId(1) }
}

/// A fact that has no place makes its tag loose: also the facts of the tag that had one.
#[test]
fn what_a_write_has_too_much_of_is_loose() {
    let many: Vec<ClassId> = (0..=ANCHOR_CLASSES_MAX as u64).map(ClassId).collect();
    let wide = [(ID, &many[..])];
    let mut table = WritePositionTable::default();
    take(&mut table, 50, &touched(NAME_KEY, &[of_keys(&wide)]));
    assert_eq!(needed_by(&table, ID, &[7777]), 50, "a batch of 65 values covers no key");
    let new_and_wide = TouchedRole { all_but: Some(&[]), ..of_keys(&wide) };
    take(&mut table, 51, &touched(NAME_KEY, &[new_and_wide]));
    assert_eq!((needed_by(&table, ID, &[7777]), needed_by(&table, Key::Property("uid"), &[1])), (51, 50));

    let full = [(ID, &many[..ANCHOR_CLASSES_MAX])];
    let mut refiner = Refiner::default();
    for tag in 0..=(REFINED_ANCHORS_MAX / ANCHOR_CLASSES_MAX) as u64 {
        refiner.fact(TagId(tag % 4), &[of_keys(&full)]);
    }
    let touched_tags = refiner.finish([]);
    let refinement = touched_tags.refinement().unwrap();
    assert_eq!((touched_tags.tags().len(), refinement.facts().len()), (4, 3), "tag 0 had one fact too many");
    assert_eq!(refinement.anchors().len(), 3 * ANCHOR_CLASSES_MAX);

    let mut refiner = Refiner::default();
    (0..=REFINED_FACTS_MAX as u64).for_each(|tag| refiner.fact(TagId(tag), &[of_keys(&full[..0])]));
    let touched_tags = refiner.finish([]);
    assert_eq!(touched_tags.tags().len(), REFINED_FACTS_MAX + 1);
    assert_eq!(touched_tags.refinement().unwrap().facts().len(), REFINED_FACTS_MAX);

    let mut refiner = Refiner::default();
    let names: Vec<String> = (0..=REFINED_NAMES_MAX).map(|number| format!("k{number}")).collect();
    for (tag, names) in names.chunks(2).enumerate() {
        let keys: Vec<_> = names.iter().map(|name| (Key::Property(name.as_str()), &full[0].1[..0])).collect();
        refiner.fact(TagId(tag.min(15) as u64), &[of_keys(&keys)]);
    }
    assert_eq!(refiner.finish([]).refinement().unwrap().facts().len(), 15, "one name is too many");
}

#[test]
fn a_node_has_few_keys_and_labels() {
    let names: Vec<String> = (0..=COVERED_KEYS_MAX).map(|number| format!("k{number}")).collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let mut table = WritePositionTable::default();
    take(&mut table, 50, &with_keys(42, &names));
    let of = |name: &str| needed_by(&table, Key::Property(name), &[2]);
    assert_eq!((needed_by(&table, ID, &[7]), of("k2"), of("k3")), (0, 0, 50), "the first four");
    // As many unknown values, and as many labels: the rest of the node is not known as a whole.
    let keys: &[(Key<&str>, &[ClassId])] = &[(ID, &[ClassId(42)])];
    let role =
        TouchedRole { keys, all_but: Some(&names), labels: &names, labels_are_exact: true, is_fresh: false };
    take(&mut table, 60, &touched(NAME_KEY, &[role]));
    let of = |key, label: Option<&'static str>| {
        needed(&table, NAME_KEY, &[(NodeConstraint::new([key], label), false)], &[&[7]])
    };
    assert_eq!((of(ID, None), of(Key::Property("uid"), None)), (0, 60));
    assert_eq!(of(Key::Property("uid"), Some("B")), 60, "it may have a fifth label");
}

/// A node that knows no more names takes what the others cover for not covered.
#[test]
fn an_unknown_name_separates_nothing() {
    let mut table = WritePositionTable::default();
    for number in 0..WRITTEN_NAMES_MAX {
        take(&mut table, 1 + number as u64, &with_keys(42, &[&format!("n{number}")]));
    }
    let newest = WRITTEN_NAMES_MAX as u64 + 1;
    let (keys, new): (&[(Key<&str>, &[ClassId])], _) =
        (&[(Key::Property("unknown"), &[ClassId(1)])], &["unknown"]);
    let role = TouchedRole { keys, ..TouchedRole::default() };
    take(&mut table, newest, &touched(NAME_KEY, &[role]));
    assert_eq!(needed_by(&table, Key::Property("unknown"), &[2]), newest);
    let role = TouchedRole {
        all_but: Some(new),
        labels: new,
        labels_are_exact: true,
        is_fresh: true,
        ..TouchedRole::default()
    };
    take(&mut table, newest + 1, &touched(NAME_KEY, &[role]));
    let of = |key, label| needed(&table, NAME_KEY, &[(NodeConstraint::new([key], [label]), false)], &[&[2]]);
    assert_eq!((of(ID, "A"), of(Key::Property("unknown"), "A")), (newest + 1, newest + 1));
}

/// Statements of one transaction: a tag is refined if each of them that touched it says how.
#[test]
fn writes_that_are_committed_together_are_as_loose_as_each() {
    let other = touched(TYPE, &[]);
    let both = by_id(42).and(&other).unwrap().and(&by_id(43)).unwrap();
    assert_eq!(both.refinement().unwrap().facts_of(NAME_KEY).count(), 1);
    let of = |touched: &TouchedTags| {
        let mut table = WritePositionTable::default();
        take(&mut table, 50, touched);
        [7, 42, 43].map(|class| needed_by(&table, ID, &[class]))
    };
    assert_eq!(of(&both), [0, 50, 50]);
    assert_eq!(
        of(&with_keys(42, &["k"]).and(&with_keys(43, &["l"])).unwrap()),
        [0, 50, 50],
        "names have new places"
    );
    for loose in
        [TouchedTags::new([NAME_KEY], None), TouchedTags::new([NAME_KEY, TYPE], other.refinement().cloned())]
    {
        assert_eq!(of(&by_id(42).and(&loose).unwrap()), [50; 3]);
        assert_eq!(of(&loose.and(&by_id(42)).unwrap()), [50; 3]);
    }
    let tags = |from: u64, len: usize| TouchedTags::new((from..).take(len).map(TagId), None);
    assert_eq!(tags(0, WRITTEN_TAGS_OF_WRITE_MAX).and(&tags(1, WRITTEN_TAGS_OF_WRITE_MAX)), None);
    // More anchors than a write may have: it keeps its tags alone.
    let wide = |from: u64| {
        let classes: Vec<ClassId> = (from..).take(ANCHOR_CLASSES_MAX).map(ClassId).collect();
        touched(NAME_KEY, &[TouchedRole { keys: &[(ID, &classes)], ..TouchedRole::default() }])
    };
    let all = (0..5).map(|part| wide(part * 100)).reduce(|all, part| all.and(&part).unwrap()).unwrap();
    assert_eq!((all.refinement(), of(&all)), (None, [50; 3]));
}

#[test]
fn a_refinement_from_elsewhere_is_looked_at() {
    let both = with_keys(42, &["k", "l"]).and(&touched(TYPE, &[TouchedRole::default(); 2])).unwrap();
    let sent = postcard::to_allocvec(&**both.refinement().unwrap()).unwrap();
    assert_eq!(postcard::from_bytes::<Refinement>(&sent).as_ref(), Ok(&**both.refinement().unwrap()));
    let json = serde_json::to_value(&**both.refinement().unwrap()).unwrap();
    let read = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut json = json.clone();
        change(&mut json);
        serde_json::from_value::<Refinement>(json).map_err(|error| error.to_string())
    };
    assert!(read(&|_| {}).is_ok());
    assert_eq!(
        read(&|json| json["names"] = ["id", "k"].into()),
        Err(NotARefinement::UnknownName.to_string())
    );
    for (list, most) in [("anchors", REFINED_ANCHORS_MAX), ("names", REFINED_NAMES_MAX)] {
        let error = read(&|json| json[list] = vec![serde_json::Value::from(1); most + 1].into()).unwrap_err();
        assert!(error.contains(&format!("at most {most} items")), "{error}");
    }
}

/// A result that was read before this many other anchored writes. The bound is (1 − e^(−2m/S))², and a third.
#[test]
fn few_results_are_ended_by_other_anchors() {
    let mut table = WritePositionTable::default();
    let mut told = 0;
    for (anchors, most) in [(10_000, 0.0019), (50_000, 0.041), (100_000, 0.134)] {
        while told < anchors {
            let classes: Vec<ClassId> = (told..).take(50).map(ClassId).collect();
            take(
                &mut table,
                1,
                &touched(NAME_KEY, &[TouchedRole { keys: &[(ID, &classes)], ..TouchedRole::default() }]),
            );
            told += 50;
        }
        let others = 1_000_000..1_020_000;
        let ended = others.clone().filter(|class| needed_by(&table, ID, &[*class]) > 0).count();
        let share = ended as f64 / others.count() as f64;
        assert!(share < most && share > most / 3.0, "{share} of the results after {anchors} other anchors");
        assert!((0..anchors).step_by(997).all(|class| needed_by(&table, ID, &[class]) == 1));
    }
}
