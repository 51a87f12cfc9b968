//! I5: an answer or an error belongs to the requested statement, principal and database. The same query has the same
//! key in every order of its parameters (DESIGN "Key").

use std::collections::BTreeMap;

use super::{Check, StepView};
use crate::check::record::{KeyId, What};

#[derive(Default)]
pub(super) struct Identities {
    keys: BTreeMap<usize, KeyId>,
}

impl Check for Identities {
    fn name(&self) -> &'static str {
        "I5 identity"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            if let What::Asked { subject, key, .. } = &fact.what
                && *self.keys.entry(*subject).or_insert(*key) != *key
            {
                return Err(format!("the same was asked under another key: {fact}"));
            }
            let What::Answered { ask, served } = &fact.what else { continue };
            let Some(ask) = seen.ground.asks.get(ask) else { continue };
            if let Some(report) = served.report
                && report.subject != ask.subject
            {
                return Err(format!("asked {} and got another's: {fact}", ask.subject));
            }
            let subject = served.failure.as_deref().and_then(|text| text.split("subject=").nth(1));
            let place = subject.and_then(|text| text.split(';').next()?.parse::<usize>().ok());
            if place.is_some_and(|place| place != ask.subject) {
                return Err(format!("asked {} and got another's error: {fact}", ask.subject));
            }
        }
        Ok(())
    }
}
