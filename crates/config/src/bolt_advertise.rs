//! `node.bolt_advertise`: where Bolt clients reach a node, and which clients are told which address. It decides the forms of the key,
//! and whether a client belongs to an audience.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hopcache_core::limits::{BOLT_ADDRS_MAX, BOLT_AUDIENCE_WORDS_MAX};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serializer};

use super::hosts::AllowedHost;
use super::networks::Network;
use super::uri::{Address, parse_host};

/// Stands between an address and its clients where both are one text.
const FOR: &str = " for ";

/// Some of the clients.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    /// Those whose own address is in this network.
    From(Network),
    /// Those that have dialled this host.
    Dialled(AllowedHost),
}

impl Word {
    fn has(&self, own: Option<IpAddr>, dialled: Option<&str>) -> bool {
        match self {
            Self::From(network) => own.is_some_and(|addr| network.0.contains(&addr.to_canonical())),
            Self::Dialled(AllowedHost::Any) => true,
            Self::Dialled(AllowedHost::Exact(name)) => {
                dialled.is_some_and(|host| host.eq_ignore_ascii_case(name))
            }
            Self::Dialled(AllowedHost::Under(domain)) => dialled.is_some_and(|host| {
                let host = host.to_ascii_lowercase();
                host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }),
        }
    }
}

impl FromStr for Word {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(['/', ':']) || text.parse::<IpAddr>().is_ok() {
            return text.parse().map(Self::From);
        }
        text.parse().map(Self::Dialled).map_err(|why| format!("{text:?} is no network and no host: {why}"))
    }
}

impl fmt::Display for Word {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(network) => network.fmt(out),
            Self::Dialled(host) => host.fmt(out),
        }
    }
}

/// The clients that are told an address: those of any of its words. Without a word: all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToldClients(Vec<Word>);

impl ToldClients {
    /// Whether a client is one of them: one with this address of its own, which has dialled this host.
    #[must_use]
    pub fn have(&self, own: Option<IpAddr>, dialled: Option<&str>) -> bool {
        self.0.is_empty() || self.0.iter().any(|word| word.has(own, dialled))
    }

    fn of<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let words: Vec<Word> = words.map(str::parse).collect::<Result<_, _>>()?;
        match words.len() {
            0 => Err("`for` names no client: leave it out where all are meant".to_owned()),
            1..=BOLT_AUDIENCE_WORDS_MAX => Ok(Self(words)),
            _ => Err(format!("`for` has at most {BOLT_AUDIENCE_WORDS_MAX} networks and hosts")),
        }
    }
}

impl fmt::Display for ToldClients {
    /// The words with blanks between them. All nodes of a cluster have the same ones.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(at, word)| match at {
            0 => word.fmt(out),
            _ => write!(out, " {word}"),
        })
    }
}

/// One address of the Bolt listener, and the clients that are told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoltAdvertise {
    /// Where they reach the node.
    pub address: Address,
    /// The clients.
    pub clients: ToldClients,
}

impl From<Address> for BoltAdvertise {
    fn from(address: Address) -> Self {
        Self { address, clients: ToldClients::default() }
    }
}

impl FromStr for BoltAdvertise {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().split_once(FOR) {
            Some((address, clients)) => {
                Ok(Self { address: address.parse()?, clients: ToldClients::of(clients.split_whitespace())? })
            }
            None => text.parse::<Address>().map(Self::from),
        }
    }
}

impl fmt::Display for BoltAdvertise {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(out)?;
        if self.clients.0.is_empty() { Ok(()) } else { write!(out, "{FOR}{}", self.clients) }
    }
}

/// The host of an address that a client has dialled, as its routing context says: `localhost:7478`, `[::1]:7478`, `graph`.
#[must_use]
pub fn dialled_host(address: &str) -> &str {
    let host = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, _)) => inside,
        None => address.rsplit_once(':').map_or(address, |(host, _)| host),
    };
    // A host of another form belongs to no audience.
    if host.contains(':') || parse_host(host).is_ok() { host } else { "" }
}

