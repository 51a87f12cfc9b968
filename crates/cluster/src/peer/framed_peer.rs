//! Opens the framed connection to a peer, and owns its task, which reads until it ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::BytesMut;
use hopcache_core::limits::{
    PEER_OPEN_MS_MAX, PEER_READ_BYTES, PEER_UPGRADE_AGAIN_MS, PEER_WELCOME_BYTES_MAX,
};
use hopcache_core::node::NodeName;
use hopcache_engine::ports::PeerError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::SetOnce;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::PeerPath;
use super::auth::{ClusterKey, FRAMES_PROTOCOL, HELLO_HEADER, Hello, open_welcome};
use super::connections::{Connector, is_unheard, watch_peer};
use super::framed::{Ended, FramedConnection, Reading};
use super::frames::FrameKeys;

/// Why there is no framed connection.
#[derive(Debug, Clone)]
pub(super) enum OpenFault {
    /// The other side answered, and not with an upgrade: a balancer that knows none, or a listener that is full. It can be
    /// asked over HTTP, which also shows why.
    NotUpgraded,
    /// It closed the connection instead of an answer.
    Broken(String),
    Failed(PeerError),
}

/// The connection once it is open. Its task and its exchanges own it: when they have ended, its socket is closed.
type Opened = SetOnce<Result<Weak<FramedConnection>, OpenFault>>;

/// A framed connection that is being opened, is open, or has failed.
pub(super) struct FramedPeer {
    opened: Arc<Opened>,
    /// When the opening began.
    pub(super) since: Instant,
    _task: AbortOnDropHandle<()>,
}

impl FramedPeer {
    /// Starts to open a connection.
    pub(super) fn start(connector: Arc<Connector>, key: Arc<ClusterKey>, me: NodeName) -> Self {
        let opened = Arc::new(SetOnce::new());
        let task = serve(Arc::clone(&opened), connector, key, me);
        Self { opened, since: Instant::now(), _task: AbortOnDropHandle::new(tokio::spawn(task)) }
    }

    /// The connection, when it is open.
    pub(super) async fn connection(&self) -> Result<Arc<FramedConnection>, OpenFault> {
        // One that is given up while it opens is not taken out of use: `PEER_OPEN_MS_MAX` ends it soon.
        let opened = match self.opened.get() {
            Some(opened) => opened,
            None => self.opened.wait().await,
        };
        let connection = opened.as_ref().map_err(Clone::clone)?;
        connection.upgrade().ok_or_else(|| OpenFault::Broken("the connection has ended".into()))
    }

    /// Whether the next exchange may use it. The refusal to upgrade is believed for a while.
    pub(super) fn is_usable(&self) -> bool {
        match self.opened.get() {
            None => true,
            Some(Ok(connection)) => connection.upgrade().is_some_and(|open| open.is_usable()),
            Some(Err(OpenFault::NotUpgraded)) => {
                self.since.elapsed() < Duration::from_millis(PEER_UPGRADE_AGAIN_MS)
            }
            Some(Err(_)) => false,
        }
    }
}

/// The task of a connection: opens it, and reads until it ends.
async fn serve(opened: Arc<Opened>, connector: Arc<Connector>, key: Arc<ClusterKey>, me: NodeName) {
    let opening = timeout(Duration::from_millis(PEER_OPEN_MS_MAX), open(&connector, &key, me)).await;
    match opening.unwrap_or(Err(OpenFault::Failed(PeerError::TimedOut))) {
        Err(fault) => {
            if let OpenFault::Broken(_) = &fault {
                connector.note_broken();
            }
            let _ = opened.set(Err(fault));
        }
        Ok((connection, reading)) => {
            let connection = Arc::new(connection);
            let _ = opened.set(Ok(Arc::downgrade(&connection)));
            let ended = connection.read(reading).await;
            let ended = connection.ended_first(ended);
            if matches!(ended, Ended::Broken(_)) && connection.was_used() {
                connector.note_broken();
            }
            connection.end(&ended);
        }
    }
}

/// Connects, proves the cluster key and reads the welcome.
async fn open(
    connector: &Connector,
    key: &ClusterKey,
    me: NodeName,
) -> Result<(FramedConnection, Reading), OpenFault> {
    let mut stream = connector.connect().await.map_err(OpenFault::Failed)?;
    watch_peer(&stream);
    let broken = |error: std::io::Error| match is_unheard(&error) {
        true => OpenFault::Failed(PeerError::TimedOut),
        false => OpenFault::Broken(error.to_string()),
    };
    let hello = Hello::new(me);
    let request = format!(
        "GET {} HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: {FRAMES_PROTOCOL}\r\n{HELLO_HEADER}: {}\r\n\r\n",
        PeerPath::Probe.as_str(),
        connector.addr,
        hello.to_header(key)
    );
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut received = BytesMut::with_capacity(PEER_READ_BYTES);
    let head_len = loop {
        if let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        if received.len() > PEER_WELCOME_BYTES_MAX {
            return Err(OpenFault::NotUpgraded);
        }
        if stream.read_buf(&mut received).await.map_err(broken)? == 0 {
            return Err(OpenFault::Broken("closed without an answer".into()));
        }
    };
    if !received.split_to(head_len).starts_with(b"HTTP/1.1 101 ") {
        return Err(OpenFault::NotUpgraded);
    }
    let welcome = loop {
        if let Some(length) = received.first_chunk::<4>() {
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            if length > PEER_WELCOME_BYTES_MAX {
                return Err(OpenFault::Failed(PeerError::Refused("its welcome is too long".into())));
            }
            if received.len() >= 4 + length {
                break received.split_to(4 + length).split_off(4);
            }
        }
        if stream.read_buf(&mut received).await.map_err(broken)? == 0 {
            return Err(OpenFault::Broken("closed without a welcome".into()));
        }
    };
    let (who, id, _) = open_welcome(key, &hello, welcome.freeze())
        .map_err(|error| OpenFault::Failed(PeerError::Refused(format!("at {}: {error}", connector.addr))))?;
    let (sealer, opener) = FrameKeys::derive(key, &hello.sender, &id).asking();
    let (reader, writer) = stream.into_split();
    Ok((FramedConnection::new(who, writer, sealer), Reading { reader, received, opener }))
}
