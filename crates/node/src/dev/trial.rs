//! One query asked twice, to show on the first screen what a hit saves.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::json;

use super::screen::{Answered, NodeAt, Shown, Trial};

/// Longest wait for one of the answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Hits that are timed. The one in the middle is shown: the first one opens a connection.
const HITS_TIMED: usize = 5;

/// The credentials of the demonstration.
pub(super) type Login<'a> = Option<(&'a str, &'a str)>;

/// Asks the first node for a run, and the last node for what it has left.
pub(super) async fn ask_twice(
    nodes: &[NodeAt],
    (title, trial): (&str, &Trial),
    login: Login<'_>,
) -> anyhow::Result<Option<Shown>> {
    let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { return Ok(None) };
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).timeout(ANSWER_TIMEOUT).build()?;
    let asker = Asker { client, trial, login };
    // A store that outlives `dev` may have it already.
    let (run, _) = asker.ask(first, true).await?;
    let mut hits = Vec::new();
    for _ in 0..HITS_TIMED {
        hits.push(asker.ask(last, false).await?);
    }
    hits.sort_by_key(|(hit, _)| hit.took);
    let Some((hit, body)) = hits.into_iter().nth(HITS_TIMED / 2) else { return Ok(None) };
    Ok(Some(Shown { title: title.to_owned(), asked: [run, hit], body }))
}

struct Asker<'a> {
    client: reqwest::Client,
    trial: &'a Trial,
    login: Login<'a>,
}

impl Asker<'_> {
    async fn ask(&self, node: &NodeAt, is_anew: bool) -> anyhow::Result<(Answered, String)> {
        let Trial { statement, parameters } = self.trial;
        let body = json!({"statement": statement, "parameters": parameters}).to_string();
        let request = self.client.post(url(node.http)).header("content-type", "application/json").body(body);
        let request = if is_anew { request.header("cache-control", "no-cache") } else { request };
        let request = match self.login {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        };
        let began = Instant::now();
        let response = request.send().await?;
        let is_success = response.status().is_success();
        let status = response.headers().get("cache-status").and_then(|value| value.to_str().ok());
        let status = status.unwrap_or("none").to_owned();
        let body = response.text().await?;
        let took = began.elapsed();
        if !is_success {
            bail!("the example was not answered: {body}");
        }
        Ok((Answered { node: node.name.clone(), status, took }, body))
    }
}

fn url(addr: SocketAddr) -> String {
    format!("http://{addr}/db/neo4j/query/v2")
}
