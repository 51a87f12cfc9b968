//! Messages about keys that change their owner. A node that does not know these questions refuses them as an unknown
//! kind, and is not asked again.

use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::HANDOVER_PLANS_MAX;
use hopcache_core::refresh::Cost;
use hopcache_core::time::Millis;

use super::{BadMessage, Head, KIND_PLANS, KIND_WANTED, VERSION};
use crate::model::inspection::KeyPlan;
use crate::model::ports::LogMark;

/// Plain data: a value from a former owner's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// The rest of its total life.
    pub left_ms: Millis,
    /// The facts of its key.
    pub plan: KeyPlan,
    /// The entry as it would be stored, sealed for its key.
    pub entry: Bytes,
}

/// Asks a former owner for its copy of a key. `log` is how much of the invalidation log the asker has read.
#[must_use]
pub fn encode_wanted(key: &QueryKey, log: LogMark) -> Bytes {
    [&[VERSION, KIND_WANTED][..], &key.0, &log.0.to_be_bytes()].concat().into()
}

pub(super) fn read_wanted(head: &mut Head<'_>) -> Result<(QueryKey, LogMark), BadMessage> {
    let key = QueryKey(head.take()?);
    let log = LogMark(u64::from_be_bytes(head.take()?));
    head.end()?;
    Ok((key, log))
}

/// Writes a former owner's answer; `None` if it has no value to give.
#[must_use]
pub fn encode_moved(moved: Option<&Moved>) -> Bytes {
    let Some(moved) = moved else { return vec![VERSION, 0].into() };
    let mut bytes = Vec::with_capacity(2 + 8 + PLAN_BYTES + moved.entry.len());
    bytes.extend_from_slice(&[VERSION, 1]);
    bytes.extend_from_slice(&moved.left_ms.0.to_be_bytes());
    write_plan(&mut bytes, &moved.plan);
    bytes.extend_from_slice(&moved.entry);
    bytes.into()
}

/// Reads a former owner's answer; the entry stays a slice of `bytes`.
///
/// # Errors
/// [`BadMessage`] if the bytes are no such answer of this version.
pub fn decode_moved(bytes: &Bytes) -> Result<Option<Moved>, BadMessage> {
    let mut head = Head(bytes);
    match head.byte()? {
        VERSION => {}
        other => return Err(BadMessage::Version(other)),
    }
    match head.byte()? {
        0 => return Ok(None),
        1 => {}
        _ => return Err(BadMessage::Form("unknown answer")),
    }
    let left_ms = Millis(u64::from_be_bytes(head.take()?));
    let plan = read_plan(&mut head)?;
    Ok(Some(Moved { left_ms, plan, entry: bytes.slice_ref(head.0) }))
}

/// Gives a new owner the facts of these keys; at most [`HANDOVER_PLANS_MAX`] of them.
#[must_use]
pub fn encode_plans(plans: &[(QueryKey, KeyPlan)]) -> Bytes {
    let plans = plans.get(..HANDOVER_PLANS_MAX).unwrap_or(plans);
    let mut bytes = Vec::with_capacity(2 + plans.len() * (32 + PLAN_BYTES));
    bytes.extend_from_slice(&[VERSION, KIND_PLANS]);
    for (key, plan) in plans {
        bytes.extend_from_slice(&key.0);
        write_plan(&mut bytes, plan);
    }
    bytes.into()
}

pub(super) fn read_plans(head: &mut Head<'_>) -> Result<Vec<(QueryKey, KeyPlan)>, BadMessage> {
    if head.0.len() > HANDOVER_PLANS_MAX * (32 + PLAN_BYTES) {
        return Err(BadMessage::Form("too many plans"));
    }
    let mut plans = Vec::with_capacity(head.0.len() / (32 + PLAN_BYTES));
    while !head.0.is_empty() {
        plans.push((QueryKey(head.take()?), read_plan(head)?));
    }
    Ok(plans)
}

const PLAN_BYTES: usize = 5 * 8;

