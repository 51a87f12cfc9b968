//! Forms: one encoding, bounded, another id in another realm; and their queries after a given query.

use std::collections::BTreeMap;

use hopcache_core::key::{KeyHasher, PrincipalScope};
use hopcache_core::limits::{FIELDS_ROWS_MAX, FORM_BYTES_MAX, FORM_STATEMENT_BYTES_MAX};
use hopcache_learning::Kind;
use hopcache_learning::fields::Fields;
use hopcache_learning::form::{Binding, Bound, Form, RealmTag, Rows};
use hopcache_packstream::{Value, encode, encode_canonical};
use proptest::prelude::*;

use super::values::{any_params, any_result, any_value, node, params, result};

pub(crate) fn field(column: &str, path: &[&str], rows: Rows, kind: Kind) -> Binding {
    Binding::Field { column: column.into(), path: path.iter().map(|key| (*key).into()).collect(), rows, kind }
}

pub(crate) fn param(name: &str, kind: Kind) -> Binding {
    Binding::Param { name: name.into(), kind }
}

pub(crate) fn template(statement: &str, bindings: &[(&str, Binding)]) -> Form {
    let bindings = bindings.iter().map(|(name, binding)| ((*name).into(), binding.clone())).collect();
    Form::template(statement, bindings).unwrap()
}

fn friends() -> Fields {
    let row = |id: i64| vec![id.into(), node(&["Person"], &[("id", id.into()), ("name", "Ann".into())])];
    Fields::of(&result(&["id", "f"], &[row(20), row(30), vec!["x".into(), Value::Null], row(20), row(40)]))
}

fn rows(bound: &[Bound]) -> Vec<u8> {
    bound.iter().map(|bound| bound.row).collect()
}

#[test]
fn values_come_from_where_the_bindings_say() {
    let before = params(&[("id", 10.into()), ("limit", 50.into())]);
    let first = template(
        "X",
        &[
            ("who", field("f", &["id"], Rows::First, Kind::Int)),
            ("of", param("id", Kind::Int)),
            ("lang", Binding::Constant(encode(&"en".into()))),
        ],
    );
    let bound = first.bind(&before, Some(&friends()));
    let expected = params(&[("lang", "en".into()), ("of", 10.into()), ("who", 20.into())]);
    assert_eq!(bound, [Bound { params: expected, row: 0 }]);
    assert!(first.bind(&before, None).is_empty(), "no result, no field");
    assert!(first.bind(&params(&[]), Some(&friends())).is_empty(), "no such parameter");
    assert!(first.bind(b"garbage", Some(&friends())).is_empty());
    assert!(!first.is_each() && first.of_first_row().is_none());
}

/// A row without the value, or with one of another type, gives no query; equal ones give one.
#[test]
fn each_row_gives_one_query() {
    let each = template("X", &[("id", field("id", &[], Rows::Each, Kind::Int))]);
    let bound = each.bind(&params(&[]), Some(&friends()));
    assert_eq!(rows(&bound), [0, 1, 4]);
    assert_eq!(bound[2].params, params(&[("id", 40.into())]));
    let text = template("X", &[("id", field("id", &[], Rows::Each, Kind::Text))]);
    assert_eq!(rows(&text.bind(&params(&[]), Some(&friends()))), [2]);
    let both = template(
        "X",
        &[
            ("a", field("id", &[], Rows::Each, Kind::Int)),
            ("b", field("f", &["id"], Rows::Each, Kind::Int)),
            ("c", field("id", &[], Rows::First, Kind::Int)),
        ],
    );
    let bound = both.bind(&params(&[]), Some(&friends()));
    assert_eq!(rows(&bound), [0, 1, 4]);
    assert_eq!(
        bound[1].params,
        params(&[("a", 30.into()), ("b", 30.into()), ("c", 20.into())]),
        "of one row"
    );
    let first = both.of_first_row().unwrap();
    assert!(!first.is_each());
    assert_eq!(first.bind(&params(&[]), Some(&friends())), bound[..1]);
}

#[test]
fn no_parameters_and_exact_ones_need_nothing_before() {
    let bare = template("RETURN 1", &[]);
    assert_eq!(bare.bind(b"", None), [Bound { params: params(&[]), row: 0 }]);
    let own = params(&[("id", 1.into())]);
    let exact = Form::exact("RETURN $id", &own).unwrap();
    assert_eq!(exact.bind(b"", None), [Bound { params: own, row: 0 }]);
    assert_eq!(exact.statement(), "RETURN $id");
}

/// I9: a form that is too large is not learned.
#[test]
fn forms_are_bounded() {
    let none = params(&[]);
    let text = |len: usize| "x".repeat(len);
    assert!(Form::exact(&text(FORM_STATEMENT_BYTES_MAX), &none).is_some());
    assert!(Form::exact(&text(FORM_STATEMENT_BYTES_MAX + 1), &none).is_none());
    let long = |len: usize| params(&[("id", text(len).as_str().into())]);
    assert!(Form::exact(&text(2_000), &long(1_000)).is_some());
    assert!(Form::exact(&text(2_000), &long(1_100)).is_none());
    assert!(Form::exact("X", b"garbage").is_none() && Form::exact("X", &encode(&1.into())).is_none());
    let constant =
        |len: usize| BTreeMap::from([("a".into(), Binding::Constant(encode(&text(len).as_str().into())))]);
    assert!(Form::template("X", constant(254)).is_some());
    assert!(Form::template("X", constant(255)).is_none());
    let names = |len: usize| BTreeMap::from([(text(len).into(), param("a", Kind::Int))]);
    assert!(
        Form::template("X", names(255)).is_some() && Form::template("X", names(FORM_BYTES_MAX)).is_none()
    );
    let many = |count: u32| (0..count).map(|at| (format!("{at}").into(), param("a", Kind::Int))).collect();
    assert!(Form::template("X", many(16)).is_some() && Form::template("X", many(17)).is_none());
    let deep = field("a", &["b", "c", "d"], Rows::First, Kind::Int);
    assert!(Form::template("X", BTreeMap::from([("a".into(), deep)])).is_none());
}

