//! Conversations about an explicit transaction: requests in a row, where later ones use the name that an earlier answer
//! gave.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::differential::http::{Answer, QUERY, Request, TYPED};

/// Stands for the transaction's name in a path.
pub const ID: &str = "{id}";
/// One request of a conversation.
#[derive(Clone)]
pub struct Step {
    pub name: &'static str,
    pub path: String,
    pub request: Request,
}

pub fn step(name: &'static str, path: &str, request: Request) -> Step {
    Step { name, path: path.to_owned(), request }
}

pub fn open(body: &Value) -> Step {
    step("open", &format!("{QUERY}/tx"), Request::query(body))
}

pub fn run(body: &Value) -> Step {
    step("run", &format!("{QUERY}/tx/{ID}"), Request::query(body))
}

pub fn commit(body: &Value) -> Step {
    step("commit", &format!("{QUERY}/tx/{ID}/commit"), Request::query(body))
}

pub fn delete() -> Step {
    step("delete", &format!("{QUERY}/tx/{ID}"), bodiless().method("DELETE"))
}

/// A request without a body, and without a type of one.
pub fn bodiless() -> Request {
    Request::raw(b"").without("Content-Type")
}

pub fn statement(text: &str) -> Value {
    json!({ "statement": text })
}

/// The same, with the answer's values typed.
pub fn typed(step: Step) -> Step {
    Step { request: step.request.header("Accept", TYPED), ..step }
}

pub fn raw(step: Step, body: &[u8]) -> Step {
    Step { request: Request::raw(body).method("POST"), ..step }
}

/// A conversation with a server: its answers in a form that two servers share.
pub fn talk(to: SocketAddr, steps: &[Step]) -> Vec<(u16, String, String)> {
    let mut id = "qa-none".to_owned();
    let mut shown = Vec::new();
    for step in steps {
        let answer = ask_until_named(to, step, &id);
        let named = name_of(&answer);
        shown.push(comparable(&answer, &id));
        id = named.unwrap_or(id);
    }
    shown
}

/// The name of the transaction that an answer shows.
pub fn name_of(answer: &Answer) -> Option<String> {
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    Some(body["transaction"]["id"].as_str()?.to_owned())
}

/// Status, content type and body, without the server's own names and times.
pub fn comparable(answer: &Answer, id: &str) -> (u16, String, String) {
    let (status, content_type, _) = answer.shown();
    let text = answer.text();
    let Ok(mut body) = serde_json::from_str::<Value>(&text) else {
        return (status, content_type, text);
    };
    if let Some(transaction) = body.get_mut("transaction") {
        let expires = transaction["expires"].as_str().unwrap_or("").to_owned();
        assert!(expires.len() == 20 && expires.ends_with('Z'), "{text}");
        transaction["expires"] = "in 30 s".into();
        transaction["id"] = "the name".into();
    }
    if let Some(bookmarks) = body.get_mut("bookmarks") {
        *bookmarks = format!("{} list", if bookmarks.is_array() { "a" } else { "no" }).into();
    }
    // Only messages repeat the name. A number in the data may have its four digits in it by chance.
    for error in body.get_mut("errors").and_then(Value::as_array_mut).into_iter().flatten() {
        let message = error["message"].as_str().unwrap_or_default().replace(id, "the name");
        error["message"] = message.into();
    }
    (status, content_type, body.to_string())
}

/// Neo4j's names of transactions have four characters, and it asks to try again where it has given one twice.
fn ask_until_named(to: SocketAddr, step: &Step, id: &str) -> Answer {
    let is_collision = |answer: &Answer| answer.text().contains("transaction identifier collision");
    let mut answers = std::iter::repeat_with(|| ask(to, step, id)).take(10);
    answers.find(|answer| !is_collision(answer)).expect("ten collisions in a row")
}

pub fn ask(to: SocketAddr, step: &Step, id: &str) -> Answer {
    step.request.clone().path(&step.path.replace(ID, id)).send(to)
}

pub fn value(answer: &Answer) -> Value {
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json()["data"]["values"][0][0].clone()
}
