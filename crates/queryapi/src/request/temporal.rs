//! Typed dates and times, in the ISO forms that `java.time`'s formatters read, as Bolt 5 structures in UTC.

use hopcache_packstream::{Value, tag};

use super::Malformed;
use crate::temporal::{DAY_S, day_number};
use crate::zone;

/// Largest year that `java.time` has, on both sides of zero.
const YEAR_MAX: i64 = 999_999_999;
/// Largest offset: 18 hours.
const OFFSET_S_MAX: i64 = 18 * 3600;

/// Walks over ASCII text.
struct Scan<'a> {
    rest: &'a str,
}

/// Time of day.
struct Clock {
    second: i64,
    nanos: i64,
}

impl Scan<'_> {
    fn eat(&mut self, letter: u8) -> bool {
        let found = self.rest.as_bytes().first().is_some_and(|first| first.eq_ignore_ascii_case(&letter));
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn expect(&mut self, letter: u8) -> Result<(), Malformed> {
        if self.eat(letter) { Ok(()) } else { Err(Malformed::Range) }
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed::Range) }
    }

    /// The digits that come next, at most `most`.
    fn digits(&mut self, most: usize) -> &str {
        let len = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (head, tail) = self.rest.split_at(len);
        self.rest = tail;
        head
    }

    /// Two digits, at most `max`.
    fn pair(&mut self, max: i64) -> Result<i64, Malformed> {
        let digits = self.digits(2);
        let number = digits.parse().map_err(|_| Malformed::Range)?;
        if digits.len() == 2 && number <= max { Ok(number) } else { Err(Malformed::Range) }
    }

    /// `2024-02-29`: four digits of year, or a sign and four to ten; `+` only where it takes five or more.
    fn date(&mut self) -> Result<i64, Malformed> {
        let plus = self.eat(b'+');
        let minus = !plus && self.eat(b'-');
        let digits = self.digits(10);
        let shape = match digits.len() {
            4 => !plus,
            5..=10 => plus || minus,
            _ => false,
        };
        let size: i64 = digits.parse().map_err(|_| Malformed::Range)?;
        if !shape || size > YEAR_MAX || (minus && size == 0) {
            return Err(Malformed::Range);
        }
        let year = if minus { -size } else { size };
        self.expect(b'-')?;
        let month = self.pair(12)?;
        self.expect(b'-')?;
        let day = self.pair(31)?;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let last = match month {
            2 => 28 + i64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if month == 0 || day == 0 || day > last {
            return Err(Malformed::Range);
        }
        Ok(day_number(year, month, day))
    }

    /// `12:34`, `12:34:56`, `12:34:56.789`.
    fn clock(&mut self) -> Result<Clock, Malformed> {
        let hour = self.pair(23)?;
        self.expect(b':')?;
        let mut second = hour * 3600 + self.pair(59)? * 60;
        let mut nanos = 0;
        if self.eat(b':') {
            second += self.pair(59)?;
            if self.eat(b'.') {
                nanos = format!("{:0<9}", self.digits(9)).parse().map_err(|_| Malformed::Range)?;
            }
        }
        Ok(Clock { second, nanos })
    }

    /// `Z`, `+02:00`, `+00:17:30`.
    fn offset(&mut self, minutes: Minutes) -> Result<i64, Malformed> {
        if self.eat(b'Z') {
            return Ok(0);
        }
        let minus = self.eat(b'-');
        if !minus {
            self.expect(b'+')?;
        }
        let mut size = self.pair(18)? * 3600;
        if self.eat(b':') {
            size += self.pair(59)? * 60;
            if self.eat(b':') {
                size += self.pair(59)?;
            }
        } else if minutes == Minutes::Needed {
            return Err(Malformed::Range);
        }
        if size > OFFSET_S_MAX {
            return Err(Malformed::Range);
        }
        Ok(if minus { -size } else { size })
    }

    /// Local date and time: seconds since 1970 and nanoseconds.
    fn local(&mut self) -> Result<(i64, i64), Malformed> {
        let day = self.date()?;
        self.expect(b'T')?;
        let Clock { second, nanos } = self.clock()?;
        Ok((day * DAY_S + second, nanos))
    }
}

/// Whether an offset may end behind its hours: the formatter for dates with time is lenient there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Minutes {
    Needed,
    Optional,
}

fn structure<const N: usize>(tag: u8, numbers: [i64; N]) -> Value {
    Value::Struct { tag, fields: numbers.into_iter().map(Value::Int).collect() }
}

pub(super) fn date(text: &str) -> Result<Value, Malformed> {
    let mut scan = Scan { rest: text };
    let day = scan.date()?;
    scan.end()?;
    Ok(structure(tag::DATE, [day]))
}

pub(super) fn time(text: &str) -> Result<Value, Malformed> {
    let mut scan = Scan { rest: text };
    let Clock { second, nanos } = scan.clock()?;
    let offset_s = scan.offset(Minutes::Needed)?;
    scan.end()?;
    Ok(structure(tag::TIME, [second * 1_000_000_000 + nanos, offset_s]))
}

pub(super) fn local_time(text: &str) -> Result<Value, Malformed> {
    let mut scan = Scan { rest: text };
    let Clock { second, nanos } = scan.clock()?;
    scan.end()?;
    Ok(structure(tag::LOCAL_TIME, [second * 1_000_000_000 + nanos]))
}

pub(super) fn local_date_time(text: &str) -> Result<Value, Malformed> {
    let mut scan = Scan { rest: text };
    let (local_s, nanos) = scan.local()?;
    scan.end()?;
    Ok(structure(tag::LOCAL_DATE_TIME, [local_s, nanos]))
}

pub(super) fn offset_date_time(text: &str) -> Result<Value, Malformed> {
    let mut scan = Scan { rest: text };
    let (local_s, nanos) = scan.local()?;
    let offset_s = scan.offset(Minutes::Optional)?;
    scan.end()?;
    Ok(structure(tag::DATE_TIME, [local_s - offset_s, nanos, offset_s]))
}

/// The offset has to be there and fixes the moment. The zone, if there is one, only decides how that moment is shown
/// (`12:34+05:00[Europe/Stockholm]` is 09:34 in Stockholm).
pub(super) fn zoned_date_time(text: &str) -> Result<Value, Malformed> {
    let mut scan = Scan { rest: text };
    let (local_s, nanos) = scan.local()?;
    let offset_s = scan.offset(Minutes::Optional)?;
    let utc_s = local_s - offset_s;
    if scan.rest.is_empty() {
        return Ok(structure(tag::DATE_TIME, [utc_s, nanos, offset_s]));
    }
    let name = scan.rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let name = name.ok_or(Malformed::Range)?;
    if let Ok(fixed_s) = fixed_offset(name) {
        return Ok(structure(tag::DATE_TIME, [utc_s, nanos, fixed_s]));
    }
    zone::find(name).ok_or(Malformed::Range)?;
    let fields = vec![Value::Int(utc_s), Value::Int(nanos), Value::from(name)];
    Ok(Value::Struct { tag: tag::DATE_TIME_ZONE, fields })
}

fn fixed_offset(name: &str) -> Result<i64, Malformed> {
    let mut scan = Scan { rest: name };
    let offset_s = scan.offset(Minutes::Needed)?;
    scan.end()?;
    Ok(offset_s)
}
