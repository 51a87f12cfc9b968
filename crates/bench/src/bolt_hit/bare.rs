//! The yardstick: a Bolt server that cuts the same requests out of the same chunks and answers the same bytes, and does
//! nothing else.

use std::path::PathBuf;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::client::{PULL, read_message};

/// The answer of the bare server, and the file where it writes its port.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// File with the replies to RUN and PULL.
    #[arg(long)]
    replies: PathBuf,
    /// File that the bound address is written to.
    #[arg(long)]
    addr_file: PathBuf,
}

/// SUCCESS with an empty map, in one chunk.
const SUCCESS: [u8; 7] = [0, 3, 0xB1, 0x70, 0xA0, 0, 0];
const RUN: u8 = 0x10;

/// Serves until it is killed.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let replies = Bytes::from(std::fs::read(&options.replies)?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let written = options.addr_file.with_extension("part");
    std::fs::write(&written, listener.local_addr()?.to_string())?;
    std::fs::rename(&written, &options.addr_file)?;
    loop {
        let (stream, _) = listener.accept().await?;
        // Ends with its client; the process ends with the benchmark.
        tokio::spawn(converse(stream, replies.clone()));
    }
}

async fn converse(stream: TcpStream, replies: Bytes) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut handshake = [0; 20];
    stream.read_exact(&mut handshake).await?;
    stream.write_all(&[0, 0, 4, 5]).await?;
    let mut message = Vec::new();
    loop {
        read_message(&mut stream, &mut message).await?;
        match message.get(1) {
            // It has its answer together with PULL.
            Some(&RUN) => {}
            Some(&PULL) => stream.write_all(&replies).await?,
            _ => stream.write_all(&SUCCESS).await?,
        }
    }
}
