//! Last words: what a listener says on a connection whose request no service ever sees, and how a connection
//! is closed so that its client can read them. What the words are is each listener's own.

use std::io;
use std::io::Write as _;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hopcache_core::limits::{LINGER_BYTES_MAX, LINGER_MS};
use http::Response;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Why a connection was ended before a service saw a request of it, or instead of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unserved {
    /// There are as many connections as there may be.
    Crowded,
    /// A head was not complete in time.
    HeadTooSlow,
    /// A head, or its target alone, is larger than it may be, or has too many fields.
    HeadTooLarge,
    /// A head is no HTTP/1.1, or its framing could be understood in two ways (F34).
    HeadUnreadable,
    /// No byte came in time. Nothing is said: pools connect before they need to.
    Silent,
    /// The reader took no byte of an answer in time. Nothing can be said.
    ReaderTooSlow,
}

/// Time for a refusal to be taken by a client that reads.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Says a refusal. A client that does not take it at once goes without.
pub(crate) async fn say<T>(stream: &mut T, refusal: &Response<Bytes>) -> io::Result<()>
where
    T: AsyncWrite + Unpin,
{
    let bytes = on_the_wire(refusal)?;
    let sending = async {
        stream.write_all(&bytes).await?;
        stream.shutdown().await
    };
    tokio::time::timeout(SEND_TIMEOUT, sending).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Reads on for a moment after the last word. A socket that is closed with bytes unread resets the
/// connection, and a reset may overtake what was said: the client of a refused upload would see a broken
/// connection instead of the reason.
pub(crate) async fn linger<T: AsyncRead + Unpin>(stream: &mut T) {
    let mut scrap = vec![0; 16 << 10];
    let drain = async {
        let mut left = LINGER_BYTES_MAX;
        while left > 0 {
            match stream.read(&mut scrap).await {
                Ok(0) | Err(_) => return,
                Ok(read) => left = left.saturating_sub(read),
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(LINGER_MS), drain).await;
}

/// Waits a moment for a first byte: a refusal that comes before its request is taken for a broken server.
pub(crate) async fn asked<T: AsyncRead + Unpin>(stream: &mut T) -> bool {
    let first = tokio::time::timeout(Duration::from_millis(LINGER_MS), stream.read_u8()).await;
    matches!(first, Ok(Ok(_)))
}

/// A response that ends its connection, as bytes.
fn on_the_wire(response: &Response<Bytes>) -> io::Result<Vec<u8>> {
    let (status, body) = (response.status(), response.body());
    let mut bytes = Vec::with_capacity(512);
    write!(bytes, "HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or("Refused"))?;
    for (name, value) in response.headers() {
        write!(bytes, "{name}: ")?;
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    write!(bytes, "{CONNECTION}: close\r\n{CONTENT_LENGTH}: {}\r\n", body.len())?;
    write!(bytes, "{DATE}: {}\r\n\r\n", httpdate::fmt_http_date(SystemTime::now()))?;
    bytes.extend_from_slice(body);
    Ok(bytes)
}
