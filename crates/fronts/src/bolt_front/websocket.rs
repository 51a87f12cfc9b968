//! Bolt inside a WebSocket (RFC 6455), for browsers: they open no plain sockets. Neo4j's Bolt port takes both too.
//!
//! The first bytes of a connection decide which of the two it is. From then on both look the same to `connection`: bytes
//! in, bytes out. Where WebSocket messages begin and end means nothing to Bolt. This module never looks into them.
//! A GET that asks for no WebSocket gets the discovery document, as at Neo4j: so balancers check whether Bolt is there.

use std::io::{self, Cursor};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{SinkExt, StreamExt, future};
use hopcache_core::limits::{FIRST_BYTE_TIMEOUT_MS, HEAD_BYTES_MAX, WEBSOCKET_MESSAGE_BYTES_MAX};
use http::header::{CONNECTION, CONTENT_TYPE, HOST, UPGRADE};
use http::{HeaderValue, StatusCode, Version};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};

use hopcache_state::host_check::{self, HostCheck, HostFault};

/// The beginning of every WebSocket handshake, and as long as Bolt's own magic.
const GET: &[u8; 4] = b"GET ";
/// The library's buffer for reading, for each connection. Drivers in browsers send pieces of 1,400 bytes.
const READ_BUFFER_BYTES: usize = 8 << 10;
/// The answer to an HTTP client whose head cannot be read.
const NOT_HTTP: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 58\r\n\r\nnot a WebSocket handshake; the Query API has its own port\n";
/// Most header fields of a request: as the WebSocket library reads.
const FIELDS_MAX: usize = 124;

/// The two directions of a connection that carry Bolt's bytes.
pub(super) struct Directions {
    pub(super) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) writer: Box<dyn AsyncWrite + Send + Unpin>,
}

/// A stream whose first bytes were read already.
type Rewound<T, B> = tokio::io::Join<tokio::io::Chain<Cursor<B>, ReadHalf<T>>, WriteHalf<T>>;

/// What the first bytes of a connection ask of its listener.
pub(super) struct Asked<'a> {
    /// The hosts that a request may name, if no check of the sender follows.
    pub(super) hosts: Option<&'a HostCheck>,
    /// The whole response to a GET that names this host.
    pub(super) document: &'a (dyn Fn(Option<String>) -> BoxFuture<'a, String> + Sync),
}

/// Reads the first bytes of a connection, and opens the WebSocket if they ask for one. `None` if the client is silent, goes,
/// speaks HTTP without asking for a WebSocket, or is a page that may not read the graph; it has its answer then.
pub(super) async fn directions<T>(mut stream: T, by: Instant, asked: Asked<'_>) -> Option<Directions>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut first = [0; GET.len()];
    let first_byte = Duration::from_millis(FIRST_BYTE_TIMEOUT_MS);
    let read = timeout(first_byte, stream.read(&mut first)).await.ok()?.ok().filter(|read| *read > 0)?;
    timeout_at(by, stream.read_exact(&mut first[read..])).await.ok()?.ok()?;
    let (mut reader, mut writer) = tokio::io::split(stream);
    if &first != GET {
        return Some(Directions {
            reader: Box::new(Cursor::new(first).chain(reader)),
            writer: Box::new(writer),
        });
    }
    let head = timeout_at(by, read_head(&mut reader, first.to_vec())).await.ok()??;
    match request_of(&head) {
        Some(request) if wants_websocket(&request) => {
            let reader = Cursor::new(head).chain(reader);
            timeout_at(by, upgrade(tokio::io::join(reader, writer), asked.hosts)).await.ok()?
        }
        request => {
            let _ = timeout_at(by, answer(&mut writer, request.as_ref(), &asked)).await;
            None
        }
    }
}

/// A request up to the empty line behind its fields, and what came with it. `None` if it ends before, or is too large.
async fn read_head<T: AsyncRead + Unpin>(reader: &mut T, mut head: Vec<u8>) -> Option<Vec<u8>> {
    let mut piece = [0; 1 << 10];
    // A piece may begin within the empty line.
    let mut seen = 0;
    while !head[seen..].windows(4).any(|end| end == b"\r\n\r\n") {
        seen = head.len().saturating_sub(3);
        let read = reader.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        head.extend_from_slice(&piece[..read]);
        if head.len() > HEAD_BYTES_MAX {
            return None;
        }
    }
    Some(head)
}

