//! The order of a workload's requests: sessions that take turns. Decides no request.

use anyhow::Context;
use serde_json::Value;

use crate::bolt;
use hopcache_testbed::dice::Dice;

/// Requests of a session.
pub(super) const SESSION_REQUESTS: usize = 24;
/// Sessions whose requests take turns.
pub(super) const SESSIONS_AT_A_TIME: usize = 64;
/// Sessions of a trace: 60,000 requests. A load that needs more begins anew.
pub(super) const SESSIONS: usize = 2_500;

/// A request of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) key: usize,
    session: usize,
    /// Chooses the node, or the application's process: a session's requests go round.
    pub(super) turn: usize,
}

/// All requests of a workload, in their order.
pub(super) struct Trace {
    name: String,
    /// Over HTTP, by key.
    requests: Vec<Vec<u8>>,
    /// The same over Bolt.
    messages: Vec<Vec<u8>>,
    steps: Vec<Step>,
}

impl Trace {
    /// `sessions` are lists of keys, of which each is the place of its request.
    pub(super) fn new(
        name: String,
        requests: Vec<Vec<u8>>,
        sessions: &[Vec<usize>],
        seed: u64,
    ) -> anyhow::Result<Self> {
        let messages = requests.iter().map(|request| message(request)).collect::<anyhow::Result<_>>()?;
        let steps = in_turn(sessions, SESSIONS_AT_A_TIME, &mut Dice::new(seed));
        Ok(Self { name, requests, messages, steps })
    }

    /// Of requests that are drawn one by one, whoever asks.
    pub(super) fn drawn(
        name: String,
        requests: Vec<Vec<u8>>,
        seed: u64,
        draw: impl Fn(&mut Dice) -> usize,
    ) -> anyhow::Result<Self> {
        let mut dice = Dice::new(seed);
        let sessions: Vec<Vec<usize>> =
            (0..SESSIONS).map(|_| (0..SESSION_REQUESTS).map(|_| draw(&mut dice)).collect()).collect();
        Self::new(name, requests, &sessions, seed)
    }

    /// The step at this place; behind the last one comes the first.
    pub(super) fn step(&self, place: usize) -> Step {
        self.steps[place % self.steps.len()]
    }

    /// The request of a step: it names the session.
    pub(super) fn bytes(&self, step: Step) -> Vec<u8> {
        let request = &self.requests[step.key];
        let line = request.windows(2).position(|two| two == b"\r\n").map_or(0, |at| at + 2);
        let session = format!("hopcache-session: {}-{}\r\n", self.name, step.session);
        [&request[..line], session.as_bytes(), &request[line..]].concat()
    }

    /// RUN and PULL of a step's query over Bolt. It names no session: Neo4j knows none.
    pub(super) fn message(&self, step: Step) -> &[u8] {
        &self.messages[step.key]
    }

    /// How large it is, for the report.
    pub(super) fn size(&self) -> String {
        let asked: std::collections::HashSet<usize> = self.steps.iter().map(|step| step.key).collect();
        format!("{} requests of {} distinct queries", self.steps.len(), asked.len())
    }
}

/// RUN and PULL of the statement and the parameters that a request over HTTP has.
fn message(request: &[u8]) -> anyhow::Result<Vec<u8>> {
    let end = request.windows(4).position(|four| four == b"\r\n\r\n").context("a request has a body")?;
    let body: Value = serde_json::from_slice(&request[end + 4..])?;
    let statement = body["statement"].as_str().context("a request has a statement")?;
    Ok(bolt::request(statement, &body["parameters"]))
}

/// Each session's next request in turn, so many sessions at a time; where one ends, the next one begins.
fn in_turn(sessions: &[Vec<usize>], at_a_time: usize, dice: &mut Dice) -> Vec<Step> {
    let mut waiting = sessions.iter().enumerate().map(|(session, keys)| {
        let first = dice.below(1 << 20);
        keys.iter().enumerate().map(move |(number, key)| Step { key: *key, session, turn: first + number })
    });
    let mut steps = Vec::with_capacity(sessions.iter().map(Vec::len).sum());
    let mut asking: Vec<_> = waiting.by_ref().take(at_a_time).collect();
    while !asking.is_empty() {
        let mut place = 0;
        while place < asking.len() {
            match asking[place].next() {
                Some(step) => {
                    steps.push(step);
                    place += 1;
                }
                // The next session takes the place in this round, or the place goes.
                None => match waiting.next() {
                    Some(session) => asking[place] = session,
                    None => drop(asking.remove(place)),
                },
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use hopcache_testbed::http::post;
    use serde_json::json;

    use super::*;

    #[test]
    fn sessions_take_turns_and_keep_their_order() {
        let sessions = [vec![1, 2, 3], vec![4], vec![5, 6]];
        let steps = in_turn(&sessions, 2, &mut Dice::new(1));
        let keys: Vec<usize> = steps.iter().map(|step| step.key).collect();
        assert_eq!(keys, [1, 4, 2, 5, 3, 6]);
        let of_first: Vec<usize> =
            steps.iter().filter(|step| step.session == 0).map(|step| step.turn).collect();
        assert!(of_first.windows(2).all(|pair| pair[1] == pair[0] + 1), "round the nodes: {of_first:?}");
    }

    #[test]
    fn a_request_names_its_session_and_begins_anew_behind_the_end() {
        let requests = vec![post("RETURN $id", &json!({ "id": 7 }), "")];
        let trace = Trace::new("t".to_owned(), requests, &[vec![0], vec![0, 0]], 1).unwrap();
        assert_eq!(trace.step(0), trace.step(3));
        let text = String::from_utf8(trace.bytes(trace.step(1))).unwrap();
        assert!(
            text.starts_with("POST /db/neo4j/query/v2 HTTP/1.1\r\nhopcache-session: t-1\r\nhost: "),
            "{text}"
        );
        assert_eq!(trace.message(trace.step(1)), bolt::request("RETURN $id", &json!({ "id": 7 })));
    }

    #[test]
    fn the_same_seed_draws_the_same_requests() {
        let keys = |seed| {
            let requests = vec![post("RETURN 1", &json!({}), ""); 9];
            Trace::drawn("t".to_owned(), requests, seed, |dice| dice.below(9)).unwrap().steps
        };
        assert_eq!(keys(5), keys(5));
        assert_ne!(keys(5), keys(6));
        assert_eq!(keys(5).len(), SESSIONS * SESSION_REQUESTS);
    }
}
