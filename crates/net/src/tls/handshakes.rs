//! Where handshakes are computed: on one thread of their own, at a lower priority than the threads that serve.
//!
//! A handshake costs 0.2 to 5 ms of computing (a signature with an RSA key is the slow one), in one piece and without
//! a pause. On a worker thread all hits of that worker would wait for it. Any client that can connect can start
//! handshakes, so only this thread bounds their number a second. When more come than it can do, handshakes time out,
//! and established connections are served as before (F45).

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// Nice value of the thread: when all cores are busy it gets about a third of a worker's share.
const NICE: i32 = 5;

/// The thread of a node's handshakes. It ends when its last user is gone.
#[derive(Debug, Clone)]
pub struct Handshakes {
    thread: Handle,
    _end: Arc<DropGuard>,
}

impl Handshakes {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub async fn start() -> io::Result<Self> {
        let stop = CancellationToken::new();
        let end = Arc::new(stop.clone().drop_guard());
        let (started, runtime) = oneshot::channel();
        std::thread::Builder::new().name("hopcache-tls".to_owned()).spawn(move || {
            // An error is ignored: at the usual priority the system shares the cores evenly.
            let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
            // Sockets belong to the runtime that accepted them, so this one needs no driver.
            let built = tokio::runtime::Builder::new_current_thread().build();
            match built {
                Ok(runtime) => {
                    let _ = started.send(Ok(runtime.handle().clone()));
                    runtime.block_on(stop.cancelled());
                }
                Err(error) => drop(started.send(Err(error))),
            }
        })?;
        let thread = runtime.await.map_err(io::Error::other)??;
        Ok(Self { thread, _end: end })
    }

    /// Performs one handshake. Dropping the future ends it and closes the socket.
    pub(super) async fn perform(
        &self,
        config: Arc<ServerConfig>,
        socket: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let handshake = TlsAcceptor::from(config).accept(socket);
        let task = AbortOnDropHandle::new(self.thread.spawn(handshake));
        task.await.unwrap_or_else(|ended| Err(io::Error::other(ended)))
    }
}
