//! I5: query keys are injective in everything that may change an answer, and they never change
//! (`tests/golden/query_keys.json`; the recipe is in the README beside it).

use std::collections::{BTreeMap, BTreeSet};

use hopcache_core::key::{DatabaseTag, KeyForm, KeyHasher, KeyMaterial, PrincipalScope, QueryKey};
use hopcache_cypher::forms::normal::NormalForm;
use hopcache_cypher::forms::shared::SharedForm;
use hopcache_cypher::statement::Statement;
use hopcache_cypher::verdict::{Allowed, TextVerdict};
use hopcache_packstream::{Value, decode, encode_canonical};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq)]
struct Asked {
    database: String,
    scheme: String,
    user: String,
    impersonated: Option<String>,
    text: String,
    params: Value,
}

impl Asked {
    fn key(&self, hasher: &KeyHasher) -> QueryKey {
        let scope = PrincipalScope::of(hasher, &self.scheme, &self.user, self.impersonated.as_deref());
        let params = encode_canonical(&self.params);
        let normal = NormalForm::of(&self.text);
        hasher.query_key(&KeyMaterial {
            database: &self.database,
            scope,
            form: KeyForm::Normal(normal.as_str()),
            params: &params,
        })
    }

    /// The meaning of a request, computed without the hash: requests that may share an answer have equal ones.
    /// Rendered, with maps ordered and floats as bits.
    fn meaning(&self) -> String {
        let normal = NormalForm::of(&self.text);
        let database = self.database.to_ascii_lowercase();
        let who = (&self.scheme, &self.user, &self.impersonated);
        format!("{database:?} {who:?} {:?} {}", normal.as_str(), describe(&self.params))
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Float(number) if number.is_nan() => "float NaN".to_owned(),
        Value::Float(number) => format!("float {:016x}", number.to_bits()),
        Value::List(items) => format!("[{}]", items.iter().map(describe).collect::<Vec<_>>().join(", ")),
        Value::Map(pairs) => {
            let sorted: BTreeMap<_, _> = pairs.iter().map(|(key, value)| (key, describe(value))).collect();
            format!("{sorted:?}")
        }
        Value::Struct { tag, fields } => {
            format!("struct {tag} {:?}", fields.iter().map(describe).collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    }
}

fn values() -> impl Strategy<Value = Value> {
    let special = prop::sample::select(vec![
        Value::Null,
        Value::Bool(true),
        Value::Int(1),
        Value::Float(1.0),
        Value::from("1"),
        Value::from("true"),
        Value::Float(0.0),
        Value::Float(-0.0),
        Value::Int(0),
        Value::Float(f64::NAN),
        Value::Float(f64::from_bits(0x7ff8_0000_0000_0001)),
        Value::Float(f64::from_bits(0xfff0_0000_0000_0001)),
        Value::Int(i64::MAX),
        Value::Int(i64::MIN),
        Value::Int(1 << 53),
        Value::Int((1 << 53) + 1),
        Value::Float(9_007_199_254_740_992.0),
        Value::from(""),
        Value::Bytes(Vec::new()),
        Value::List(Vec::new()),
        Value::Map(Vec::new()),
        Value::Bytes(b"1".to_vec()),
        Value::Struct { tag: 0x44, fields: vec![Value::Int(1)] },
    ]);
    let leaf = prop_oneof![special, any::<i64>().prop_map(Value::Int), "[ab]{0,3}".prop_map(Value::String)];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
            prop::collection::vec(("[ab]{0,2}", inner), 0..3).prop_map(Value::Map),
        ]
    })
}

