//! `Hopcache-Hint`: a client's knowledge about its query (a dictionary of RFC 9651).

use std::time::Duration;

use sfv::{BareItem, Dictionary, ListEntry, Parser};

/// Largest `degree`: no node of a supported graph has more relationships.
pub const DEGREE_MAX: f64 = 1e9;
/// Smallest and largest `volatility`.
pub const VOLATILITY: (f64, f64) = (0.01, 100.0);
/// Largest `ttl`: ten years of seconds.
pub const TTL_S_MAX: i64 = 315_360_000;

/// A hint; members that the client left out are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Hint {
    /// Relationships of the node the query starts at, above 0.
    pub degree: Option<f64>,
    /// How often this changes, against the average of 1.
    pub volatility: Option<f64>,
    /// How long the client is content with a result.
    pub ttl: Option<Duration>,
}

/// Why a hint is refused. Names the member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HintError {
    /// Not a dictionary of RFC 9651.
    #[error("Hopcache-Hint: not a structured dictionary: {0}")]
    Malformed(String),
    /// Not one of our members.
    #[error("Hopcache-Hint: {0}: unknown member; known are degree, volatility, ttl")]
    Unknown(String),
    /// A value of the wrong type or out of range.
    #[error("Hopcache-Hint: {member}: {needs}")]
    Value {
        /// The member.
        member: &'static str,
        /// The values that it can have.
        needs: &'static str,
    },
}

/// Reads the header's value (several header lines joined by commas).
///
/// # Errors
/// [`HintError`], which names the member.
pub fn parse(value: &str) -> Result<Hint, HintError> {
    let dictionary: Dictionary =
        Parser::new(value).parse().map_err(|error| HintError::Malformed(error.to_string()))?;
    let mut hint = Hint::default();
    for (key, entry) in &dictionary {
        let item = match entry {
            ListEntry::Item(item) => Some(&item.bare_item),
            ListEntry::InnerList(_) => None,
        };
        match key.as_str() {
            "degree" => {
                let degree = decimal(item).filter(|degree| *degree > 0.0 && *degree <= DEGREE_MAX);
                hint.degree = Some(degree.ok_or(HintError::Value {
                    member: "degree",
                    needs: "has to be a number above 0 and at most 1000000000",
                })?);
            }
            "volatility" => {
                let volatility = decimal(item).filter(|v| (VOLATILITY.0..=VOLATILITY.1).contains(v));
                hint.volatility = Some(volatility.ok_or(HintError::Value {
                    member: "volatility",
                    needs: "has to be a number from 0.01 to 100",
                })?);
            }
            "ttl" => {
                let ttl = integer(item, TTL_S_MAX).ok_or(HintError::Value {
                    member: "ttl",
                    needs: "has to be an integer of seconds from 0 to 315360000",
                })?;
                hint.ttl = Some(Duration::from_secs(ttl));
            }
            other => return Err(HintError::Unknown(other.to_owned())),
        }
    }
    Ok(hint)
}

fn decimal(item: Option<&BareItem>) -> Option<f64> {
    match item? {
        BareItem::Integer(number) => number.to_string().parse().ok(),
        BareItem::Decimal(number) => Some(f64::from(*number)),
        _ => None,
    }
}

fn integer(item: Option<&BareItem>, max: i64) -> Option<u64> {
    match item? {
        BareItem::Integer(number) => {
            let number = i64::from(*number);
            u64::try_from(number).ok().filter(|_| number <= max)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read() {
        let hint = parse("degree=500, volatility=1.5, ttl=30").unwrap();
        assert_eq!(hint.degree, Some(500.0));
        assert_eq!(hint.volatility, Some(1.5));
        assert_eq!(hint.ttl, Some(Duration::from_secs(30)));
        assert_eq!(parse("").unwrap(), Hint::default());
        // The ends of the ranges. A degree does not have to be a whole number.
        let hint = parse("degree=1000000000, volatility=0.01").unwrap();
        assert_eq!((hint.degree, hint.volatility), (Some(1e9), Some(0.01)));
        let hint = parse("degree=1.5, volatility=100").unwrap();
        assert_eq!((hint.degree, hint.volatility), (Some(1.5), Some(100.0)));
    }

    #[test]
    fn an_error_names_the_member() {
        let table = [
            ("degree=0", "degree"),
            ("degree=1000000001", "degree"),
            ("degree=\"5\"", "degree"),
            ("degree=-1", "degree"),
            ("degree=-0.5", "degree"),
            ("degree=10000000000", "degree"),
            ("degree=many", "degree"),
            ("degree=?1", "degree"),
            ("degree=(5)", "degree"),
            ("degree=NaN", "degree"),
            ("degree=1e9", "dictionary"),
            ("volatility=0", "volatility"),
            ("volatility=-1", "volatility"),
            ("volatility=1000000", "volatility"),
            ("volatility=NaN", "volatility"),
            ("volatility=\"1\"", "volatility"),
            ("volatility=1e6", "dictionary"),
            ("volatility=inf", "volatility"),
            ("volatility=0.001", "volatility"),
            ("volatility=101", "volatility"),
            ("cost-ms=80", "cost-ms"),
            ("ttl=1.5", "ttl"),
            ("ttl", "ttl"),
            ("ttl=(1 2)", "ttl"),
            ("foo=1", "foo"),
            ("degree=", "dictionary"),
        ];
        for (value, name) in table {
            let error = parse(value).unwrap_err().to_string();
            assert!(error.contains(name), "{value}: {error}");
        }
    }
}
