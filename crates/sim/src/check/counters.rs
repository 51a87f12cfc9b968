//! Counters obey identities (DESIGN section 5): triggered refreshes = completed + failed + under way. Retries do not
//! change that.

use super::{Check, StepView};
use crate::world::process::Power;

pub(super) struct Identities;

impl Check for Identities {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for node in seen.nodes.iter().filter(|node| node.power == Power::On) {
            let (begun, ended, under_way) = node.refreshes;
            if begun != ended + under_way {
                return Err(format!(
                    "{:?} began {begun} refreshes, ended {ended}, and {under_way} are under way",
                    node.life
                ));
            }
        }
        Ok(())
    }
}
