//! Messages between nodes about what they learned: fields of results, forms, lessons and digests (F14, F39, I9). Any
//! bytes decode to a value that survives its own bytes, or to none. Messages of any node leave the model bounded.

use bytes::Bytes;
use hopcache_core::limits::{
    DELTA_PIECE_BYTES_MAX, FIELDS_BYTES_MAX, FIELDS_ROWS_MAX, FORM_BYTES_MAX, PULL_DIGEST_BYTES_MAX,
    PULL_PAGE_BYTES_MAX,
};
use hopcache_core::node::Incarnation;
use hopcache_core::result::ResultSet;
use hopcache_core::time::MonoTime;
use hopcache_learning::fields::Fields;
use hopcache_learning::form::{Binding, Form, RealmTag, Rows};
use hopcache_learning::{
    Bounds, Digest, FormId, Kind, OriginTag, PatternTag, QueryTag, SourceId, Successors, TransitionCounts,
};
use hopcache_packstream::{Value, encode, encode_canonical};

use crate::packed::every_type;

/// Read as sent fields, and as the records of a result.
pub(crate) fn check_fields(bytes: &[u8]) {
    if let Some(fields) = Fields::decode(bytes) {
        assert_eq!(Fields::decode(&fields.encode()).as_ref(), Some(&fields));
        assert!(fields.scalars().count() <= bytes.len());
        assert!(fields.weight_bytes() < 64 * bytes.len() + 512);
    }
    let result = ResultSet {
        fields: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
        records: Bytes::copy_from_slice(bytes),
        rows: u64::MAX,
        kind: None,
        summary: Value::Map(Vec::new()),
        bookmark: None,
        range: None,
        marked: None,
    };
    let fields = Fields::of(&result);
    let written = fields.encode();
    assert!(written.len() <= FIELDS_BYTES_MAX);
    assert_eq!(Fields::decode(&written).as_ref(), Some(&fields));
    for field in fields.scalars() {
        assert_eq!(
            fields.value(field.row, field.column, field.path),
            Some(field.value),
            "one scalar at a place"
        );
    }
}

fn fields() -> Fields {
    let row = encode(&Value::List(every_type()));
    let columns = (0..every_type().len()).map(|at| format!("f{at}")).collect();
    Fields::of(&ResultSet {
        fields: columns,
        records: [row.clone(), row].concat().into(),
        rows: 2,
        kind: None,
        summary: Value::Map(Vec::new()),
        bookmark: None,
        range: None,
        marked: None,
    })
}

pub(crate) fn fields_seeds() -> Vec<Vec<u8>> {
    vec![fields().encode(), Fields::default().encode(), encode(&Value::List(every_type()))]
}

fn own_params() -> Vec<u8> {
    encode_canonical(&Value::Map(vec![("id".to_owned(), Value::Int(300)), ("a".to_owned(), "x".into())]))
}

pub(crate) fn check_form(bytes: &[u8]) {
    let Some((realm, form)) = Form::of_definition(bytes) else { return };
    assert!(bytes.len() <= FORM_BYTES_MAX);
    assert_eq!(form.define(realm).as_deref(), Some(bytes), "one way to write it");
    let bound = form.bind(&own_params(), Some(&fields()));
    assert!(bound.len() <= usize::from(FIELDS_ROWS_MAX));
    for each in &bound {
        let value = hopcache_packstream::decode(&each.params).expect("PackStream");
        assert_eq!(encode_canonical(&value), each.params, "canonical, as a key needs it");
        assert!(matches!(value, Value::Map(_)));
    }
    if let Some(first) = form.of_first_row() {
        assert!(form.is_each() && !first.is_each() && first.define(realm).is_some());
    }
}

fn forms() -> Vec<Form> {
    let field =
        |rows| Binding::Field { column: "f9".into(), path: vec!["name".into()], rows, kind: Kind::Text };
    let bindings = [
        ("a", field(Rows::First)),
        ("b", field(Rows::Each)),
        ("c", Binding::Param { name: "id".into(), kind: Kind::Int }),
        ("d", Binding::Constant(encode(&Value::List(every_type())))),
        ("e", Binding::Constant(encode(&Value::Int(7)))),
    ];
    let some = |names: &[&str]| {
        let chosen = bindings.iter().filter(|(name, _)| names.contains(name));
        Form::template("RETURN 1", chosen.map(|(name, binding)| ((*name).into(), binding.clone())).collect())
    };
    let sets: [&[&str]; 5] = [&[], &["a", "c"], &["b", "c", "e"], &["d"], &["a", "b", "c", "e"]];
    sets.into_iter().filter_map(some).chain(Form::exact("RETURN $id", &own_params())).collect()
}

