//! The first screen of `hopcache dev`: what runs where, one query answered twice, and three things to try. Text from
//! facts; it asks nothing.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

/// Plain data: a node that runs.
#[derive(Debug, Clone)]
pub(super) struct NodeAt {
    pub(super) name: String,
    pub(super) http: SocketAddr,
    pub(super) bolt: Option<SocketAddr>,
    pub(super) admin: SocketAddr,
}

/// Plain data: one query, asked twice.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) title: String,
    /// The run, and the hit after it.
    pub(super) asked: [Answered; 2],
    pub(super) body: String,
}

/// Plain data: an answer, and where it came from.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    /// The node that was asked.
    pub(super) node: String,
    /// Its `Cache-Status`.
    pub(super) status: String,
    pub(super) took: Duration,
}

/// Plain data: a statement to try.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) statement: String,
    pub(super) parameters: Value,
}

/// Plain data: all that the screen tells.
#[derive(Debug, Clone)]
pub(super) struct Screen {
    /// This program, as its user started it: a build of cargo is on nobody's path.
    pub(super) program: String,
    pub(super) nodes: Vec<NodeAt>,
    /// The address of Neo4j; `None` for the sample graph.
    pub(super) neo4j: Option<String>,
    /// The user of the examples, where Neo4j asks for one.
    pub(super) user: Option<String>,
    pub(super) trial: Trial,
    /// `None` if there are no credentials to ask with.
    pub(super) shown: Option<Shown>,
}

/// Most characters of an answer that are shown.
const BODY_CHARS_MAX: usize = 160;

impl Screen {
    pub(super) fn to_text(&self) -> String {
        let mut text = self.nodes_text();
        match &self.shown {
            Some(shown) => text += &self.shown_text(shown),
            None => {
                text += "\nTo see a query answered twice, start it with --user, and the password in HOPCACHE_PASSWORD.\n";
            }
        }
        text += &self.trials_text();
        text += &self.further_text();
        text
    }

    fn origin(&self) -> String {
        self.neo4j
            .as_ref()
            .map_or_else(|| "the sample graph".to_owned(), |address| format!("Neo4j at {address}"))
    }

    fn nodes_text(&self) -> String {
        let count = match self.nodes.len() {
            1 => "one node".to_owned(),
            more => format!("{more} nodes"),
        };
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("Hopcache {version}: {count} on this machine, before {}\n\n", self.origin());
        let _ = writeln!(text, "  {:<8} {:<23} {:<23} admin", "", "HTTP", "drivers (Bolt)");
        for NodeAt { name, http, bolt, admin } in &self.nodes {
            let bolt = bolt.map_or_else(|| "-".to_owned(), |bolt| format!("bolt://{bolt}"));
            let _ = writeln!(text, "  {name:<8} {:<23} {bolt:<23} http://{admin}", format!("http://{http}"));
        }
        text
    }

    fn shown_text(&self, shown: &Shown) -> String {
        let [run, hit] = &shown.asked;
        let place = if self.neo4j.is_some() { "Neo4j" } else { "the sample graph" };
        let mut text = format!(
            "\nOne query, asked twice: {} at {place}, {} from the cache\n  {}\n\n",
            milliseconds(run.took),
            milliseconds(hit.took),
            shown.title,
        );
        for Answered { node, status, .. } in &shown.asked {
            let _ = writeln!(text, "  asked {node:<8} Cache-Status: {}", with_short_key(status));
        }
        let mut body: String = shown.body.trim().chars().take(BODY_CHARS_MAX).collect();
        if shown.body.trim().chars().nth(BODY_CHARS_MAX).is_some() {
            body.push('…');
        }
        let _ = writeln!(text, "  {body}");
        text
    }

    fn trials_text(&self) -> String {
        let mut text = "\nTry it:\n".to_owned();
        if let Some(first) = self.nodes.first() {
            let login = self.user.as_ref().map(|user| format!(" -u {user}")).unwrap_or_default();
            let body = json!({"statement": self.trial.statement, "parameters": self.trial.parameters});
            let body = body.to_string().replace('\'', "'\\''");
            let _ = writeln!(
                text,
                "\n# curl\ncurl -s -i{login} http://{}/db/neo4j/query/v2 -H 'Content-Type: application/json' -d '{body}'",
                first.http
            );
        }
        if let Some(bolt) = self.nodes.iter().find_map(|node| node.bolt) {
            text += &self.python(bolt);
            text += &self.shell(bolt);
        }
        text
    }

