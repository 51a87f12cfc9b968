//! Writes that change users or rights: whoever keeps what Neo4j has said about users is told, on all nodes, before the write
//! is answered.
//!
//! Such a write leaves a mark of Neo4j's database `system`, whatever database its client has named. So the mark reaches every
//! node in touch, and the write waits for the lease of a node that it does not reach, as for any mark (`broadcast`). A node
//! that takes the mark ends all acceptances of credentials from before it.
//!
//! A node out of touch relies on Neo4j's answer about a user for one lease at most ([`Writes::trusts_users_for`]), and asks
//! again before the next request. So where a node could not be told, the write waits for one lease more. Schedule:
//!   node A loses touch, and its lease ends · a client logs on at A, and Neo4j accepts · another node drops the user, and cannot
//!   tell A · A serves the client for the rest of that lease · the write is answered · A asks Neo4j.

use std::sync::{Arc, Weak};

use hopcache_core::bookmark::Position;
use hopcache_core::key::DatabaseTag;
use hopcache_core::node::NodeName;
use hopcache_core::tags::Touched;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{Change, WriteEvent, WritePosition, WriteRecord};

use crate::model::event::InvalidationWord;
use crate::model::ports::{Scope, Users, WriteOf};
use crate::writes::Writes;
use crate::writes::recent::ToldBy;

/// Neo4j's database of users and rights.
pub(super) const SYSTEM: &str = "system";

impl Writes {
    /// Who is told of changes of users and rights. Only the first call counts.
    pub fn tell_of_users(&self, users: Box<[Weak<dyn Users>]>) {
        let _ = self.users.set(users);
    }

    /// For how long this node may rely on what Neo4j has said about a user; `None`: until it hears of a change.
    #[must_use]
    pub fn trusts_users_for(&self, now: MonoTime) -> Option<Millis> {
        let lease = self.cache.lease();
        lease.lease_ms().filter(|_| !lease.is_held(now))
    }

    /// Takes a mark. A new one of `system` is a change of users or rights, or an unsettled one, which may be none.
    pub(super) fn take(&self, record: WriteRecord) -> Change {
        let change = self.cache.write_positions().take(record, self.context.now());
        self.took((record.name, record.written), change)
    }

    /// The same of a mark beside the writes that have left it.
    pub(super) fn take_beside(&self, record: WriteRecord) -> Change {
        let change = self.cache.write_positions().take_beside(record, self.context.now());
        self.took((record.name, record.written), change)
    }

    /// The same of a write, which this node or another one has told; `None`: of the store's log.
    pub(super) fn take_event(&self, event: &WriteEvent, by: Option<&NodeName>) -> Change {
        self.take_told((event, ToldBy::Write), by)
    }

    /// The same, with who has told it.
    pub(super) fn take_told(&self, (event, told): (&WriteEvent, ToldBy), by: Option<&NodeName>) -> Change {
        self.remember(event, told, by);
        let change = self.cache.write_positions().take_event(event, self.context.now());
        self.took((event.name, event.written), change)
    }

    fn took(&self, (name, written): (DatabaseTag, WritePosition), change: Change) -> Change {
        if name == self.system && change != Change::Known {
            // Who could not see that a node has two labels may see it with other rights.
            self.cache.write_positions().forget_exclusions();
            let is_certain = !written.is_unsettled();
            self.told_of_users()
                .for_each(|users| if is_certain { users.have_changed() } else { users.may_have_changed() });
        }
        change
    }

    /// A look has succeeded after the lease had run out.
    pub(super) fn was_out_of_touch(&self) {
        self.told_of_users().for_each(|users| users.may_have_changed());
    }

    fn told_of_users(&self) -> impl Iterator<Item = Arc<dyn Users>> {
        self.users.get().into_iter().flatten().filter_map(Weak::upgrade)
    }

    /// A write has changed users or rights, and ended at this position of `system`: its mark there is told. If the position is
    /// not known, Neo4j is asked. The mark of a write on `system` itself is told as that of any other write; it is one of
    /// everything, since users are no tags.
    pub(super) async fn tell_rights(
        self: &Arc<Self>,
        of: &mut WriteOf,
        name: DatabaseTag,
        position: Option<Position>,
    ) {
        if name == self.system {
            of.touched = Touched::Anything;
            return;
        }
        let of = WriteOf { database: SYSTEM.into(), touched: Touched::Anything, ..of.clone() };
        match position {
            Some(position) => {
                let before = self.cache.write_positions().of(self.system);
                self.own_write(&of, (self.system, None), before, position).await;
            }
            None => drop(self.ask_and_tell((&of, self.system), InvalidationWord::OwnWrite).await),
        }
    }

    /// Waits for as long as a node that was not told of the last change of rights relies on what it knows.
    pub(super) async fn wait_for_untold(&self) {
        let Some(lease_ms) = self.lease_ms() else { return };
        let others = self.invalidate.in_order_to_tell(&Scope::All);
        if !self.broadcast.is_told_to_all(self.system, &others) {
            self.context.sleep(lease_ms).await;
        }
    }
}
