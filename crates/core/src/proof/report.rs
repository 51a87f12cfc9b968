//! A watcher's report, as the store keeps it.

use super::accounts::Accounts;
use crate::bookmark::{DatabaseUuid, TransactionId};
use crate::key::{DatabaseTag, ServerTag};
use crate::write_position::WriteEpoch;

/// The number of a look at the store. Looks of all nodes have one numbering, while the store keeps its content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PollNumber(pub u64);

/// One run of a Neo4j server, between its start and its stop: a digest of what the server says of itself. A database's files can
/// be put back between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct ServerRun(pub u64);

impl ServerRun {
    /// The digest of what a server says: FNV-1a, the same in every build.
    #[must_use]
    pub fn of(said: &[u8]) -> Self {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let take = |digest: u64, byte: &u8| (digest ^ u64::from(*byte)).wrapping_mul(PRIME);
        Self(said.iter().fold(0xcbf2_9ce4_8422_2325, take))
    }
}

/// Plain data: what a report says beside ids of the database. A result keeps what its node knew when its run began, so that a node that
/// starts later knows whether users, rights, the numbering and the server are still the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerState {
    /// The numbering of the database's ids.
    pub epoch: WriteEpoch,
    /// The newest transaction of `system`.
    pub system: TransactionId,
    /// The run of the server. Where the server tells none there is no such state: files that were put back would not show.
    pub run: ServerRun,
}

impl ServerState {
    /// Length of [`ServerState::write`].
    pub(crate) const BYTES: usize = 24;

    /// Appends it in the form that entries use.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        [self.epoch.0, self.system.0, self.run.0].iter().for_each(|part| out.extend(part.to_be_bytes()));
    }

    /// Reads [`ServerState::write`]'s bytes off the front; nothing where there are too few.
    pub(crate) fn read(bytes: &mut &[u8]) -> Option<Self> {
        let mut part = || {
            let (part, rest) = bytes.split_first_chunk::<8>()?;
            *bytes = rest;
            Some(u64::from_be_bytes(*part))
        };
        let (epoch, system, run) = (part()?, part()?, part()?);
        Some(Self { epoch: WriteEpoch(epoch), system: TransactionId(system), run: ServerRun(run) })
    }
}

/// What the watcher of a database has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// A name of the database.
    pub name: DatabaseTag,
    /// The database.
    pub database: DatabaseUuid,
    /// The numbering of its ids.
    pub epoch: WriteEpoch,
    /// The last id that may be foreign. Whoever carried it has seen all foreign transactions.
    pub foreign: TransactionId,
    /// The newest transaction of Neo4j's `system` database: users and rights.
    pub system: TransactionId,
    /// The run of the server that answered; `None` if the server does not tell.
    pub run: Option<ServerRun>,
    /// The watcher's Neo4j.
    pub server: ServerTag,
    /// A look of the watcher that had ended when it asked Neo4j.
    pub polled: PollNumber,
    /// All ids up to [`Accounts::settled`] are known or foreign. The next watcher goes on from here.
    pub accounts: Accounts,
}

impl Report {
    /// See [`ServerState`].
    #[must_use]
    pub fn server_state(&self) -> Option<ServerState> {
        Some(ServerState { epoch: self.epoch, system: self.system, run: self.run? })
    }

    /// As the store keeps it: parts with a space between them. The first are the name, the number of the look, and the database, all
    /// in hexadecimal digits of fixed length.
    #[must_use]
    pub fn to_text(&self) -> String {
        let database = self.database.to_hex();
        let mut text = format!(
            "{:016x} {:016x} {database} {:x} {:x} {:x} {:x}",
            self.name.0, self.polled.0, self.epoch.0, self.accounts.settled.0, self.foreign.0, self.system.0
        );
        match self.run {
            Some(run) => text.push_str(&format!(" {:x}", run.0)),
            None => text.push_str(" -"),
        }
        text.push_str(&format!(" {:x}", self.server.0));
        for (node, number) in &self.accounts.doubted {
            text.push_str(&format!(" {node} {number:x}"));
        }
        text
    }

    /// Reads [`Report::to_text`]; `None` if the text is none.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let hex = |part: Option<&str>| u64::from_str_radix(part?, 16).ok();
        let name = DatabaseTag(hex(parts.next().filter(|part| part.len() == 16))?);
        let polled = PollNumber(hex(parts.next().filter(|part| part.len() == 16))?);
        let database = DatabaseUuid::from_hex(parts.next()?)?;
        let epoch = WriteEpoch(hex(parts.next())?);
        let settled = TransactionId(hex(parts.next())?);
        let foreign = TransactionId(hex(parts.next())?);
        let system = TransactionId(hex(parts.next())?);
        let run = match parts.next()? {
            "-" => None,
            run => Some(ServerRun(hex(Some(run))?)),
        };
        let server = ServerTag(hex(parts.next())?);
        let mut accounts = Accounts { settled, ..Accounts::default() };
        while let Some(node) = parts.next() {
            accounts.doubted.insert(node.parse().ok()?, hex(parts.next())?);
        }
        Some(Self { name, database, epoch, foreign, system, run, server, polled, accounts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published values of FNV-1a.
    #[test]
    fn a_run_is_the_digest_of_what_the_server_says() {
        assert_eq!(ServerRun::of(b""), ServerRun(0xcbf2_9ce4_8422_2325));
        assert_eq!(ServerRun::of(b"foobar"), ServerRun(0x8594_4171_f739_67e8));
    }

    #[test]
    fn a_report_survives_its_text() {
        let node: Result<crate::node::Holder, _> = "node-b#00000000000000ff".parse();
        let report = Report {
            name: DatabaseTag(0xfeed),
            database: DatabaseUuid([0xab; 16]),
            epoch: WriteEpoch(3),
            foreign: TransactionId(41),
            system: TransactionId(7),
            run: Some(ServerRun(0x1795_6270)),
            server: ServerTag(0xbee),
            polled: PollNumber(900),
            accounts: Accounts {
                settled: TransactionId(55),
                doubted: node.into_iter().map(|node| (node, 18)).collect(),
            },
        };
        let text = report.to_text();
        let untold = Report { run: None, ..report.clone() };
        assert_eq!(Report::from_text(&untold.to_text()), Some(untold));
        assert_eq!(Report::from_text(&text), Some(report));
        for other in [
            "",
            "x",
            &text[1..],
            &text[..60],
            &format!("{text} "),
            &format!("{text} node 1"),
            &format!("{text} a#1"),
            &format!("{text} a#1 -"),
        ] {
            assert_eq!(Report::from_text(other), None, "{other}");
        }
    }
}
