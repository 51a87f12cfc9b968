//! Framing: whole messages to and from the stream, in Bolt's chunks. It knows nothing about a message's content.

use std::io::ErrorKind;
use std::pin::Pin;
use std::task::{Context, Poll};

use boltr::chunk::ChunkWriter;
use bytes::Bytes;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, ReadBuf};

use crate::copying::make_room;
use crate::error::RunFault;
use crate::records::{METADATA_BYTES_MAX, RECORD_BYTES_MAX, RECORD_BYTES_UNRESERVED};
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
    match read_or_begin(stream, bytes_max).await? {
        MessageRead::Whole(bytes) => Ok(bytes),
        MessageRead::Begun(_) => Err(StreamFault::TooLarge),
    }
}

/// As [`read_message`], but a message that is too large is left where it is: [`read_record`] reads on.
pub(crate) async fn read_or_begin(
    stream: &mut BufReader<WatchedStream>,
    bytes_max: usize,
) -> Result<MessageRead, StreamFault> {
    if let Some(bytes) = take_buffered(stream, bytes_max) {
        return Ok(MessageRead::Whole(bytes));
    }
    let mut reader = PausingReader { stream, since_pause_bytes: 0 };
    let mut bytes = Vec::new();
    loop {
        let chunk_len = reader.chunk_len().await?;
        if chunk_len == 0 && !bytes.is_empty() {
            return Ok(MessageRead::Whole(bytes));
        }
        if bytes.len() + chunk_len > bytes_max {
            return Ok(MessageRead::Begun(BegunMessage { bytes, chunk_len }));
        }
        reader.append_chunk(&mut bytes, chunk_len).await?;
    }
}

/// Reads the next message of an open result, or the rest of one that was begun. If it is large, it has a place in the room from before
/// more of it is read.
pub(crate) async fn read_record(
    stream: &mut BufReader<WatchedStream>,
    begun: Option<BegunMessage>,
    room: &dyn Room,
) -> Result<PlacedMessage, StreamFault> {
    let BegunMessage { bytes, mut chunk_len } = match begun {
        Some(begun) => begun,
        None => match read_or_begin(stream, RECORD_BYTES_UNRESERVED).await? {
            MessageRead::Whole(bytes) => return Ok(bytes.into()),
            MessageRead::Begun(begun) => begun,
        },
    };
    let bytes_max = if bytes.starts_with(&RECORD_HEAD) { RECORD_BYTES_MAX } else { METADATA_BYTES_MAX };
    let (mut message, mut granted) = (PlacedMessage::from(bytes), RECORD_BYTES_UNRESERVED);
    let mut reader = PausingReader { stream, since_pause_bytes: 0 };
    while chunk_len > 0 {
        let needed = message.bytes.len() + chunk_len;
        if needed > bytes_max {
            return Err(StreamFault::TooLarge);
        }
        if needed > granted {
            granted = needed.next_multiple_of(ROOM_STEP_BYTES);
            if !message.place.get_or_insert_with(|| room.record()).grow(granted) {
                return Err(StreamFault::NoRoom);
            }
            // Once, and as much as it may need: pages that are not written take no memory, and a buffer that grows takes twice as
            // much while it is copied.
            let len = message.bytes.len();
            make_room(&mut message.bytes, bytes_max - len).await;
        }
        reader.append_chunk(&mut message.bytes, chunk_len).await?;
        chunk_len = reader.chunk_len().await?;
    }
    Ok(message)
}

/// As [`read_record`], for a caller who drops records. A large one is read past, whatever its size, and takes no room: `None` then.
pub(crate) async fn skip_record(
    stream: &mut BufReader<WatchedStream>,
    begun: Option<BegunMessage>,
) -> Result<Option<Vec<u8>>, StreamFault> {
    let BegunMessage { mut bytes, mut chunk_len } = match begun {
        Some(begun) => begun,
        None => match read_or_begin(stream, RECORD_BYTES_UNRESERVED).await? {
            MessageRead::Whole(bytes) => return Ok(Some(bytes)),
            MessageRead::Begun(begun) => begun,
        },
    };
    let is_record = bytes.starts_with(&RECORD_HEAD);
    let mut reader = PausingReader { stream, since_pause_bytes: 0 };
    while chunk_len > 0 {
        if is_record {
            bytes.clear();
        } else if bytes.len() + chunk_len > METADATA_BYTES_MAX {
            return Err(StreamFault::TooLarge);
        }
        reader.append_chunk(&mut bytes, chunk_len).await?;
        chunk_len = reader.chunk_len().await?;
    }
    Ok((!is_record).then_some(bytes))
}

/// The end of an attempt to read a message.
pub(crate) enum MessageRead {
    /// All of it.
    Whole(Vec<u8>),
    /// It is too large.
    Begun(BegunMessage),
}

/// A message of which some chunks were read.
pub(crate) struct BegunMessage {
    bytes: Vec<u8>,
    /// The length of the next chunk, which was read. 0: the message is whole.
    chunk_len: usize,
}

impl BegunMessage {
    /// A whole message, to be read again.
    pub(crate) fn whole(bytes: Vec<u8>) -> Self {
        Self { bytes, chunk_len: 0 }
    }
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

/// Lets other tasks run between parts of a long message. A server on another core may send as fast as this node reads,
/// and then no read ever waits: 8 MiB kept a worker for 4 ms.
struct PausingReader<'a> {
    stream: &'a mut BufReader<WatchedStream>,
    since_pause_bytes: usize,
}

impl PausingReader<'_> {
    /// The length of the next chunk; 0 at the end of a message.
    async fn chunk_len(&mut self) -> Result<usize, StreamFault> {
        Ok(usize::from(self.read_u16().await.map_err(cut)?))
    }

    /// Appends a chunk.
    async fn append_chunk(&mut self, to: &mut Vec<u8>, len: usize) -> Result<(), StreamFault> {
        make_room(to, len).await;
        let mut chunk = self.take(len as u64);
        while chunk.limit() > 0 {
            if chunk.read_buf(to).await.map_err(cut)? == 0 {
                return Err(cut(ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(())
    }
}

fn cut(error: std::io::Error) -> StreamFault {
    StreamFault::Cut(error.to_string())
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
