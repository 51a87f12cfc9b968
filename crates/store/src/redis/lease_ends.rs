//! Many leases that end together: their commits and releases in one pipeline. So they cost one call, with one deadline and one
//! passage of the breaker.
//!
//! Each of them is a script of its own, so each is one atomic step, as a commit or a release by itself. A large entry has the
//! connection of bodies. It never shares a pipeline: a body before small commands would delay them.

use futures_util::future::join_all;
use hopcache_core::lease::Commit;
use hopcache_core::limits::{ENTRY_LIFE_MS_MAX, LEASE_RECORD_LINGER_MS};
use hopcache_engine::ports::{LeaseEnd, Store, StoreError};
use parking_lot::Mutex;
use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind};

use super::reply::{ends_connection, store_error};
use super::scripts::{Repeat, slot_keys};
use super::server_connection::Connection;
use super::{Load, RedisStore, nonce_text};

impl RedisStore {
    /// Ends leases together, and those of large entries beside them.
    pub(super) async fn end_together(&self, ends: &[LeaseEnd]) -> Vec<Result<bool, StoreError>> {
        let is_small = |end: &LeaseEnd| {
            end.entry.as_ref().is_none_or(|(entry, _)| matches!(Load::of(entry.len()), Load::Small))
        };
        let small: Vec<&LeaseEnd> = ends.iter().filter(|end| is_small(end)).collect();
        let large = ends.iter().filter(|end| !is_small(end)).map(|end| self.end_large(end));
        let (small, large) = tokio::join!(self.pipeline(&small), join_all(large));
        let (mut small, mut large) = (small.into_iter(), large.into_iter());
        let answers = ends.iter().map(|end| if is_small(end) { small.next() } else { large.next() });
        answers.map(|answer| answer.unwrap_or(Err(StoreError::TimedOut))).collect()
    }

    async fn end_large(&self, end: &LeaseEnd) -> Result<bool, StoreError> {
        match &end.entry {
            Some((entry, life_ms)) => {
                let commit = self.commit(&end.key, end.token, entry.clone(), *life_ms).await?;
                Ok(commit == Commit::Stored)
            }
            None => self.release(&end.key, end.token).await,
        }
    }

    async fn pipeline(&self, ends: &[&LeaseEnd]) -> Vec<Result<bool, StoreError>> {
        if ends.is_empty() {
            return Vec::new();
        }
        let beside_lost = Mutex::new(Vec::new());
        let kept = &beside_lost;
        let exchange = |mut connection: Connection| async move {
            let commands = ends.iter().map(|end| self.command_of(end, false)).collect();
            let mut answers = connection.query_all(commands).await?;
            self.send_unknown(&mut connection, ends, &mut answers).await?;
            let (answers, lost) = without_lost(answers);
            match lost {
                None => Ok(answers),
                Some(error) => {
                    *kept.lock() = answers;
                    Err(error)
                }
            }
        };
        // A second commit would be fenced by the first, as a second release by its own.
        let (mut answers, error) = match self.call(Load::Small, Repeat::Never, exchange).await {
            Ok(answers) => (answers, StoreError::TimedOut),
            Err(error) => (beside_lost.into_inner(), error),
        };
        answers.resize_with(ends.len(), || None);
        let read =
            |answer: Option<_>| answer.map_or_else(|| Err(error.clone()), |answer| self.read_end(answer));
        answers.into_iter().map(read).collect()
    }

    /// A server that does not know a script gets its text.
    async fn send_unknown(
        &self,
        connection: &mut Connection,
        ends: &[&LeaseEnd],
        answers: &mut [RedisResult<i64>],
    ) -> RedisResult<()> {
        let is_unknown = |answer: &RedisResult<i64>| {
            let kind = answer.as_ref().err().map(RedisError::kind);
            kind == Some(ErrorKind::Server(ServerErrorKind::NoScript))
        };
        let unknown: Vec<usize> = (0..answers.len()).filter(|at| is_unknown(&answers[*at])).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let commands = unknown.iter().filter_map(|at| ends.get(*at)).map(|end| self.command_of(end, true));
        let again = connection.query_all(commands.collect()).await?;
        for (at, answer) in unknown.into_iter().zip(again) {
            answers[at] = answer;
        }
        Ok(())
    }

    fn command_of(&self, end: &LeaseEnd, by_text: bool) -> Cmd {
        let script = if end.entry.is_some() { &self.scripts.commit } else { &self.scripts.release };
        let keys = slot_keys(&end.key);
        let mut command = if by_text { script.by_text(&keys) } else { script.by_digest(&keys) };
        command.arg(LEASE_RECORD_LINGER_MS).arg(end.token.counter).arg(nonce_text(end.token.nonce));
        if let Some((entry, life_ms)) = &end.entry {
            command.arg(life_ms.0.min(ENTRY_LIFE_MS_MAX)).arg(entry.as_ref());
        }
        command
    }

    fn read_end(&self, answer: RedisResult<i64>) -> Result<bool, StoreError> {
        answer.map(|done| done == 1).map_err(|error| {
            let error = store_error(&error);
            if matches!(error, StoreError::Refused(_)) {
                self.gate.refused(&error);
            }
            error
        })
    }
}

/// The answers without those whose server is not the master any more, or whose connection is broken; and the first of these errors.
/// Of a cluster, other servers have answered well.
fn without_lost(answers: Vec<RedisResult<i64>>) -> (Vec<Option<RedisResult<i64>>>, Option<RedisError>) {
    let mut lost = None;
    let mut good = Vec::with_capacity(answers.len());
    for answer in answers {
        good.push(match answer {
            Err(error) if ends_connection(&error) => {
                lost.get_or_insert(error);
                None
            }
            answer => Some(answer),
        });
    }
    (good, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_server_costs_only_its_own_answers() {
        let broken = || RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        let refused = || RedisError::from((ErrorKind::UnexpectedReturnType, "no number"));
        let (good, lost) = without_lost(vec![Ok(1), Err(broken()), Err(refused()), Ok(0)]);
        let good: Vec<_> = good.into_iter().map(|answer| answer.map(Result::ok)).collect();
        assert_eq!(good, [Some(Some(1)), None, Some(None), Some(Some(0))]);
        assert!(lost.is_some_and(|error| ends_connection(&error)));
        assert!(without_lost(vec![Ok(1), Err(refused())]).1.is_none());
    }
}
