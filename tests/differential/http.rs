//! A minimal HTTP/1.1 client: it sends exactly the given bytes, also wrong ones, and reads one answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::differential::start::setting;

pub const PLAIN: &str = "application/json";
pub const TYPED: &str = "application/vnd.neo4j.query";
pub const QUERY: &str = "/db/neo4j/query/v2";

/// `Authorization` of HTTP Basic.
pub fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// A request for both hopcache and Neo4j.
#[derive(Clone)]
pub struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub fn get(path: &str) -> Self {
        Self { method: "GET".to_owned(), path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// A statement as the administrator, plain in and out.
    pub fn statement(statement: &str) -> Self {
        Self::query(&json!({ "statement": statement }))
    }

    /// A body of the Query API.
    pub fn query(body: &Value) -> Self {
        Self::raw(body.to_string().as_bytes())
    }

    /// Any bytes as a body of the Query API.
    pub fn raw(body: &[u8]) -> Self {
        let password = setting("HOPCACHE_TEST_NEO4J_PASSWORD");
        let mut request = Self::get(QUERY).method("POST").header("Accept", PLAIN);
        request = request.header("Content-Type", PLAIN).login("neo4j", &password);
        request.body = body.to_vec();
        request
    }

    pub fn method(mut self, method: &str) -> Self {
        method.clone_into(&mut self.method);
        self
    }

    pub fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// Sets a header in the place of one of that name.
    pub fn header(self, name: &str, value: &str) -> Self {
        self.without(name).and_header(name, value)
    }

    /// One more header, beside those of the same name.
    pub fn and_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub fn login(self, user: &str, password: &str) -> Self {
        self.header("Authorization", &basic(user, password))
    }

    /// The bytes on the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: localhost\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name == "Content-Length") {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("Connection: close\r\n\r\n");
        [head.into_bytes(), self.body.clone()].concat()
    }

    pub fn send(&self, to: SocketAddr) -> Answer {
        let name = || format!("{} {} {}", self.method, self.path, String::from_utf8_lossy(&self.body));
        self.try_send(to).unwrap_or_else(|| panic!("no answer of {to} to {:.300}", name()))
    }

    /// The answer, or `None` if the connection ended without one.
    pub fn try_send(&self, to: SocketAddr) -> Option<Answer> {
        let mut stream = TcpStream::connect(to).ok()?;
        exchange(&mut stream, &self.bytes(), self.method == "HEAD")
    }
}

/// Sends bytes and reads one answer to its end. A server that answers early may not take all of them.
pub fn exchange(stream: &mut TcpStream, bytes: &[u8], is_head: bool) -> Option<Answer> {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(40))).unwrap();
    let _ = stream.write_all(bytes);
    let mut read = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(most) => read.extend_from_slice(&buffer[..most]),
        }
    }
    Answer::parse(&read, is_head)
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    fn parse(bytes: &[u8], is_head: bool) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        let mut answer = Self { status, headers, body: bytes[end + 4..].to_vec() };
        if answer.header("transfer-encoding").is_some() {
            answer.body = dechunked(&answer.body)?;
        } else if let Some(length) = answer.header("content-length").filter(|_| !is_head) {
            assert_eq!(answer.body.len().to_string(), length, "a body as long as announced");
        }
        Some(answer)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("a body of UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// `Cache-Status`.
    pub fn cache(&self) -> &str {
        self.header("cache-status").unwrap_or("")
    }

    pub fn is_hit(&self) -> bool {
        self.cache().contains("; hit;")
    }

    pub fn is_stored(&self) -> bool {
        self.cache().contains("fwd=miss") && self.cache().contains("; stored")
    }

    pub fn is_bypass(&self) -> bool {
        self.cache().contains("fwd=bypass") && !self.cache().contains("hit")
    }

    /// The first error's code; empty without an error.
    pub fn code(&self) -> String {
        self.json()["errors"][0]["code"].as_str().unwrap_or("").to_owned()
    }

    /// Status, content type and body without bookmarks: these have to be the same for both servers.
    pub fn shown(&self) -> (u16, String, String) {
        let body = self.text();
        let whole = body.strip_suffix("]}").unwrap_or(&body);
        let shown = whole.rsplit_once(",\"bookmarks\":[").map_or(body.as_str(), |(shown, _)| shown);
        (self.status, self.header("content-type").unwrap_or("").to_owned(), shown.to_owned())
    }

    /// The bookmarks of the body; `None` without such a member.
    pub fn bookmarks(&self) -> Option<Vec<Value>> {
        self.json()["bookmarks"].as_array().cloned()
    }
}

fn dechunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = bytes.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).ok()?, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(line + 2..line + 2 + size)?);
        bytes = bytes.get(line + 4 + size..)?;
    }
}