fn write_plan(bytes: &mut Vec<u8>, plan: &KeyPlan) {
    for number in [
        plan.cost.mean_ms,
        plan.cost.tail_ms,
        plan.rate_per_s.unwrap_or(f64::NAN),
        plan.volatility.unwrap_or(f64::NAN),
    ] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(&plan.degree.unwrap_or(u64::MAX).to_be_bytes());
}

/// Accepts any numbers: the cost is clamped to its bounds, and an invalid rate or factor becomes unknown.
fn read_plan(head: &mut Head<'_>) -> Result<KeyPlan, BadMessage> {
    let mut number = || Ok::<_, BadMessage>(f64::from_be_bytes(head.take()?));
    let (mean_ms, tail_ms, rate_per_s, volatility) = (number()?, number()?, number()?, number()?);
    let degree = u64::from_be_bytes(head.take()?);
    Ok(KeyPlan {
        cost: Cost { mean_ms, tail_ms }.bounded(),
        rate_per_s: Some(rate_per_s).filter(|rate| rate.is_finite() && *rate >= 0.0),
        degree: (degree != u64::MAX).then_some(degree),
        volatility: Some(volatility).filter(|factor| factor.is_finite() && *factor > 0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Question, decode_question};
    use super::*;

    fn plan() -> KeyPlan {
        let cost = Cost { mean_ms: 80.5, tail_ms: 240.0 };
        KeyPlan { cost, rate_per_s: Some(12.5), degree: Some(7), volatility: None }
    }

    #[test]
    fn they_come_back_as_they_went() {
        let key = QueryKey([9; 32]);
        let Ok(Question::Wanted { key: asked, log }) = decode_question(&encode_wanted(&key, LogMark(77)))
        else {
            panic!("a question about a key that moves")
        };
        assert_eq!((asked, log), (key, LogMark(77)));
        let moved = Moved { left_ms: Millis(9_000), plan: plan(), entry: Bytes::from_static(b"sealed") };
        assert_eq!(decode_moved(&encode_moved(Some(&moved))), Ok(Some(moved)));
        assert_eq!(decode_moved(&encode_moved(None)), Ok(None));
        let bare = KeyPlan { rate_per_s: None, degree: None, ..plan() };
        let plans = vec![(key, plan()), (QueryKey([1; 32]), bare)];
        let Ok(Question::Plans(read)) = decode_question(&encode_plans(&plans)) else { panic!("plans") };
        assert_eq!(read, plans);
    }

    /// I9, I13: reading is bounded, a cut message is refused, and an invalid number is not used.
    #[test]
    fn what_is_cut_or_too_much_or_no_number_is_refused() {
        let many = vec![(QueryKey([1; 32]), plan()); HANDOVER_PLANS_MAX];
        let whole = encode_plans(&many);
        assert!(decode_question(&whole).is_ok());
        let more = [&whole[..], &whole[2..]].concat();
        assert!(decode_question(&more.into()).is_err());
        assert!(decode_question(&whole.slice(..whole.len() - 1)).is_err());
        let wanted = encode_wanted(&QueryKey([1; 32]), LogMark(1));
        for len in 0..wanted.len() {
            assert!(decode_question(&wanted.slice(..len)).is_err(), "{len}");
        }
        let moved = Moved { left_ms: Millis(1), plan: plan(), entry: Bytes::new() };
        let moved = encode_moved(Some(&moved));
        for len in 0..moved.len() {
            assert!(decode_moved(&moved.slice(..len)).is_err(), "{len}");
        }
        let cost = Cost { mean_ms: f64::NAN, tail_ms: f64::INFINITY };
        let wild = KeyPlan { cost, rate_per_s: Some(-1.0), degree: None, volatility: Some(f64::INFINITY) };
        let Ok(Question::Plans(read)) = decode_question(&encode_plans(&[(QueryKey([1; 32]), wild)])) else {
            panic!("plans")
        };
        let (_, read) = read[0];
        assert_eq!((read.cost, read.rate_per_s, read.volatility), (Cost::UNKNOWN, None, None));
    }
}
