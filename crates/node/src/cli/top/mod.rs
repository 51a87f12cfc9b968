//! `hopcache top`: the cluster live, from the metrics of its nodes. The asked node names the others. Their admin listeners
//! are as far from their peer ports as the asked node's own (`hopcache dev`, the defaults), or are named by `--node`.

pub(super) mod exposition;
mod frame;
mod keys;

use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::join_all;
use reqwest::{Method, Url};
use serde_json::Value;

use super::Output;
use super::client::{Admin, AdminArgs};
use super::fields::{items, text};
use crate::stop::Stop;
use crate::terminal::{is_terminal, print, print_json, print_while_read};
use exposition::Totals;
use frame::{Frame, Order, PATTERNS_SHOWN, Row};
use keys::{Key, Keys};

/// The shortest time between two frames.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
/// The longest.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// A node that takes longer counts as one that does not answer, so that the others are shown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Nodes that are asked at most.
const NODES_MAX: usize = 100;
/// An alternate screen without a cursor, and the way back.
const SCREEN: (&str, &str) = ("\u{1b}[?1049h\u{1b}[?25l", "\u{1b}[?25h\u{1b}[?1049l");
/// The cursor to the upper left corner, and nothing below it.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

/// What to watch.
#[derive(Debug, Args)]
pub(super) struct TopArgs {
    /// Print one frame, and end
    #[arg(long)]
    once: bool,
    /// Time between two frames
    #[arg(long, default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Admin listener of a further node, if it is not as far from its peer port as the asked node's; may be repeated
    #[arg(long = "node", value_name = "URL")]
    nodes: Vec<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

fn interval(text: &str) -> Result<Duration, String> {
    let read = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (INTERVAL_MIN..=INTERVAL_MAX).contains(&read) {
        return Ok(read);
    }
    Err(format!("from {INTERVAL_MIN:?} to {INTERVAL_MAX:?}"))
}

pub(super) async fn top(args: &TopArgs, output: Output) -> anyhow::Result<()> {
    let asked = Admin::new(&args.admin)?;
    // The first question says what is wrong with the address or the token.
    asked.demand(Method::GET, "/admin/v1/ring", None).await?;
    let mut watch = Watch {
        asked,
        named: args.nodes.clone(),
        has_token: args.admin.has_token(),
        before: Vec::new(),
        looked: Instant::now(),
    };
    watch.look().await;
    if args.once {
        tokio::time::sleep(args.interval).await;
        let frame = watch.look().await;
        return if output == Output::Json {
            print_json(&frame.to_json())
        } else {
            print(&frame.to_text(Order::Ring))
        };
    }
    let mut stop = Stop::listen()?;
    let is_live = output == Output::Text && is_terminal();
    if is_live {
        print(SCREEN.0)?;
    }
    let ended = tokio::select! {
        ended = frames(&mut watch, args.interval, (output, is_live)) => ended,
        () = stop.signalled() => Ok(()),
    };
    if is_live {
        print(SCREEN.1)?;
    }
    ended
}

async fn frames(
    watch: &mut Watch,
    interval: Duration,
    (output, is_live): (Output, bool),
) -> anyhow::Result<()> {
    let mut keys = is_live.then(Keys::of_terminal).flatten();
    let (mut order, mut is_paused) = (Order::default(), false);
    let mut frame = watch.look().await;
    loop {
        let key = tokio::select! {
            key = keys::next(keys.as_mut()) => Some(key),
            () = tokio::time::sleep(interval) => None,
        };
        match key {
            Some(Key::End) => return Ok(()),
            Some(Key::Sort) => order = order.next(),
            Some(Key::Pause) => is_paused = !is_paused,
            None if is_paused => continue,
            None => frame = watch.look().await,
        }
        let text = match output {
            // One line each, for programs that read a stream.
            Output::Json => frame.to_json().to_string(),
            Output::Text if is_live => {
                let help = keys::help(keys.is_some(), order, is_paused);
                format!("{CLEAR}{}\n\n{help}", frame.to_text(order))
            }
            Output::Text => frame.to_text(order),
        };
        if !print_while_read(&text)? {
            return Ok(());
        }
    }
}

/// A cluster that is looked at again and again.
struct Watch {
    asked: Admin,
    named: Vec<String>,
    has_token: bool,
    before: Vec<(String, Totals)>,
    looked: Instant,
}

impl Watch {
    /// Asks all nodes at once. A node that does not answer is a row that says so.
    async fn look(&mut self) -> Frame {
        let ring = self.asked.demand(Method::GET, "/admin/v1/ring", None).await.unwrap_or_default();
        let patterns = format!("/admin/v1/successors?limit={PATTERNS_SHOWN}");
        let patterns = self.asked.demand(Method::GET, &patterns, None).await.unwrap_or_default();
        let nodes = self.nodes(&ring);
        let asking = nodes.iter().map(|(_, admin)| {
            let asking = admin.ask(Method::GET, "/metrics", None);
            async move {
                tokio::time::timeout(ANSWER_TIMEOUT, asking).await.map_err(anyhow::Error::from).flatten()
            }
        });
        let answers = join_all(asking).await;
        let now = Instant::now();
        let elapsed = now.duration_since(self.looked);
        self.looked = now;
        let read: Vec<(String, Result<Totals, String>)> =
            nodes.iter().zip(answers).map(|((name, _), answer)| (name.clone(), totals(answer))).collect();
        let rows =
            read.iter().map(|(name, now)| Row { name: name.clone(), between: self.between(name, now) });
        let rows = rows.collect();
        self.before =
            read.into_iter().filter_map(|(name, totals)| totals.ok().map(|totals| (name, totals))).collect();
        Frame { rows, elapsed, patterns }
    }

