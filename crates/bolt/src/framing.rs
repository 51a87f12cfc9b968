//! Framing: whole messages to and from the stream, in Bolt's chunks. It knows nothing about a message's content.

use std::io::ErrorKind;
use std::pin::Pin;
use std::task::{Context, Poll};

use boltr::chunk::ChunkWriter;
use bytes::Bytes;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, ReadBuf};

use crate::copying::make_room;
use crate::error::RunFault;
use crate::records::{RECORD_BYTES_MAX, RECORD_BYTES_UNRESERVED};
use crate::run::{RecordPlace, Room};
use crate::watched_stream::WatchedStream;

/// Bytes that are read without a pause.
const READ_BYTES_MAX: usize = 256 << 10;
/// Steps in which a large record asks for room.
const ROOM_STEP_BYTES: usize = 1 << 20;
/// The end of a message: a chunk of no bytes.
const END: [u8; 2] = [0, 0];
/// The start of a RECORD message: a structure of one field.
const RECORD_HEAD: [u8; 2] = [0xB1, 0x71];

/// Why a message was not read or written.
#[derive(Debug)]
pub(crate) enum StreamFault {
    /// The stream broke or ended.
    Cut(String),
    /// The message is larger than allowed.
    TooLarge,
    /// There is no room for a record of this size now.
    NoRoom,
}

impl From<StreamFault> for RunFault {
    fn from(fault: StreamFault) -> Self {
        match fault {
            StreamFault::Cut(reason) => Self::Cut(reason),
            StreamFault::TooLarge => Self::Protocol("a message that is too large".to_owned()),
            StreamFault::NoRoom => Self::NoRoom,
        }
    }
}

/// Frames the messages and sends them in one write.
pub(crate) async fn write_messages(
    stream: &mut BufReader<WatchedStream>,
    messages: &[Vec<u8>],
) -> Result<(), StreamFault> {
    let cut = |error: std::io::Error| StreamFault::Cut(error.to_string());
    let mut framed = Vec::new();
    for message in messages {
        // Into memory: this write neither fails nor waits.
        let framing = ChunkWriter::new(&mut framed).write_message(message).await;
        framing.map_err(|error| StreamFault::Cut(error.to_string()))?;
    }
    stream.write_all(&framed).await.map_err(cut)?;
    stream.flush().await.map_err(cut)
}

/// Whether a whole message of one chunk has been read from the socket already.
pub(crate) fn has_message(stream: &BufReader<WatchedStream>) -> bool {
    let buffered = stream.buffer();
    let len = buffered.first_chunk::<2>().map_or(0, |header| usize::from(u16::from_be_bytes(*header)));
    // Two bytes before it and two behind it.
    len > 0 && buffered.len() >= len + 4
}

/// Whether that message is a record.
pub(crate) fn has_record(stream: &BufReader<WatchedStream>) -> bool {
    has_message(stream) && stream.buffer()[2..].starts_with(&RECORD_HEAD)
}

/// Takes a whole message of one chunk that has been read from the socket already, if it has no more than these bytes. Most
/// records are such messages, and a result may have millions.
fn take_buffered(stream: &mut BufReader<WatchedStream>, bytes_max: usize) -> Option<Vec<u8>> {
    let (header, rest) = stream.buffer().split_first_chunk::<2>()?;
    let len = usize::from(u16::from_be_bytes(*header));
    let message = rest.get(..len).filter(|_| len > 0 && len <= bytes_max)?;
    if !rest[len..].starts_with(&END) {
        return None;
    }
    let message = message.to_vec();
    Pin::new(stream).consume(2 + len + END.len());
    Some(message)
}

/// Reads the next message. It skips NOOPs, the empty messages that show that the server lives.
///
/// A message of megabytes is read into memory that was not cleared before, and pauses for other tasks.
pub(crate) async fn read_message(
    stream: &mut BufReader<WatchedStream>,
    bytes_max: usize,
) -> Result<Vec<u8>, StreamFault> {
    Ok(read_chunks(stream, bytes_max, None).await?.bytes)
}

/// Reads the next message of a result whose rest the caller takes: a record, mostly. If it is large, it has a place in the room from
/// before its bytes are read.
pub(crate) async fn read_record(
    stream: &mut BufReader<WatchedStream>,
    room: &dyn Room,
) -> Result<PlacedMessage, StreamFault> {
    read_chunks(stream, RECORD_BYTES_MAX, Some(room)).await
}

/// A message, and its place if it is large.
pub(crate) struct PlacedMessage {
    pub(crate) bytes: Vec<u8>,
    place: Option<Box<dyn RecordPlace>>,
}

impl PlacedMessage {
    /// The bytes from `at` on, which hold the place as long as they are held.
    pub(crate) fn kept_from(self, at: usize) -> Bytes {
        match &self.place {
            Some(_) => Bytes::from_owner(self).slice(at..),
            None => Bytes::from(self.bytes).slice(at..),
        }
    }
}

