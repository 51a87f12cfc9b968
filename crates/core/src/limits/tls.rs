//! Bounds of TLS: handshakes, certificate files, buffers.

use super::HEAD_TIMEOUT_MS;

/// Longest TLS handshake, from its first byte: as long as a request's head. Two round trips and a signature take half a
/// second from the far end of the world. A connection has its slot of
/// [`CLIENT_CONNECTIONS_MAX`](super::CLIENT_CONNECTIONS_MAX) meanwhile.
pub const TLS_HANDSHAKE_MS_MAX: u64 = HEAD_TIMEOUT_MS;
/// How often the files of certificates are compared with those in use: a new one is used within 5 s (F53), and reading
/// three small files takes 50 µs.
pub const TLS_RELOAD_MS: u64 = 1_000;
/// Largest file with certificates or a key, in bytes: the authorities of an operating system are 220 KiB.
pub const TLS_FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of an answer that TLS encrypts ahead of a slow reader, for each connection, beside
/// [`SEND_BUFFER_BYTES`](super::SEND_BUFFER_BYTES).
pub const TLS_BUFFER_BYTES: usize = 32 << 10;
