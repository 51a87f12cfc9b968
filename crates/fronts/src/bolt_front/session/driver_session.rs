//! Which statements of a connection a driver asks together, in one of its sessions. Drivers name none: a session of theirs takes a
//! connection of the pool, asks the statements of a page within milliseconds, and gives it back, to be taken for another page.
//! So a pause parts two of them, and so do RESET and LOGON.

use hopcache_core::limits::BOLT_SESSION_PAUSE_MS;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ask::SessionTag;

/// The present session of a connection's driver.
#[derive(Debug, Default)]
pub(super) struct DriverSession {
    /// How many sessions of this connection have ended.
    part: u64,
    /// When the last message of this connection was answered.
    busy_until: MonoTime,
    /// Computed for the first statement.
    tag: Option<SessionTag>,
}

impl DriverSession {
    /// The session of a statement that came at `came`. `tag_of`: the tag of a part of the connection.
    pub(super) fn at(
        &mut self,
        came: MonoTime,
        tag_of: impl FnOnce(u64) -> Option<SessionTag>,
    ) -> Option<SessionTag> {
        if came.since(self.busy_until) > Millis(BOLT_SESSION_PAUSE_MS) {
            self.end();
        }
        if self.tag.is_none() {
            self.tag = tag_of(self.part);
        }
        self.tag
    }

    /// A message of this connection was answered at `now`: a pause is the client's, not that of a slow statement.
    pub(super) const fn answered(&mut self, now: MonoTime) {
        self.busy_until = now;
    }

    /// What comes next is asked by another session of the driver.
    pub(super) fn end(&mut self) {
        self.part += 1;
        self.tag = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_or_a_reset_begins_another_session() {
        let mut driver = DriverSession::default();
        let mut at = |ms: u64, ends: bool| {
            if ends {
                driver.end();
            }
            let tag_of = |part| Some(SessionTag([u8::try_from(part).unwrap(); 16]));
            let tag = driver.at(MonoTime(ms * 1_000), tag_of);
            // Each statement takes a second.
            driver.answered(MonoTime((ms + 1_000) * 1_000));
            tag
        };
        let first = at(10_000, false);
        assert_eq!(at(11_000 + BOLT_SESSION_PAUSE_MS, false), first);
        let second = at(12_001 + 2 * BOLT_SESSION_PAUSE_MS, false);
        assert_ne!(second, first, "after a pause");
        assert_ne!(at(13_002 + 2 * BOLT_SESSION_PAUSE_MS, true), second, "after a RESET");
    }
}
