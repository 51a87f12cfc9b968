//! SIGTERM and SIGINT, which end this process, and SIGHUP, which does not. [`Stop`] receives the first two from its creation on. The first process of a container has no default
//! action for these signals, so a signal before that would be lost.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGHUP: the order to read the configuration again. From its creation on the signal ends no process any more.
pub struct Hangup(Signal);

impl Hangup {
    /// Receives the signal from now on.
    ///
    /// # Errors
    /// When the operating system refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Returns at the next signal. A signal since the last call counts.
    pub async fn signalled(&mut self) {
        self.0.recv().await;
    }
}

/// The two signals that order this process to end.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Receives signals from now on.
    ///
    /// # Errors
    /// When the operating system refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Returns at the next signal. A signal since the last call counts.
    pub async fn signalled(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
