//! Messages for operators about problems with the store: one list for the log and for `readyz`.
//!
//! The messages are fixed, because anybody can read `readyz`. The store's address stands beside them, as members'
//! addresses do. Only the log has the server's own message.

use hopcache_engine::ports::StoreError;

/// A kind of problem with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreProblem {
    /// It does not answer, or not in time.
    Absent,
    /// Its certificate is not trusted.
    Certificate,
    /// It does not accept this node's user and password.
    LogOn,
    /// Its ACL denies what the scripts need.
    Rights,
    /// It has no memory left.
    Full,
    /// It is a replica.
    ReadOnly,
    /// It refuses for another reason.
    Refuses,
}

impl StoreProblem {
    /// The kind of an error.
    #[must_use]
    pub fn of(error: &StoreError) -> Self {
        let text = match error {
            StoreError::Refused(text) => text,
            // redis shows an error of TLS as text only.
            StoreError::Unreachable(text) if text.contains("invalid peer certificate") => {
                return Self::Certificate;
            }
            _ => return Self::Absent,
        };
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        // Before a log-on Redis reads no longer command: "Protocol error: unauthenticated multibulk length". Inside a script Redis 7.0 and 7.2 have
        // another message for NOPERM.
        if says(&["WRONGPASS", "NOAUTH", "AUTH", "Password authentication failed", ": unauthenticated "]) {
            Self::LogOn
        } else if says(&["NOPERM", "no permissions", "ACL failure", "can't run this command"]) {
            Self::Rights
        } else if says(&["OOM"]) {
            Self::Full
        } else if says(&["READONLY", "read only replica"]) {
            Self::ReadOnly
        } else {
            Self::Refuses
        }
    }

    /// The message: the problem, and the action to take.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Absent => {
                "the store cannot be reached, or does not answer in time: look at the log and the uptime of Redis, and at the network. It is tried again by itself"
            }
            Self::Certificate => {
                "the store's certificate is not trusted: set store.ca_file to the PEM file of the authority that signed it; the certificate has to name the host of store.uri"
            }
            Self::LogOn => "the store refuses this node's log-on: check user and password in store.uri",
            Self::Rights => {
                "the store denies commands that the node needs: give its user the rights in docs/operating/redis.md"
            }
            Self::Full => "the store is full: hits are served, nothing is stored; give it more memory",
            Self::ReadOnly => {
                "the store is a read-only replica: nothing is stored; name the primary, or use redis+sentinel://"
            }
            Self::Refuses => "the store refuses; its message is in the node's log",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_say_is_told_apart() {
        let problem = |text: &str| StoreProblem::of(&StoreError::Refused(text.to_owned()));
        assert_eq!(StoreProblem::of(&StoreError::TimedOut), StoreProblem::Absent);
        assert_eq!(StoreProblem::of(&StoreError::Unreachable("NOAUTH".to_owned())), StoreProblem::Absent);
        let untrusted = StoreError::Unreachable("invalid peer certificate: UnknownIssuer - Io".to_owned());
        assert_eq!(StoreProblem::of(&untrusted), StoreProblem::Certificate);
        assert_eq!(
            problem("\"WRONGPASS\": invalid username-password pair or user is disabled."),
            StoreProblem::LogOn
        );
        assert_eq!(problem("\"NOAUTH\": Authentication required."), StoreProblem::LogOn);
        let too_long = "ResponseError: Protocol error: unauthenticated multibulk length";
        assert_eq!(problem(too_long), StoreProblem::LogOn);
        assert_eq!(
            problem("\"NOPERM\": this user has no permissions to run the 'evalsha' command"),
            StoreProblem::Rights
        );
        assert_eq!(problem("ACL failure in script: User weak has no permissions"), StoreProblem::Rights);
        assert_eq!(
            problem("The user executing the script can't run this command or subcommand"),
            StoreProblem::Rights
        );
        assert_eq!(
            problem("\"OOM\": command not allowed when used memory > 'maxmemory'."),
            StoreProblem::Full
        );
        assert_eq!(
            problem("\"READONLY\": You can't write against a read only replica."),
            StoreProblem::ReadOnly
        );
        assert_eq!(problem("\"MISCONF\": Redis is configured to save RDB snapshots"), StoreProblem::Refuses);
    }
}