/// Few values for each part and one alphabet for all, so that two draws are often equal or nearly so.
fn asked() -> impl Strategy<Value = Asked> {
    let text = prop::sample::select(vec![
        "",
        "a",
        "RETURN 1",
        "RETURN  1;",
        "RETURN 1 + 1",
        "RETURN 1  + 1",
        "return 1",
    ]);
    let params = prop::collection::vec(("[ab]{0,2}", values()), 0..3).prop_map(Value::Map);
    ("[abA]{0,2}", "(basic|bearer|)", "[abA]{0,2}", prop::option::of("[ab]{0,2}"), text, params).prop_map(
        |(database, scheme, user, impersonated, text, params)| Asked {
            database,
            scheme,
            user,
            impersonated,
            text: text.to_owned(),
            params,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Equal keys if and only if equal meaning.
    #[test]
    fn keys_are_injective(left in asked(), right in asked(), donate in 0..7_u8) {
        let hasher = KeyHasher::new(b"secret");
        // Most draws differ in everything, so take all parts but one from the other.
        let mut near = left.clone();
        match donate {
            0 => near.database.clone_from(&right.database),
            1 => near.user.clone_from(&right.user),
            2 => near.impersonated.clone_from(&right.impersonated),
            3 => near.text.clone_from(&right.text),
            4 => near.params = right.params.clone(),
            // Swapped, and moved from one part to the next.
            5 => near.impersonated = Some(std::mem::replace(&mut near.user, right.impersonated.clone().unwrap_or_default())),
            _ => {
                let moved = near.user.pop();
                near.scheme.extend(moved);
            }
        }
        prop_assert_eq!(left.key(&hasher) == near.key(&hasher), left.meaning() == near.meaning(), "{:?} {:?}", left, near);
        prop_assert_eq!(left.key(&hasher) == right.key(&hasher), left.meaning() == right.meaning());
    }

    /// The order in which a client wrote a map does not matter, at any depth.
    #[test]
    fn map_order_does_not_matter(value in values(), other in values()) {
        let hasher = KeyHasher::new(b"");
        let pairs = [("a".to_owned(), value), ("b".to_owned(), other)];
        let reversed = pairs.iter().rev().cloned().collect();
        let of = |map: Vec<(String, Value)>| {
            let params = Value::Map(vec![("p".to_owned(), Value::Map(map))]);
            Asked { params, ..plain() }.key(&hasher)
        };
        prop_assert_eq!(of(pairs.to_vec()), of(reversed));
    }

    /// Canonical parameters are PackStream that decodes to the original values.
    #[test]
    fn canonical_parameters_read_back(value in values()) {
        prop_assert_eq!(describe(&decode(&encode_canonical(&value)).unwrap()), describe(&value));
    }
}

fn plain() -> Asked {
    let text = |text: &str| text.to_owned();
    Asked {
        database: text("neo4j"),
        scheme: text("basic"),
        user: text("neo4j"),
        impersonated: None,
        text: text("RETURN $p"),
        params: Value::Map(Vec::new()),
    }
}

#[test]
fn another_secret_gives_another_key() {
    let keys = [&b""[..], b"a", b"b"].map(|secret| plain().key(&KeyHasher::new(secret)));
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
    let (left, right) = (KeyHasher::new(b"a"), KeyHasher::new(b"b"));
    assert_ne!(DatabaseTag::of(&left, "neo4j"), DatabaseTag::of(&right, "neo4j"));
    assert_eq!(DatabaseTag::of(&left, "neo4j"), DatabaseTag::of(&left, "Neo4J"));
    assert_ne!(DatabaseTag::of(&left, "neo4j"), DatabaseTag::of(&left, "neo4k"));
    assert_ne!(
        PrincipalScope::of(&left, "basic", "a", None),
        PrincipalScope::of(&left, "basic", "a", Some(""))
    );
    assert_ne!(PrincipalScope::of(&left, "basic", "a", None), PrincipalScope::of(&left, "basic", "A", None));
}

#[test]
fn hexadecimal_reads_back() {
    let key = plain().key(&KeyHasher::new(b""));
    assert_eq!(QueryKey::from_hex(&key.to_hex()), Some(key));
    assert_eq!(QueryKey::from_hex("00"), None);
}

#[derive(Deserialize)]
struct Vector {
    secret: String,
    database: String,
    scheme: String,
    user: String,
    impersonated: Option<String>,
    statement: String,
    params_hex: String,
    normal_form: String,
    scope: String,
    database_tag: String,
    query_key: String,
}

#[test]
fn golden_vectors() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../tests/golden/query_keys.json")).unwrap();
    assert!(vectors.len() >= 12);
    for vector in vectors {
        let hasher = KeyHasher::new(vector.secret.as_bytes());
        let scope = PrincipalScope::of(&hasher, &vector.scheme, &vector.user, vector.impersonated.as_deref());
        let normal = NormalForm::of(&vector.statement);
        let params = from_hex(&vector.params_hex);
        assert_eq!(encode_canonical(&decode(&params).unwrap()), params, "{}", vector.statement);
        let key = hasher.query_key(&KeyMaterial {
            database: &vector.database,
            scope,
            form: KeyForm::Normal(normal.as_str()),
            params: &params,
        });
        assert_eq!(normal.as_str(), vector.normal_form);
        assert_eq!(QueryKey(scope.0).to_hex(), vector.scope, "scope of {}", vector.statement);
        let tag = format!("{:016x}", DatabaseTag::of(&hasher, &vector.database).0);
        assert_eq!(tag, vector.database_tag, "tag of {}", vector.database);
        assert_eq!(key.to_hex(), vector.query_key, "key of {}", vector.statement);
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

/// A changed shared form or key empties the cache of such statements. The keys are those of the empty secret, of nobody,
/// without parameters.
#[test]
fn shared_forms_and_their_keys_are_pinned() {
    for (statement, form, key) in [
        (
            "MATCH (n:A {x: $p}) RETURN n.y",
            "MATCH ( v0 : A { x : $p } ) RETURN v0 . y AS v1",
            "5c5a6c45f8546b69f57075f95729e8dc5e5e5fa38f23962add3436dd3f8451b5",
        ),
        (
            "MATCH (b)<-[r:R]-(a) WHERE b.x = 1 AND a.y IS NULL RETURN a, r ORDER BY b.z DESC LIMIT 3",
            "MATCH ( v0 ) -[ v1 : R ]-> ( v2 ) WHERE v0 . y IS NULL AND v2 . x = 1 RETURN v0 AS v3 , v1 AS v4 ORDER BY v2 . z DESC LIMIT 3",
            "5f24d90ca82fc8be5d3d782e191f8216dce0a0fa0c11bbf15e388f05108606c0",
        ),
    ] {
        let hasher = KeyHasher::new(b"").sharing_spellings(true);
        let scope = PrincipalScope::of(&hasher, "none", "", None);
        let (normal, shared) = (NormalForm::of(statement), SharedForm::of(statement).unwrap());
        let key_of = |form| {
            let material = KeyMaterial { database: "neo4j", scope, form, params: &[0xA0] };
            hasher.query_key(&material)
        };
        let shared_key = key_of(KeyForm::Shared(shared.as_str()));
        assert_eq!(shared.as_str(), form);
        assert_eq!(shared_key.to_hex(), key, "{statement}");
        assert_ne!(key_of(KeyForm::Normal(normal.as_str())), shared_key);
        // The form of a statement is a text too, with another key of its own.
        assert_ne!(key_of(KeyForm::Normal(NormalForm::of(form).as_str())), shared_key);
    }
}

/// A text with another language or other options has another key and another pattern, as it is spelled or in shared form.
#[test]
fn a_prefix_is_part_of_the_key_and_of_the_pattern() {
    let texts =
        ["", "CYPHER ", "CYPHER 5 ", "CYPHER 25 ", "CYPHER 5 runtime=slotted ", "CYPHER runtime=slotted "]
            .map(|prefix| format!("{prefix}MATCH (n:A {{x: 1}}) RETURN n.y"));
    for shares in [false, true] {
        let hasher = KeyHasher::new(b"").sharing_spellings(shares);
        let scope = PrincipalScope::of(&hasher, "none", "", None);
        let read = |text: &String| Statement::of(text, &Allowed::default(), shares);
        let key = |text: &String| {
            let read = read(text);
            assert_eq!((read.lexed, read.shared.is_some()), (TextVerdict::PerhapsRead, shares), "{text}");
            let material = KeyMaterial { database: "neo4j", scope, form: read.key_form(), params: &[0xA0] };
            hasher.query_key(&material).to_hex()
        };
        let keys: BTreeSet<_> = texts.iter().map(key).collect();
        let patterns: BTreeSet<_> = texts.iter().map(|text| read(text).pattern.0).collect();
        assert_eq!((keys.len(), patterns.len()), (texts.len(), texts.len()));
    }
}
