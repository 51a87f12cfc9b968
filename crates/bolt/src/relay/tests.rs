//! Silence, and large messages, on a connection in memory.

use super::*;

const LIMIT: Duration = Duration::from_secs(4);

fn relay() -> (Relay, tokio::io::DuplexStream) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let mut stream = WatchedStream::new(Box::new(near));
    stream.bound_silence(LIMIT);
    (Relay::over(stream, Version::new(5, 4)), far)
}

/// Silence is counted from the request, or from the last sign of life, and only while an answer is awaited.
#[tokio::test(start_paused = true)]
async fn a_relay_breaks_when_its_server_is_silent_for_too_long() {
    let (mut relay, mut far) = relay();
    let answer = [0, 3, 0xB1, 0x70, 0xA0, 0, 0];
    tokio::time::advance(10 * LIMIT).await;
    relay.queue(&bare(Kind::Commit.signature().0));
    relay.flush().await.unwrap();
    far.write_all(&answer).await.unwrap();
    let signs = relay.signs();
    assert_eq!(relay.receive().await.unwrap().0, ReplyKind::Success);
    assert_eq!(signs.count(), 1);
    tokio::time::advance(10 * LIMIT).await;
    let begun = Instant::now();
    relay.queue(&bare(Kind::Commit.signature().0));
    relay.flush().await.unwrap();
    let working = async {
        for _ in 0..5 {
            // tidy: the server's pace, on a paused clock
            tokio::time::sleep(LIMIT * 3 / 4).await;
            far.write_all(&[0, 0]).await.unwrap();
        }
    };
    let (received, ()) = tokio::join!(relay.receive(), working);
    assert_eq!(received.unwrap_err().0, "nothing came from it for 4 s");
    assert_eq!((begun.elapsed(), signs.count()), (LIMIT * 5 * 3 / 4 + LIMIT, 6));
}

/// D3: a large message goes into chunks as it is sent, and no more of it is held than one.
#[tokio::test]
async fn a_message_in_parts_arrives_as_one() {
    let (mut relay, mut far) = relay();
    let parts = [vec![1; 10], vec![2; 3 * CHUNK_BYTES + 7], Vec::new(), vec![3; CHUNK_BYTES]];
    let whole = parts.concat();
    relay.queue(&bare(Kind::Begin.signature().0));
    relay.queue_parts(parts.map(Bytes::from));
    let sending = async {
        relay.flush().await.unwrap();
        assert!(relay.output.capacity() <= 4 * CHUNK_BYTES, "{}", relay.output.capacity());
        relay
    };
    let receiving = async {
        let (mut chunks, mut input, mut received) = (Chunks::default(), BytesMut::new(), Vec::new());
        while received.len() < 2 {
            far.read_buf(&mut input).await.unwrap();
            while let Some(message) = chunks.next(&mut input, 1 << 20).unwrap() {
                received.push(message);
            }
        }
        received
    };
    let (relay, received) = tokio::join!(sending, receiving);
    assert_eq!(received[0], bare(Kind::Begin.signature().0));
    assert_eq!(received[1], whole);
    assert_eq!(relay.unanswered, 2);
}

/// A server that takes nothing is as silent as one that sends nothing.
#[tokio::test(start_paused = true)]
async fn a_relay_breaks_when_its_server_takes_nothing() {
    let (mut relay, _far) = relay();
    relay.queue(&vec![0; 1 << 17]);
    let begun = Instant::now();
    assert!(relay.flush().await.is_err());
    assert_eq!(begun.elapsed(), LIMIT);
}

/// A statement that ended before RESET came has ended, and may have committed a write. One whose records are lost is not shown.
#[tokio::test]
async fn a_reset_tells_how_the_last_request_ended() {
    let options = RelayOptions {
        user_agent: "test".to_owned(),
        connect_timeout: LIMIT,
        reset_timeout: LIMIT,
        silence_max: LIMIT,
        roots: Roots::of_system(),
        routed: None,
    };
    let (run, ended) = (vec![0xB1, 0x70, 0xA1, 0x81, b'f', 0x01], vec![0xB1, 0x70, 0xA0]);
    let (failed, ignored, record) = (vec![0xB1, 0x7F, 0xA0], vec![0xB0, 0x7E], vec![0xB1, 0x71, 0x90]);
    let bytes = |message: &Vec<u8>| Bytes::from(message.clone());
    // What comes before RESET's own answer, how many of that is read before, and what RESET tells.
    for (replies, read, told) in [
        (vec![&run, &ended], 1, Interrupted::Ended(bytes(&ended))),
        (vec![&run, &ended], 2, Interrupted::Ended(bytes(&ended))),
        (vec![&run, &ended], 0, Interrupted::Ended(bytes(&ended))),
        (vec![&run, &record, &ended], 1, Interrupted::EndedUnseen),
        (vec![&run, &failed], 1, Interrupted::Failed(bytes(&failed))),
        (vec![&failed, &ignored], 0, Interrupted::Failed(bytes(&failed))),
        (vec![&run, &ignored], 1, Interrupted::Unknown),
    ] {
        let (mut relay, mut far) = relay();
        relay.queue(&bare(Kind::Run.signature().0));
        relay.queue(&bare(Kind::Pull.signature().0));
        for reply in replies.iter().copied().chain([&ended]) {
            let mut framed = Vec::new();
            frame(&mut framed, reply);
            far.write_all(&framed).await.unwrap();
        }
        for _ in 0..read {
            relay.receive().await.unwrap();
        }
        assert_eq!(relay.reset(&options).await.unwrap(), told, "{replies:02X?}");
        assert!(relay.is_clean());
    }
}
