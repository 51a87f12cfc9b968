//! Bolt inside a WebSocket (RFC 6455), for browsers: they open no plain sockets. Neo4j's Bolt port takes both too.
//!
//! The first bytes of a connection decide which of the two it is. From then on both look the same to `connection`: bytes
//! in, bytes out. Where WebSocket messages begin and end means nothing to Bolt. This module never looks into them.

use std::io::{self, Cursor};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, future};
use hopcache_core::limits::{FIRST_BYTE_TIMEOUT_MS, WEBSOCKET_MESSAGE_BYTES_MAX};
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
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
/// The answer to an HTTP client.
const NOT_HTTP: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 58\r\n\r\nnot a WebSocket handshake; the Query API has its own port\n";

/// The two directions of a connection that carry Bolt's bytes.
pub(super) struct Directions {
    pub(super) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) writer: Box<dyn AsyncWrite + Send + Unpin>,
}

/// A stream whose first bytes were read already.
type Rewound<T> = tokio::io::Join<tokio::io::Chain<Cursor<[u8; 4]>, ReadHalf<T>>, WriteHalf<T>>;

/// Reads the first bytes of a connection, and opens the WebSocket if they ask for one. `None` if the client is silent, goes,
/// speaks HTTP without asking for a WebSocket, or is a page that may not read the graph; it has its answer then.
pub(super) async fn directions<T>(mut stream: T, by: Instant, hosts: Option<&HostCheck>) -> Option<Directions>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut first = [0; GET.len()];
    let first_byte = Duration::from_millis(FIRST_BYTE_TIMEOUT_MS);
    let read = timeout(first_byte, stream.read(&mut first)).await.ok()?.ok().filter(|read| *read > 0)?;
    timeout_at(by, stream.read_exact(&mut first[read..])).await.ok()?.ok()?;
    let (reader, writer) = tokio::io::split(stream);
    let reader = Cursor::new(first).chain(reader);
    if &first != GET {
        return Some(Directions { reader: Box::new(reader), writer: Box::new(writer) });
    }
    timeout_at(by, upgrade(tokio::io::join(reader, writer), hosts)).await.ok()?
}

async fn upgrade<T>(mut stream: Rewound<T>, hosts: Option<&HostCheck>) -> Option<Directions>
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
    *response.status_mut() = match fault {
        HostFault::NotOne => StatusCode::BAD_REQUEST,
        HostFault::Foreign | HostFault::ForeignPage => StatusCode::FORBIDDEN,
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Pings are answered by the library. A text message is no Bolt, and ends the connection.
fn bytes_of(message: Result<Message, tungstenite::Error>) -> io::Result<Bytes> {
    match message.map_err(io::Error::other)? {
        Message::Binary(bytes) => Ok(bytes),
        Message::Text(_) => Err(io::ErrorKind::InvalidData.into()),
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => Ok(Bytes::new()),
    }
}