pub(crate) fn form_seeds() -> Vec<Vec<u8>> {
    forms().iter().filter_map(|form| form.define(RealmTag(7))).collect()
}

fn model(node: u64) -> Successors {
    Successors::new(OriginTag(node), Incarnation(node), Bounds::for_patterns(8), MonoTime(0))
}

/// A model of a node that has counted something, with definitions.
fn taught(node: u64) -> Successors {
    let mut model = model(node);
    for (at, form) in (1..).zip(form_seeds()) {
        let now = MonoTime(at * 1_000);
        let pattern = SourceId::from(PatternTag(at % 3));
        let query = SourceId::from(QueryTag(at));
        for source in [pattern, query] {
            model.saw(source, now);
            model.count(source, FormId(at), now);
        }
        model.launched(pattern, FormId(at), now);
        model.used(pattern, FormId(at), now);
        model.define_form(FormId(at), &form);
        model.define_pattern(PatternTag(at % 3), "MATCH ( n ) RETURN n");
    }
    model
}

/// Merges a lesson twice: the second time nothing is new. Then another node reads this node's lessons.
pub(crate) fn check_transition_counts(bytes: &[u8]) {
    let Ok(counts) = TransitionCounts::decode(bytes) else { return };
    let bounds = Bounds::for_patterns(8);
    let (mut model, now) = (taught(1), MonoTime(1_000_000));
    model.members(&[OriginTag(1), OriginTag(2)]);
    for _ in 0..2 {
        model.merge(&counts, now, |_| true);
        let sizes = model.sizes();
        assert!(sizes.patterns <= bounds.patterns && sizes.queries <= bounds.queries, "{sizes:?}");
        assert!(sizes.slots <= bounds.slots, "{sizes:?}");
        assert!(sizes.definition_bytes <= bounds.definition_bytes, "{sizes:?}");
    }
    let before = model.sizes();
    model.merge(&counts, now, |_| true);
    assert_eq!(model.sizes(), before, "repetition changes nothing");
    for source in [SourceId::from(PatternTag(0)), SourceId::from(QueryTag(1))] {
        for prediction in model.predictions(source, now) {
            let p = prediction.p;
            assert!((0.0..=1.0).contains(&p), "{p}");
        }
    }
    for piece in model.next_pieces(4 * DELTA_PIECE_BYTES_MAX, now) {
        assert!(piece.len() <= DELTA_PIECE_BYTES_MAX);
        TransitionCounts::decode(&piece).expect("another node decodes the lesson");
    }
}

pub(crate) fn transition_counts_seeds() -> Vec<Vec<u8>> {
    let now = MonoTime(1_000_000);
    let mut seeds = taught(2).next_pieces(64 * DELTA_PIECE_BYTES_MAX, now);
    let digest = model(3).digest(now);
    seeds.push(taught(2).answer_pull(&digest, now));
    seeds
}

pub(crate) fn check_digest(bytes: &[u8]) {
    let Some(digest) = Digest::decode(bytes) else { return };
    let written = digest.encode();
    assert!(written.len() <= PULL_DIGEST_BYTES_MAX);
    assert_eq!(Digest::decode(&written), Some(digest.clone()));
    let page = taught(1).answer_pull(&digest, MonoTime(1_000_000));
    assert!(page.len() <= PULL_PAGE_BYTES_MAX);
    TransitionCounts::decode(&page).expect("the answer decodes");
}

pub(crate) fn digest_seeds() -> Vec<Vec<u8>> {
    let now = MonoTime(1_000_000);
    let (mut knows, mut lacks) = (taught(2), model(3));
    for piece in knows.next_pieces(DELTA_PIECE_BYTES_MAX, now) {
        lacks.merge(&TransitionCounts::decode(&piece).expect("a piece"), now, |_| true);
    }
    vec![model(1).digest(now).encode(), knows.digest(now).encode(), lacks.digest(now).encode()]
}
