//! The stored form of an entry: a fixed header and the result's bytes, guarded by a keyed checksum.
//!
//! Layout, numbers big endian (format version 5; a change needs a new version):
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 2 | `HC` |
//! | 2 | 1 | version |
//! | 3 | 1 | flags: bit 0 = body is one LZ4 block |
//! | 4 | 8 | total life (end of stale-if-error), ms |
//! | 12 | 8 | soft life, ms |
//! | 20 | 8 | physical life (end of grace), ms |
//! | 28 | 8 | cost δ, ms |
//! | 36 | 8 | token counter |
//! | 44 | 16 | token nonce |
//! | 60 | 8 | database tag |
//! | 68 | 1 | length of the storing node's name |
//! | 69 | 4 | length of the body as stored |
//! | 73 | 4 | length of the body uncompressed |
//! | 77 | 1 | length of the range; 0 where there is none |
//! | 78 | 16 | the database that it was read from, by its UUID; a stand-in where the origin tells none |
//! | 94 | 16 | keyed BLAKE3 over the query key and everything but these 16 bytes |
//! | 110 | … | name, then range ([`ReadRange::write`]), then body |
//!
//! The age is never stored. All lives count from the *start of the origin read*, and a commit gives the entry `total
//! life − time since that start` to live in the store. So `total life − life left in the store` is the age on the
//! store's clock alone, and no two clocks are ever compared (promise I4). A store without the checksum's key reads the
//! first 94 bytes ([`Head`]) and uses them only for its own decisions. Every served entry has passed [`Entry::decode`]
//! (promise I10, F39).
//!
//! Soft ≤ physical ≤ total ≤ [`ENTRY_LIFE_MS_MAX`]: a writer cuts to these bounds, and an entry that violates them is
//! invalid. Version 1 had no total life, version 2 no range, version 3 no database, and version 4 no state of the
//! server in the range; their bytes are a miss.

use bytes::Bytes;

use crate::bookmark::{DatabaseUuid, ReadRange};
use crate::key::{DatabaseTag, QueryKey};
use crate::lease::Token;
use crate::limits::{COMPRESS_BYTES_MIN, ENTRY_BODY_BYTES_MAX, ENTRY_LIFE_MS_MAX};
use crate::node::NodeName;
use crate::tags::Tags;
use crate::time::Millis;

const MAGIC: [u8; 2] = *b"HC";
const VERSION: u8 = 5;
const FLAG_LZ4: u8 = 1;
const RAW_LEN_AT: usize = 73;
const RANGE_LEN_AT: usize = 77;
const DATABASE_AT: usize = 78;
const CHECKSUM_AT: usize = 94;
const CHECKSUM_LEN: usize = 16;
const HEADER_LEN: usize = CHECKSUM_AT + CHECKSUM_LEN;

// A range's length is one byte.
const _: () = assert!(ReadRange::BYTES_MAX <= u8::MAX as usize);

/// Bytes at the front of an entry that [`Head::read`] needs.
pub const HEAD_LEN: usize = CHECKSUM_AT;

/// Secret that entries are sealed with, one for a cluster.
#[derive(Clone)]
pub struct ChecksumKey(pub [u8; 32]);

impl std::fmt::Debug for ChecksumKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ChecksumKey(…)")
    }
}

/// A result with its times, cost and origin, as it is stored under a query key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Life from the start of the origin read to the end of stale-if-error: the store keeps it that long.
    pub total: Millis,
    /// Life from the start of the origin read to the end of grace.
    pub physical: Millis,
    /// Life from the start of the origin read to the end of freshness.
    pub soft: Millis,
    /// δ: the time of its computation.
    pub cost: Millis,
    /// Fence token it was committed with.
    pub token: Token,
    /// The tags of the entry.
    pub tags: Tags,
    /// Node that stored it.
    pub stored_by: NodeName,
    /// The database that it was read from: only nodes before that one may serve it (`write_position::known`).
    pub database: DatabaseUuid,
    /// Between which transactions it was read; none where the origin did not say.
    pub range: Option<ReadRange>,
    /// [`crate::result::ResultSet::to_bytes`].
    pub body: Bytes,
}

/// Why bytes are no entry of this key. All of them are misses, and the store's copy has to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum BadEntry {
    /// Shorter or longer than its header says.
    #[error("stored entry: cut or overlong")]
    Length,
    /// Not an entry, of another format version, or with impossible lives.
    #[error("stored entry: another format")]
    Format,
    /// Changed, of another key, or sealed by another cluster.
    #[error("stored entry: checksum does not match")]
    Checksum,
    /// Sealed with our key and not readable: a defect of the writer.
    #[error("stored entry: sealed, but its fields are not valid")]
    Fields,
}

/// Why an entry cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a body of {body_bytes} bytes is over the {ENTRY_BODY_BYTES_MAX} that an entry may have")]
pub struct TooLarge {
    /// Its size.
    pub body_bytes: usize,
}

