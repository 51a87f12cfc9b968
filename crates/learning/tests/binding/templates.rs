//! Templates of one step: which hypotheses there are, from which earlier query a step is learned, and that each
//! returned form makes the next query.

use hopcache_core::limits::{FIELDS_LIST_ROWS_MAX, SESSION_BEFORE_MAX, TEMPLATES_PER_STEP_MAX};
use hopcache_learning::Kind;
use hopcache_learning::fields::Fields;
use hopcache_learning::form::{Binding, Form, Rows};
use hopcache_learning::templates::{EarlierQuery, LearnedForms, fields_wanted, templates_of};
use hopcache_packstream::{Reader, Token, Value, encode};
use proptest::prelude::*;

use super::forms::{field, param, template};
use super::values::{any_params, any_result, map, params, result};

const NEXT: &str = "MATCH (p:Person {id: $id}) RETURN p";

struct Query(&'static str, Vec<u8>, Option<Fields>);

fn learned(before: &[Query], next: &[u8]) -> Option<LearnedForms> {
    let seen: Vec<_> = before
        .iter()
        .map(|Query(statement, params, fields)| EarlierQuery { statement, params, fields: fields.as_ref() })
        .collect();
    templates_of(&seen, NEXT, next)
}

fn ids(column: &str, ids: &[i64]) -> Option<Fields> {
    let rows: Vec<_> = ids.iter().map(|id| vec![(*id).into()]).collect();
    Some(Fields::of(&result(&[column], &rows)))
}

fn forms(before: &[Query], next: &[(&str, Value)]) -> (usize, Vec<Form>) {
    let learned = learned(before, &params(next)).unwrap();
    (learned.before, learned.forms)
}

fn one(binding: Binding) -> Form {
    template(NEXT, &[("id", binding)])
}

#[test]
fn a_field_is_learned_of_the_first_row_and_of_each() {
    let before = || [Query("A", params(&[]), ids("f.id", &[100, 200, 300]))];
    let first = one(field("f.id", &[], Rows::First, Kind::Int));
    let each = one(field("f.id", &[], Rows::Each, Kind::Int));
    assert_eq!(forms(&before(), &[("id", 100.into())]), (0, vec![first, each.clone()]));
    assert_eq!(forms(&before(), &[("id", 300.into())]), (0, vec![each]));
    let constant = one(Binding::Constant(encode(&400.into())));
    assert_eq!(forms(&before(), &[("id", 400.into())]), (0, vec![constant]));
}

/// A search finds some ids, and the next step asks for all of them: retrieval for a language model works so.
#[test]
fn a_list_is_learned_of_all_rows() {
    let list = |ids: &[i64]| Value::List(ids.iter().map(|id| (*id).into()).collect());
    let all = one(field("f.id", &[], Rows::All, Kind::List));
    let before = |found: &[i64]| [Query("A", params(&[]), ids("f.id", found))];
    assert_eq!(forms(&before(&[100, 200, 300]), &[("id", list(&[100, 200, 300]))]), (0, vec![all.clone()]));
    let other = ids("f.id", &[7, 5]).unwrap();
    let bound = all.bind(&params(&[]), Some(&other));
    assert_eq!(
        bound.iter().map(|each| &each.params).collect::<Vec<_>>(),
        [&params(&[("id", list(&[7, 5]))])]
    );
    // Some of the ids, another order, or a row without one.
    for (found, asked) in [(&[100, 200][..], &[100][..]), (&[100, 200], &[200, 100])] {
        let constant = one(Binding::Constant(encode(&list(asked))));
        assert_eq!(forms(&before(found), &[("id", list(asked))]), (0, vec![constant]));
    }
    let gap = Fields::of(&result(&["f.id"], &[vec![100.into()], vec![Value::Null]]));
    assert!(all.bind(&params(&[]), Some(&gap)).is_empty());
    let many: Vec<i64> = (100..=100 + i64::from(FIELDS_LIST_ROWS_MAX)).collect();
    assert!(all.bind(&params(&[]), ids("f.id", &many).as_ref()).is_empty(), "an export");
    assert!(!all.bind(&params(&[]), ids("f.id", &many[1..]).as_ref()).is_empty());
}

#[test]
fn a_parameter_is_learned_whatever_its_name() {
    let before = [Query("A", params(&[("author", 100.into()), ("limit", 20.into())]), None)];
    assert_eq!(forms(&before, &[("id", 100.into())]), (0, vec![one(param("author", Kind::Int))]));
    let list = Value::List(vec![1.into(), map(&[("a", 2.into())])]);
    let before = [Query("A", params(&[("of", list.clone())]), None)];
    assert_eq!(forms(&before, &[("id", list)]), (0, vec![one(param("of", Kind::List))]));
}

/// `1`, `1.0` and `"1"` are three values.
#[test]
fn types_count() {
    let values = || [Value::Int(11), Value::Float(11.0), Value::from("11")];
    for own in values() {
        let rows = [vec![own.clone()]];
        let before = [Query("A", params(&[("id", own.clone())]), Some(Fields::of(&result(&["id"], &rows))))];
        for other in values() {
            let (_, forms) = forms(&before, &[("id", other.clone())]);
            let is_constant = forms == [one(Binding::Constant(encode(&other)))];
            assert_eq!(is_constant, own != other, "{own:?} {other:?}: {forms:?}");
        }
    }
}

/// 0, 1, true, "" and the like occur in most results by chance.
#[test]
fn trivial_values_are_never_learned_as_fields() {
    for value in [0.into(), 1.into(), 9.into(), true.into_value(), "".into(), Value::Null] {
        let rows = [vec![value.clone()]];
        let fields = || Some(Fields::of(&result(&["id"], &rows)));
        let constant = one(Binding::Constant(encode(&value)));
        let before = [Query("A", params(&[("other", value.clone())]), fields())];
        assert_eq!(forms(&before, &[("id", value.clone())]), (0, vec![constant.clone()]));
        let before = [Query("A", params(&[("id", value.clone())]), fields())];
        let kind = Kind::of(&encode(&value)).unwrap();
        assert_eq!(forms(&before, &[("id", value)]), (0, vec![one(param("id", kind)), constant]));
    }
}

trait IntoValue {
    fn into_value(self) -> Value;
}

impl IntoValue for bool {
    fn into_value(self) -> Value {
        Value::Bool(self)
    }
}

#[test]
fn the_nearest_query_that_explains_the_telling_value_is_learned_of() {
    let friends =
        || Query("B", params(&[("id", 100_000.into()), ("limit", 20.into())]), ids("f", &[70_000, 80_000]));
    let other = || Query("A", params(&[("limit", 20.into())]), ids("n", &[33]));
    let next = [("id", 80_000.into()), ("limit", 20.into())];
    let (before, found) = forms(&[other(), friends()], &next);
    assert_eq!(before, 1, "the page size alone explains nothing");
    let expected = template(
        NEXT,
        &[("id", field("f", &[], Rows::Each, Kind::Int)), ("limit", param("limit", Kind::Int))],
    );
    assert_eq!(found[0], expected);
    assert_eq!(found.len(), 2, "the page size may be a constant as well: {found:?}");
    assert_eq!(forms(&[friends(), friends()], &next).0, 0);
    assert_eq!(forms(&[other(), other()], &[("id", 80_000.into())]).0, 0, "constants alone: the nearest");
}

#[test]
fn nothing_is_learned_of_a_reload_or_of_nothing() {
    let own = params(&[("id", 100.into())]);
    let reload = || Query(NEXT, own.clone(), ids("p", &[100]));
    assert_eq!(learned(&[reload()], &own), None);
    assert_eq!(learned(&[], &own), None);
    let profile = || Query("A", params(&[("x", 5.into())]), None);
    let (before, found) = forms(&[profile(), reload()], &[("id", 100.into())]);
    assert_eq!(
        (before, found),
        (0, vec![one(Binding::Constant(encode(&100.into())))]),
        "not of itself either"
    );
    let next = Query(NEXT, params(&[("id", 7_000.into())]), ids("f", &[100]));
    assert_eq!(forms(&[next], &[("id", 100.into())]).1.len(), 2, "the same text for another id is a step");
}

#[test]
fn a_query_without_parameters_is_one_template() {
    let before = [Query("A", params(&[("id", 100.into())]), ids("p", &[100]))];
    assert_eq!(forms(&before, &[]), (0, vec![template(NEXT, &[])]));
}

/// I9: a query that cannot be a form is not learned: too long, too many parameters, or a long value without
/// explanation.
#[test]
fn large_queries_are_not_learned() {
    let before = [Query("A", params(&[("id", 100.into())]), None)];
    let long = "x".repeat(300);
    assert_eq!(learned(&before, &params(&[("q", long.as_str().into())])), None);
    let ids: Vec<Value> = (0..100_000).map(Value::Int).collect();
    assert_eq!(learned(&before, &params(&[("ids", Value::List(ids))])), None);
    let many: Vec<(String, Value)> = (0..17).map(|at| (format!("p{at:02}"), 100.into())).collect();
    let many: Vec<(&str, Value)> = many.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    assert_eq!(learned(&before, &params(&many)), None);
    assert!(learned(&before, &params(&many[..16])).is_some());
    let seen = EarlierQuery { statement: "A", params: &before[0].1, fields: None };
    assert_eq!(templates_of(&[seen], &"x".repeat(2_049), &params(&[])), None);
    assert_eq!(templates_of(&[seen], NEXT, b"garbage"), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each form makes the next query from its own source; none comes twice; bounded.
    #[test]
    fn every_form_makes_the_next_query(
        before in prop::collection::vec((any_params(), prop::option::of(any_result())), 0..7),
        own in any_params(),
        takes in any::<prop::sample::Index>(),
    ) {
        let before: Vec<Query> = before
            .into_iter()
            .map(|(params, result)| Query("A", params, result.map(|result| Fields::of(&result))))
            .collect();
        // Half of the next queries get a value of a result before; otherwise hardly any would be explained.
        let values: Vec<Vec<u8>> =
            before.iter().filter_map(|query| query.2.as_ref()).flat_map(|fields| fields.scalars().map(|field| field.value.to_vec())).collect();
        let next = if values.is_empty() { own } else { with_value(&own, &values[takes.index(values.len())]) };
        let Some(learned) = learned(&before, &next) else { return Ok(()) };
        prop_assert!(learned.before < before.len().min(SESSION_BEFORE_MAX));
        prop_assert!((1..=TEMPLATES_PER_STEP_MAX).contains(&learned.forms.len()));
        let Query(_, params, fields) = &before[learned.before];
        for (at, form) in learned.forms.iter().enumerate() {
            prop_assert!(!learned.forms[..at].contains(form));
            prop_assert_eq!(form.statement(), NEXT);
            let bound = form.bind(params, fields.as_ref());
            prop_assert!(bound.iter().any(|bound| bound.params == next), "{:?}", form);
        }
        // Without the fields that are not wanted the step is learned from the same query, by some of the same forms.
        let seen: Vec<_> = before.iter().map(|Query(statement, params, _)| EarlierQuery { statement, params, fields: None }).collect();
        let wanted = fields_wanted(&seen, NEXT, &next);
        let asked: Vec<Query> = before.iter().enumerate()
            .map(|(at, Query(statement, params, fields))| Query(statement, params.clone(), fields.clone().filter(|_| at < wanted)))
            .collect();
        let less = self::learned(&asked, &next).unwrap();
        prop_assert_eq!(less.before, learned.before);
        let kept = less.forms.iter().filter(|form| learned.forms.contains(form)).count();
        prop_assert!(kept >= 1 || learned.forms.len() == TEMPLATES_PER_STEP_MAX, "{:?} {:?}", less, learned);
    }
}

/// A step that a parameter explains asks for no field of that query's result, and of none before it.
#[test]
fn fields_are_wanted_only_where_no_parameter_explains_the_step() {
    let wanted = |before: &[(&'static str, i64)], next: &[(&str, Value)]| {
        let before: Vec<Query> =
            before.iter().map(|(text, id)| Query(text, params(&[("id", (*id).into())]), None)).collect();
        let seen: Vec<_> = before
            .iter()
            .map(|Query(statement, params, _)| EarlierQuery { statement, params, fields: None })
            .collect();
        fields_wanted(&seen, NEXT, &params(next))
    };
    let profiles = [("A", 300), ("A", 400), ("A", 500)];
    assert_eq!(wanted(&profiles, &[("id", 300.into())]), 0, "the nearest explains it");
    assert_eq!(wanted(&profiles, &[("id", 400.into())]), 1, "unless the nearer result does");
    assert_eq!(wanted(&profiles, &[("id", 900.into())]), 3, "nothing does");
    assert_eq!(wanted(&profiles, &[("id", 3.into())]), 0, "a trivial value proves nothing");
    assert_eq!(wanted(&profiles, &[]), 0);
    assert_eq!(wanted(&[(NEXT, 300), ("A", 400)], &[("id", 300.into())]), 0, "a reload teaches nothing");
    assert_eq!(wanted(&[], &[("id", 300.into())]), 0);
}

/// The parameters with `id` set to a packed value.
fn with_value(params: &[u8], value: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(params);
    let Ok(Token::Map(_)) = reader.token() else { panic!("a map") };
    let mut value_of = Reader::new(params).value().unwrap();
    if let Value::Map(pairs) = &mut value_of {
        pairs.retain(|(name, _)| name != "id");
        pairs.push(("id".to_owned(), hopcache_packstream::decode(value).unwrap()));
    }
    hopcache_packstream::encode_canonical(&value_of)
}