    fn password(&self) -> &'static str {
        if self.neo4j.is_some() { "YOUR PASSWORD" } else { "any" }
    }

    fn python(&self, bolt: SocketAddr) -> String {
        let user = self.user.as_deref().unwrap_or("neo4j");
        let parameters: Vec<String> = self
            .trial
            .parameters
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| format!(", {name}={value}"))
            .collect();
        format!(
            "\n# Python (pip install neo4j)\n\
             from neo4j import GraphDatabase\n\
             driver = GraphDatabase.driver(\"neo4j://{bolt}\", auth=(\"{user}\", \"{}\"))\n\
             records, summary, _ = driver.execute_query({}{}, routing_=\"r\")\n\
             print(summary.metadata[\"hopcache\"], records)\n",
            self.password(),
            Value::from(self.trial.statement.as_str()),
            parameters.concat(),
        )
    }

    fn shell(&self, bolt: SocketAddr) -> String {
        let user = self.user.as_deref().unwrap_or("neo4j");
        let parameters: Vec<String> = self
            .trial
            .parameters
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| format!(" -P '{{{name}: {value}}}'"))
            .collect();
        format!(
            "\n# cypher-shell\ncypher-shell -a bolt://{bolt} -u {user} -p '{}'{} '{}'\n",
            self.password(),
            parameters.concat(),
            self.trial.statement.replace('\'', "'\\''"),
        )
    }

    fn further_text(&self) -> String {
        let Some(first) = self.nodes.first() else { return String::new() };
        let is_default = first.admin.port() == DEFAULT_ADMIN_PORT;
        let at = if is_default { String::new() } else { format!(" --admin-url http://{}", first.admin) };
        let program = &self.program;
        format!(
            "\n  console                 http://{}/\n  why (not) from cache    {program} explain{at} 'RETURN date()'\n  \
             the nodes               {program} status{at}\n  live figures            {program} top{at}\n\n\
             Ctrl-C ends it. Start it with -v to read its log.\n",
            first.admin
        )
    }

    pub(super) fn to_json(&self) -> Value {
        let nodes: Vec<Value> = self
            .nodes
            .iter()
            .map(|node| json!({"name": node.name, "http": node.http, "bolt": node.bolt, "admin": node.admin}))
            .collect();
        let ms = |took: Duration| took.as_secs_f64() * 1e3;
        let shown = self.shown.as_ref().map(|Shown { asked: [run, hit], .. }| {
            json!({"statement": self.trial.statement, "run_ms": ms(run.took), "hit_ms": ms(hit.took),
                   "cache_status": [run.status, hit.status]})
        });
        json!({"nodes": nodes, "neo4j": self.neo4j, "shown": shown})
    }
}

/// The admin port of the first node, which commands ask without a flag.
const DEFAULT_ADMIN_PORT: u16 = 7477;

/// A `Cache-Status` whose keys have 8 digits instead of 64.
fn with_short_key(status: &str) -> String {
    let parts = status.split("key=\"").enumerate().map(|(place, part)| match part.split_once('"') {
        Some((key, rest)) if place > 0 => {
            format!("key=\"{}…\"{rest}", key.chars().take(8).collect::<String>())
        }
        _ => part.to_owned(),
    });
    parts.collect()
}

fn milliseconds(took: Duration) -> String {
    let ms = took.as_secs_f64() * 1e3;
    match ms {
        ..1.0 => format!("{ms:.2} ms"),
        1.0..10.0 => format!("{ms:.1} ms"),
        _ => format!("{ms:.0} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "node-b; fwd=miss; stored; key=\"0123abcd4567\", node-a; fwd=miss; detail=owner";

    fn screen(port: u16) -> Screen {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let node = |name: &str, port: u16| NodeAt {
            name: name.to_owned(),
            http: at(port),
            bolt: Some(at(port + 3)),
            admin: at(port + 2),
        };
        let answered = |status: &str, ms: u64| Answered {
            node: "node-a".to_owned(),
            status: status.to_owned(),
            took: Duration::from_micros(ms),
        };
        Screen {
            program: "hopcache".to_owned(),
            nodes: vec![node("node-a", port), node("node-b", port + 10)],
            neo4j: None,
            user: None,
            trial: Trial { statement: "RETURN $id AS it's".to_owned(), parameters: json!({"id": 0}) },
            shown: Some(Shown {
                title: "The answer".to_owned(),
                asked: [answered(RUN, 312_400), answered("node-a; hit; ttl=60", 412)],
                body: "{\"data\":1}".to_owned(),
            }),
        }
    }

    #[test]
    fn it_says_what_runs_where_and_how_fast_the_second_answer_was() {
        let text = screen(7475).to_text();
        for part in [
            "2 nodes on this machine, before the sample graph",
            "node-b   http://127.0.0.1:7485   bolt://127.0.0.1:7488   http://127.0.0.1:7487",
            "One query, asked twice: 312 ms at the sample graph, 0.41 ms from the cache\n  The answer\n",
            "Cache-Status: node-b; fwd=miss; stored; key=\"0123abcd…\", node-a; fwd=miss; detail=owner",
            "curl -s -i http://127.0.0.1:7475/db/neo4j/query/v2",
            "it'\\''s",
            "driver.execute_query(\"RETURN $id AS it's\", id=0, routing_=\"r\")",
            "cypher-shell -a bolt://127.0.0.1:7478 -u neo4j -p 'any' -P '{id: 0}'",
            "http://127.0.0.1:7477/\n",
            "hopcache explain 'RETURN date()'",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        let lines = text.lines().count();
        assert!(lines <= 40, "{lines} lines do not fit a screen:\n{text}");
    }

    #[test]
    fn commands_name_the_admin_listener_where_it_is_elsewhere() {
        let text = screen(9000).to_text();
        assert!(
            text.contains("hopcache explain --admin-url http://127.0.0.1:9002 'RETURN date()'"),
            "{text}"
        );
    }

    #[test]
    fn before_a_neo4j_the_examples_take_its_credentials() {
        let neo4j = Some("bolt://db:7687".to_owned());
        let text = Screen { neo4j, user: Some("ann".to_owned()), shown: None, ..screen(7475) }.to_text();
        for part in [
            "before Neo4j at bolt://db:7687",
            "curl -s -i -u ann http",
            "auth=(\"ann\", \"YOUR PASSWORD\")",
            "HOPCACHE_PASSWORD",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }
}
