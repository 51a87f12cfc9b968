//! Whether a simulated process runs, is stopped, or is gone.

use tokio::sync::watch;

/// What a process can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It runs.
    On,
    /// It is stopped (SIGSTOP): whatever it waits for comes only after it goes on.
    Paused,
    /// It is killed: nothing it waits for ever comes.
    Off,
}

/// The power of one process.
#[derive(Debug, Clone)]
pub struct Switch {
    power: watch::Sender<Power>,
}

impl Default for Switch {
    fn default() -> Self {
        Self { power: watch::Sender::new(Power::On) }
    }
}

impl Switch {
    /// Sets it.
    pub fn set(&self, power: Power) {
        self.power.send_replace(power);
    }

    /// Reads it.
    #[must_use]
    pub fn power(&self) -> Power {
        *self.power.borrow()
    }

    /// Passes when the process runs.
    pub async fn on(&self) {
        let mut power = self.power.subscribe();
        let _ = power.wait_for(|power| *power == Power::On).await;
    }

    /// Passes when the process is gone.
    pub async fn off(&self) {
        let mut power = self.power.subscribe();
        let _ = power.wait_for(|power| *power == Power::Off).await;
    }
}
