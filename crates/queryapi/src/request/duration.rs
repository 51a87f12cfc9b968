//! Typed durations. The server reads them with Cypher's own rules: parts may have fractions, which run
//! over into smaller parts (a month is 2,629,746 s on average, a day 86,400 s), and there is a form like a date.

use hopcache_packstream::{Value, tag};

use super::Malformed;

const NANO: i128 = 1_000_000_000;
const MONTH_S: i128 = 2_629_746;
const DAY_S: i128 = 86_400;

/// Parts in billionths of their unit.
#[derive(Default)]
struct Parts {
    months: i128,
    days: i128,
    seconds: i128,
}

pub(super) fn duration(text: &str) -> Result<Value, Malformed> {
    let upper = text.to_ascii_uppercase();
    let (sign, body) = match upper.as_bytes().first() {
        Some(b'-') => (-1, &upper[1..]),
        Some(b'+') => (1, &upper[1..]),
        _ => (1, upper.as_str()),
    };
    let body = body.strip_prefix('P').ok_or(Malformed::Range)?;
    let parts = match like_a_date(body) {
        Some(parts) => parts,
        None => by_units(body).ok_or(Malformed::Range)?,
    };
    pack(&parts, sign)
}

/// `1Y2M3W4DT5H6M7.8S`: each unit at most once, in this order, at least one behind `P` and behind `T`.
fn by_units(body: &str) -> Option<Parts> {
    let mut parts = Parts::default();
    let (date, time) = match body.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (body, None),
    };
    if date.is_empty() && time.is_none() {
        return None;
    }
    let mut rest = date;
    for (unit, size) in [('Y', 12), ('M', 1)] {
        parts.months = parts.months.checked_add(amount(&mut rest, unit)?.checked_mul(size)?)?;
    }
    for (unit, size) in [('W', 7), ('D', 1)] {
        parts.days = parts.days.checked_add(amount(&mut rest, unit)?.checked_mul(size)?)?;
    }
    if !rest.is_empty() {
        return None;
    }
    if let Some(mut rest) = time {
        if rest.is_empty() {
            return None;
        }
        for (unit, size) in [('H', 3600), ('M', 60), ('S', 1)] {
            parts.seconds = parts.seconds.checked_add(amount(&mut rest, unit)?.checked_mul(size)?)?;
        }
        if !rest.is_empty() {
            return None;
        }
    }
    Some(parts)
}

/// The number in front of `unit`, in billionths; zero, and nothing read, where the next unit is another.
fn amount(rest: &mut &str, unit: char) -> Option<i128> {
    let end = rest.find(|letter: char| letter.is_ascii_alphabetic());
    let Some(end) = end.filter(|end| rest[*end..].starts_with(unit)) else { return Some(0) };
    let number = billionths(&rest[..end])?;
    *rest = &rest[end + 1..];
    Some(number)
}

fn billionths(text: &str) -> Option<i128> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once(['.', ',']).unwrap_or((unsigned, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let size = whole.parse::<i64>().ok()?;
    let size = i128::from(size) * NANO + format!("{fraction:0<9}").parse::<i128>().ok()?;
    Some(if text.starts_with('-') { -size } else { size })
}

/// `2012-02-02T14:37:21.545`.
fn like_a_date(body: &str) -> Option<Parts> {
    let (date, time) = body.split_once('T')?;
    let mut fields = date.split('-');
    let (year, month, day) = (fields.next()?, fields.next()?, fields.next()?);
    let mut clock = time.split(':');
    let (hour, minute, second) = (clock.next()?, clock.next()?, clock.next()?);
    let sizes = (year.len(), month.len(), day.len(), hour.len(), minute.len());
    let shape = fields.next().is_none() && clock.next().is_none() && sizes == (4, 2, 2, 2, 2);
    let whole = |text: &str| if text.contains(['.', ',', '+']) { None } else { billionths(text) };
    let parts = Parts {
        months: whole(year)? * 12 + whole(month)?,
        days: whole(day)?,
        seconds: whole(hour)? * 3600 + whole(minute)? * 60 + billionths(second)?,
    };
    shape.then_some(parts)
}

/// Fractions run over from months to days and from days to nanoseconds, towards zero.
fn pack(parts: &Parts, sign: i128) -> Result<Value, Malformed> {
    let months = parts.months / NANO;
    let days = parts.days + (parts.months % NANO) * MONTH_S / DAY_S;
    let over_ns = (parts.months % NANO) * MONTH_S % DAY_S;
    let nanos = parts.seconds + (days % NANO) * DAY_S + over_ns;
    let (months, days, nanos) = (sign * months, sign * (days / NANO), sign * nanos);
    // The server adds everything up in seconds, and refuses what 64 bits cannot hold.
    let total_s = months * MONTH_S + days * DAY_S + nanos.div_euclid(NANO);
    i64::try_from(total_s).map_err(|_| Malformed::Range)?;
    let field = |number: i128| i64::try_from(number).map(Value::Int).map_err(|_| Malformed::Range);
    let fields =
        vec![field(months)?, field(days)?, field(nanos.div_euclid(NANO))?, field(nanos.rem_euclid(NANO))?];
    Ok(Value::Struct { tag: tag::DURATION, fields })
}