/// I5: a form of one principal or database is another form for every other one. Ids are the same on every node.
#[test]
fn ids_are_of_database_and_principal() {
    let hasher = KeyHasher::new(b"secret");
    let scope = |user| PrincipalScope::of(&hasher, "basic", user, None);
    let realm = |database, user| RealmTag::of(&hasher, database, scope(user));
    let form = template("X", &[("id", param("id", Kind::Int))]);
    let id = form.id(&hasher, realm("neo4j", "ann")).unwrap();
    assert_eq!(id, form.id(&hasher, realm("NEO4J", "ann")).unwrap());
    assert_ne!(id, form.id(&hasher, realm("neo4j", "bob")).unwrap());
    assert_ne!(id, form.id(&hasher, realm("other", "ann")).unwrap());
    assert_ne!(id, form.id(&KeyHasher::new(b"another"), realm("neo4j", "ann")).unwrap());
    let (read, back) = Form::of_definition(&form.define(realm("neo4j", "ann")).unwrap()).unwrap();
    assert_eq!((read, back), (realm("neo4j", "ann"), form));
    // A fixed value: a changed id forgets every lesson, which is another wire version.
    assert_eq!(id.0, GOLDEN, "{:#x}", id.0);
}

const GOLDEN: u64 = 0x83c2_7ca0_ea52_a9be;

fn any_binding() -> impl Strategy<Value = Binding> {
    let kind = || {
        (0..9_u8).prop_map(|at| {
            [
                Kind::Null,
                Kind::Bool,
                Kind::Int,
                Kind::Float,
                Kind::Bytes,
                Kind::Text,
                Kind::List,
                Kind::Map,
                Kind::Struct,
            ][usize::from(at)]
        })
    };
    let rows = prop_oneof![Just(Rows::First), Just(Rows::Each), Just(Rows::All)];
    let path = prop::collection::vec("[abc]{0,2}".prop_map(String::into_boxed_str), 0..4);
    prop_oneof![
        ("[abc]{0,2}", kind()).prop_map(|(name, kind)| Binding::Param { name: name.into(), kind }),
        ("[abc]{0,2}", path, rows, kind()).prop_map(|(column, path, rows, kind)| Binding::Field {
            column: column.into(),
            path,
            rows,
            kind
        }),
        any_value().prop_map(|value| Binding::Constant(encode_canonical(&value))),
    ]
}

pub(crate) fn any_form() -> impl Strategy<Value = Form> {
    let bindings =
        prop::collection::btree_map("[abc]{0,2}".prop_map(String::into_boxed_str), any_binding(), 0..4);
    prop_oneof![
        ("\\PC{0,20}", any_params()).prop_filter_map("bounded", |(text, params)| Form::exact(&text, &params)),
        ("\\PC{0,20}", bindings)
            .prop_filter_map("bounded", |(text, bindings)| Form::template(&text, bindings)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Encoded forms decode to themselves, and two forms never have the same encoding.
    #[test]
    fn definitions_are_one_to_one(form in any_form(), other in any_form(), realm in any::<u64>()) {
        let written = form.define(RealmTag(realm)).unwrap();
        prop_assert!(written.len() <= FORM_BYTES_MAX);
        prop_assert_eq!(Form::of_definition(&written), Some((RealmTag(realm), form.clone())));
        let others = other.define(RealmTag(realm)).unwrap();
        prop_assert_eq!(form == other, written == others);
    }

    /// I13: any bytes, also changed bytes of a form, decode to a form in one way or not at all.
    #[test]
    fn any_bytes_are_read(form in any_form(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = form.define(RealmTag(1)).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some((realm, form)) = Form::of_definition(&bytes) {
            prop_assert_eq!(form.define(realm), Some(bytes.clone()));
        }
        bytes.truncate(at);
        if let Some((realm, form)) = Form::of_definition(&bytes) {
            prop_assert_eq!(form.define(realm), Some(bytes));
        }
    }

    /// After any query: at most eight queries, each once, in canonical form and of the learned types.
    #[test]
    fn bound_queries_are_canonical(form in any_form(), params in any_params(), result in any_result()) {
        let fields = Fields::of(&result);
        let bound = form.bind(&params, Some(&fields));
        prop_assert!(bound.len() <= usize::from(FIELDS_ROWS_MAX));
        for (at, each) in bound.iter().enumerate() {
            prop_assert!(bound[..at].iter().all(|other| other.params != each.params && other.row < each.row));
            let value = hopcache_packstream::decode(&each.params).unwrap();
            prop_assert_eq!(encode_canonical(&value), each.params.clone());
            if let Form::Template { bindings, .. } = &form {
                for (name, binding) in bindings {
                    let kind = Kind::of(&encode(value.get(name).unwrap()));
                    match binding {
                        Binding::Param { kind: wanted, .. } | Binding::Field { kind: wanted, .. } => {
                            prop_assert_eq!(kind, Some(*wanted));
                        }
                        Binding::Constant(constant) => {
                            prop_assert_eq!(encode(value.get(name).unwrap()), constant.clone());
                        }
                    }
                }
            }
        }
    }
}
