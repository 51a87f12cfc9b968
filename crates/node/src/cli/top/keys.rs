//! The keys of `hopcache top`. The terminal gives each key at once while this lives, and is as before afterwards.

use std::io::{IsTerminal as _, Read as _};
use std::process::{Command, Stdio};

use tokio::sync::mpsc;

use super::frame::Order;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// `q`: the end.
    End,
    /// `s`: another order of the nodes.
    Sort,
    /// `p`: the frame stays, or goes on.
    Pause,
}

impl Key {
    fn of(byte: u8) -> Option<Self> {
        match byte {
            b'q' | b'Q' => Some(Self::End),
            b's' | b'S' => Some(Self::Sort),
            b'p' | b'P' | b' ' => Some(Self::Pause),
            _ => None,
        }
    }
}

/// Keys that come from a terminal.
pub(super) struct Keys {
    pressed: mpsc::Receiver<Key>,
    /// The terminal's settings of before, as `stty` writes them.
    before: String,
}

/// Keys that wait. More of them say nothing new.
const WAITING_MAX: usize = 16;

impl Keys {
    /// The keys of the terminal at stdin. `None` if there is none, or if it takes no settings: then Ctrl-C ends it, as ever.
    pub(super) fn of_terminal() -> Option<Self> {
        if !std::io::stdin().is_terminal() {
            return None;
        }
        let before = stty(&["-g"])?;
        // Signals stay: Ctrl-C ends the program.
        stty(&["-icanon", "-echo", "min", "1"])?;
        let (sender, pressed) = mpsc::channel(WAITING_MAX);
        // A thread of its own, which ends with the process: nothing ends a read of a terminal.
        std::thread::spawn(move || {
            for byte in std::io::stdin().lock().bytes() {
                let Ok(byte) = byte else { return };
                if let Some(key) = Key::of(byte)
                    && sender.blocking_send(key).is_err()
                {
                    return;
                }
            }
        });
        Some(Self { pressed, before: before.trim().to_owned() })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        stty(&[&self.before]);
    }
}

/// The next key; never, without a terminal.
pub(super) async fn next(keys: Option<&mut Keys>) -> Key {
    if let Some(keys) = keys
        && let Some(key) = keys.pressed.recv().await
    {
        return key;
    }
    std::future::pending().await
}

/// The last line.
pub(super) fn help(has_keys: bool, order: Order, is_paused: bool) -> String {
    if !has_keys {
        return "Ctrl-C ends it.".to_owned();
    }
    let paused = if is_paused { "goes on" } else { "pauses" };
    format!("q ends it   p {paused}   s sorts (now {})", order.word())
}

/// Sets or asks the terminal at stdin. `None` if that fails.
fn stty(settings: &[&str]) -> Option<String> {
    let mut command = Command::new("stty");
    let output = command.args(settings).stdin(Stdio::inherit()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_meaning_each_and_the_last_line_names_them() {
        let of = |text: &str| text.bytes().map(Key::of).collect::<Vec<_>>();
        assert_eq!(of("qsp x"), [Some(Key::End), Some(Key::Sort), Some(Key::Pause), Some(Key::Pause), None]);
        assert_eq!(help(true, Order::Ring, false), "q ends it   p pauses   s sorts (now as in the ring)");
        assert_eq!(help(false, Order::Ring, false), "Ctrl-C ends it.");
    }
}
