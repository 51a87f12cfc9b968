//! One request, start to end (DESIGN section 3), on one screen.
//!
//! It returns an outcome. Status codes, headers and metrics are made from that elsewhere, so
//! nothing here can answer one thing and count another.

use std::sync::Arc;

use hopcache_core::limits::FORWARDS_MAX;

use crate::ask::{Ask, RequestBypass};
use crate::classify::Verdict;
use crate::engine::Engine;
use crate::here::Here;
use crate::outcome::{FailureKind, Outcome, Reason, Role};
use crate::route::Hop;

impl Engine {
    /// Answers a client's request at this, its entry node.
    pub async fn answer(self: &Arc<Self>, ask: &Ask) -> Outcome {
        let verdict = self.verdict(&ask.query);
        if ask.freshness.only_if_cached && (ask.bypass.is_some() || matches!(verdict, Verdict::Bypass(_))) {
            return self.not_cached(ask);
        }
        if let Verdict::Bypass(reason) = verdict {
            return self.bypass(ask, reason).await;
        }
        match &ask.bypass {
            Some(RequestBypass::NoStore) => return self.bypass(ask, Reason::NoStore).await,
            Some(RequestBypass::Bookmarks(_)) => return self.bypass(ask, Reason::Bookmarks).await,
            None => {}
        }
        let here = tokio::select! {
            biased;
            here = self.at_owner(ask) => here,
            () = self.turned_away() => {
                Here::Answered(self.failed(ask, FailureKind::Leaving.into(), Role::Joined))
            }
        };
        match here {
            Here::Answered(outcome) => outcome,
            Here::NotARead(reason) => self.bypass(ask, reason).await,
            Here::Elsewhere => self.failed(ask, FailureKind::Overloaded.into(), Role::Joined),
        }
    }

    /// A fresh copy in this node's memory, where this node owns the key, else a near copy: no await, no lock,
    /// no hop.
    #[must_use]
    pub fn hit(self: &Arc<Self>, ask: &Ask) -> Option<Outcome> {
        if ask.bypass.is_some() {
            return None;
        }
        if self.ports.routing.view().owner(&ask.query.key) == Some(&self.me.node) {
            self.from_memory(ask)
        } else {
            self.near_hit(ask)
        }
    }

    /// The owner answers; where it is gone the next distinct node of the ring does, and this one at
    /// the latest. Whoever it is, the store's lease keeps it to one run.
    pub(crate) async fn at_owner(self: &Arc<Self>, ask: &Ask) -> Here {
        // Once, however many nodes are asked for it.
        self.pay_for_retries();
        let view = self.ports.routing.view();
        for node in view.order(&ask.query.key).take(FORWARDS_MAX) {
            if *node == self.me.node {
                break;
            }
            match self.forward(ask, node).await {
                Hop::Answered(here) => return self.or_spare_beside(ask, here).await,
                Hop::NextNode => {}
            }
        }
        match self.answer_here(ask).await {
            Here::Elsewhere => self.at_new_owner(ask).await,
            here => here,
        }
    }
}
