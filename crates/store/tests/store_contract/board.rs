//! The board of marks and reports: every store keeps what the model of `hopcache_core` keeps.

use std::time::Duration;

use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
use hopcache_core::key::{ClusterTag, DatabaseTag, ServerTag};
use hopcache_core::limits::{EVENTS_IN_MESSAGE_MAX, WRITTEN_DATABASES_MAX, WRITTEN_RECORDS_MAX};
use hopcache_core::node::NodeName;
use hopcache_core::proof::{Accounts, PollNumber, Report};
use hopcache_core::tags::TagId;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{WriteBoard, WriteEpoch, WriteEvent, WritePosition, WriteRecord};
use hopcache_engine::ports::{Scope, Store, StoreReceipt};
use hopcache_store::memory::MemoryStore;
use hopcache_store::redis::RedisStore;

use super::contract::{Subject, contract, patient};
use super::fixtures::{noise, still_clock, until};
use super::server::RedisServer;

contract!(
    marks_of_writes_merge_and_name_those_who_listen,
    a_full_list_of_marks_keeps_what_it_has,
    any_tellings_leave_what_the_model_keeps,
    a_full_board_is_the_models,
    a_node_that_has_read_nothing_reads_the_whole_log,
    looks_count_up_over_all_nodes,
    a_report_of_an_earlier_look_replaces_none,
    reports_have_a_bound_on_names,
    each_database_of_a_name_has_its_report,
    a_name_at_an_address_leads_to_what_was_said_last,
);

const CLUSTER: ClusterTag = ClusterTag(5);

fn mark(name: u64, epoch: u64, id: u64) -> WriteRecord {
    let position = Position { database: DatabaseUuid([7; 16]), id: TransactionId(id) };
    WriteRecord::of_all(DatabaseTag(name), WritePosition::at(WriteEpoch(epoch), position))
}

async fn marks_of_writes_merge_and_name_those_who_listen(subject: Subject) {
    let store = &subject.store;
    let (me, other) = (NodeName::new("me").unwrap(), NodeName::new("other").unwrap());
    let heard = async |name: &NodeName| {
        store.hear_written(CLUSTER, (name, Millis(2_000)), None).await.unwrap().records
    };
    assert_eq!(store.tell_written(CLUSTER, (&[], &[])).await, Ok(StoreReceipt::default()), "nobody listens");
    assert_eq!(heard(&me).await, []);
    for (told, expected) in [
        (mark(1, 0, 50), mark(1, 0, 50)),
        (mark(1, 0, 49), mark(1, 0, 50)),
        (mark(1, 0, 4_294_967_296), mark(1, 0, 4_294_967_296)),
        (mark(1, 1, 41), mark(1, 1, 41)),
        (mark(1, 0, u64::MAX), mark(1, 1, 41)),
        (mark(1, 1, u64::MAX), mark(1, 1, u64::MAX)),
    ] {
        let StoreReceipt { listeners, anew } = store.tell_written(CLUSTER, (&[told], &[])).await.unwrap();
        assert_eq!(anew.first(), Some(&expected).filter(|_| expected.written.epoch() > told.written.epoch()));
        assert_eq!(listeners.iter().map(|listener| &listener.node).collect::<Vec<_>>(), [&me], "{told:?}");
        assert!(listeners[0].left_ms <= Millis(2_000));
        assert_eq!(heard(&me).await, [expected], "{told:?}");
    }
    heard(&other).await;
    let both = store.tell_written(CLUSTER, (&[mark(2, 0, 3)], &[])).await.unwrap();
    assert_eq!((both.listeners.len(), both.anew), (2, Vec::new()));
    assert_eq!(heard(&me).await, [mark(1, 1, u64::MAX), mark(2, 0, 3)]);
    // Another cluster on the same store.
    assert_eq!(store.tell_written(ClusterTag(6), (&[mark(1, 0, 1)], &[])).await, Ok(StoreReceipt::default()));
    assert_eq!(
        store.hear_written(ClusterTag(6), (&me, Millis(1)), None).await.unwrap().records,
        [mark(1, 0, 1)]
    );
    subject.pass(2_100).await;
    assert_eq!(
        store.tell_written(CLUSTER, (&[mark(2, 0, 4)], &[])).await,
        Ok(StoreReceipt::default()),
        "their leases are over"
    );
}

