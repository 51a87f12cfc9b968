//! One HTTP exchange with a server on this machine: HTTP/1.0, one connection, no retry.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Longest wait for an answer. A node's timeout for a hanging origin is shorter.
const WAIT_MAX: Duration = Duration::from_secs(35);
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Largest answer, in bytes. Prometheus' answers are the longest, and they are shorter.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

pub(crate) fn get(at: SocketAddr, path: &str) -> Result<Answer> {
    exchange(at, "GET", path, "", "")
}

/// POSTs JSON. `headers` are further header lines, each with its line end.
pub(crate) fn post(at: SocketAddr, path: &str, headers: &str, body: &str) -> Result<Answer> {
    exchange(at, "POST", path, &format!("content-type: application/json\r\n{headers}"), body)
}

/// POSTs a query as a client does, with `user` and password if the cluster has them.
pub(crate) fn query(at: SocketAddr, statement: &str, login: Option<(&str, &str)>) -> Result<Answer> {
    let headers = login.map_or_else(String::new, |(user, password)| {
        format!("authorization: Basic {}\r\n", base64(format!("{user}:{password}").as_bytes()))
    });
    post(at, "/db/neo4j/query/v2", &headers, &json!({ "statement": statement }).to_string())
}

/// The values of an instant query of Prometheus, as Prometheus writes them.
pub(crate) fn prometheus(at: SocketAddr, query: &str) -> Result<Vec<String>> {
    let encoded = query.bytes().fold(String::new(), |text, byte| format!("{text}%{byte:02X}"));
    let answer = get(at, &format!("/api/v1/query?query={encoded}"))?;
    let answer_json: Value = serde_json::from_str(&answer.body)
        .with_context(|| format!("Prometheus answered {} {:?} to {query}", answer.status, answer.body))?;
    let result = answer_json["data"]["result"]
        .as_array()
        .with_context(|| format!("{query}: {}", answer_json["error"]))?;
    Ok(result.iter().filter_map(|each| each["value"][1].as_str().map(str::to_owned)).collect())
}

fn exchange(at: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Result<Answer> {
    let mut stream =
        TcpStream::connect_timeout(&at, CONNECT_MAX).with_context(|| format!("connect to {at}"))?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.0\r\nhost: {at}\r\n{headers}content-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("{at} sent no HTTP answer"))?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("{at} sent no status"))?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

/// Base64 (RFC 4648, section 4), because xtask links no crate for it.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let six = (bits >> (18 - 6 * place)) & 63;
            let letter = if place <= group.len() { ALPHABET[six as usize] } else { b'=' };
            text.push(char::from(letter));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_the_vectors_of_rfc_4648() {
        let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, encoded) in vectors {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(b"fooba"), "Zm9vYmE=");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }

    #[test]
    fn headers_are_found_whatever_their_case() {
        let head = "HTTP/1.1 202 Accepted\r\nCache-Status: node-a; hit".to_owned();
        let answer = Answer { status: 202, head, body: String::new() };
        assert_eq!(answer.header("cache-status"), Some("node-a; hit"));
        assert_eq!(answer.header("age"), None);
    }
}
