//! A node's view of a key for another node, as bytes. An older node writes less, and a faulty one anything: whatever
//! cannot be read counts as absent.

use bytes::Bytes;
use hopcache_core::bookmark::TransactionId;
use hopcache_core::limits::PREFETCH_BECAUSE_BYTES_MAX;
use hopcache_core::node::NodeName;
use hopcache_core::refresh::{Cost, KeyFacts, Plan, Timing};
use hopcache_core::time::Millis;
use hopcache_learning::gain::CandidateKind;
use hopcache_packstream::{Reader, Token, Writer};

use crate::model::inspection::{CopyProof, CopyRefreshFacts, Inspection, PrefetchedView, RefreshFacts};

/// Writes an inspection.
#[must_use]
pub fn encode_inspection(seen: &Inspection) -> Bytes {
    let mut writer = Writer::new();
    writer.int(seen.memory_age_ms.and_then(|age| i64::try_from(age).ok()).unwrap_or(-1));
    writer.int(seen.flight_followers.map_or(-1, i64::from));
    write_refresh(&seen.refresh, &mut writer);
    write_prefetched(seen.prefetched.as_ref(), &mut writer);
    write_proof(seen.proof, &mut writer);
    writer.int(seen.held_back_ms.and_then(|left| i64::try_from(left).ok()).unwrap_or(-1));
    writer.bool(seen.is_too_large);
    writer.into_bytes().into()
}

/// Reads an inspection; `None` if the bytes are not one.
#[must_use]
pub fn decode_inspection(bytes: &[u8]) -> Option<Inspection> {
    let mut reader = Reader::new(bytes);
    let age = reader.value().ok()?.as_int()?;
    let followers = reader.value().ok()?.as_int()?;
    Some(Inspection {
        memory_age_ms: u64::try_from(age).ok(),
        flight_followers: u32::try_from(followers).ok(),
        refresh: read_refresh(&mut reader),
        prefetched: read_prefetched(&mut reader),
        proof: read_proof(&mut reader),
        // Older nodes write no more than the fields above.
        held_back_ms: reader.value().ok().and_then(|left| u64::try_from(left.as_int()?).ok()),
        is_too_large: reader.value().ok().and_then(|is| is.as_bool()).unwrap_or(false),
    })
}

/// Written after the fields that older nodes know: they stop reading before it.
fn write_refresh(seen: &RefreshFacts, writer: &mut Writer) {
    let int = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    writer.int(seen.degree.map_or(-1, int));
    // The null keeps the place: [`read_copy`] takes one value where there is no copy.
    let Some(CopyRefreshFacts { facts, left_ms, plan }) = seen.copy else { return writer.null() };
    writer.int(int(facts.ttl_ms.0));
    writer.int(int(left_ms.0));
    for number in [
        facts.cost.mean_ms,
        facts.cost.tail_ms,
        facts.rate_per_s.unwrap_or(f64::NAN),
        facts.volatility,
        plan.scale_ms,
        plan.ahead_ms,
    ] {
        writer.float(number);
    }
    let place = TIMINGS.iter().position(|each| *each == plan.timing);
    writer.int(place.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1));
}

/// Each timing's number is its place here. New ones are added at the end only.
const TIMINGS: [Timing; 5] =
    [Timing::Formula, Timing::Prior, Timing::Fitted, Timing::RefreshAhead, Timing::LateAccepted];

/// An older node wrote nothing, and a faulty one may have written anything.
fn read_refresh(reader: &mut Reader<'_>) -> RefreshFacts {
    let Ok(Token::Int(degree)) = reader.token() else { return RefreshFacts::default() };
    let degree = u64::try_from(degree).ok();
    RefreshFacts { degree, copy: read_copy(reader, degree) }
}

fn read_copy(reader: &mut Reader<'_>, degree: Option<u64>) -> Option<CopyRefreshFacts> {
    let mut span = || match reader.token() {
        Ok(Token::Int(number)) => u64::try_from(number).ok().map(Millis),
        _ => None,
    };
    let (ttl_ms, left_ms) = (span()?, span()?);
    let mut number = || match reader.token() {
        Ok(Token::Float(number)) => Some(number),
        _ => None,
    };
    let cost = Cost { mean_ms: number()?, tail_ms: number()? };
    let rate_per_s = number()?;
    let volatility = number()?;
    let (scale_ms, ahead_ms) = (number()?, number()?);
    let Ok(Token::Int(place)) = reader.token() else { return None };
    let timing = *usize::try_from(place).ok().and_then(|place| TIMINGS.get(place))?;
    let plan = Plan { scale_ms, ahead_ms, timing };
    let rate_per_s = (!rate_per_s.is_nan()).then_some(rate_per_s);
    let facts = KeyFacts { ttl_ms, cost, rate_per_s, degree, volatility };
    Some(CopyRefreshFacts { facts, left_ms, plan })
}

fn write_prefetched(view: Option<&PrefetchedView>, writer: &mut Writer) {
    let Some(view) = view else { return writer.null() };
    writer.list(5);
    writer.string(cut(&view.because));
    writer.string(view.by.as_str());
    writer.int(i64::from(view.kind.to_byte()));
    writer.float(view.p);
    writer.bool(view.is_used);
}

fn read_prefetched(reader: &mut Reader<'_>) -> Option<PrefetchedView> {
    let Ok(Token::List(5)) = reader.token() else { return None };
    let because = cut(reader.key().ok()?).to_owned();
    let by = NodeName::new(reader.key().ok()?).ok()?;
    let byte = u8::try_from(reader.value().ok()?.as_int()?).ok()?;
    let kind = CandidateKind::of_byte(byte)?;
    let Ok(Token::Float(p)) = reader.token() else { return None };
    let is_used = reader.value().ok()?.as_bool()?;
    Some(PrefetchedView { because, by, kind, p, is_used })
}