async fn a_full_list_of_marks_keeps_what_it_has(subject: Subject) {
    let store = &subject.store;
    let most = WRITTEN_DATABASES_MAX as u64;
    let all: Vec<WriteRecord> = (0..most).map(|name| mark(name, 0, 1)).collect();
    store.tell_written(CLUSTER, (&all, &[])).await.unwrap();
    store.tell_written(CLUSTER, (&[mark(most, 0, 1), mark(3, 0, 9)], &[])).await.unwrap();
    let me = NodeName::new("me").unwrap();
    let kept = store.hear_written(CLUSTER, (&me, Millis(1_000)), None).await.unwrap().records;
    assert_eq!((kept.len(), kept[3]), (WRITTEN_DATABASES_MAX, mark(3, 0, 9)));
}

/// A store, and the model of what it keeps for one cluster.
struct Twins<'a> {
    store: &'a dyn Store,
    cluster: ClusterTag,
    model: WriteBoard,
}

impl<'a> Twins<'a> {
    fn new(subject: &'a Subject, cluster: u64) -> Self {
        Self { store: &*subject.store, cluster: ClusterTag(cluster), model: WriteBoard::default() }
    }

    /// Tells both, and compares all that they keep.
    async fn tell(&mut self, records: &[WriteRecord], what: &str) -> Vec<WriteRecord> {
        let (_, anew) = self.model.tell(MonoTime::default(), (records, &[]));
        let told = self.store.tell_written(self.cluster, (records, &[])).await.unwrap();
        assert_eq!(told.anew, anew, "{what}");
        let me = NodeName::new("me").unwrap();
        let mut kept =
            self.store.hear_written(self.cluster, (&me, Millis(1_000)), None).await.unwrap().records;
        // A store may have another order.
        kept.sort_unstable_by_key(WriteRecord::place);
        assert!(kept == self.model.records(), "{what}: {} records", kept.len());
        kept
    }
}

/// Records of four names, the last of which leads to two databases; of tags up to this one, or of everything.
fn random_records(seed: u64, count: usize, tags: u16) -> Vec<WriteRecord> {
    let record = |bytes: &[u8]| {
        let name = u64::from(bytes[0] % 4);
        let is_other = name == 3 && bytes[1] < 32;
        let id = if bytes[3] == 255 { u64::MAX } else { u64::from(bytes[3] % 16) };
        let database = DatabaseUuid([if is_other { 0xee } else { bytes[0] % 4 }; 16]);
        let position = Position { database, id: TransactionId(id) };
        let tag = u16::from_be_bytes([bytes[4], bytes[5]]) % (tags + 1);
        WriteRecord {
            name: DatabaseTag(name),
            written: WritePosition::at(WriteEpoch(u64::from(bytes[2] % 3)), position),
            tag: (tag > 0).then_some(TagId(u64::from(tag))),
        }
    };
    noise(count * 6, seed).chunks_exact(6).map(record).collect()
}

async fn any_tellings_leave_what_the_model_keeps(subject: Subject) {
    for seed in 0..12 {
        let mut twins = Twins::new(&subject, seed);
        for (step, records) in random_records(seed, 120, 5).chunks(3).enumerate() {
            twins.tell(records, &format!("seed {seed}, step {step}: {records:?}")).await;
        }
    }
}

fn tagged(name: u64, tag: u64, id: u64) -> WriteRecord {
    WriteRecord { tag: Some(TagId(tag)), ..mark(name, 0, id) }
}

