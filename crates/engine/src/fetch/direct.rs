//! A run without hop, lease and store, for a read whose caching does not pay (`hopcache_core::pattern_worth`). Its answer is as good
//! as that of a miss: it carries the same bookmarks, waits in the same line and is counted in the same place. Nobody keeps it.

use crate::fetch::run::RunUnder;
use crate::fetch::{Fetch, FetchResult};
use crate::model::bounds::ValueBounds;
use crate::model::event::Event;
use crate::model::fetch_times::FetchTimes;
use crate::model::job::FetchJob;
use crate::model::ports::EndedFetch;

impl Fetch {
    /// Runs the query for the clients of this node that wait for it.
    pub(crate) async fn run_directly(&self, job: &FetchJob) -> FetchResult {
        let written = self.cache.write_positions().needed(&job.query, job.bounds.written);
        let bounds = ValueBounds { written, ..job.bounds.clone() };
        let job = &FetchJob { bounds, times: FetchTimes::default(), ..job.clone() };
        let began = self.context.now();
        let result = self.run(job, RunUnder::directly()).await;
        if matches!(result, FetchResult::Ran { .. }) {
            self.context.note(Event::RunDirectly);
        }
        self.context.fetched(&EndedFetch {
            query: &job.query,
            cause: job.cause,
            took_ms: self.context.now().since(began),
            times: &job.times,
            traceparent: job.traceparent.as_deref(),
        });
        if let FetchResult::Ran { copy, live: None, .. } = &result {
            self.cache.prepare(copy, job.rendering).await;
        }
        result
    }
}
