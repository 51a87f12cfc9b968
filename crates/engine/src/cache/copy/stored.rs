//! A copy and its stored entry: decoding and sealing.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::entry::{ChecksumKey, Entry};
use hopcache_core::key::QueryKey;
use hopcache_core::lease::{StoredEntry, Token};
use hopcache_core::node::NodeName;
use hopcache_core::result::ResultSet;
use hopcache_core::time::{Millis, MonoTime};

use super::content::Content;
use super::{CopyTimes, MemoryCopy};

impl MemoryCopy {
    /// A copy of a stored entry whose checksum holds. `asked` is when the store was asked. The life left in the store's
    /// answer is at least as old as that, so the copy is never taken for younger than it is (I4). Counted from the
    /// answer instead:
    ///   the store reads · this process is stopped for 4 s · it goes on, and an entry that has been dead for a second
    ///   seems fresh.
    #[must_use]
    pub fn decode(
        stored: &StoredEntry,
        (key, checksum_key): (&QueryKey, &ChecksumKey),
        asked: MonoTime,
    ) -> Option<Self> {
        let entry = Entry::decode(&stored.bytes, checksum_key, key).ok()?;
        Self::of_entry(&entry, stored.left_ms, asked).ok()
    }

    /// A copy of a stored entry that has `left_ms` of its total life left now.
    ///
    /// # Errors
    /// When the entry's body is not a result.
    pub fn of_entry(
        entry: &Entry,
        left_ms: Millis,
        now: MonoTime,
    ) -> Result<Self, hopcache_core::result::BadResult> {
        let times = CopyTimes {
            read_started: now - entry.total.saturating_sub(left_ms),
            soft_ms: entry.soft,
            physical_ms: entry.physical,
            total_ms: entry.total,
            cost_ms: entry.cost,
        };
        ResultSet::from_bytes(&entry.body)?;
        let content = Content::stored_in(&entry.body);
        let range = entry.range.clone().map(Arc::new);
        Ok(Self::of(content, times, Some(entry.token), entry.tags.clone()).of_range(range))
    }

    /// The entry to store under `key` with this token; `None` if it is too large for one. It belongs to `owner` if its run did not
    /// tell its database.
    #[must_use]
    pub fn seal(
        &self,
        (key, checksum_key): (&QueryKey, &ChecksumKey),
        token: Token,
        (stored_by, owner): (&NodeName, DatabaseUuid),
    ) -> Option<Bytes> {
        let times = self.times();
        let entry = Entry {
            total: times.total_ms,
            physical: times.physical_ms,
            soft: times.soft_ms,
            cost: times.cost_ms,
            token,
            tags: self.tags.clone(),
            stored_by: stored_by.clone(),
            database: self.range.as_ref().map_or(owner, |range| range.to().database),
            range: self.range.as_deref().cloned(),
            body: self.stored_form(),
        };
        entry.encode(checksum_key, key).ok()
    }
}