async fn a_node_that_has_read_nothing_reads_the_whole_log(subject: Subject) {
    let (store, me) = (&subject.store, NodeName::new("me").unwrap());
    let hear = async |since| store.hear_written(CLUSTER, (&me, Millis(1_000)), since).await.unwrap();
    let tell = async |records: &[WriteRecord]| {
        let events: Vec<_> = records.iter().copied().map(WriteEvent::from).collect();
        store.tell_written(CLUSTER, (records, &events)).await.unwrap();
        events
    };
    assert_eq!((hear(None).await.events, hear(None).await.floor), (Some(Vec::new()), Vec::new()));
    let mut told = tell(&[tagged(1, 1, 50), mark(2, 0, 3)]).await;
    let place = hear(None).await.cursor;
    told.extend(tell(&[tagged(1, 2, 49)]).await);
    let heard = hear(None).await;
    assert_eq!((heard.events, heard.floor), (Some(told.clone()), Vec::new()));
    let heard = hear(Some(place)).await;
    assert_eq!((heard.events, heard.floor), (Some(told.split_off(2)), Vec::new()));
    // The longest pieces: the first ones are dropped.
    let piece = |id| (0..EVENTS_IN_MESSAGE_MAX as u64).map(move |tag| tagged(1, tag, id)).collect::<Vec<_>>();
    for id in 100..150 {
        tell(&piece(id)).await;
    }
    let heard = hear(None).await;
    let first = heard.events.as_ref().and_then(|events| events.first()).unwrap().written;
    let id = first.position().unwrap().id;
    assert!(id > TransactionId(110), "{id:?}");
    let mut floor = heard.floor;
    floor.sort_unstable_by_key(WriteRecord::place);
    assert_eq!(floor, [mark(1, 0, id.0 - 1), mark(2, 0, 3)]);
    let heard = hear(Some(place)).await;
    assert_eq!((heard.events, heard.floor), (None, Vec::new()));
}

async fn a_full_board_is_the_models(subject: Subject) {
    let most = WRITTEN_RECORDS_MAX as u64;
    let all_tags: Vec<_> = (0..most).map(|tag| tagged(1, tag, 70)).collect();
    let mut twins = Twins::new(&subject, 1);
    assert_eq!(twins.tell(&all_tags, "full").await.len(), WRITTEN_RECORDS_MAX);
    let kept = twins.tell(&[mark(1, 0, 60)], "everything, and earlier than the tags").await;
    assert_eq!(kept, [mark(1, 0, 70)]);

    let names = WRITTEN_DATABASES_MAX as u64;
    let mut both: Vec<_> = (0..names).map(|name| mark(name, 0, 5)).collect();
    both.extend((names..most).map(|tag| tagged(1, tag, 70)));
    let mut twins = Twins::new(&subject, 2);
    assert_eq!(twins.tell(&both, "full of names and of records").await.len(), WRITTEN_RECORDS_MAX);
    let kept = twins.tell(&[mark(names, 0, 90)], "a new name").await;
    assert_eq!(kept.len(), WRITTEN_RECORDS_MAX, "nothing is forgotten for it");
    let kept = twins.tell(&[tagged(2, 1, 90)], "a new tag of a known name").await;
    assert_eq!(kept.len(), WRITTEN_DATABASES_MAX + 1);

    // More than there is room for, again and again.
    let mut twins = Twins::new(&subject, 3);
    let mut lens = Vec::new();
    for (step, records) in random_records(77, 4 * WRITTEN_RECORDS_MAX, u16::MAX - 1).chunks(512).enumerate() {
        // Of one epoch and database each, or a board would not fill.
        let of_one = |record: &WriteRecord| WriteRecord {
            written: mark(1, 0, record.written.position().map_or(1, |at| at.id.0)).written,
            ..*record
        };
        let records: Vec<_> = records.iter().map(of_one).collect();
        lens.push(twins.tell(&records, &format!("chunk {step}")).await.len());
    }
    assert!(!lens.is_sorted(), "it was never full: {lens:?}");
}

fn report(name: u64, polled: PollNumber, settled: u64) -> Report {
    Report {
        name: DatabaseTag(name),
        database: DatabaseUuid([7; 16]),
        epoch: WriteEpoch(1),
        foreign: TransactionId(3),
        system: TransactionId(4),
        run: None,
        server: ServerTag(8),
        polled,
        accounts: Accounts { settled: TransactionId(settled), ..Accounts::default() },
    }
}

/// The number of a look, and the reports in the order of names.
async fn look(store: &dyn Store, node: &str) -> (PollNumber, Vec<Report>) {
    let node = NodeName::new(node).unwrap();
    let mut heard = store.hear_written(CLUSTER, (&node, Millis(1_000)), None).await.unwrap();
    heard.reports.sort_unstable_by_key(|report| report.name);
    (heard.poll, heard.reports)
}

