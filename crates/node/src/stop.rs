//! SIGTERM and SIGINT, heard from the moment this is made: a container's first process has no default
//! action for them, so one that came before anybody listened would be lost.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The two signals that tell this process to end.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the operating system refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Done at the next signal; one that came since the last call counts.
    pub async fn signalled(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
