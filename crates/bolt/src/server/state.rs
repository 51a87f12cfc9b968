//! The server's states: which request is allowed in which state, and which state follows ("Server state specification").
//!
//! | state | HELLO | LOGON | LOGOFF | TELEMETRY, ROUTE | RUN | PULL, DISCARD | BEGIN | COMMIT, ROLLBACK | RESET |
//! |---|---|---|---|---|---|---|---|---|---|
//! | NEGOTIATION | AUTHENTICATION¹ | – | – | – | – | – | – | – | – |
//! | AUTHENTICATION | – | READY | – | – | – | – | – | – | – |
//! | READY | – | – | AUTHENTICATION | READY | STREAMING | – | TX_READY | – | READY |
//! | STREAMING | – | – | – | – | – | READY² | – | – | READY |
//! | TX_READY | – | – | – | – | TX_STREAMING | – | – | READY | READY |
//! | TX_STREAMING | – | – | – | – | TX_STREAMING | TX_READY² | – | READY³ | READY |
//! | FAILED, INTERRUPTED | ignored | ignored | … | | | | | ignored | READY |
//!
//! ¹ READY below 5.1, where HELLO has the credentials. ² When no result is open any more; until then the state stays.
//! ³ The specification names no such step; Neo4j 5.26 takes it, and drops the open results. A dash is a violation:
//! the server answers FAILURE, and the connection ends. A failure leads to FAILED, or to DEFUNCT before READY was
//! reached. GOODBYE always leads to DEFUNCT.

use super::handshake::Version;
use super::request::Kind;

/// A state of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// A version is agreed on; HELLO is awaited.
    Negotiation,
    /// LOGON is awaited.
    Authentication,
    /// Nothing is under way.
    Ready,
    /// The result of an auto-commit statement is open.
    Streaming,
    /// A transaction is open, without open results.
    TxReady,
    /// A transaction is open, with open results.
    TxStreaming,
    /// Something failed: everything is ignored until RESET.
    Failed,
    /// A RESET has overtaken other requests: all requests before it are ignored.
    Interrupted,
    /// The connection has ended.
    Defunct,
}

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Carry it out, then report how it ended.
    Handle,
    /// Answer IGNORED.
    Ignore,
    /// Answer FAILURE and close.
    Violation,
    /// Close.
    End,
}

/// How a handled request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// SUCCESS, with the number of results that are open afterwards.
    Success {
        /// Open results of the transaction, or of the auto-commit statement.
        open_results: usize,
    },
    /// FAILURE.
    Failure,
}

/// The state of one connection.
#[derive(Debug, Clone)]
pub struct Machine {
    version: Version,
    state: State,
}