/// Older nodes write nothing here where there is no proof, and read a null as none.
fn write_proof(proof: Option<CopyProof>, writer: &mut Writer) {
    let Some(proof) = proof else { return writer.null() };
    writer.bool(proof.is_proved);
    writer.int(i64::try_from(proof.read_at.0).unwrap_or(i64::MAX));
}

/// What is no proof ends the message: the bytes behind it are not the next field.
fn read_proof(reader: &mut Reader<'_>) -> Option<CopyProof> {
    let is_proved = match reader.token() {
        Ok(Token::Null) => return None,
        Ok(Token::Bool(is_proved)) => Some(is_proved),
        _ => None,
    };
    let read_at = match is_proved.map(|_| reader.token()) {
        Some(Ok(Token::Int(read_at))) => u64::try_from(read_at).ok(),
        _ => None,
    };
    let (Some(is_proved), Some(read_at)) = (is_proved, read_at) else {
        *reader = Reader::new(&[]);
        return None;
    };
    Some(CopyProof { is_proved, read_at: TransactionId(read_at) })
}

/// Cuts a text to the length that people read.
fn cut(text: &str) -> &str {
    let end = (0..=PREFETCH_BECAUSE_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> RefreshFacts {
        let cost = Cost { mean_ms: 20.5, tail_ms: 80.0 };
        let key_facts =
            KeyFacts { ttl_ms: Millis(60_000), cost, rate_per_s: None, degree: Some(5), volatility: 1.5 };
        let plan = Plan { scale_ms: 30.0, ahead_ms: 7.5, timing: Timing::Fitted };
        RefreshFacts {
            degree: Some(5),
            copy: Some(CopyRefreshFacts { facts: key_facts, left_ms: Millis(900), plan }),
        }
    }

    fn written(seen: &RefreshFacts) -> Vec<u8> {
        let mut writer = Writer::new();
        write_refresh(seen, &mut writer);
        writer.into_bytes()
    }

    #[test]
    fn it_comes_back_as_it_went() {
        let mut rated = facts();
        rated.copy.as_mut().unwrap().facts.rate_per_s = Some(12.25);
        for seen in [facts(), rated, RefreshFacts { copy: None, ..facts() }, RefreshFacts::default()] {
            assert_eq!(read_refresh(&mut Reader::new(&written(&seen))), seen);
        }
    }

    /// A rolling restart: older nodes write nothing. I13: any cut is read.
    #[test]
    fn less_than_all_is_read() {
        assert_eq!(read_refresh(&mut Reader::new(&[])), RefreshFacts::default());
        let whole = written(&facts());
        for len in 0..whole.len() {
            assert_eq!(read_refresh(&mut Reader::new(&whole[..len])).copy, None);
        }
    }

    /// A rolling restart: an older node stops behind any of the last fields.
    #[test]
    fn each_of_the_last_fields_may_be_missing() {
        let proof = CopyProof { is_proved: true, read_at: TransactionId(181) };
        let bare = Inspection { memory_age_ms: Some(4), refresh: facts(), ..Inspection::default() };
        let proved = Inspection { proof: Some(proof), ..bare.clone() };
        let held = Inspection { held_back_ms: Some(300), ..proved.clone() };
        let all = Inspection { is_too_large: true, ..held.clone() };
        // What is held back or too large has no copy.
        let absent = Inspection { held_back_ms: Some(1), is_too_large: true, ..Inspection::default() };
        for seen in [&bare, &proved, &held, &all, &Inspection { proof: None, ..all.clone() }, &absent] {
            assert_eq!(decode_inspection(&encode_inspection(seen)).as_ref(), Some(seen));
        }
        let bytes = encode_inspection(&all);
        let read: Vec<_> = (0..=bytes.len()).filter_map(|len| decode_inspection(&bytes[..len])).collect();
        // Each field appears whole, behind the ones before it.
        let tail: Vec<_> = read.iter().rev().filter(|seen| seen.refresh == facts()).collect();
        assert_eq!(tail.first(), Some(&&all));
        assert!(tail.iter().all(|seen| [&all, &held, &proved, &bare].contains(seen)), "{tail:?}");
        for stage in [&held, &proved, &bare] {
            assert!(tail.contains(&stage), "{stage:?}");
        }
    }

    fn prefetched_bytes(view: Option<&PrefetchedView>) -> Vec<u8> {
        let mut writer = Writer::new();
        write_prefetched(view, &mut writer);
        writer.into_bytes()
    }

    /// I13: a cut message reads as absent; a long text is cut where a character ends.
    #[test]
    fn it_comes_back_as_it_went_or_not_at_all() {
        let by = NodeName::new("node-b").unwrap();
        let because = "MATCH (p:Person {id: $id}) RETURN p".to_owned();
        let view = PrefetchedView { because, by, kind: CandidateKind::Template, p: 0.62, is_used: true };
        let whole = prefetched_bytes(Some(&view));
        assert_eq!(read_prefetched(&mut Reader::new(&whole)), Some(view.clone()));
        for len in 0..whole.len() {
            assert_eq!(read_prefetched(&mut Reader::new(&whole[..len])), None, "{len}");
        }
        assert_eq!(read_prefetched(&mut Reader::new(&prefetched_bytes(None))), None);
        let long = PrefetchedView { because: "é".repeat(PREFETCH_BECAUSE_BYTES_MAX), ..view };
        let read = read_prefetched(&mut Reader::new(&prefetched_bytes(Some(&long)))).unwrap();
        assert_eq!(read.because.len(), PREFETCH_BECAUSE_BYTES_MAX & !1);
    }
}
