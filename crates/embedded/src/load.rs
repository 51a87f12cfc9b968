//! Writes the sample into a database file, once at the start. It runs no statement of a client.

use std::collections::HashMap;

use graphdblite::{Database, NodeId, Properties, Result, Value};

use crate::sample::{Person, Post, Sample};
use crate::values;

const INDEXES: [(&str, &str); 5] =
    [("Person", "id"), ("Person", "name"), ("Person", "city"), ("Post", "id"), ("Tag", "name")];

/// Writes the sample in one transaction. Nodes get the ids 0, 1, 2, … in the order persons, posts, tags.
pub(crate) fn load(graph: &mut Database, sample: &Sample) -> Result<()> {
    let write = graph.write_tx()?;
    for (label, property) in INDEXES {
        write.create_index(label, property)?;
    }
    let nodes = |label: &str, all: Vec<Properties>| -> Result<Vec<NodeId>> {
        all.into_iter().map(|one| write.create_node(label, one)).collect()
    };
    let persons = nodes("Person", sample.persons.iter().map(person).collect())?;
    let posts = nodes("Post", sample.posts.iter().map(post).collect())?;
    let tags = nodes("Tag", sample.tags.iter().map(|name| properties([("name", text(name))])).collect())?;
    for &(from, to, since) in &sample.knows {
        let since = properties([("since", Value::I64(since))]);
        write.create_edge(persons[from], persons[to], "KNOWS", since)?;
    }
    let plain = [
        ("POSTED", &sample.posted, &persons, &posts),
        ("LIKES", &sample.likes, &persons, &posts),
        ("TAGGED", &sample.tagged, &posts, &tags),
    ];
    for (label, pairs, sources, targets) in plain {
        for &(from, to) in pairs {
            write.create_edge(sources[from], targets[to], label, HashMap::new())?;
        }
    }
    write.commit()
}

fn person(person: &Person) -> Properties {
    let (year, month, day) = person.joined;
    properties([
        ("id", Value::I64(person.id)),
        ("name", text(&person.name)),
        ("city", text(person.city)),
        ("age", person.age.map_or(Value::Null, Value::I64)),
        ("joined", values::date(year, month, day).unwrap_or(Value::Null)),
    ])
}

fn post(post: &Post) -> Properties {
    properties([
        ("id", Value::I64(post.id)),
        ("title", text(&post.title)),
        ("length", Value::I64(post.length)),
    ])
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn properties<const N: usize>(pairs: [(&str, Value); N]) -> Properties {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