    fn between(&self, name: &str, now: &Result<Totals, String>) -> Result<Totals, String> {
        let now = now.as_ref().map_err(Clone::clone)?;
        let before = self.before.iter().find(|(known, _)| known == name);
        before.map(|(_, before)| now.since(before)).ok_or_else(|| "just found".to_owned())
    }

    /// The nodes of the ring, and the named ones.
    fn nodes(&self, ring: &Value) -> Vec<(String, Admin)> {
        let own = text(ring, "node");
        let members: Vec<(String, String)> =
            items(ring, "members").map(|member| (text(member, "name"), text(member, "peer_addr"))).collect();
        let own_peer = members.iter().find(|(name, _)| *name == own).map(|(_, peer)| peer.clone());
        let mut nodes =
            vec![(if own.is_empty() { "asked".to_owned() } else { own.clone() }, self.asked.clone())];
        for (name, peer) in members.into_iter().filter(|(name, _)| *name != own) {
            let url = own_peer.as_deref().and_then(|own_peer| beside(self.asked.url(), own_peer, &peer));
            nodes.extend(url.map(|url| (name, self.asked.of_other(url, false))));
        }
        let named = |url: &String| (url.clone(), self.asked.of_other(url.clone(), self.has_token));
        nodes.extend(self.named.iter().map(named));
        nodes.truncate(NODES_MAX);
        nodes
    }
}

fn totals(answer: anyhow::Result<(reqwest::StatusCode, Value)>) -> Result<Totals, String> {
    match answer {
        Ok((status, Value::String(text))) if status.is_success() => Ok(Totals::read(&text)),
        Ok((status, _)) if status == reqwest::StatusCode::UNAUTHORIZED => {
            Err("asks for a token: name it by --node, and give --admin-token".to_owned())
        }
        Ok((status, _)) => Err(format!("answers {}", status.as_u16())),
        Err(_) => Err("does not answer".to_owned()),
    }
}

/// The admin listener of the node with the address `peer`, if it is as far from that as the asked one is from its own.
fn beside(asked: &str, own_peer: &str, peer: &str) -> Option<String> {
    let mut url = Url::parse(asked).ok()?;
    let port = |address: &str| address.rsplit_once(':')?.1.parse::<u16>().ok();
    let distance = i32::from(url.port_or_known_default()?) - i32::from(port(own_peer)?);
    let admin_port = u16::try_from(i32::from(port(peer)?) + distance).ok()?;
    url.set_host(Some(peer.rsplit_once(':')?.0)).ok()?;
    url.set_port(Some(admin_port)).ok()?;
    Some(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_node_listens_as_far_from_its_peer_port() {
        let of = |asked, own, peer| beside(asked, own, peer);
        let there = of("http://127.0.0.1:7477", "127.0.0.1:7476", "127.0.0.1:7496");
        assert_eq!(there.as_deref(), Some("http://127.0.0.1:7497"));
        let host = of("https://node-a:7477", "node-a:7476", "node-b:7476");
        assert_eq!(host.as_deref(), Some("https://node-b:7477"));
        let six = of("http://[::1]:7477", "[::1]:7476", "[::1]:7486");
        assert_eq!(six.as_deref(), Some("http://[::1]:7487"));
        assert_eq!(of("http://a:1", "a:65535", "b:1"), None);
        assert_eq!(of("http://a:1", "", "b:1"), None);
    }

    #[test]
    fn an_interval_has_bounds() {
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["0s", "1h", "soon"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
