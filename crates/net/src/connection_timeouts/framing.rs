//! Whether one line of a request's head says how long its body is (F34), as Neo4j demands. With two, a proxy before this
//! node may believe the one, and this node the other: then they disagree about where the next request begins.
//!
//! hyper takes `chunked` before any length, and equal lengths for one, and keeps nothing of the line that it leaves out. So
//! this file looks at the bytes below hyper. It refuses only: a head that it takes for clear still has to pass hyper.

use memchr::memchr;

const CONTENT_LENGTH: &[u8] = b"content-length";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding";

/// The part of a connection's bytes that comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// So many bytes of a body.
    Body(u64),
    /// A body with chunks, behind which the connection ends.
    Chunks,
}

/// Follows the bytes that a client sends on one connection.
#[derive(Debug, Default)]
pub(super) struct Framing {
    part: Part,
    /// The beginning of a line that is not whole yet.
    line: Vec<u8>,
    /// Whether a line of the head has come.
    has_begun: bool,
    /// What the head has said so far.
    body: Option<Part>,
}

impl Framing {
    /// Takes the next bytes. Returns where in them the first head begins that frames its body twice, or 0 if that head has
    /// begun earlier.
    pub(super) fn ambiguous(&mut self, bytes: &[u8]) -> Option<usize> {
        let (mut at, mut head_at) = (0, 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.part {
                Part::Chunks => return None,
                Part::Body(left) => {
                    let taken = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    at += taken;
                    head_at = at;
                    self.part = match left - taken as u64 {
                        0 => Part::Head,
                        left => Part::Body(left),
                    };
                }
                Part::Head => {
                    let Some(end) = memchr(b'\n', rest) else {
                        self.line.extend_from_slice(rest);
                        return None;
                    };
                    let is_clear = if self.line.is_empty() {
                        self.takes(&rest[..end])
                    } else {
                        let mut line = std::mem::take(&mut self.line);
                        line.extend_from_slice(&rest[..end]);
                        self.takes(&line)
                    };
                    if !is_clear {
                        return Some(head_at);
                    }
                    at += end + 1;
                    if !self.has_begun {
                        head_at = at;
                    }
                }
            }
        }
        None
    }

    /// Takes a line of a head without its line feed. Returns whether the head is clear so far.
    fn takes(&mut self, line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            // hyper passes over empty lines before a head.
            if std::mem::take(&mut self.has_begun) {
                self.part = self.body.take().unwrap_or_default();
            }
            return true;
        }
        self.has_begun = true;
        let body = if let Some(length) = value_of(CONTENT_LENGTH, line) {
            // A length that is none is refused by hyper.
            let length = std::str::from_utf8(length).ok().and_then(|digits| digits.parse().ok());
            match length.unwrap_or(0) {
                0 => Part::Head,
                length => Part::Body(length),
            }
        } else if let Some(encoding) = value_of(TRANSFER_ENCODING, line) {
            // Others in front of `chunked` are not understood here, and twice `chunked` is no encoding.
            if !encoding.eq_ignore_ascii_case(b"chunked") {
                return false;
            }
            Part::Chunks
        } else {
            return true;
        };
        self.body.replace(body).is_none()
    }
}

/// The value of the field of this name, if the line is that field.
fn value_of<'a>(name: &[u8], line: &'a [u8]) -> Option<&'a [u8]> {
    if line.get(name.len()) != Some(&b':') || !line[..name.len()].eq_ignore_ascii_case(name) {
        return None;
    }
    Some(line[name.len() + 1..].trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "POST / HTTP/1.1\r\nHost: h\r\n";

    /// The place at which the bytes are refused, sent in pieces of this size.
    fn refused_at(bytes: &str, piece_bytes: usize) -> Option<usize> {
        let (mut framing, mut before) = (Framing::default(), 0);
        for piece in bytes.as_bytes().chunks(piece_bytes) {
            if let Some(at) = framing.ambiguous(piece) {
                return Some(before + at);
            }
            before += piece.len();
        }
        None
    }

    fn is_refused(head: &str) -> bool {
        let found = [1, 2, 7, 1_000].map(|size| refused_at(&format!("{START}{head}\r\n"), size).is_some());
        assert!(found.iter().all(|is| *is == found[0]), "{head:?}: {found:?}");
        found[0]
    }

    #[test]
    fn two_lines_that_frame_a_body_are_refused() {
        for head in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
            "content-length:3\r\nX: y\nTRANSFER-ENCODING:\tchunked \r\n",
            "Content-Length: 3\r\nContent-Length: 3\r\n",
            "Content-Length: 0\r\nContent-Length: 0\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        ] {
            assert!(is_refused(head), "{head:?}");
        }
        for head in [
            "",
            "Content-Length: 3\r\n",
            "Transfer-Encoding: \t CHUNKED \t\r\n",
            "X-Content-Length: 4\r\nContent-Length: 3\r\nContent-Length-Y: 3\r\n",
        ] {
            assert!(!is_refused(head), "{head:?}");
        }
    }

    /// A body may look like a head, and a head behind a body is one. What is before an unclear head is answered.
    #[test]
    fn a_head_is_found_behind_bodies() {
        let twice = "Content-Length: 1\r\nContent-Length: 1\r\n";
        let body = format!("{START}{twice}\r\n");
        let whole = format!("{START}Content-Length: {}\r\n\r\n{body}", body.len());
        let next = format!("\r\n{START}\r\n\n{START}{twice}\r\n");
        for size in [1, 3, 64, 10_000] {
            assert_eq!(refused_at(&whole, size), None, "{size}");
            assert!(refused_at(&format!("{whole}{next}"), size).is_some(), "{size}");
        }
        let before = whole.len() + "\r\n".len() + START.len() + "\r\n\n".len();
        assert_eq!(refused_at(&format!("{whole}{next}"), 10_000), Some(before));
        let chunks = format!("{START}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{body}");
        assert_eq!(refused_at(&chunks, 10_000), None, "hyper reads no request behind chunks");
    }
}
