//! HAProxy's PROXY protocol, versions 1 and 2: a balancer that passes bytes through says first whose bytes they are. The header
//! comes before everything else, TLS too. `ppp` reads it; this module finds its end, and never takes a byte behind it.
//!
//! | the connection comes from | Bolt | HTTP |
//! |---|---|---|
//! | an address in `node.proxy_protocol` | the header has to come | a header may come: balancers that speak HTTP send `X-Forwarded-*` |
//! | another address | its bytes are neither Bolt nor TLS: refused | its bytes are neither HTTP nor TLS: refused |

use std::net::SocketAddr;
use std::time::Duration;

use hopcache_core::limits::{PROXY_HEADER_BYTES_MAX, PROXY_HEADER_MS_MAX, PROXY_HEADER_PAUSE_MS};
use ppp::HeaderResult;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::client_addr::OtherEnd;
use crate::proxies::Proxies;

/// Beginning of version 1.
const TEXT: &[u8] = b"PROXY ";
/// Beginning of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2 up to the length of its rest.
const BINARY_HEAD_BYTES: usize = 16;
/// The shortest header: `PROXY UNKNOWN` and the end of its line.
const SHORTEST_BYTES: usize = 15;
/// The longest header of version 1, by its specification.
const TEXT_BYTES_MAX: usize = 107;

/// What a listener demands of balancers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderUse {
    /// Each of their connections begins with a header.
    Required,
    /// It may begin with one.
    #[default]
    Optional,
}

/// Why a connection of a balancer is refused.
#[derive(Debug, thiserror::Error)]
pub enum HeaderFault {
    /// No whole header came in time.
    #[error(
        "no PROXY header came in {PROXY_HEADER_MS_MAX} ms: let the balancer send one (HAProxy: send-proxy-v2)"
    )]
    TooSlow,
    /// The connection ended before.
    #[error("the connection ended before its PROXY header did")]
    Cut(#[from] std::io::Error),
    /// The first bytes are something else.
    #[error(
        "the first bytes are no PROXY header, which a listener of Bolt needs from an address in node.proxy_protocol"
    )]
    Missing,
    /// It is longer than a listener reads.
    #[error("the PROXY header is over {PROXY_HEADER_BYTES_MAX} bytes")]
    TooLong,
    /// It is no header of version 1 or 2.
    #[error("the PROXY header cannot be read: {0}")]
    Unreadable(String),
}

/// The client of a new connection: its other end, or the one that a balancer at the other end names.
///
/// # Errors
/// [`HeaderFault`]: the connection is to be closed.
pub async fn other_end(
    socket: &mut TcpStream,
    (proxies, header): (&Proxies, HeaderUse),
) -> Result<OtherEnd, HeaderFault> {
    let peer = socket.peer_addr()?;
    if proxies.is_empty() || !proxies.has(peer.ip()) {
        return Ok(OtherEnd { client: Some(peer), proxies: Proxies::default() });
    }
    let limit = Duration::from_millis(PROXY_HEADER_MS_MAX);
    let is_sent = match header {
        HeaderUse::Required => true,
        // A connection of a balancer's pool may be silent for longer. The time for its request is the business of HTTP.
        HeaderUse::Optional => timeout(limit, begins_with_header(socket)).await.unwrap_or(Ok(false))?,
    };
    let named = match is_sent {
        true => client_in(&timeout(limit, read(socket)).await.map_err(|_| HeaderFault::TooSlow)??)?,
        false => None,
    };
    let client = named.unwrap_or(peer);
    // A client that a header has named writes the rest of the connection itself. Its words about other clients are not believed,
    // unless it is a listed balancer too.
    let proxies = if proxies.has(client.ip()) { proxies.clone() } else { Proxies::default() };
    Ok(OtherEnd { client: Some(client), proxies })
}

/// Whether the first bytes are those of a header. It takes none.
async fn begins_with_header(socket: &TcpStream) -> Result<bool, HeaderFault> {
    let mut first = [0; SIGNATURE.len()];
    loop {
        let seen = socket.peek(&mut first).await?;
        let seen = &first[..seen];
        let is_whole = seen.starts_with(TEXT) || seen.starts_with(SIGNATURE);
        let is_begun = TEXT.starts_with(seen) || SIGNATURE.starts_with(seen);
        if seen.is_empty() || is_whole || !is_begun {
            return Ok(is_whole);
        }
        // `peek` returns at once while the rest is on its way.
        sleep(Duration::from_millis(PROXY_HEADER_PAUSE_MS)).await;
    }
}

/// Takes the header from the front of a stream, and nothing behind it.
///
/// # Errors
/// [`HeaderFault`].
pub async fn read<T: AsyncRead + Unpin>(stream: &mut T) -> Result<Vec<u8>, HeaderFault> {
    let mut header = vec![0; SHORTEST_BYTES];
    stream.read_exact(&mut header).await?;
    if header.starts_with(SIGNATURE) {
        header.push(stream.read_u8().await?);
        let rest = usize::from(u16::from_be_bytes([header[14], header[15]]));
        if BINARY_HEAD_BYTES + rest > PROXY_HEADER_BYTES_MAX {
            return Err(HeaderFault::TooLong);
        }
        header.resize(BINARY_HEAD_BYTES + rest, 0);
        stream.read_exact(&mut header[BINARY_HEAD_BYTES..]).await?;
        return Ok(header);
    }
    if !header.starts_with(TEXT) {
        return Err(HeaderFault::Missing);
    }
    while header.last() != Some(&b'\n') {
        if header.len() == TEXT_BYTES_MAX {
            return Err(HeaderFault::TooLong);
        }
        header.push(stream.read_u8().await?);
    }
    Ok(header)
}

/// The client that a whole header names. `None` if it names none: the balancer speaks for itself (health checks), or of a
/// connection that is not TCP.
///
/// # Errors
/// [`HeaderFault::Unreadable`].
pub fn client_in(header: &[u8]) -> Result<Option<SocketAddr>, HeaderFault> {
    use ppp::{v1, v2};
    let unreadable = |error: &dyn std::fmt::Display| HeaderFault::Unreadable(error.to_string());
    match HeaderResult::parse(header) {
        HeaderResult::V1(read) => Ok(match read.map_err(|error| unreadable(&error))?.addresses {
            v1::Addresses::Tcp4(ends) => Some((ends.source_address, ends.source_port).into()),
            v1::Addresses::Tcp6(ends) => Some((ends.source_address, ends.source_port).into()),
            v1::Addresses::Unknown => None,
        }),
        HeaderResult::V2(read) => {
            let read = read.map_err(|error| unreadable(&error))?;
            Ok(match (read.command, read.protocol, read.addresses) {
                (v2::Command::Proxy, v2::Protocol::Stream, v2::Addresses::IPv4(ends)) => {
                    Some((ends.source_address, ends.source_port).into())
                }
                (v2::Command::Proxy, v2::Protocol::Stream, v2::Addresses::IPv6(ends)) => {
                    Some((ends.source_address, ends.source_port).into())
                }
                _ => None,
            })
        }
    }
}

#[cfg(test)]
mod tests;
