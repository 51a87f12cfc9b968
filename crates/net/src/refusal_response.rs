//! Refusal responses: what a listener sends on a connection whose request no service sees, and how the connection is
//! closed so that the client can read it. Each listener writes its own response.

use std::io;
use std::io::Write as _;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hopcache_core::limits::{LINGER_BYTES_MAX, LINGER_MS};
use http::Response;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

hopcache_core::words! {
    /// Why a listener ended a connection before a service saw a request, or instead of the next request.
    pub enum UnservedReason {
        /// The listener has its maximum of connections.
        Crowded = "crowded",
        /// A head was not complete in time.
        HeadTooSlow = "head_too_slow",
        /// A head, or its target alone, is too large, or has too many fields.
        HeadTooLarge = "head_too_large",
        /// A head is not HTTP/1.1, or its framing has two meanings (F34).
        HeadUnreadable = "head_unreadable",
        /// No byte came in time. The listener sends nothing, because pools connect before they need a connection.
        Silent = "silent",
        /// The client read no byte of an answer in time. The listener cannot send anything.
        ReaderTooSlow = "reader_too_slow",
        /// The listener has TLS, and the first byte is of another protocol. A response is sent without TLS.
        NotTls = "not_tls",
        /// A TLS handshake was not complete in time. The listener cannot send anything.
        HandshakeTooSlow = "handshake_too_slow",
        /// A TLS handshake failed. The client has got TLS' own alert.
        HandshakeFailed = "handshake_failed",
        /// The PROXY header of a balancer is missing, unreadable or too slow. The listener sends nothing: it does not know to whom.
        ProxyHeader = "proxy_header",
    }
}

/// How long a client may take to read a refusal.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends a refusal. A client that does not read it in time does not get it.
pub(crate) async fn send<T>(stream: &mut T, refusal: &Response<Bytes>) -> io::Result<()>
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

/// Keeps reading for a moment after the refusal. A socket that is closed with unread bytes resets the connection, and
/// the reset can overtake the refusal. Then the client of a refused upload sees a broken connection without a reason.
pub async fn linger<T: AsyncRead + Unpin>(stream: &mut T) {
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

/// Waits a moment for a first byte. A client takes a refusal that comes before its request for a broken server.
pub(crate) async fn asked<T: AsyncRead + Unpin>(stream: &mut T) -> bool {
    let first = tokio::time::timeout(Duration::from_millis(LINGER_MS), stream.read_u8()).await;
    matches!(first, Ok(Ok(_)))
}

/// The bytes of a response that ends its connection.
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