/// An entry's times at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryClock {
    /// Since the start of the origin read.
    pub age_ms: u64,
    /// Until it is stale; negative after that.
    pub fresh_left_ms: i64,
    /// Until it is dead (end of grace); zero after that.
    pub physical_left_ms: u64,
    /// Until it is gone.
    pub total_left_ms: u64,
}

/// The entry's times when the store has `left` of its life to go. A store whose clock jumped may report more than the
/// whole life: the age is then 0, never negative (F24).
#[must_use]
pub fn clock(entry: &Entry, left: Millis) -> EntryClock {
    clock_of((entry.soft, entry.physical, entry.total), left)
}

fn clock_of((soft, physical, total): (Millis, Millis, Millis), left: Millis) -> EntryClock {
    let age_ms = total.saturating_sub(left).0;
    let signed = |span: u64| i64::try_from(span).unwrap_or(i64::MAX);
    EntryClock {
        age_ms,
        fresh_left_ms: signed(soft.0).saturating_sub(signed(age_ms)),
        physical_left_ms: physical.0.saturating_sub(age_ms),
        total_left_ms: left.0.min(total.0),
    }
}

/// The part of an entry that a store needs, read without the checksum's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// As in [`Entry`].
    pub total: Millis,
    /// As in [`Entry`].
    pub physical: Millis,
    /// As in [`Entry`].
    pub soft: Millis,
    /// As in [`Entry`].
    pub token: Token,
    /// As in [`Entry`].
    pub tags: Tags,
    /// As in [`Entry`].
    pub database: DatabaseUuid,
}

impl Head {
    /// Reads the front of an entry; `None` if it is not one of this version, or its lives are not in order.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < HEAD_LEN || bytes[..2] != MAGIC || bytes[2] != VERSION {
            return None;
        }
        let [total, soft, physical] = [u64_at(bytes, 4)?, u64_at(bytes, 12)?, u64_at(bytes, 20)?];
        if soft > physical || physical > total || total > ENTRY_LIFE_MS_MAX {
            return None;
        }
        Some(Self {
            total: Millis(total),
            physical: Millis(physical),
            soft: Millis(soft),
            token: Token { counter: u64_at(bytes, 36)?, nonce: u128::from_be_bytes(array_at(bytes, 44)?) },
            tags: Tags::of_database(DatabaseTag(u64_at(bytes, 60)?)),
            database: DatabaseUuid(array_at(bytes, DATABASE_AT)?),
        })
    }

    /// As [`clock`].
    #[must_use]
    pub fn clock(&self, left: Millis) -> EntryClock {
        clock_of((self.soft, self.physical, self.total), left)
    }
}

/// The length that the body of an entry has when it is unpacked, as its header says. Nothing was checked: it is good for
/// deciding where to decode, not for allocating. 0 for bytes without a header.
#[must_use]
pub fn unpacked_len(bytes: &[u8]) -> usize {
    u32_at(bytes, RAW_LEN_AT).unwrap_or(0)
}

