//! The offset of a named zone at a moment. It uses jiff's bundled tz database, so it reads no file of the machine.
//! Its rules hold for all years (chrono-tz ends its tables at 2100).

use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

/// 400 years of the Gregorian calendar: the same dates fall on the same weekdays again.
const CYCLE_S: i64 = 146_097 * 86_400;
/// 1600-01-01 to 9600-01-01 UTC, which is inside jiff's range. Before it every zone has its first offset; behind it
/// the rules of the last years repeat by [`CYCLE_S`].
const LATE_S: i64 = 240_773_990_400 - CYCLE_S;
const EARLY_S: i64 = -11_676_096_000;

/// The true offset in seconds of the zone of that name at `utc_s`.
#[must_use]
pub fn zone_offset_s(name: &str, utc_s: i64) -> Option<i32> {
    find(name)?.offset_s(utc_s)
}

/// A zone of the tz database.
pub(crate) struct Zone {
    zone: TimeZone,
}

/// The zone of that name, in exactly that spelling (Java is strict about case).
pub(crate) fn find(name: &str) -> Option<Zone> {
    static DATABASE: OnceLock<TimeZoneDatabase> = OnceLock::new();
    let zone = DATABASE.get_or_init(TimeZoneDatabase::bundled).get(name).ok()?;
    (zone.iana_name() == Some(name)).then_some(Zone { zone })
}

impl Zone {
    /// Whether it has one offset for all times. The server shows a value of such a zone with the offset alone.
    pub(crate) fn is_fixed(&self) -> bool {
        self.zone.following(Timestamp::MIN).next().is_none()
    }

    /// The offset in seconds that the server shows at `utc_s`. Local time is ambiguous in the hour that a zone passes
    /// twice. For both moments that is the earlier offset with the same local time.
    pub(crate) fn shown_offset_s(&self, utc_s: i64) -> Option<i32> {
        let moment = Timestamp::from_second(inside(utc_s)).ok()?;
        let offset = self.zone.to_offset(moment);
        let local = offset.to_datetime(moment);
        Some(match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Fold { before, .. } => before.seconds(),
            _ => offset.seconds(),
        })
    }

    /// The true offset in seconds at `utc_s`.
    pub(crate) fn offset_s(&self, utc_s: i64) -> Option<i32> {
        let moment = Timestamp::from_second(inside(utc_s)).ok()?;
        Some(self.zone.to_offset(moment).seconds())
    }
}

fn inside(utc_s: i64) -> i64 {
    if utc_s > LATE_S { LATE_S - CYCLE_S + (utc_s - LATE_S).rem_euclid(CYCLE_S) } else { utc_s.max(EARLY_S) }
}
