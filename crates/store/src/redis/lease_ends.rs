//! Many leases that end together: their commits and releases in one pipeline. So they cost one call, with one deadline and one
//! passage of the breaker.
//!
//! One server ends [`ENDS_IN_SCRIPT_MAX`] of them in one script, which asks for the life of the content once: INFO costs Redis as much
//! as all else that it does for an end. A script is one atomic step, so the life is that of each of its ends. An end that fails leaves the
//! others as they are. In a cluster each is a script of its own, at its own slot. A large entry has the connection of bodies. It never
//! shares a pipeline: a body before small commands would delay them.

use futures_util::future::join_all;
use hopcache_core::lease::Commit;
use hopcache_core::limits::{ENDS_IN_SCRIPT_MAX, ENTRY_LIFE_MS_MAX, LEASE_RECORD_LINGER_MS};
use hopcache_engine::ports::{LeaseEnd, Store, StoreError};
use parking_lot::Mutex;
use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

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
            let in_script = if connection.has_one_server() { ENDS_IN_SCRIPT_MAX } else { 1 };
            let parts: Vec<&[&LeaseEnd]> = ends.chunks(in_script).collect();
            let commands = parts.iter().map(|part| self.command_of(part, false)).collect();
            let mut answers = connection.query_all(commands).await?;
            self.send_unknown(&mut connection, &parts, &mut answers).await?;
            let each = parts.iter().zip(answers).flat_map(|(part, answer)| answers_of(part.len(), answer));
            let (answers, lost) = without_lost(each.collect());
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
        parts: &[&[&LeaseEnd]],
        answers: &mut [RedisResult<Value>],
    ) -> RedisResult<()> {
        let is_unknown = |answer: &RedisResult<Value>| {
            let kind = answer.as_ref().err().map(RedisError::kind);
            kind == Some(ErrorKind::Server(ServerErrorKind::NoScript))
        };
        let unknown: Vec<usize> = (0..answers.len()).filter(|at| is_unknown(&answers[*at])).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let commands = unknown.iter().filter_map(|at| parts.get(*at)).map(|part| self.command_of(part, true));
        let again = connection.query_all(commands.collect()).await?;
        for (at, answer) in unknown.into_iter().zip(again) {
            answers[at] = answer;
        }
        Ok(())
    }

    fn command_of(&self, part: &[&LeaseEnd], by_text: bool) -> Cmd {
        let script = match part {
            [LeaseEnd { entry: Some(_), .. }] => &self.scripts.commit,
            [LeaseEnd { entry: None, .. }] => &self.scripts.release,
            _ => &self.scripts.ends,
        };
        let keys: Vec<String> = part.iter().flat_map(|end| slot_keys(&end.key)).collect();
        let mut command = if by_text { script.by_text(&keys) } else { script.by_digest(&keys) };
        command.arg(LEASE_RECORD_LINGER_MS);
        for end in part {
            command.arg(end.token.counter).arg(nonce_text(end.token.nonce));
            match &end.entry {
                Some((entry, life_ms)) => {
                    command.arg(life_ms.0.min(ENTRY_LIFE_MS_MAX)).arg(entry.as_ref());
                }
                None if part.len() > 1 => {
                    command.arg("").arg("");
                }
                None => {}
            }
        }
        self.life.tell(&mut command);
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

/// The answers of a script to each of its ends.
fn answers_of(ends: usize, answer: RedisResult<Value>) -> Vec<RedisResult<i64>> {
    let one = |answer: Value| match answer {
        Value::Int(done) => Ok(done),
        Value::BulkString(error) => Err(of_script(String::from_utf8_lossy(&error).into_owned())),
        other => Err(RedisError::from((
            ErrorKind::UnexpectedReturnType,
            "no end of a lease",
            format!("{other:?}"),
        ))),
    };
    match answer {
        Ok(Value::Array(each)) if each.len() == ends => each.into_iter().map(one).collect(),
        Ok(answer) if ends == 1 => vec![one(answer)],
        Ok(other) => {
            let error = RedisError::from((
                ErrorKind::UnexpectedReturnType,
                "no ends of leases",
                format!("{other:?}"),
            ));
            vec![Err(error); ends]
        }
        Err(error) => vec![Err(error); ends],
    }
}

/// An error of a command in a script, which had said it by itself.
fn of_script(error: String) -> RedisError {
    RedisError::from((ErrorKind::Server(ServerErrorKind::ResponseError), "in a script", error))
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
    fn each_end_has_its_answer() {
        let said = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let answers =
            answers_of(3, Ok(Value::Array(vec![Value::Int(1), said("READONLY no"), Value::Int(0)])));
        let kinds: Vec<_> = answers.iter().map(|answer| answer.as_ref().ok()).collect();
        assert_eq!(kinds, [Some(&1), None, Some(&0)]);
        assert!(answers[1].as_ref().is_err_and(ends_connection), "its server is not the master any more");
        for text in ["OOM command not allowed", "@user_script: 3: WRONGTYPE Operation", "NOPERM no"] {
            assert!(matches!(store_error(&of_script(text.to_owned())), StoreError::Refused(_)), "{text}");
        }
        assert!(matches!(answers_of(1, Ok(Value::Int(1))).as_slice(), [Ok(1)]));
        for other in [Value::Array(vec![Value::Int(1)]), Value::Nil] {
            assert!(answers_of(2, Ok(other)).iter().all(Result::is_err));
        }
        assert_eq!(answers_of(2, Err(of_script("ERR".to_owned()))).len(), 2);
    }

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
