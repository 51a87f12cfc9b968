//! Answers against brute force over the same graph in plain Rust, for 30 shapes of statements over
//! random parameters. Where a statement orders nothing, rows are compared as a bag.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_packstream::{Value, encode};
use proptest::prelude::*;

use crate::support::{int, rows, sample, text};

fn bag(mut rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    rows.sort_by_key(|row| encode(&Value::List(row.clone())));
    rows
}

#[track_caller]
fn same(statement: &str, params: &[(&str, Value)], expected: Vec<Vec<Value>>) {
    assert_eq!(bag(rows(statement, params)), bag(expected), "{statement} {params:?}");
}

#[track_caller]
fn same_order(statement: &str, params: &[(&str, Value)], expected: Vec<Vec<Value>>) {
    assert_eq!(rows(statement, params), expected, "{statement} {params:?}");
}

fn column(values: impl IntoIterator<Item = Value>) -> Vec<Vec<Value>> {
    values.into_iter().map(|value| vec![value]).collect()
}

fn out(id: usize) -> Vec<usize> {
    sample().knows.iter().filter(|pair| pair.0 == id).map(|pair| pair.1).collect()
}

fn into(id: usize) -> Vec<usize> {
    sample().knows.iter().filter(|pair| pair.1 == id).map(|pair| pair.0).collect()
}

fn name(id: usize) -> Value {
    text(&sample().persons[id].name)
}

fn age(id: usize) -> Value {
    sample().persons[id].age.map_or(Value::Null, Value::Int)
}

/// Persons at the ends of all trails (no relationship twice) of this many hops along KNOWS, in any direction.
fn trails(from: usize, hops: usize, used: &mut Vec<usize>, ends: &mut Vec<usize>, min: usize) {
    if used.len() >= min {
        ends.push(from);
    }
    if used.len() == hops {
        return;
    }
    for (index, pair) in sample().knows.iter().enumerate() {
        if (pair.0 != from && pair.1 != from) || used.contains(&index) {
            continue;
        }
        used.push(index);
        trails(if pair.0 == from { pair.1 } else { pair.0 }, hops, used, ends, min);
        used.pop();
    }
}

