//! The notifications that the client of one request wants (`notificationsFilter`), of a result that the cache keeps with all of them.

use hopcache_packstream::Value;
use hopcache_queryapi::render::ResponseForm;

use crate::bolt_front::options::filtered;

/// Plain data: how an answer is written whose notifications are filtered.
pub(crate) struct ShownFilter {
    pub(crate) form: ResponseForm,
    /// The filters, as options of Bolt.
    pub(crate) filter: Value,
}

impl ShownFilter {
    /// The summary with the notifications that the client wants.
    pub(crate) fn of(filter: &Value, summary: Value) -> Value {
        let Value::Map(pairs) = summary else { return summary };
        let wanted = |(name, value): (String, Value)| {
            let kept = if name == "notifications" { filtered(&value, filter, &Value::Null)? } else { value };
            Some((name, kept))
        };
        Value::Map(pairs.into_iter().filter_map(wanted).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, Value)]) -> Value {
        Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    #[test]
    fn what_is_not_wanted_is_left_out_and_nothing_else() {
        let note = map(&[("severity", "WARNING".into()), ("category", "UNRECOGNIZED".into())]);
        let summary = map(&[("t_first", Value::Int(1)), ("notifications", Value::List(vec![note]))]);
        let bare = map(&[("t_first", Value::Int(1))]);
        let severity = |least: &str| map(&[("notifications_minimum_severity", least.into())]);
        assert_eq!(ShownFilter::of(&severity("OFF"), summary.clone()), bare);
        assert_eq!(ShownFilter::of(&severity("WARNING"), summary.clone()), summary);
        let categories = Value::List(vec!["UNRECOGNIZED".into()]);
        let disabled = map(&[("notifications_disabled_categories", categories)]);
        assert_eq!(ShownFilter::of(&disabled, summary.clone()), bare);
    }
}
