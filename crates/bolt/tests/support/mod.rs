//! A scripted Bolt server on loopback: it reads whole requests and sends the bytes of a test.

use std::time::Duration;

use boltr::chunk::ChunkReader;
use hopcache_bolt::server::Version;
use hopcache_bolt::{Address, Auth, Connection, Mode, Options, Run, RunError, WholeResult};
use hopcache_packstream::{Value, Writer, encode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the server does next.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Reads the 20 bytes of the handshake and answers this version.
    Handshake(Version),
    /// Reads one request, which has to have this signature.
    Expect(u8),
    /// Sends raw bytes.
    Send(Vec<u8>),
    /// Lets the test's clock go on.
    Pause(Duration),
    /// Keeps the connection open, reading and sending nothing, until the client has gone.
    Hang,
    /// Keeps the connection open and reads nothing, until the test's runtime ends.
    Deaf,
}

pub(crate) const HELLO: u8 = 0x01;
pub(crate) const GOODBYE: u8 = 0x02;
pub(crate) const RESET: u8 = 0x0F;
pub(crate) const RUN: u8 = 0x10;
pub(crate) const DISCARD: u8 = 0x2F;
pub(crate) const PULL: u8 = 0x3F;
pub(crate) const LOGON: u8 = 0x6A;
pub(crate) const LOGOFF: u8 = 0x6B;

/// The requests that a script read, in order.
pub(crate) type Requests = Vec<Vec<u8>>;

/// Serves one connection with `script`, then closes it. The handle gives the requests that were read.
pub(crate) async fn serve(script: Vec<Step>) -> (Address, JoinHandle<Requests>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        play(socket, script).await
    });
    (format!("bolt://127.0.0.1:{port}").parse().unwrap(), task)
}

/// Plays `script` on a connection. Writing may fail: the client is free to leave.
pub(crate) async fn play(mut socket: impl AsyncRead + AsyncWrite + Unpin, script: Vec<Step>) -> Requests {
    let mut requests = Vec::new();
    for step in script {
        match step {
            Step::Handshake(version) => {
                let mut hello = [0; 20];
                socket.read_exact(&mut hello).await.unwrap();
                assert_eq!(hello[..12], [0x60, 0x60, 0xB0, 0x17, 0, 1, 1, 6, 0, 2, 8, 5]);
                socket.write_all(&[0, 0, version.minor, version.major]).await.unwrap();
            }
            Step::Expect(signature) => {
                let request = ChunkReader::new(&mut socket).read_message().await.unwrap();
                assert_eq!(request[1], signature, "{request:02X?}");
                requests.push(request.to_vec());
            }
            Step::Send(bytes) => {
                let _ = socket.write_all(&bytes).await;
            }
            // tidy: poll interval
            Step::Pause(time) => tokio::time::sleep(time).await,
            Step::Hang => {
                let _ = socket.read_to_end(&mut Vec::new()).await;
            }
            Step::Deaf => std::future::pending().await,
        }
    }
    let _ = socket.shutdown().await;
    requests
}

/// Handshake, HELLO and LOGON, all successful.
pub(crate) fn greeted() -> Vec<Step> {
    let hello = success(&[("server", "Neo4j/5.26.0".into())]);
    vec![
        Step::Handshake(Version::new(5, 4)),
        Step::Expect(HELLO),
        Step::Expect(LOGON),
        Step::Send(hello),
        Step::Send(success(&[])),
    ]
}

/// [`greeted`], then RUN and PULL are read and `answer` is sent.
pub(crate) fn run_answered(answer: Vec<u8>) -> Vec<Step> {
    let mut script = greeted();
    script.extend([Step::Expect(RUN), Step::Expect(PULL), Step::Send(answer)]);
    script
}

/// One message in chunks of at most `size` bytes.
pub(crate) fn chunked(message: &[u8], size: usize) -> Vec<u8> {
    let mut framed = Vec::new();
    for chunk in message.chunks(size) {
        framed.extend_from_slice(&u16::try_from(chunk.len()).unwrap().to_be_bytes());
        framed.extend_from_slice(chunk);
    }
    framed.extend_from_slice(&[0, 0]);
    framed
}

pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    chunked(message, 65_535)
}

fn message(tag: u8, part: &Value) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.structure(tag, 1);
    writer.value(part);
    framed(&writer.into_bytes())
}

fn map(pairs: &[(&str, Value)]) -> Value {
    Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

pub(crate) fn success(pairs: &[(&str, Value)]) -> Vec<u8> {
    message(0x70, &map(pairs))
}

pub(crate) fn failure(code: &str) -> Vec<u8> {
    message(0x7F, &map(&[("code", code.into()), ("message", "because".into())]))
}

pub(crate) fn ignored() -> Vec<u8> {
    framed(&[0xB0, 0x7E])
}

pub(crate) fn record(values: Vec<Value>) -> Vec<u8> {
    message(0x71, &Value::List(values))
}

/// RUN's SUCCESS with these columns.
pub(crate) fn columns(names: &[&str]) -> Vec<u8> {
    success(&[("fields", Value::List(names.iter().map(|name| Value::from(*name)).collect()))])
}

/// A record's bytes as they should be kept.
pub(crate) fn kept(values: Vec<Value>) -> Vec<u8> {
    encode(&Value::List(values))
}

pub(crate) fn options() -> Options {
    Options { connect_timeout: Duration::from_secs(5), ..Options::default() }
}

pub(crate) async fn open(address: &Address) -> Connection {
    Connection::open(address, &Auth::None, &options()).await.unwrap()
}

pub(crate) fn statement(text: &str) -> Run<'_> {
    Run {
        statement: text,
        params: &[0xA0],
        database: None,
        mode: Mode::Read,
        timeout: Duration::from_secs(60),
        server_timeout: Some(Duration::from_secs(60)),
        bookmarks: &[],
        metadata: &[],
        impersonated: None,
        bytes_max: 1 << 20,
    }
}

/// Runs against a server that answers RUN and PULL with `answer` and then closes.
pub(crate) async fn run_against(answer: Vec<u8>) -> (Result<WholeResult, RunError>, Connection) {
    let (address, _server) = serve(run_answered(answer)).await;
    let mut connection = open(&address).await;
    let outcome = connection.run(&statement("RETURN 1")).await;
    (outcome, connection)
}