/// One item of the list, as a text or as a table.
#[derive(Deserialize)]
#[serde(untagged)]
enum Item {
    Text(String),
    Table(Table),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    address: String,
    r#for: Option<Words>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    More(Vec<String>),
}

impl Item {
    fn read(self) -> Result<BoltAdvertise, String> {
        match self {
            Self::Text(text) => text.parse(),
            Self::Table(Table { address, r#for }) => {
                let clients = match &r#for {
                    None => ToldClients::default(),
                    Some(Words::One(words)) => ToldClients::of(words.split_whitespace())?,
                    Some(Words::More(words)) => ToldClients::of(words.iter().map(|word| word.trim()))?,
                };
                Ok(BoltAdvertise { address: address.parse()?, clients })
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    // First, because serde also reads a list of two texts as a table of two fields.
    More(Vec<Item>),
    One(Item),
}

/// The serde form of the key.
pub(super) mod list {
    use super::{
        BOLT_ADDRS_MAX, BoltAdvertise, Deserialize, Deserializer, Item, JsonSchema, OneOrMore, Schema,
        SchemaGenerator, Serializer, json_schema,
    };
    use serde::de::Error as _;

    pub(crate) fn serialize<S: Serializer>(all: &[BoltAdvertise], out: S) -> Result<S::Ok, S::Error> {
        match all {
            [] => out.serialize_none(),
            [one] => out.collect_str(one),
            more => out.collect_seq(more.iter().map(ToString::to_string)),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<BoltAdvertise>, D::Error> {
        let read = Option::<OneOrMore>::deserialize(input);
        let items = match read.map_err(|_| D::Error::custom("an item has an address, and perhaps `for`"))? {
            None => Vec::new(),
            Some(OneOrMore::One(item)) => vec![item],
            Some(OneOrMore::More(items)) => items,
        };
        items.into_iter().map(Item::read).collect::<Result<_, _>>().map_err(D::Error::custom)
    }

    /// Its schema.
    pub(crate) struct Form;
    impl JsonSchema for Form {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "BoltAdvertise".into()
        }
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({
                "type": ["string", "array", "object", "null"],
                "maxItems": BOLT_ADDRS_MAX,
                "x-allowed": "a list of at most 4: host:port, or { address = \"host:port\", for = \"10.0.0.0/8\" }, \
                    where `for` has networks of clients, or hosts that they dial, such as \"localhost\" and \".example.com\""
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_and_its_clients_are_read_and_written_back() {
        for text in [
            "node-a:7478",
            "localhost:7478 for localhost",
            "[::1]:7478 for 10.0.0.0/8",
            "a:1 for .example.com",
        ] {
            assert_eq!(text.parse::<BoltAdvertise>().unwrap().to_string(), text);
        }
        for text in [
            "node-a",
            "node-a:7478 for",
            "node-a:7478 for 0.0.0.0/0",
            "node-a:7478 for a b!",
            "a:1 for localhost:1",
        ] {
            assert!(text.parse::<BoltAdvertise>().is_err(), "{text}");
        }
    }

    #[test]
    fn clients_are_known_by_their_own_address_or_by_what_they_have_dialled() {
        let have = |clients: &str, own: &str, dialled: &str| {
            let told: BoltAdvertise = format!("a:1 for {clients}").parse().unwrap();
            told.clients.have(own.parse().ok(), Some(dialled_host(dialled)))
        };
        assert!(have("10.0.0.0/8", "10.1.2.3", "graph:7478"));
        assert!(have("10.0.0.0/8", "::ffff:10.1.2.3", "graph:7478"));
        assert!(!have("10.0.0.0/8", "192.0.2.7", "10.0.0.1:7478"), "what it dials is its own word");
        assert!(!have("10.0.0.0/8", "", "10.0.0.1:7478"));
        assert!(have("localhost", "192.0.2.7", "LocalHost:7478"));
        assert!(!have("localhost", "127.0.0.1", "127.0.0.1:7478"));
        assert!(have(".example.com", "", "graph.example.com"));
        assert!(have(".example.com", "", "example.com:1"));
        assert!(!have(".example.com", "", "notexample.com:1"));
        assert!(have("10.0.0.0/8 localhost", "192.0.2.7", "localhost:1"));
        assert!(!have("10.0.0.0/8 localhost", "192.0.2.7", "graph:1"));
        assert!(ToldClients::default().have(None, None));
    }

    #[derive(Deserialize)]
    struct Key(#[serde(deserialize_with = "list::deserialize")] Vec<BoltAdvertise>);

    #[test]
    fn one_or_more_are_read_as_texts_and_as_tables() {
        let read = |value: serde_json::Value| {
            let all = serde_json::from_value::<Key>(value).map(|Key(all)| all);
            all.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>()).map_err(drop)
        };
        let of = |texts: &[&str]| Ok(texts.iter().map(ToString::to_string).collect());
        assert_eq!(read(json!("a:1")), of(&["a:1"]));
        assert_eq!(read(json!(["a:1 for b c", "d:2"])), of(&["a:1 for b c", "d:2"]));
        assert_eq!(read(json!({"address": "a:1", "for": ["b", ".c"]})), of(&["a:1 for b .c"]));
        assert_eq!(
            read(json!([{"address": "a:1", "for": "10.1.0.0/8"}, "d:2"])),
            of(&["a:1 for 10.0.0.0/8", "d:2"])
        );
        assert_eq!(read(json!([])), of(&[]));
        for wrong in
            [json!(7), json!({"addr": "a:1"}), json!([["a"]]), json!("a:1 for "), json!({"address": "a"})]
        {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    /// The value of the variable, in the lines of a file that is shipped.
    fn shipped(file: &str, from: &str) -> Vec<String> {
        let lines = file.lines().map(str::trim).filter_map(|line| line.strip_prefix(from));
        lines.filter(|line| line.contains(FOR)).map(str::to_owned).collect()
    }

    /// D2: drivers inside and outside of the deployments that are shipped.
    #[test]
    fn what_is_shipped_tells_inside_and_outside_apart() {
        let compose = include_str!("../../../compose.yaml");
        let nodes = shipped(compose, "HOPCACHE_NODE__BOLT_ADVERTISE:");
        assert_eq!(nodes.len(), 3);
        for (node, name) in nodes.iter().zip(["node-a", "node-b", "node-c"]) {
            let told: Vec<BoltAdvertise> = node.split(',').map(|one| one.parse().unwrap()).collect();
            let to =
                |host: &str| &told.iter().find(|one| one.clients.have(None, Some(host))).unwrap().address;
            assert_eq!(to("node-b").to_string(), format!("{name}:7478"));
            assert_eq!((to("localhost").host.as_str(), to("127.0.0.1")), ("localhost", to("localhost")));
        }
        let chart = include_str!("../../../cluster/helm/hopcache/templates/statefulset.yaml");
        let pods = shipped(chart, "value:");
        let pod = pods.first().expect("the chart's value").as_str();
        let values = [
            ("$(HOPCACHE_NODE__NAME)", "hopcache-0"),
            ("$(POD_NAMESPACE)", "graph"),
            ("{{ $name }}", "hopcache"),
            ("{{ .Release.Namespace }}", "graph"),
            ("{{ join \" \" .Values.bolt.inside }}", ".svc .cluster.local"),
        ];
        let pod = values.iter().fold(pod.to_owned(), |pod, (name, value)| pod.replace(name, value));
        let pod: BoltAdvertise = pod.parse().unwrap();
        assert_eq!(pod.address.to_string(), "hopcache-0.hopcache-peers.graph.svc:7478");
        for inside in ["hopcache", "hopcache.graph", "hopcache.graph.svc", "hopcache.graph.svc.cluster.local"]
        {
            assert!(pod.clients.have(None, Some(inside)), "{inside}");
        }
        assert!(!pod.clients.have(None, Some("graph.example.com")), "a load balancer's name");
    }

    #[test]
    fn the_host_of_what_was_dialled() {
        for (address, host) in [
            ("localhost:7478", "localhost"),
            ("[::1]:7478", "::1"),
            ("graph", "graph"),
            ("a b:1", ""),
            ("", ""),
        ] {
            assert_eq!(dialled_host(address), host, "{address}");
        }
    }
}