fn distance(from: usize, to: usize) -> Option<usize> {
    let mut seen = BTreeSet::from([from]);
    let mut ring = vec![from];
    for steps in 0.. {
        if ring.contains(&to) {
            return Some(steps);
        }
        ring =
            ring.iter().flat_map(|id| [out(*id), into(*id)].concat()).filter(|id| seen.insert(*id)).collect();
        if ring.is_empty() {
            return None;
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lookups_and_hops(id in 0_usize..2_000) {
        let p = &[("id", int(id))][..];
        same("MATCH (p:Person {id: $id}) RETURN p.name, p.age", p, vec![vec![name(id), age(id)]]);
        same("MATCH (p:Person) WHERE p.id = $id RETURN p.city AS city", p, column([text(sample().persons[id].city)]));
        same("MATCH (:Person {id: $id})-[:KNOWS]->(f) RETURN f.id", p, column(out(id).into_iter().map(int)));
        same("MATCH (:Person {id: $id})<-[:KNOWS]-(f) RETURN f.id", p, column(into(id).into_iter().map(int)));
        let both = [out(id), into(id)].concat();
        same("MATCH (:Person {id: $id})-[:KNOWS]-(f) RETURN f.id", p, column(both.iter().copied().map(int)));
        same("MATCH (:Person {id: $id})-[:KNOWS]-(f) RETURN count(f) AS degree", p, column([int(both.len())]));
        let second: Vec<usize> = out(id).into_iter().flat_map(out).collect();
        same("MATCH (:Person {id: $id})-[:KNOWS]->()-[:KNOWS]->(f) RETURN f.id", p, column(second.iter().copied().map(int)));
        let distinct: BTreeSet<usize> = second.into_iter().collect();
        same_order("MATCH (:Person {id: $id})-[:KNOWS]->()-[:KNOWS]->(f) RETURN DISTINCT f.id ORDER BY f.id", p, column(distinct.into_iter().map(int)));
        let since: i64 = sample().knows.iter().filter(|k| k.0 == id).map(|k| k.2).sum();
        same("MATCH (:Person {id: $id})-[k:KNOWS]->() RETURN sum(k.since)", p, column([Value::Int(since)]));
    }

    #[test]
    fn optional_collect_exists(id in 0_usize..2_000) {
        let p = &[("id", int(id))][..];
        let likes: Vec<usize> = sample().likes.iter().filter(|pair| pair.0 == id).map(|pair| pair.1).collect();
        let optional = if likes.is_empty() { vec![Value::Null] } else { likes.iter().map(|post| int(*post)).collect() };
        same("MATCH (p:Person {id: $id}) OPTIONAL MATCH (p)-[:LIKES]->(q:Post) RETURN q.id", p, column(optional));
        let mut sorted = out(id);
        sorted.sort_unstable();
        let list = Value::List(sorted.into_iter().map(int).collect());
        same("MATCH (:Person {id: $id})-[:KNOWS]->(f) WITH f ORDER BY f.id RETURN collect(f.id) AS ids", p,
            column([if id == 0 { Value::List(Vec::new()) } else { list }]));
        let posted = sample().posted.iter().any(|pair| pair.0 == id);
        same("MATCH (p:Person {id: $id}) RETURN EXISTS { MATCH (p)-[:POSTED]->(:Post) } AS e", p, column([Value::Bool(posted)]));
        same("MATCH (p:Person {id: $id}) WHERE NOT (p)-[:POSTED]->() RETURN p.id", p, column((!posted).then(|| int(id))));
        let ages: Vec<i64> = out(id).into_iter().filter_map(|f| sample().persons[f].age).collect();
        let (low, high) = (ages.iter().min(), ages.iter().max());
        let or_null = |number: Option<&i64>| number.copied().map_or(Value::Null, Value::Int);
        same("MATCH (:Person {id: $id})-[:KNOWS]->(f) RETURN count(f.age), min(f.age), max(f.age)", p,
            vec![vec![int(ages.len()), or_null(low), or_null(high)]]);
        same("MATCH (p:Person {id: $id}) RETURN p.age IS NULL AS n, coalesce(p.age, -1) AS a, p.age + 1 AS b, p.nothing AS c", p,
            vec![vec![Value::Bool(age(id) == Value::Null), age(id).as_int().map_or(Value::Int(-1), Value::Int),
                age(id).as_int().map_or(Value::Null, |a| Value::Int(a + 1)), Value::Null]]);
        let tags: Vec<Vec<Value>> = sample().posted.iter().filter(|pair| pair.0 == id)
            .flat_map(|pair| sample().tagged.iter().filter(move |tag| tag.0 == pair.1))
            .map(|tag| vec![text(sample().tags[tag.1])]).collect();
        same("MATCH (p:Person {id: $id})-[:POSTED]->(:Post)-[:TAGGED]->(t:Tag) RETURN t.name AS tag", p, tags);
    }

    #[test]
    fn filters_and_order(low in 18_i64..78, span in 0_i64..8, city in 0_usize..12, skip in 0_usize..20, limit in 0_usize..20) {
        let cities = ["Oslo", "Lyon", "Porto", "Kyoto", "Lima", "Accra", "Pune", "Graz", "Malmö", "Turin", "Quito", "Busan"];
        let (city, other) = (cities[city], cities[(city + 1) % 12]);
        let p = &[("low", Value::Int(low)), ("high", Value::Int(low + span)), ("city", text(city)), ("other", text(other)),
            ("skip", int(skip)), ("limit", int(limit))][..];
        let ids = |keep: &dyn Fn(&hopcache_embedded::sample::Person) -> bool| -> Vec<Value> {
            sample().persons.iter().filter(|one| keep(one)).map(|one| Value::Int(one.id)).collect()
        };
        let within = |one: &hopcache_embedded::sample::Person| one.age.is_some_and(|age| age >= low && age <= low + span);
        same("MATCH (p:Person) WHERE p.age >= $low AND p.age <= $high RETURN p.id", p, column(ids(&within)));
        same("MATCH (p:Person) WHERE NOT (p.age < $low) AND p.city <> $city RETURN p.id", p,
            column(ids(&|one| one.age.is_some_and(|age| age >= low) && one.city != city)));
        same("MATCH (p:Person) WHERE p.city = $city AND p.age = $low OR p.age IS NULL RETURN p.id", p,
            column(ids(&|one| one.city == city && one.age == Some(low) || one.age.is_none())));
        same("MATCH (p:Person) WHERE p.city IN [$city, $other] AND p.age = $low RETURN p.id", p,
            column(ids(&|one| (one.city == city || one.city == other) && one.age == Some(low))));
        same("MATCH (p:Person) WHERE p.name STARTS WITH $city OR p.name ENDS WITH 'Kim' OR p.name CONTAINS 'oë X' RETURN p.id", p,
            column(ids(&|one| one.name.starts_with(city) || one.name.ends_with("Kim") || one.name.contains("oë X"))));
        let mut ordered: Vec<_> = sample().persons.iter().filter(|one| one.city == city).collect();
        ordered.sort_by_key(|one| (std::cmp::Reverse((one.age.is_none(), one.age)), one.id));
        let page = ordered.iter().skip(skip).take(limit).map(|one| vec![Value::Int(one.id), age(usize::try_from(one.id).unwrap())]);
        same_order("MATCH (p:Person {city: $city}) RETURN p.id, p.age ORDER BY p.age DESC, p.id SKIP $skip LIMIT $limit", p, page.collect());
        let union = ids(&|one| one.city == city && one.age == Some(low)).into_iter().chain(ids(&|one| one.age == Some(low)));
        let all: Vec<Value> = union.collect();
        same("MATCH (p:Person) WHERE p.city = $city AND p.age = $low RETURN p.id AS id UNION ALL MATCH (p:Person) WHERE p.age = $low RETURN p.id AS id", p, column(all));
        same("MATCH (p:Person) WHERE p.city = $city AND p.age = $low RETURN p.id UNION MATCH (p:Person) WHERE p.age = $low RETURN p.id", p,
            column(ids(&|one| one.age == Some(low))));
        let mut groups: BTreeMap<i64, usize> = BTreeMap::new();
        sample().persons.iter().filter(|one| one.city == city).filter_map(|one| one.age).for_each(|age| *groups.entry(age).or_default() += 1);
        same_order("MATCH (p:Person {city: $city}) WHERE p.age IS NOT NULL RETURN count(*), p.age ORDER BY p.age", p,
            groups.iter().map(|(age, count)| vec![int(*count), Value::Int(*age)]).collect());
        same("MATCH (p:Person {city: $city}) WITH p.age AS age, count(*) AS c WHERE c > 3 AND age IS NOT NULL RETURN age, c", p,
            groups.iter().filter(|(_, count)| **count > 3).map(|(age, count)| vec![Value::Int(*age), int(*count)]).collect());
    }

    #[test]
    fn unwind_and_lists(ids in proptest::collection::vec(0_usize..2_100, 0..8), low in -5_i64..5, high in -5_i64..5) {
        let p = &[("ids", Value::List(ids.iter().copied().map(int).collect())), ("low", Value::Int(low)), ("high", Value::Int(high))][..];
        let known = ids.iter().filter(|id| **id < 2_000);
        same("UNWIND $ids AS id MATCH (p:Person {id: id}) RETURN id, p.name", p, known.map(|id| vec![int(*id), name(*id)]).collect());
        let distinct: BTreeSet<usize> = ids.iter().copied().collect();
        same("UNWIND $ids AS id RETURN count(DISTINCT id) AS c", p, vec![vec![int(distinct.len())]]);
        let squares = (low..=high).filter(|x| x % 2 == 0).map(|x| Value::Int(x * x));
        same("RETURN [x IN range($low, $high) WHERE x % 2 = 0 | x * x] AS l", p, column([Value::List(squares.collect())]));
        let case = if low < high { "less" } else { "not" };
        same("RETURN CASE WHEN $low < $high THEN 'less' ELSE 'not' END, $low = null, null IN [1], 1 IN [1, null]", p,
            vec![vec![text(case), Value::Null, Value::Null, Value::Bool(true)]]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn longer_ways(from in 1_000_usize..2_000, to in 0_usize..2_000) {
        let p = &[("from", int(from)), ("to", int(to))][..];
        for (min, max) in [(1, 2), (0, 2)] {
            let mut ends = Vec::new();
            trails(from, max, &mut Vec::new(), &mut ends, min);
            let statement = format!("MATCH (:Person {{id: $from}})-[:KNOWS*{min}..{max}]-(b) RETURN b.id");
            same(&statement, p, column(ends.into_iter().map(int)));
        }
        let mut directed = out(from);
        let second: Vec<usize> = directed.iter().copied().flat_map(out).collect();
        let third: Vec<usize> = second.iter().copied().flat_map(out).collect();
        directed.extend(second.into_iter().chain(third));
        same("MATCH (:Person {id: $from})-[:KNOWS*1..3]->(b) RETURN b.id", p, column(directed.into_iter().map(int)));
        prop_assume!(from != to);
        let steps = distance(from, to).map(int);
        same("MATCH (a:Person {id: $from}), (b:Person {id: $to}) MATCH w = shortestPath((a)-[:KNOWS*..12]-(b)) RETURN length(w) AS l", p, column(steps));
    }
}
