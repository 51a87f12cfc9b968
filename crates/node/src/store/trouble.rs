//! Messages for operators about trouble with the store: one list for the log and for `readyz`.
//!
//! The messages are fixed, because anybody can read `readyz`: where the store is stands beside them, as members' addresses do.
//! Only the log has the server's own message.

use hopcache_engine::ports::StoreError;

/// A kind of trouble with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
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

impl Trouble {
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
        // Inside a script Redis 7.0 and 7.2 have another message for NOPERM.
        if says(&["WRONGPASS", "NOAUTH", "AUTH", "Password authentication failed"]) {
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

    /// The message: what is wrong, and what to do.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Absent => {
                "the store cannot be reached, or does not answer in time; it is tried again by itself"
            }
            Self::Certificate => {
                "the store's certificate is not trusted: set store.ca_file to the PEM file of the authority that signed it; the certificate has to name the host of store.uri"
            }
            Self::LogOn => "the store refuses this node's log-on: check user and password in store.uri",
            Self::Rights => {
                "the store denies commands that the node needs: give its user the rights in docs/OPERATING.md"
            }
            Self::Full => "the store is full: hits are served, nothing is stored; give it more memory",
            Self::ReadOnly => {
                "the store is a read-only replica: nothing is stored; name the primary, or use redis+sentinel://"
            }
            Self::Refuses => "the store refuses; the node's log has its words",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_say_is_told_apart() {
        let trouble = |text: &str| Trouble::of(&StoreError::Refused(text.to_owned()));
        assert_eq!(Trouble::of(&StoreError::TimedOut), Trouble::Absent);
        assert_eq!(Trouble::of(&StoreError::Unreachable("NOAUTH".to_owned())), Trouble::Absent);
        let untrusted = StoreError::Unreachable("invalid peer certificate: UnknownIssuer - Io".to_owned());
        assert_eq!(Trouble::of(&untrusted), Trouble::Certificate);
        assert_eq!(
            trouble("\"WRONGPASS\": invalid username-password pair or user is disabled."),
            Trouble::LogOn
        );
        assert_eq!(trouble("\"NOAUTH\": Authentication required."), Trouble::LogOn);
        assert_eq!(
            trouble("\"NOPERM\": this user has no permissions to run the 'evalsha' command"),
            Trouble::Rights
        );
        assert_eq!(trouble("ACL failure in script: User weak has no permissions"), Trouble::Rights);
        assert_eq!(
            trouble("The user executing the script can't run this command or subcommand"),
            Trouble::Rights
        );
        assert_eq!(trouble("\"OOM\": command not allowed when used memory > 'maxmemory'."), Trouble::Full);
        assert_eq!(trouble("\"READONLY\": You can't write against a read only replica."), Trouble::ReadOnly);
        assert_eq!(trouble("\"MISCONF\": Redis is configured to save RDB snapshots"), Trouble::Refuses);
    }
}