/// The request in these bytes. `None` if they are no HTTP.
fn request_of(head: &[u8]) -> Option<Request> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    parsed.parse(head).ok()?;
    let version = if parsed.version? == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    let request = Request::builder().method(parsed.method?).uri(parsed.path?).version(version);
    let request =
        parsed.headers.iter().fold(request, |request, field| request.header(field.name, field.value));
    request.body(()).ok()
}

fn wants_websocket(request: &Request) -> bool {
    request.headers().contains_key(UPGRADE)
}

/// Answers a client that speaks HTTP, and ends the connection.
async fn answer<T>(writer: &mut T, request: Option<&Request>, asked: &Asked<'_>) -> io::Result<()>
where
    T: AsyncWrite + Unpin,
{
    let refused = request.and_then(|request| host_check::check(asked.hosts, request).err());
    let (status, content_type, body) = match (request, refused) {
        (None, _) => {
            writer.write_all(NOT_HTTP).await?;
            return writer.shutdown().await;
        }
        (Some(_), Some(fault)) => (status_of(fault), "text/plain", format!("{fault}\n")),
        (Some(request), None) => {
            let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
            (StatusCode::OK, "application/json", (asked.document)(host.map(str::to_owned)).await)
        }
    };
    // The fields of Neo4j's own answer.
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\naccess-control-allow-origin: *\r\nvary: Accept\r\ndate: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        httpdate::fmt_http_date(SystemTime::now()),
        body.len(),
    );
    writer.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
    writer.shutdown().await
}

async fn upgrade<T>(mut stream: Rewound<T, Vec<u8>>, hosts: Option<&HostCheck>) -> Option<Directions>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = WebSocketConfig::default()
        .max_message_size(Some(WEBSOCKET_MESSAGE_BYTES_MAX))
        .max_frame_size(Some(WEBSOCKET_MESSAGE_BYTES_MAX))
        .read_buffer_size(READ_BUFFER_BYTES)
        // Every message is sent before the next one is taken, so at most one waits.
        .write_buffer_size(0);
    // The stream is lent, so that a client that asked for something else can be answered on it.
    if let Err(error) = accept_hdr_async_with_config(&mut stream, PageCheck(hosts), Some(config)).await {
        tracing::debug!(%error, "an HTTP client on the Bolt port");
        // The library has sent a refusal of `PageCheck` already.
        if !matches!(error, tungstenite::Error::Http(_)) {
            let _ = stream.write_all(NOT_HTTP).await;
        }
        let _ = stream.shutdown().await;
        return None;
    }
    // A browser sends nothing before it has the answer, so no byte is lost with the handshake's buffer.
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (sink, messages) = socket.split();
    let reader = StreamReader::new(messages.map(bytes_of));
    let sink = sink.sink_map_err(io::Error::other);
    let sink = sink.with(|bytes: Bytes| future::ready(io::Result::Ok(Message::Binary(bytes))));
    let writer = SinkWriter::new(CopyToBytes::new(sink));
    Some(Directions { reader: Box::new(reader), writer: Box::new(writer) })
}

/// Whether the page that opens a WebSocket may.
struct PageCheck<'a>(Option<&'a HostCheck>);

impl Callback for PageCheck<'_> {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        host_check::check_page(self.0, request).map_err(refusal)?;
        Ok(response)
    }
}

fn refusal(fault: HostFault) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(format!("{fault}\n")));
    *response.status_mut() = status_of(fault);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

const fn status_of(fault: HostFault) -> StatusCode {
    match fault {
        HostFault::NotOne => StatusCode::BAD_REQUEST,
        HostFault::Foreign | HostFault::ForeignPage => StatusCode::FORBIDDEN,
    }
}

/// Pings are answered by the library. A text message is no Bolt, and ends the connection.
fn bytes_of(message: Result<Message, tungstenite::Error>) -> io::Result<Bytes> {
    match message.map_err(io::Error::other)? {
        Message::Binary(bytes) => Ok(bytes),
        Message::Text(_) => Err(io::ErrorKind::InvalidData.into()),
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => Ok(Bytes::new()),
    }
}