impl Machine {
    /// A connection on which this version was agreed.
    #[must_use]
    pub const fn new(version: Version) -> Self {
        Self { version, state: State::Negotiation }
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// What to do with a request. A violation ends the connection here and now.
    pub fn admit(&mut self, kind: Kind) -> Admission {
        let admission = admission(self.state, kind);
        if matches!(admission, Admission::Violation | Admission::End) {
            self.state = State::Defunct;
        }
        admission
    }

    /// A handled request has ended.
    pub fn ended(&mut self, kind: Kind, ending: Ending) {
        self.state = after(self.state, kind, ending, self.version);
    }

    /// A RESET has come while a request was handled. Nothing changes before a log-on.
    pub fn interrupt(&mut self) {
        if !matches!(self.state, State::Negotiation | State::Authentication | State::Defunct) {
            self.state = State::Interrupted;
        }
    }

    /// The connection has ended.
    pub fn end(&mut self) {
        self.state = State::Defunct;
    }
}

const fn admission(state: State, kind: Kind) -> Admission {
    match (state, kind) {
        (State::Defunct, _) | (_, Kind::Goodbye) => Admission::End,
        (State::Negotiation, Kind::Hello)
        | (State::Authentication, Kind::Logon)
        | (
            State::Ready,
            Kind::Logoff | Kind::Telemetry | Kind::Route | Kind::Run | Kind::Begin | Kind::Reset,
        )
        | (State::Streaming, Kind::Pull | Kind::Discard | Kind::Reset)
        | (State::TxReady, Kind::Run | Kind::Commit | Kind::Rollback | Kind::Reset)
        | (
            State::TxStreaming,
            Kind::Run | Kind::Pull | Kind::Discard | Kind::Commit | Kind::Rollback | Kind::Reset,
        )
        | (State::Failed | State::Interrupted, Kind::Reset) => Admission::Handle,
        (State::Failed | State::Interrupted, _) => Admission::Ignore,
        _ => Admission::Violation,
    }
}

const fn after(state: State, kind: Kind, ending: Ending, version: Version) -> State {
    let open_results = match ending {
        Ending::Success { open_results } => open_results,
        Ending::Failure => {
            return match (state, kind) {
                (State::Negotiation | State::Authentication | State::Defunct, _) | (_, Kind::Reset) => {
                    State::Defunct
                }
                _ => State::Failed,
            };
        }
    };
    match kind {
        Kind::Hello if version.has_logon() => State::Authentication,
        Kind::Hello | Kind::Logon | Kind::Reset | Kind::Commit | Kind::Rollback => State::Ready,
        Kind::Logoff => State::Authentication,
        Kind::Begin => State::TxReady,
        Kind::Telemetry | Kind::Route => state,
        Kind::Goodbye => State::Defunct,
        Kind::Run | Kind::Pull | Kind::Discard => match (state, open_results) {
            (State::TxReady | State::TxStreaming, 0) => State::TxReady,
            (State::TxReady | State::TxStreaming, _) => State::TxStreaming,
            (_, 0) => State::Ready,
            (_, _) => State::Streaming,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Kind::*;

    const V5: Version = Version::new(5, 8);
    const DONE: Ending = Ending::Success { open_results: 0 };
    const OPEN: Ending = Ending::Success { open_results: 1 };

    fn at(state: State) -> Machine {
        Machine { version: V5, state }
    }

    /// The specification's table, row by row: everything else is a violation.
    #[test]
    fn each_state_takes_what_the_specification_says() {
        let rows: [(State, &[Kind]); 6] = [
            (State::Negotiation, &[Hello]),
            (State::Authentication, &[Logon]),
            (State::Ready, &[Logoff, Telemetry, Route, Run, Begin, Reset]),
            (State::Streaming, &[Pull, Discard, Reset]),
            (State::TxReady, &[Run, Commit, Rollback, Reset]),
            (State::TxStreaming, &[Run, Pull, Discard, Commit, Rollback, Reset]),
        ];
        for (state, taken) in rows {
            for kind in Kind::ALL {
                let (mut machine, expected) = match kind {
                    Goodbye => (at(state), Admission::End),
                    _ if taken.contains(&kind) => (at(state), Admission::Handle),
                    _ => (at(state), Admission::Violation),
                };
                assert_eq!(machine.admit(kind), expected, "{state:?} {kind:?}");
                let ends = expected != Admission::Handle;
                assert_eq!(machine.state() == State::Defunct, ends, "{state:?} {kind:?}");
            }
        }
        for state in [State::Failed, State::Interrupted] {
            for kind in Kind::ALL {
                let expected = match kind {
                    Goodbye => Admission::End,
                    Reset => Admission::Handle,
                    _ => Admission::Ignore,
                };
                assert_eq!(at(state).admit(kind), expected, "{state:?} {kind:?}");
            }
        }
    }

    #[test]
    fn successes_lead_where_the_specification_says() {
        for (state, kind, ending, next) in [
            (State::Negotiation, Hello, DONE, State::Authentication),
            (State::Authentication, Logon, DONE, State::Ready),
            (State::Ready, Logoff, DONE, State::Authentication),
            (State::Ready, Telemetry, DONE, State::Ready),
            (State::Ready, Route, DONE, State::Ready),
            (State::Ready, Run, OPEN, State::Streaming),
            (State::Ready, Begin, DONE, State::TxReady),
            (State::Streaming, Pull, OPEN, State::Streaming),
            (State::Streaming, Pull, DONE, State::Ready),
            (State::Streaming, Discard, DONE, State::Ready),
            (State::TxReady, Run, OPEN, State::TxStreaming),
            (State::TxReady, Commit, DONE, State::Ready),
            (State::TxReady, Rollback, DONE, State::Ready),
            (State::TxStreaming, Run, OPEN, State::TxStreaming),
            (State::TxStreaming, Pull, OPEN, State::TxStreaming),
            (State::TxStreaming, Discard, DONE, State::TxReady),
            (State::TxStreaming, Commit, DONE, State::Ready),
            (State::Failed, Reset, DONE, State::Ready),
            (State::Interrupted, Reset, DONE, State::Ready),
            (State::TxStreaming, Reset, DONE, State::Ready),
        ] {
            let mut machine = at(state);
            assert_eq!(machine.admit(kind), Admission::Handle);
            machine.ended(kind, ending);
            assert_eq!(machine.state(), next, "{state:?} {kind:?}");
        }
        let mut old = Machine { version: Version::new(5, 0), state: State::Negotiation };
        old.ended(Hello, DONE);
        assert_eq!(old.state(), State::Ready, "HELLO has the credentials");
    }

    #[test]
    fn failures_lead_to_failed_or_end_the_connection() {
        for (state, kind, next) in [
            (State::Negotiation, Hello, State::Defunct),
            (State::Authentication, Logon, State::Defunct),
            (State::Ready, Run, State::Failed),
            (State::Ready, Begin, State::Failed),
            (State::Ready, Logoff, State::Failed),
            (State::Streaming, Pull, State::Failed),
            (State::TxReady, Commit, State::Failed),
            (State::TxStreaming, Run, State::Failed),
            (State::Failed, Reset, State::Defunct),
        ] {
            let mut machine = at(state);
            machine.ended(kind, Ending::Failure);
            assert_eq!(machine.state(), next, "{state:?} {kind:?}");
        }
    }

    #[test]
    fn an_interrupt_before_a_log_on_changes_nothing() {
        for state in [State::Negotiation, State::Authentication, State::Defunct] {
            let mut machine = at(state);
            machine.interrupt();
            assert_eq!(machine.state(), state);
        }
    }

    proptest! {
        /// No order of requests and endings leads back from DEFUNCT, or past a log-on.
        #[test]
        fn nobody_is_ready_without_a_log_on(steps in proptest::collection::vec((0_usize..13, any::<bool>(), 0_usize..3), 0..60)) {
            let mut machine = Machine::new(V5);
            let (mut logged_on, mut was_defunct) = (false, false);
            for (kind, fails, open_results) in steps {
                let kind = Kind::ALL[kind];
                if machine.admit(kind) == Admission::Handle {
                    let ending = if fails { Ending::Failure } else { Ending::Success { open_results } };
                    machine.ended(kind, ending);
                    logged_on = match kind { Logon if !fails => true, Logoff if !fails => false, _ => logged_on };
                }
                let state = machine.state();
                let is_open = matches!(state, State::Ready | State::Streaming | State::TxReady | State::TxStreaming);
                prop_assert!(!is_open || logged_on);
                prop_assert!(!was_defunct || state == State::Defunct);
                was_defunct = state == State::Defunct;
            }
        }
    }
}
