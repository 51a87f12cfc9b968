//! I9: every table of an engine is within its limit, and every piece of work under way has a task that owns it. After
//! the last request nothing is left: no flight, no task, no lease.

use hopcache_core::limits::{
    ANCHORS_MAX, ANSWERED_MAX, BACKOFF_KEYS_MAX, COMMITS_QUEUED_MAX, CONSIDERED_MAX, DEGREE_QUEUE_MAX,
    FEEDBACK_MAX, FIELDS_KEPT_MAX, FLIGHTS_MAX, FORMS_READ_MAX, HANDOVER_RINGS_MAX, HISTORY_KEYS_MAX,
    MEMBERS_MAX, NEIGHBOUR_LABELS_MAX, OBSERVATIONS_MAX, ORDERED_MAX, PATTERNS_COSTED_MAX,
    PREFETCH_BACKOFF_KEYS_MAX, PREFETCH_TICKETS_MAX, PROSPECTS_MAX, QUERY_PATTERNS_MAX, REFUSED_FORMS_MAX,
    SESSIONS_BYTES_MAX, SESSIONS_MAX, SESSIONS_WAITING_MAX, STATEMENTS_READ_MAX, UNCACHEABLE_KEYS_MAX,
    VERDICTS_MAX, WIDTHS_MAX,
};
use hopcache_learning::Bounds;

use super::{Check, NodeView, StepView};
use crate::drive::profile::SLOTS_MAX;
use crate::world::origin::WAITING_PER_SLOT;
use crate::world::process::Power;
use crate::world::subject::{DATABASES, STATEMENTS};

pub(super) struct SizesHold;

impl Check for SizesHold {
    fn name(&self) -> &'static str {
        "I9 sizes"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for node in seen.nodes {
            within(node, seen.ground.subjects.len(), seen.nodes.len())?;
            learned(node, usize::try_from(seen.ground.policy.prefetch.patterns_max).unwrap_or(usize::MAX))?;
            if seen.is_quiet && node.power == Power::On {
                empty(node)?;
            }
        }
        Ok(())
    }
}

fn within(node: &NodeView, keys: usize, nodes: usize) -> Result<(), String> {
    let sizes = node.sizes;
    let texts = STATEMENTS.len() * DATABASES.len();
    let bounds = [
        ("flights", sizes.flights, FLIGHTS_MAX.min(keys)),
        // Requests with different bookmarks share no forward, so there may be more than keys and renderings.
        ("forwards", sizes.forwards, FLIGHTS_MAX),
        ("refreshes", sizes.refreshes, FLIGHTS_MAX.min(keys)),
        ("questions", sizes.questions, FLIGHTS_MAX.min(texts)),
        ("words", sizes.words, VERDICTS_MAX.min(texts)),
        ("patterns", sizes.patterns, PATTERNS_COSTED_MAX.min(texts)),
        ("keys", sizes.keys, HISTORY_KEYS_MAX.min(keys)),
        ("too large", sizes.too_large, UNCACHEABLE_KEYS_MAX.min(keys)),
        ("failed keys", sizes.failed_keys, BACKOFF_KEYS_MAX.min(keys)),
        ("failed prefetches", sizes.failed_prefetches, PREFETCH_BACKOFF_KEYS_MAX.min(keys)),
        // An anchor and a degree for each key, and a slow property and a question for some.
        ("degrees", sizes.degrees, 3 * keys + DEGREE_QUEUE_MAX),
        ("fallbacks", sizes.fallbacks, FLIGHTS_MAX.min(keys)),
        ("prefetches", sizes.prefetches, FLIGHTS_MAX.min(keys)),
        ("tickets", sizes.tickets, PREFETCH_TICKETS_MAX),
        ("breakers", sizes.breakers, MEMBERS_MAX.min(nodes)),
        ("former rings", sizes.former_rings, HANDOVER_RINGS_MAX),
        ("copies", usize::try_from(sizes.copies).unwrap_or(usize::MAX), keys),
        ("queued commits", sizes.commits_queued, COMMITS_QUEUED_MAX.min(keys)),
        // A lease, a flight or a forward without a task would never end. One task ends the leases of all queued commits.
        ("leases", sizes.leases, sizes.tasks + sizes.commits_queued),
        ("queued commits", sizes.commits_queued.min(1), sizes.tasks),
        ("flights and forwards", sizes.flights + sizes.forwards, sizes.tasks),
        ("slots in use", node.line.0, SLOTS_MAX),
        ("runs in line", node.line.1, WAITING_PER_SLOT * SLOTS_MAX),
    ];
    all_within(node, &bounds)
}

fn learned(node: &NodeView, patterns_max: usize) -> Result<(), String> {
    let sizes = node.sizes.learning;
    let bounds = Bounds::for_patterns(patterns_max);
    // Notes of launches and of received lessons, beside the results of queries.
    let noted_max = ORDERED_MAX + FEEDBACK_MAX + WIDTHS_MAX + REFUSED_FORMS_MAX + MEMBERS_MAX;
    let considered_max = ANCHORS_MAX + CONSIDERED_MAX + ANSWERED_MAX + STATEMENTS_READ_MAX + FORMS_READ_MAX;
    let considered_max = considered_max + NEIGHBOUR_LABELS_MAX + PROSPECTS_MAX;
    let remembered_max = considered_max + FIELDS_KEPT_MAX + QUERY_PATTERNS_MAX + noted_max;
    let bounds = [
        ("learned patterns", sizes.patterns, patterns_max),
        ("forms", sizes.forms, bounds.definition_bytes),
        ("sessions", sizes.sessions, SESSIONS_MAX),
        ("observations", sizes.waiting, OBSERVATIONS_MAX + SESSIONS_WAITING_MAX),
        ("remembered", sizes.remembered, remembered_max),
        ("session bytes", sizes.session_bytes, SESSIONS_BYTES_MAX),
        ("learned bytes", sizes.bytes, bounds.bytes_max()),
    ];
    all_within(node, &bounds)
}

fn all_within(node: &NodeView, bounds: &[(&str, usize, usize)]) -> Result<(), String> {
    match bounds.iter().find(|(_, size, most)| size > most) {
        None => Ok(()),
        Some((what, size, most)) => {
            Err(format!("{size} {what} at {:?}, {most} at most: {:?}", node.life, node.sizes))
        }
    }
}

fn empty(node: &NodeView) -> Result<(), String> {
    let sizes = node.sizes;
    let left = node.line.0
        + node.line.1
        + sizes.flights
        + sizes.forwards
        + sizes.refreshes
        + sizes.questions
        + sizes.leases
        + sizes.commits_queued
        + sizes.tasks
        + sizes.fallbacks
        + sizes.prefetches
        + sizes.learning.waiting;
    if left == 0 { Ok(()) } else { Err(format!("something is left at {:?}: {sizes:?}", node.life)) }
}
