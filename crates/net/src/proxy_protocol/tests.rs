//! Headers of both versions as bytes, and over real sockets whose address is listed or not.

use std::net::Ipv6Addr;

use super::*;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const CLIENT: &str = "192.0.2.7:4711";

/// Version 2, with what comes behind its addresses.
fn binary(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
    let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
    [&SIGNATURE[..], &[0x20 | command, family], &length, addresses].concat()
}

fn ipv4() -> Vec<u8> {
    [&[192, 0, 2, 7, 10, 0, 0, 1][..], &4711_u16.to_be_bytes(), &7687_u16.to_be_bytes()].concat()
}

async fn taken(bytes: &[u8]) -> Result<(Option<SocketAddr>, Vec<u8>), HeaderFault> {
    let mut stream = bytes;
    let client = client_in(&read(&mut stream).await?)?;
    Ok((client, stream.to_vec()))
}

#[tokio::test]
async fn both_versions_name_the_client_and_leave_what_is_behind() {
    let six = Ipv6Addr::LOCALHOST.octets();
    let six = [&six[..], &six, &4711_u16.to_be_bytes(), &7687_u16.to_be_bytes()].concat();
    let with_rest = [ipv4(), vec![0x04, 0, 2, 7, 7]].concat();
    for (header, client) in [
        (b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 7687\r\n".to_vec(), Some(CLIENT)),
        (b"PROXY TCP6 ::1 ::1 4711 7687\r\n".to_vec(), Some("[::1]:4711")),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        (b"PROXY UNKNOWN ffff::1 ffff::1 1 2\r\n".to_vec(), None),
        (binary(1, 0x11, &ipv4()), Some(CLIENT)),
        (binary(1, 0x11, &with_rest), Some(CLIENT)),
        (binary(1, 0x21, &six), Some("[::1]:4711")),
        // LOCAL: the balancer's own health check.
        (binary(0, 0x00, &[]), None),
        (binary(0, 0x11, &ipv4()), None),
        (binary(1, 0x12, &ipv4()), None),
    ] {
        let bytes = [&header[..], &[0x60, 0x60, 0xB0, 0x17]].concat();
        let (named, rest) = taken(&bytes).await.unwrap();
        assert_eq!(named, client.map(|addr| addr.parse().unwrap()), "{header:?}");
        assert_eq!(rest, [0x60, 0x60, 0xB0, 0x17], "{header:?}");
    }
}

#[tokio::test]
async fn what_is_no_header_is_refused() {
    let long = format!("PROXY TCP4 {}\r\n", "1".repeat(TEXT_BYTES_MAX));
    let endless = [&SIGNATURE[..], &[0x21, 0x11, 0xFF, 0xFF], &[0; 64]].concat();
    for (bytes, expected) in [
        (&b"\x60\x60\xB0\x17 and more of Bolt"[..], "no PROXY header"),
        (b"GET / HTTP/1.1\r\n\r\n", "no PROXY header"),
        (b"PROXY TCP4 192.0.2.7 10.0.0.1 4711", "ended before"),
        (b"PROXY TCP4 999.0.2.7 10.0.0.1 4711 7687\r\n", "cannot be read"),
        (b"PROXY TCP5 192.0.2.7 10.0.0.1 4711 7687\r\n", "cannot be read"),
        (long.as_bytes(), "over"),
        (&endless, "over"),
        (&binary(7, 0x11, &ipv4()), "cannot be read"),
        (&binary(1, 0x11, &[1, 2]), "cannot be read"),
    ] {
        let fault = taken(bytes).await.unwrap_err().to_string();
        assert!(fault.contains(expected), "{bytes:?}: {fault}");
    }
}

proptest! {
    /// Any bytes: no panic, and at most the bound is taken.
    #[test]
    fn any_bytes_are_read_within_the_bound(start in 0_usize..3, tail in prop::collection::vec(any::<u8>(), 0..4_096)) {
        let bytes = [[&b""[..], TEXT, SIGNATURE][start], &tail].concat();
        let mut stream = &bytes[..];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        if let Ok(header) = runtime.block_on(read(&mut stream)) {
            prop_assert!(header.len() <= PROXY_HEADER_BYTES_MAX);
            prop_assert_eq!([&header, stream].concat(), bytes.clone());
            let _ = client_in(&header);
        }
    }
}

/// The two ends of a connection, and what is sent on it.
async fn sent(bytes: &[&[u8]]) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (socket, _) = listener.accept().await.unwrap();
    for bytes in bytes {
        client.write_all(bytes).await.unwrap();
    }
    (socket, client)
}

fn local() -> Proxies {
    Proxies::new(["127.0.0.0/8".parse().unwrap()])
}

#[tokio::test]
async fn only_a_listed_address_is_believed() {
    let header = binary(1, 0x11, &ipv4());
    let elsewhere = Proxies::new(["10.0.0.0/8".parse().unwrap()]);
    for (proxies, rule, is_believed) in [
        (local(), HeaderUse::Required, true),
        (local(), HeaderUse::Optional, true),
        (elsewhere.clone(), HeaderUse::Required, false),
        (elsewhere, HeaderUse::Optional, false),
        (Proxies::default(), HeaderUse::Required, false),
    ] {
        let (mut socket, client) = sent(&[&header]).await;
        let end = other_end(&mut socket, (&proxies, rule)).await.unwrap();
        let own = client.local_addr().unwrap();
        assert_eq!(end.client, Some(if is_believed { CLIENT.parse().unwrap() } else { own }));
        // The client that the header names is no balancer: what it says of others is not believed.
        assert!(!end.is_listed_proxy());
        // What is not believed stays in the stream, where no protocol reads it.
        drop(client);
        let mut left = Vec::new();
        socket.read_to_end(&mut left).await.unwrap();
        assert_eq!(left, if is_believed { Vec::new() } else { header.clone() }, "{rule:?}");
    }
}

#[tokio::test]
async fn http_of_a_balancer_needs_no_header() {
    for request in
        [&b"POST / HTTP/1.1\r\n"[..], b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n", b"\x16\x03\x01"]
    {
        let (mut socket, _client) = sent(&[request]).await;
        let end = other_end(&mut socket, (&local(), HeaderUse::Optional)).await.unwrap();
        assert!(end.is_listed_proxy());
        let mut first = vec![0; request.len()];
        socket.read_exact(&mut first).await.unwrap();
        assert_eq!(first, request, "no byte is taken");
        let (mut socket, _client) = sent(&[request, &[b' '; 16]]).await;
        let fault = other_end(&mut socket, (&local(), HeaderUse::Required)).await.unwrap_err();
        assert!(matches!(fault, HeaderFault::Missing), "{fault}");
    }
}
