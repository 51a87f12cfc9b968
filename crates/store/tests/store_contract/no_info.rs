//! A Redis that refuses INFO inside scripts and answers it outside, as some managed services do: a relay before a server, which
//! spoils the word in the texts of scripts.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const ASKS: &[u8] = b"redis.pcall('INFO'";
/// As long, and no command.
const SPOILT: &[u8] = b"redis.pcall('IFNO'";

/// The port of a relay to the server at `to`. It runs as long as the test's runtime.
pub(crate) async fn relay(to: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass(client, to));
        }
    });
    port
}

async fn pass(client: TcpStream, to: u16) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asked = async {
        let mut kept = Vec::new();
        while from_client.read_buf(&mut kept).await.is_ok_and(|count| count > 0) {
            while let Some(at) = kept.windows(ASKS.len()).position(|part| part == ASKS) {
                kept[at..at + ASKS.len()].copy_from_slice(SPOILT);
            }
            // A word that may have begun waits for its rest.
            let begun = (1..ASKS.len()).rev().find(|len| kept.ends_with(&ASKS[..*len])).unwrap_or(0);
            let rest = kept.split_off(kept.len() - begun);
            if to_server.write_all(&std::mem::replace(&mut kept, rest)).await.is_err() {
                return;
            }
        }
    };
    let answered = tokio::io::copy(&mut from_server, &mut to_client);
    tokio::select! {
        () = asked => {}
        _ = answered => {}
    }
}
