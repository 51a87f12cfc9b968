//! Statements to try on the sample, for `hopcache dev` and its documentation.

/// One statement to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// Its question, in one line.
    pub title: &'static str,
    /// The statement.
    pub statement: &'static str,
    /// Its parameters as a JSON object.
    pub params_json: &'static str,
}

/// Five statements; the first is about a hub and takes a parameter.
#[must_use]
pub fn examples() -> &'static [Example] {
    &EXAMPLES
}

const EXAMPLES: [Example; 5] = [
    Example {
        title: "whom the friends of Ada Abel (person 0, a hub) know best",
        statement: "MATCH (p:Person {id: $id})-[:KNOWS]-(f)-[:KNOWS]-(o) WHERE o.id <> $id \
                    RETURN o.name AS name, count(*) AS friends ORDER BY friends DESC, name LIMIT 3",
        params_json: r#"{"id": 0}"#,
    },
    Example {
        title: "who is known by most",
        statement: "MATCH (person:Person)<-[:KNOWS]-(other) RETURN person.name AS name, count(other) AS known \
                    ORDER BY known DESC, name LIMIT 10",
        params_json: "{}",
    },
    Example {
        title: "the shortest way from one person to another",
        statement: "MATCH (from:Person {id: $from}), (to:Person {id: $to}) \
                    MATCH way = shortestPath((from)-[:KNOWS*..8]-(to)) RETURN way, length(way) AS steps",
        params_json: r#"{"from": 17, "to": 1999}"#,
    },
    Example {
        title: "what people of a city like, by tag",
        statement: "MATCH (:Person {city: $city})-[:LIKES]->(:Post)-[:TAGGED]->(tag:Tag) \
                    RETURN tag.name AS tag, count(*) AS likes ORDER BY likes DESC, tag LIMIT 5",
        params_json: r#"{"city": "Kyoto"}"#,
    },
    Example {
        title: "a write: run it, and see when the cached answers notice",
        statement: "MATCH (person:Person {id: $id}) SET person.city = $city RETURN person.name AS name, person.city AS city",
        params_json: r#"{"id": 0, "city": "Lima"}"#,
    },
];