impl From<Vec<u8>> for PlacedMessage {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, place: None }
    }
}

impl AsRef<[u8]> for PlacedMessage {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

async fn read_chunks(
    stream: &mut BufReader<WatchedStream>,
    bytes_max: usize,
    room: Option<&dyn Room>,
) -> Result<PlacedMessage, StreamFault> {
    if let Some(bytes) = take_buffered(stream, bytes_max) {
        return Ok(bytes.into());
    }
    let cut = |error: std::io::Error| StreamFault::Cut(error.to_string());
    let mut reader = PausingReader { stream, since_pause_bytes: 0 };
    let (mut message, mut granted) = (PlacedMessage::from(Vec::new()), RECORD_BYTES_UNRESERVED);
    loop {
        let chunk_len = usize::from(reader.read_u16().await.map_err(cut)?);
        if chunk_len == 0 && !message.bytes.is_empty() {
            return Ok(message);
        }
        let needed = message.bytes.len().saturating_add(chunk_len);
        if needed > bytes_max {
            return Err(StreamFault::TooLarge);
        }
        match room {
            Some(room) if needed > granted => {
                granted = needed.next_multiple_of(ROOM_STEP_BYTES);
                if !message.place.get_or_insert_with(|| room.record()).grow(granted) {
                    return Err(StreamFault::NoRoom);
                }
                // Once, and as much as it may need: pages that are not written take no memory, and a buffer that grows takes twice as
                // much while it is copied.
                let len = message.bytes.len();
                make_room(&mut message.bytes, bytes_max - len).await;
            }
            _ => make_room(&mut message.bytes, chunk_len).await,
        }
        let mut chunk = (&mut reader).take(chunk_len as u64);
        while chunk.limit() > 0 {
            if chunk.read_buf(&mut message.bytes).await.map_err(cut)? == 0 {
                return Err(cut(ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

/// Lets other tasks run between parts of a long message. A server on another core may send as fast as this node reads,
/// and then no read ever waits: 8 MiB kept a worker for 4 ms.
struct PausingReader<'a> {
    stream: &'a mut BufReader<WatchedStream>,
    since_pause_bytes: usize,
}

impl AsyncRead for PausingReader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.since_pause_bytes >= READ_BYTES_MAX {
            self.since_pause_bytes = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = into.filled().len();
        let polled = Pin::new(&mut *self.stream).poll_read(context, into);
        self.since_pause_bytes += into.filled().len() - before;
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn stream_of(bytes: Vec<u8>) -> BufReader<WatchedStream> {
        let (mut far, near) = tokio::io::duplex(bytes.len().max(1));
        far.write_all(&bytes).await.unwrap();
        BufReader::new(WatchedStream::new(Box::new(near)))
    }

    fn chunked(message: &[u8], chunk_bytes: usize) -> Vec<u8> {
        let chunks = message.chunks(chunk_bytes);
        let mut bytes: Vec<u8> =
            chunks.flat_map(|chunk| [&(chunk.len() as u16).to_be_bytes(), chunk].concat()).collect();
        bytes.extend_from_slice(&END);
        bytes
    }

    /// Messages of one chunk and of several, small and long, with NOOPs between them, wherever the buffer ends.
    #[tokio::test]
    async fn messages_come_whole_and_in_order() {
        let messages: Vec<Vec<u8>> =
            (0..400_u32).map(|n| vec![n as u8; 1 + (n as usize * 37) % 900]).collect();
        let long = vec![9; 3 * READ_BYTES_MAX];
        let mut bytes: Vec<u8> = Vec::new();
        for (place, message) in messages.iter().enumerate() {
            bytes.extend(chunked(message, if place % 3 == 0 { 100 } else { usize::from(u16::MAX) }));
            bytes.extend_from_slice(if place % 7 == 0 { &END } else { &[] });
        }
        bytes.extend(chunked(&long, usize::from(u16::MAX)));
        let mut stream = stream_of(bytes).await;
        for message in messages.iter().chain([&long]) {
            assert_eq!(&read_message(&mut stream, long.len()).await.unwrap(), message);
        }
        assert!(matches!(read_message(&mut stream, 1).await, Err(StreamFault::Cut(_))), "the end");
    }

    #[tokio::test]
    async fn a_message_over_the_bound_is_refused() {
        for chunk_bytes in [10, 100] {
            let bytes = chunked(&[7; 100], chunk_bytes);
            assert_eq!(read_message(&mut stream_of(bytes.clone()).await, 100).await.unwrap().len(), 100);
            let refused = read_message(&mut stream_of(bytes).await, 99).await;
            assert!(matches!(refused, Err(StreamFault::TooLarge)));
        }
    }
}
