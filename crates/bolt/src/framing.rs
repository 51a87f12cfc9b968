//! Framing: whole messages to and from the stream, in Bolt's chunks. It knows nothing about a message's content.

use std::io::ErrorKind;
use std::pin::Pin;
use std::task::{Context, Poll};

use boltr::chunk::ChunkWriter;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, ReadBuf};

use crate::copying::make_room;
use crate::error::RunFault;
use crate::transport::Duplex;

/// Bytes that are read without a pause.
const READ_BYTES_MAX: usize = 256 << 10;
/// The start of a RECORD message: a structure of one field.
const RECORD_HEAD: [u8; 2] = [0xB1, 0x71];

/// Why a message was not read or written.
#[derive(Debug)]
pub(crate) enum StreamFault {
    /// The stream broke or ended.
    Cut(String),
    /// The message is larger than allowed.
    TooLarge,
}

impl From<StreamFault> for RunFault {
    fn from(fault: StreamFault) -> Self {
        match fault {
            StreamFault::Cut(reason) => Self::Cut(reason),
            StreamFault::TooLarge => Self::Protocol("a message that is too large".to_owned()),
        }
    }
}

/// Frames the messages and sends them in one write.
pub(crate) async fn write_messages(
    stream: &mut BufReader<Box<dyn Duplex>>,
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
pub(crate) fn has_message(stream: &BufReader<Box<dyn Duplex>>) -> bool {
    let buffered = stream.buffer();
    let len = buffered.first_chunk::<2>().map_or(0, |header| usize::from(u16::from_be_bytes(*header)));
    // Two bytes before it and two behind it.
    len > 0 && buffered.len() >= len + 4
}

/// Whether that message is a record.
pub(crate) fn has_record(stream: &BufReader<Box<dyn Duplex>>) -> bool {
    has_message(stream) && stream.buffer()[2..].starts_with(&RECORD_HEAD)
}

/// Reads the next message. It skips NOOPs, the empty messages that show that the server lives.
///
/// A message of megabytes is read into memory that was not cleared before, and pauses for other tasks.
pub(crate) async fn read_message(
    stream: &mut BufReader<Box<dyn Duplex>>,
    bytes_max: usize,
) -> Result<Vec<u8>, StreamFault> {
    let cut = |error: std::io::Error| StreamFault::Cut(error.to_string());
    let mut reader = PausingReader { stream, since_pause_bytes: 0 };
    let mut message = Vec::new();
    loop {
        let chunk_len = usize::from(reader.read_u16().await.map_err(cut)?);
        if chunk_len == 0 && !message.is_empty() {
            return Ok(message);
        }
        if message.len().saturating_add(chunk_len) > bytes_max {
            return Err(StreamFault::TooLarge);
        }
        make_room(&mut message, chunk_len).await;
        let mut chunk = (&mut reader).take(chunk_len as u64);
        while chunk.limit() > 0 {
            if chunk.read_buf(&mut message).await.map_err(cut)? == 0 {
                return Err(cut(ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

/// Lets other tasks run between parts of a long message. A server on another core may send as fast as this node reads,
/// and then no read ever waits: 8 MiB kept a worker for 4 ms.
struct PausingReader<'a> {
    stream: &'a mut BufReader<Box<dyn Duplex>>,
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
