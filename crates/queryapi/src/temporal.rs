//! Dates, times, offsets and durations as ISO 8601 text, the way `java.time` writes them. Proleptic
//! Gregorian calendar, any year that 64 bits of seconds reach.

use crate::json;

/// Seconds in a day.
pub(crate) const DAY_S: i64 = 86_400;
const SECOND_NS: i128 = 1_000_000_000;

/// Year, month and day of a day number (0 is 1970-01-01).
///
/// The calendar arithmetic counts from 0000-03-01, so that a leap day ends its year.
pub(crate) fn civil(day: i64) -> (i64, u64, u64) {
    let shifted = i128::from(day) + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    let small = |number: i128| u64::try_from(number).unwrap_or(0);
    (i64::try_from(year).unwrap_or(0), small(month), small(day_of_month))
}

/// Day number of a date; the date has to exist.
pub(crate) fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let of_era = shifted_year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Appends `2024-02-29`, `-0044-03-15`, `+12024-01-01`.
pub(crate) fn date(out: &mut Vec<u8>, day: i64) {
    let (year, month, day_of_month) = civil(day);
    match year {
        10_000.. => out.push(b'+'),
        ..0 => out.push(b'-'),
        _ => {}
    }
    json::padded(out, year.unsigned_abs(), 4);
    out.push(b'-');
    json::padded(out, month, 2);
    out.push(b'-');
    json::padded(out, day_of_month, 2);
}

/// Appends `12:34:56` and a fraction without trailing zeros, if any.
pub(crate) fn time(out: &mut Vec<u8>, second_of_day: i64, nanos: i64) {
    let second = second_of_day.unsigned_abs();
    json::padded(out, second / 3600, 2);
    out.push(b':');
    json::padded(out, second / 60 % 60, 2);
    out.push(b':');
    json::padded(out, second % 60, 2);
    fraction(out, nanos.unsigned_abs());
}

fn fraction(out: &mut Vec<u8>, nanos: u64) {
    if nanos == 0 {
        return;
    }
    out.push(b'.');
    json::padded(out, nanos, 9);
    while out.last() == Some(&b'0') {
        out.pop();
    }
}

/// Appends `Z`, `+02:00` or `+00:17:30`.
pub(crate) fn offset(out: &mut Vec<u8>, offset_s: i64) {
    if offset_s == 0 {
        return out.push(b'Z');
    }
    let size = offset_s.unsigned_abs();
    out.push(if offset_s < 0 { b'-' } else { b'+' });
    json::padded(out, size / 3600, 2);
    out.push(b':');
    json::padded(out, size / 60 % 60, 2);
    if !size.is_multiple_of(60) {
        out.push(b':');
        json::padded(out, size % 60, 2);
    }
}

/// Appends date, `T` and time of a count of local seconds since 1970.
pub(crate) fn date_time(out: &mut Vec<u8>, local_s: i64, nanos: i64) {
    date(out, local_s.div_euclid(DAY_S));
    out.push(b'T');
    time(out, local_s.rem_euclid(DAY_S), nanos);
}

/// Appends a duration: months fold into years, seconds into minutes and hours, each part with its own sign.
pub(crate) fn duration(out: &mut Vec<u8>, months: i64, days: i64, seconds: i64, nanos: i64) {
    let total_ns = i128::from(seconds) * SECOND_NS + i128::from(nanos);
    if (months, days, total_ns) == (0, 0, 0) {
        return out.extend_from_slice(b"PT0S");
    }
    out.push(b'P');
    part(out, months / 12, b'Y');
    part(out, months % 12, b'M');
    part(out, days, b'D');
    if total_ns == 0 {
        return;
    }
    out.push(b'T');
    let whole = total_ns / SECOND_NS;
    part(out, i64::try_from(whole / 3600).unwrap_or(0), b'H');
    part(out, i64::try_from(whole / 60 % 60).unwrap_or(0), b'M');
    let last_ns = total_ns % (60 * SECOND_NS);
    if last_ns != 0 {
        if last_ns < 0 {
            out.push(b'-');
        }
        let size = u64::try_from(last_ns.unsigned_abs()).unwrap_or(0);
        json::padded(out, size / 1_000_000_000, 1);
        fraction(out, size % 1_000_000_000);
        out.push(b'S');
    }
}

fn part(out: &mut Vec<u8>, number: i64, unit: u8) {
    if number != 0 {
        json::int(out, number);
        out.push(unit);
    }
}

#[cfg(test)]
mod tests {
    use super::{civil, day_number};

    proptest::proptest! {
        #[test]
        fn a_day_number_is_its_date(day in -365_243_219_162_i64..=365_241_780_471) {
            let (year, month, of_month) = civil(day);
            let (month, of_month) = (i64::try_from(month).unwrap(), i64::try_from(of_month).unwrap());
            proptest::prop_assert_eq!(day_number(year, month, of_month), day);
        }
    }
}
