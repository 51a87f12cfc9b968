//! The smallest Bolt 5.4 client that gives raw records and a summary, and one HTTP request. Loopback only.

use std::io::{Read, Write};
use std::net::TcpStream;

use hopcache_packstream::{Reader, Token, Value, Writer, decode};

/// The outcome of a run: columns, raw records, and the map of the last message (with its failure flag).
pub struct Run {
    pub fields: Vec<String>,
    pub records: Vec<u8>,
    pub end: Value,
    pub failed: bool,
}

fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run cargo xtask test"))
}

pub struct Bolt(TcpStream);

impl Bolt {
    pub fn connect() -> Self {
        let url = setting("HOPCACHE_TEST_NEO4J_BOLT");
        let mut stream = TcpStream::connect(url.trim_start_matches("bolt://")).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(&[0x60, 0x60, 0xB0, 0x17, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let mut version = [0; 4];
        stream.read_exact(&mut version).unwrap();
        assert_eq!(version, [0, 0, 4, 5]);
        let mut bolt = Self(stream);
        let text = |key: &str, value: &str| (key.to_owned(), Value::from(value));
        let agent = Value::Map(vec![text("product", "hopcache-test/1")]);
        bolt.send(0x01, &[Value::Map(vec![text("user_agent", "test/1"), ("bolt_agent".into(), agent)])]);
        let password = setting("HOPCACHE_TEST_NEO4J_PASSWORD");
        let login = [text("scheme", "basic"), text("principal", "neo4j"), text("credentials", &password)];
        bolt.send(0x6A, &[Value::Map(login.to_vec())]);
        assert_eq!((bolt.receive()[1], bolt.receive()[1]), (0x70, 0x70));
        bolt
    }

    pub fn run(&mut self, statement: &str, parameters: Value) -> Run {
        self.send(0x10, &[Value::from(statement), parameters, Value::Map(vec![])]);
        self.send(0x3F, &[Value::Map(vec![("n".into(), Value::Int(-1))])]);
        let head = self.receive();
        let started = head[1] == 0x70;
        let fields = match decode(&head[2..]).unwrap().get("fields") {
            Some(Value::List(names)) => names.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
            _ => Vec::new(),
        };
        let mut records = Vec::new();
        let last = loop {
            let message = self.receive();
            match message[1] {
                0x71 => records.extend_from_slice(&message[2..]),
                _ => break message,
            }
        };
        let failed = last[1] != 0x70;
        if failed {
            self.send(0x0F, &[]);
            self.receive();
        }
        let end = decode(if started { &last[2..] } else { &head[2..] }).unwrap();
        Run { fields, records, end, failed }
    }

    pub fn send(&mut self, tag: u8, fields: &[Value]) {
        let mut writer = Writer::new();
        writer.structure(tag, fields.len());
        fields.iter().for_each(|field| writer.value(field));
        let message = writer.into_bytes();
        for chunk in message.chunks(60_000) {
            self.0.write_all(&u16::try_from(chunk.len()).unwrap().to_be_bytes()).unwrap();
            self.0.write_all(chunk).unwrap();
        }
        self.0.write_all(&[0, 0]).unwrap();
    }

    pub fn receive(&mut self) -> Vec<u8> {
        let mut message = Vec::new();
        loop {
            let mut size = [0; 2];
            self.0.read_exact(&mut size).unwrap();
            let size = usize::from(u16::from_be_bytes(size));
            if size == 0 && !message.is_empty() {
                assert!(matches!(Reader::new(&message).token(), Ok(Token::Struct { .. })));
                return message;
            }
            let start = message.len();
            message.resize(start + size, 0);
            self.0.read_exact(&mut message[start..]).unwrap();
        }
    }
}

/// Status and body of `POST /db/neo4j/query/v2`.
pub fn post(body: &[u8], content_type: &str, accept: &str) -> (u16, String) {
    use base64::Engine as _;
    let url = setting("HOPCACHE_TEST_NEO4J_HTTP");
    let login = format!("neo4j:{}", setting("HOPCACHE_TEST_NEO4J_PASSWORD"));
    let login = base64::engine::general_purpose::STANDARD.encode(login);
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    let head = format!(
        "POST /db/neo4j/query/v2 HTTP/1.0\r\nHost: localhost\r\nAuthorization: Basic {login}\r\n\
         Content-Type: {content_type}\r\nAccept: {accept}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
