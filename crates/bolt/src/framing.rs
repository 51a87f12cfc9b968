//! Framing: whole messages to and from the stream, in Bolt's chunks. It knows nothing about a message's content.

use boltr::BoltError;
use boltr::chunk::{ChunkReader, ChunkWriter};
use bytes::BytesMut;
use tokio::io::{AsyncWriteExt, BufReader};

use crate::error::RunFault;
use crate::transport::Duplex;

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
pub(crate) async fn read_message(
    stream: &mut BufReader<Box<dyn Duplex>>,
    bytes_max: usize,
) -> Result<BytesMut, StreamFault> {
    // The reader keeps nothing between messages, so one for each call loses no bytes.
    let mut reader = ChunkReader::new(stream);
    reader.set_max_message_size(bytes_max);
    loop {
        match reader.read_message().await {
            Ok(message) if message.is_empty() => {}
            Ok(message) => return Ok(message),
            // Its only protocol error is the size.
            Err(BoltError::Protocol(_)) => return Err(StreamFault::TooLarge),
            Err(error) => return Err(StreamFault::Cut(error.to_string())),
        }
    }
}