async fn looks_count_up_over_all_nodes(subject: Subject) {
    let store = &*subject.store;
    for (number, node) in ["a", "b", "a", "a", "c"].into_iter().enumerate() {
        assert_eq!(look(store, node).await, (PollNumber(number as u64 + 1), Vec::new()), "{node}");
    }
    store.tell_written(CLUSTER, (&[mark(1, 0, 1)], &[])).await.unwrap();
    store.invalidate(&Scope::All).await.unwrap();
    assert_eq!(look(store, "b").await.0, PollNumber(6), "only looks count");
    let other = store.hear_written(ClusterTag(6), (&NodeName::new("a").unwrap(), Millis(1_000)), None).await;
    assert_eq!(other.unwrap().poll, PollNumber(1), "another cluster");
}

async fn a_report_of_an_earlier_look_replaces_none(subject: Subject) {
    let store = &*subject.store;
    let tell = async |report: &Report| store.report(CLUSTER, report).await.unwrap();
    tell(&report(1, PollNumber(1), 10)).await;
    for last in 1..=20 {
        assert_eq!(
            look(store, "a").await,
            (PollNumber(last), Vec::new()),
            "its look was of another numbering"
        );
    }
    // Sixteen and more: as text, a number without its zeros has another order.
    for (told, kept) in [
        (report(1, PollNumber(9), 20), report(1, PollNumber(9), 20)),
        (report(1, PollNumber(8), 30), report(1, PollNumber(9), 20)),
        (report(1, PollNumber(9), 21), report(1, PollNumber(9), 21)),
        (report(1, PollNumber(17), 22), report(1, PollNumber(17), 22)),
        (report(1, PollNumber(10), 23), report(1, PollNumber(17), 22)),
    ] {
        tell(&told).await;
        assert_eq!(look(store, "b").await.1, [kept], "{told:?}");
    }
    let (last, _) = look(store, "b").await;
    tell(&report(1, PollNumber(last.0 + 1), 40)).await;
    tell(&report(1, PollNumber(u64::MAX), 41)).await;
    assert_eq!(look(store, "b").await.1, [report(1, PollNumber(17), 22)], "no such look has been");
    tell(&report(1, PollNumber(last.0 + 1), 40)).await;
    tell(&report(0, last, 50)).await;
    let kept = [report(0, last, 50), report(1, PollNumber(last.0 + 1), 40)];
    assert_eq!(look(store, "b").await.1, kept, "each name has one");
}

async fn reports_have_a_bound_on_names(subject: Subject) {
    let store = &*subject.store;
    let (polled, _) = look(store, "a").await;
    let most = WRITTEN_DATABASES_MAX as u64;
    for name in 0..=most {
        store.report(CLUSTER, &report(name, polled, 1)).await.unwrap();
    }
    store.report(CLUSTER, &report(3, polled, 2)).await.unwrap();
    let kept = look(store, "a").await.1;
    let expected: Vec<_> =
        (0..most).map(|name| report(name, polled, if name == 3 { 2 } else { 1 })).collect();
    assert!(kept == expected, "{} reports", kept.len());
}

/// Two clusters with one key before two Neo4j servers: neither watcher's report replaces the other's. In a full list it does.
async fn each_database_of_a_name_has_its_report(subject: Subject) {
    let store = &*subject.store;
    let (polled, _) = look(store, "a").await;
    let of =
        |database, settled| Report { database: DatabaseUuid([database; 16]), ..report(1, polled, settled) };
    for (database, settled) in [(1, 10), (2, 20), (1, 11)] {
        store.report(CLUSTER, &of(database, settled)).await.unwrap();
    }
    let sorted = |mut reports: Vec<Report>| {
        reports.sort_unstable_by_key(|report| (report.name, report.database));
        reports
    };
    assert_eq!(sorted(look(store, "a").await.1), [of(1, 11), of(2, 20)]);
    for name in 2..WRITTEN_DATABASES_MAX as u64 {
        store.report(CLUSTER, &report(name, polled, 1)).await.unwrap();
    }
    store.report(CLUSTER, &of(3, 30)).await.unwrap();
    let kept = sorted(look(store, "a").await.1);
    assert_eq!((kept.len(), &kept[0]), (WRITTEN_DATABASES_MAX - 1, &of(3, 30)));
}

