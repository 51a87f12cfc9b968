//! One Bolt connection: the order of its handshake, requests and replies, and how a RESET overtakes the requests before
//! it. It works over any stream: plain, TLS, or a WebSocket in one of the two.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hopcache_bolt::server::{Inbox, InboxBounds, InboxFault, Kind, ReceivedMessage, State, Version};
use hopcache_core::limits;
use hopcache_net::body_budget::Reservation;
use hopcache_net::client_addr::ClientAddr;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::BoltFront;
use super::failure::BoltFailure;
use super::incoming::{Gone, Incoming};
use super::outbox::Outbox;
use super::session::Session;
use super::websocket::{self, Asked, Directions};

const fn bounds(message_bytes_max: usize) -> InboxBounds {
    InboxBounds {
        message_bytes_max,
        stranger_bytes_max: limits::BOLT_STRANGER_BYTES_MAX,
        waiting_max: limits::BOLT_WAITING_MAX,
        waiting_bytes_max: limits::BOLT_WAITING_BYTES_MAX,
    }
}

/// Serves one connection to its end.
pub(super) async fn serve<T>(
    stream: T,
    front: Arc<BoltFront>,
    client: Option<ClientAddr>,
    stop: CancellationToken,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let log_on_by = Instant::now() + Duration::from_millis(limits::BOLT_LOGON_MS_MAX);
    let document = |host: Option<String>| -> BoxFuture<'_, String> {
        let front = &front;
        Box::pin(async move { front.discovery(host.as_deref()).await })
    };
    let asked = Asked { hosts: front.shared.hosts.as_deref(), document: &document };
    let opened = tokio::select! {
        () = stop.cancelled() => return,
        opened = websocket::directions(stream, log_on_by, asked) => opened,
    };
    let Some(Directions { reader, mut writer }) = opened else { return };
    let newest = front.server().await.newest;
    let (bodies, message_bytes_max) = (Arc::clone(&front.shared.bodies), front.shared.message_bytes_max);
    let inbox = Inbox::new(newest, bounds(message_bytes_max));
    let mut incoming = Incoming::new(reader, inbox, (bodies, message_bytes_max));
    let shaken = tokio::select! {
        () = stop.cancelled() => return,
        shaken = timeout_at(log_on_by, shake(&mut incoming, &mut writer)) => shaken,
    };
    let Ok(Some(version)) = shaken else { return };
    let id = front.connections.fetch_add(1, Ordering::Relaxed);
    let mut session = Session::new(front, version, (id, client), Outbox::new(writer));
    let end = converse(&mut incoming, &mut session, log_on_by, &stop).await;
    let _ = session.out.flush().await;
    session.out.close().await;
    drop(session);
    if end == End::Refused {
        tokio::select! {
            () = stop.cancelled() => {}
            () = incoming.linger() => {}
        }
    }
}

/// The handshake. `None` if there is no version in common; the client has that answer already.
async fn shake<R, W>(incoming: &mut Incoming<R>, writer: &mut W) -> Option<Version>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut reply = Vec::new();
    loop {
        incoming.read(&mut reply).await.ok()?;
        writer.write_all(&reply).await.ok()?;
        writer.flush().await.ok()?;
        reply.clear();
        if let Some(version) = incoming.version() {
            return Some(version);
        }
        if let Err(fault) = incoming.next() {
            tracing::debug!(%fault, "no Bolt handshake");
            let _ = writer.shutdown().await;
            return None;
        }
    }
}

async fn converse<R: AsyncRead + Unpin>(
    incoming: &mut Incoming<R>,
    session: &mut Session,
    log_on_by: Instant,
    stop: &CancellationToken,
) -> End {
    while session.state() != State::Defunct {
        let (received, room) = match incoming.next() {
            Ok(Some(next)) => next,
            Ok(None) => {
                if let Some(why) = incoming.refused() {
                    session.refuse(why);
                    return End::Refused;
                }
                match wait(incoming, session, log_on_by, stop).await {
                    Ok(()) => continue,
                    Err(Gone) => return End::Gone,
                }
            }
            Err(fault) => {
                session.refuse(&failure_of(&fault));
                return End::Refused;
            }
        };
        let kind = received.kind;
        if kind != Kind::Reset && incoming.has_reset() && is_interruptible(kind) {
            session.interrupt();
        }
        session.set_pull_behind(if kind == Kind::Run { incoming.pull_behind() } else { None });
        let handled = handle(incoming, session, received, room).await;
        incoming.set_principal(session.accepted_identity().map(|identity| identity.fingerprint));
        if handled.is_err() {
            return End::Gone;
        }
    }
    End::Refused
}

/// How a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client has gone, or has to go.
    Gone,
    /// The node told the client why, or the client said GOODBYE.
    Refused,
}

/// Sends the replies so far and waits for more requests. A connection without an open result or transaction ends when
/// the node stops. A connection that does not log on in time ends too.
async fn wait<R: AsyncRead + Unpin>(
    incoming: &mut Incoming<R>,
    session: &mut Session,
    log_on_by: Instant,
    stop: &CancellationToken,
) -> Result<(), Gone> {
    session.out.flush().await.map_err(|_| Gone)?;
    let is_idle = matches!(session.state(), State::Ready | State::Failed | State::Interrupted)
        || !session.is_logged_on();
    let mut none = Vec::new();
    let reading = incoming.read(&mut none);
    let is_logged_on = session.is_logged_on();
    let until_log_on = async move {
        if !is_logged_on {
            tokio::time::sleep_until(log_on_by).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        read = reading => read,
        () = stop.cancelled(), if is_idle => Err(Gone),
        () = session.front.engine.lifecycle().turned_away() => Err(Gone),
        () = until_log_on => Err(Gone),
    }
}

/// Carries one request out, and reads on meanwhile. A RESET drops the request, and so does the end of the connection.
async fn handle<R: AsyncRead + Unpin>(
    incoming: &mut Incoming<R>,
    session: &mut Session,
    received: ReceivedMessage,
    room: Reservation,
) -> Result<(), Gone> {
    let received_kind = received.kind;
    let is_interruptible = is_interruptible(received_kind);
    let mut none = Vec::new();
    {
        let mut handling = std::pin::pin!(session.handle(received, room));
        loop {
            let may_read = incoming.may_read();
            tokio::select! {
                biased;
                () = &mut handling => return Ok(()),
                read = incoming.read(&mut none), if may_read => read?,
            }
            if is_interruptible && incoming.has_reset() {
                break;
            }
        }
    }
    session.interrupted(received_kind).await;
    Ok(())
}

/// Whether a RESET ends it. COMMIT and ROLLBACK are awaited, because their effect would be unknown otherwise.
const fn is_interruptible(kind: Kind) -> bool {
    matches!(kind, Kind::Run | Kind::Pull | Kind::Discard | Kind::Begin | Kind::Route)
}

fn failure_of(fault: &InboxFault) -> BoltFailure {
    match fault {
        InboxFault::BadRequest(error) => BoltFailure::of_bad_request(error),
        InboxFault::TooLarge(error) => BoltFailure::own(
            "RequestTooLarge",
            format!("{error} (node.message_max). Send large data in several statements."),
        ),
        InboxFault::Unspoken(error) => BoltFailure::invalid(error.to_string()),
    }
}