impl Entry {
    /// The bytes to store under `key`. The body is compressed if it is large enough and that saves at least a tenth.
    /// Lives over [`ENTRY_LIFE_MS_MAX`] are cut to it, and each to the next longer one.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn encode(&self, checksum_key: &ChecksumKey, key: &QueryKey) -> Result<Bytes, TooLarge> {
        let raw_len = self.body.len();
        if raw_len > ENTRY_BODY_BYTES_MAX {
            return Err(TooLarge { body_bytes: raw_len });
        }
        let packed = (raw_len >= COMPRESS_BYTES_MIN).then(|| lz4_flex::block::compress(&self.body));
        let packed = packed.filter(|packed| packed.len() <= raw_len - raw_len / 10);
        let body: &[u8] = packed.as_deref().unwrap_or(&self.body);
        let name = self.stored_by.as_str().as_bytes();
        let mut range = Vec::new();
        if let Some(known) = &self.range {
            known.write(&mut range);
        }
        let mut out = Vec::with_capacity(HEADER_LEN + name.len() + range.len() + body.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, if packed.is_some() { FLAG_LZ4 } else { 0 }]);
        let total = self.total.0.min(ENTRY_LIFE_MS_MAX);
        let physical = self.physical.0.min(total);
        for span in [total, self.soft.0.min(physical), physical, self.cost.0.min(ENTRY_LIFE_MS_MAX)] {
            out.extend_from_slice(&span.to_be_bytes());
        }
        out.extend_from_slice(&self.token.counter.to_be_bytes());
        out.extend_from_slice(&self.token.nonce.to_be_bytes());
        out.extend_from_slice(&self.tags.database().0.to_be_bytes());
        // The lengths fit: a name has at most 64 bytes, a body ENTRY_BODY_BYTES_MAX < 2^32, a range fewer than 2^8.
        out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        for len in [body.len(), raw_len] {
            out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
        }
        out.push(u8::try_from(range.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(&self.database.0);
        let seal = seal(checksum_key, key, &[&out, name, &range, body]);
        out.extend_from_slice(&seal);
        out.extend_from_slice(name);
        out.extend_from_slice(&range);
        out.extend_from_slice(body);
        Ok(out.into())
    }

    /// Reads [`Entry::encode`]'s bytes. An uncompressed body is a slice of `bytes`, not a copy.
    ///
    /// # Errors
    /// [`BadEntry`]. Nothing of the entry is used before its checksum is checked, so no forged length is ever
    /// allocated.
    pub fn decode(bytes: &Bytes, checksum_key: &ChecksumKey, key: &QueryKey) -> Result<Self, BadEntry> {
        if bytes.len() < HEADER_LEN {
            return Err(BadEntry::Length);
        }
        let head = Head::read(bytes).ok_or(BadEntry::Format)?;
        let number = |at: usize| u32_at(bytes, at).ok_or(BadEntry::Length);
        let (name_len, body_len, raw_len) = (usize::from(bytes[68]), number(69)?, number(RAW_LEN_AT)?);
        let range_len = usize::from(bytes[RANGE_LEN_AT]);
        if bytes.len() - HEADER_LEN != (name_len + range_len).saturating_add(body_len) {
            return Err(BadEntry::Length);
        }
        let sealed: [u8; CHECKSUM_LEN] = array_at(bytes, CHECKSUM_AT).ok_or(BadEntry::Length)?;
        let expected = seal(checksum_key, key, &[&bytes[..CHECKSUM_AT], &bytes[HEADER_LEN..]]);
        // Compared through BLAKE3's constant-time equality.
        if widen(expected) != widen(sealed) {
            return Err(BadEntry::Checksum);
        }
        let name = std::str::from_utf8(&bytes[HEADER_LEN..HEADER_LEN + name_len]).ok();
        let stored_by = name.and_then(|name| NodeName::new(name).ok()).ok_or(BadEntry::Fields)?;
        let range_at = HEADER_LEN + name_len;
        let range = read_range(&bytes[range_at..range_at + range_len])?;
        let stored = bytes.slice(range_at + range_len..);
        let body = match bytes[3] {
            0 if body_len == raw_len => stored,
            FLAG_LZ4 => decompress(&stored, raw_len)?,
            _ => return Err(BadEntry::Fields),
        };
        Ok(Self {
            total: head.total,
            physical: head.physical,
            soft: head.soft,
            // For any measured time, a run has not taken longer than an entry lives.
            cost: Millis(u64_at(bytes, 28).ok_or(BadEntry::Length)?.min(ENTRY_LIFE_MS_MAX)),
            token: head.token,
            tags: head.tags,
            stored_by,
            database: head.database,
            range,
            body,
        })
    }

    /// Bytes that this entry keeps alive.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let range = self.range.as_ref().map_or(0, ReadRange::weight_bytes);
        HEADER_LEN + self.stored_by.as_str().len() + range + self.body.len()
    }
}

fn read_range(mut bytes: &[u8]) -> Result<Option<ReadRange>, BadEntry> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let range = ReadRange::read(&mut bytes).filter(|_| bytes.is_empty());
    range.map(Some).ok_or(BadEntry::Fields)
}

/// One byte of an LZ4 block stands for at most 255 (each byte of a length adds no more).
const LZ4_GROWTH_MAX: usize = 255;

/// Bounded three times: by the length in the header, by the limit of a body, and by the greatest expansion of this many
/// bytes. The last is checked before anything is allocated.
fn decompress(stored: &[u8], raw_len: usize) -> Result<Bytes, BadEntry> {
    if raw_len > ENTRY_BODY_BYTES_MAX || raw_len > stored.len().saturating_mul(LZ4_GROWTH_MAX) {
        return Err(BadEntry::Fields);
    }
    let raw = lz4_flex::block::decompress(stored, raw_len).map_err(|_| BadEntry::Fields)?;
    if raw.len() == raw_len { Ok(raw.into()) } else { Err(BadEntry::Fields) }
}

fn seal(checksum_key: &ChecksumKey, key: &QueryKey, parts: &[&[u8]]) -> [u8; CHECKSUM_LEN] {
    let mut hasher = blake3::Hasher::new_keyed(&checksum_key.0);
    hasher.update(&key.0);
    // The boundaries between parts do not matter: the lengths are in the header, which is sealed too.
    for part in parts {
        hasher.update(part);
    }
    let mut seal = [0; CHECKSUM_LEN];
    hasher.finalize_xof().fill(&mut seal);
    seal
}

fn widen(seal: [u8; CHECKSUM_LEN]) -> blake3::Hash {
    let mut wide = [0; 32];
    wide[..CHECKSUM_LEN].copy_from_slice(&seal);
    blake3::Hash::from_bytes(wide)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    array_at(bytes, at).map(u32::from_be_bytes).and_then(|number| usize::try_from(number).ok())
}
