//! A run without hop, lease and store, for a read whose caching does not pay (`hopcache_core::pattern_worth`). Its answer is as good
//! as that of a miss: it carries the same bookmarks, waits in the same line and is counted in the same place. Nobody keeps it.

use crate::fetch::run::RunUnder;
use crate::fetch::{Fetch, FetchResult};
use crate::model::event::Event;
use crate::model::job::FetchJob;

impl Fetch {
    /// Runs the query for the clients of this node that wait for it.
    pub(crate) async fn run_directly(&self, job: &FetchJob) -> FetchResult {
        let (job, began) = (&self.marked(job), self.context.now());
        let result = self.run(job, RunUnder::directly()).await;
        if matches!(result, FetchResult::Ran { .. }) {
            self.context.note(Event::RunDirectly);
        }
        self.note_ended(job, began);
        if let FetchResult::Ran { copy, live: None, .. } = &result {
            self.cache.prepare(copy, job.rendering).await;
        }
        result
    }
}
