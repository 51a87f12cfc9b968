//! A snapshot of the cluster: this node's part, and those that the other nodes tell in time. A node that does not answer
//! is named with the reason. No failure here is reported to membership: a console changes nothing.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use futures_util::future::join_all;
use hopcache_cluster::peer::PeerPath;
use hopcache_cluster::peer::link::PeerLink;
use hopcache_core::limits::{CONSOLE_NODES_MAX, CONSOLE_PART_BYTES_MAX, CONSOLE_TELL_WITHIN_MS};
use hopcache_core::time::Millis;
use hopcache_engine::ports::PeerError;
use serde_json::{Map, Value, json};

use super::part::Parts;

pub(super) struct Cluster {
    parts: Parts,
    link: Arc<PeerLink>,
    /// Asks another node for its part.
    question: Bytes,
}

impl Cluster {
    pub(super) fn new(parts: Parts, link: Arc<PeerLink>, question: Bytes) -> Self {
        Self { parts, link, question }
    }

    /// This node's part, as bytes for another node.
    pub(super) fn own_part(&self) -> Bytes {
        self.parts.recent().to_string().into()
    }

    pub(super) async fn snapshot(&self) -> Value {
        let (others, own) = (self.ask_others().await, self.parts.recent());
        let at_ms = UNIX_EPOCH.elapsed().map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
        let mut parts = Map::from_iter([(self.parts.name().to_owned(), own)]);
        let mut silent = Map::new();
        for (name, told) in others {
            match told {
                Ok(part) => drop(parts.insert(name, part)),
                Err(why) => drop(silent.insert(name, Value::String(why))),
            }
        }
        json!({"at_ms": at_ms, "node": self.parts.name(), "parts": parts, "silent": silent})
    }

    async fn ask_others(&self) -> Vec<(String, Result<Value, String>)> {
        let others = self.parts.others();
        let (link, question) = (&self.link, &self.question);
        let asked = others.iter().take(CONSOLE_NODES_MAX - 1).map(|(name, addr)| async move {
            let within = Millis(CONSOLE_TELL_WITHIN_MS);
            let told = link.exchange((name, *addr), PeerPath::Ask, question, within).await;
            (name.as_str().to_owned(), read(told))
        });
        join_all(asked).await
    }
}

fn read(told: Result<Bytes, PeerError>) -> Result<Value, String> {
    let told = told.map_err(|error| error.to_string())?;
    if told.len() > CONSOLE_PART_BYTES_MAX {
        return Err(format!("its part is over {CONSOLE_PART_BYTES_MAX} bytes"));
    }
    serde_json::from_slice(&told).map_err(|_| "its part cannot be read".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I13: any answer of a faulty node is a part or a reason.
    #[test]
    fn any_answer_is_a_part_or_a_reason() {
        assert_eq!(read(Ok("{\"name\":\"b\"}".into())), Ok(json!({"name": "b"})));
        for (told, reason) in [
            (Ok(Bytes::from_static(b"{\"name\"")), "cannot be read"),
            (Ok(vec![b' '; CONSOLE_PART_BYTES_MAX + 1].into()), "over 262144 bytes"),
            (Err(PeerError::Refused("unknown kind".to_owned())), "unknown kind"),
        ] {
            assert!(read(told.clone()).is_err_and(|why| why.contains(reason)), "{told:?}");
        }
    }
}