async fn a_name_at_an_address_leads_to_what_was_said_last(subject: Subject) {
    let store = &*subject.store;
    let at = |origin, name| (ServerTag(origin), DatabaseTag(name));
    let uuid = |byte| Some(DatabaseUuid([byte; 16]));
    assert_eq!(store.remember(CLUSTER, at(1, 1), None).await, Ok(None));
    for database in [uuid(0x0a), uuid(0xfe)] {
        assert_eq!(store.remember(CLUSTER, at(1, 1), database).await, Ok(database));
        assert_eq!(store.remember(CLUSTER, at(1, 1), None).await, Ok(database));
    }
    for (cluster, place) in [(CLUSTER, at(1, 2)), (CLUSTER, at(2, 1)), (ClusterTag(6), at(1, 1))] {
        assert_eq!(store.remember(cluster, place, None).await, Ok(None), "{place:?}");
    }
    store.invalidate(&Scope::All).await.unwrap();
    assert_eq!(store.remember(CLUSTER, at(1, 1), None).await, Ok(uuid(0xfe)), "no purge forgets it");
}

/// A watcher that was stopped meanwhile reports with the number of a look that the store has lost.
async fn knows_no_reports(store: &RedisStore, late: &Report) {
    store.report(CLUSTER, late).await.unwrap();
    assert_eq!(look(store, "b").await, (PollNumber(1), Vec::new()), "looks are numbered anew");
    store.report(CLUSTER, late).await.unwrap();
    assert_eq!(look(store, "b").await, (PollNumber(2), Vec::new()), "a look of another numbering");
    let new = report(2, PollNumber(2), 60);
    store.report(CLUSTER, &new).await.unwrap();
    assert_eq!(look(store, "a").await, (PollNumber(3), vec![new]));
}

async fn reported(store: &RedisStore) -> Report {
    for _ in 0..9 {
        look(store, "a").await;
    }
    let reported = report(1, PollNumber(9), 50);
    store.report(CLUSTER, &reported).await.unwrap();
    store.tell_written(CLUSTER, (&[mark(1, 0, 50)], &[])).await.unwrap();
    assert_eq!(look(store, "a").await, (PollNumber(10), vec![reported.clone()]));
    reported
}

#[tokio::test]
async fn a_redis_that_lost_its_content_has_no_reports() {
    let server = RedisServer::start(&[]);
    let store = patient(&server);
    let late = reported(&store).await;
    assert_eq!(server.tell("FLUSHALL"), "+OK");
    knows_no_reports(&store, &late).await;
}

/// F43: the reports are back with the snapshot, and are of another life. Marks are states: the earlier ones still hold.
#[tokio::test]
async fn a_restored_redis_has_no_reports() {
    let mut server = RedisServer::start(&[]);
    let store = patient(&server);
    let late = reported(&store).await;
    assert_eq!(server.tell("SAVE"), "+OK");
    server.kill();
    server.restart();
    assert_eq!(server.tell("DBSIZE"), ":4", "the snapshot is back: marks, nodes, reports and the log");
    until(Duration::from_secs(20), "the store is found again", || async { store.ping().await.ok() }).await;
    knows_no_reports(&store, &late).await;
    let node = NodeName::new("a").unwrap();
    let heard = store.hear_written(CLUSTER, (&node, Millis(1_000)), None).await.unwrap();
    assert_eq!(heard.records, [mark(1, 0, 50)]);
}

/// Marks that Redis has evicted: nobody takes a report for word of them, whether a look finds that first or a telling.
#[tokio::test]
async fn reports_go_with_the_marks() {
    for is_told_first in [false, true] {
        let server = RedisServer::start(&[]);
        let store = server.store();
        until(Duration::from_secs(20), "the store is there", || async { store.ping().await.ok() }).await;
        store.tell_written(CLUSTER, (&[mark(1, 0, 50)], &[])).await.unwrap();
        let (polled, _) = look(&store, "a").await;
        store.report(CLUSTER, &report(1, polled, 50)).await.unwrap();
        store.tell_written(CLUSTER, (&[mark(1, 0, 51)], &[])).await.unwrap();
        assert_eq!(look(&store, "a").await.1, [report(1, polled, 50)]);
        let marks = format!("hopcache:v5:{{written-{:016x}}}:marks", CLUSTER.0);
        assert_eq!(server.tell(&format!("DEL {marks}")), ":1");
        if is_told_first {
            store.tell_written(CLUSTER, (&[mark(1, 0, 52)], &[])).await.unwrap();
        }
        assert_eq!(look(&store, "a").await, (PollNumber(polled.0 + 2), Vec::new()), "{is_told_first}");
    }
}
