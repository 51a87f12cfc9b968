//! Which memory a copy keeps alive, and for how long memory keeps the copy.

use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::RENDER_INLINE_BYTES_MAX;
use hopcache_core::tags::{Key, Viewer};
use hopcache_packstream::Value;

use super::*;
use crate::model::ask::Query;
use crate::model::rendering::{RenderError, Renderer};
use crate::model::text_facts::{AnswerReads, Reads};

const TAGS: Tags = Tags::of_database(DatabaseTag(1));

/// Renders the records as they are, and a bookmark behind them.
struct Verbatim;

impl Renderer for Verbatim {
    fn knows(&self, _: RenderingId) -> bool {
        true
    }

    fn render(
        &self,
        _: RenderingId,
        result: &ResultSet,
        bookmark: Option<&str>,
    ) -> Result<Vec<u8>, RenderError> {
        Ok([&result.records[..], bookmark.unwrap_or_default().as_bytes()].concat())
    }

    fn with_bookmark(&self, _: RenderingId, rendered: Bytes, bookmark: &str) -> Bytes {
        [&rendered[..], bookmark.as_bytes()].concat().into()
    }

    fn has_columns(&self, _: RenderingId, _: &[u8], _: &[Box<str>]) -> bool {
        true
    }

    fn with_columns(&self, _: RenderingId, _: &[u8], _: &[Box<str>]) -> Option<Bytes> {
        None
    }
}

/// A result of one field, `x`.
fn result_of(records: Bytes) -> ResultSet {
    let rows = u64::from(!records.is_empty());
    ResultSet {
        fields: vec!["x".to_owned()],
        records,
        rows,
        kind: None,
        summary: Value::Map(Vec::new()),
        bookmark: None,
        range: None,
        marked: None,
    }
}

struct Tracked(Vec<u8>, #[expect(dead_code, reason = "held")] Arc<()>);

impl AsRef<[u8]> for Tracked {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// I9, F29: a slow reader of a large body holds neither its records nor the room taken for them.
#[test]
fn the_body_of_a_passing_result_holds_no_records() {
    const LEN: u32 = 2 << 20;
    let text = std::iter::repeat_n(b'x', LEN as usize);
    let record = [0x91, 0xd2].into_iter().chain(LEN.to_be_bytes()).chain(text).collect();
    let held = Arc::new(());
    let result = result_of(Bytes::from_owner(Tracked(record, Arc::clone(&held))));
    let ms = Millis(1_000);
    let times =
        CopyTimes { read_started: MonoTime(0), soft_ms: ms, physical_ms: ms, total_ms: ms, cost_ms: ms };
    let copy = MemoryCopy::passing(result, times, TAGS);
    let id = RenderingId(1);
    let bodies = [
        copy.rendering(id, &Verbatim).unwrap(),
        copy.live_rendering(id, &Verbatim, Some("FB:x")).unwrap(),
        copy.rendering(RenderingId::RECORDS, &Verbatim).unwrap(),
    ];
    assert_eq!(Arc::strong_count(&held), 2, "the copy has them");
    drop(copy);
    assert!(bodies.iter().all(|body| body.len() > LEN as usize));
    assert_eq!(Arc::strong_count(&held), 1, "a body keeps them alive");
}

/// Without grace and stale-if-error, memory keeps a stored copy a little longer, so that a late miss shows that it
/// expired unserved. A copy that was not stored, or lives on anyway, is kept no longer than before.
#[test]
fn an_expired_copy_stays_for_as_long_as_a_miss_on_it_is_late() {
    let token = Token { counter: 1, nonce: 2 };
    for (soft_ms, total_ms, token, kept_ms) in [
        (4_000, 4_000, Some(token), 6_000),
        (60_000, 60_000, Some(token), 60_000 + LATE_MISS_MS_MAX),
        (60_000, 90_000, Some(token), 90_000),
        (4_000, 4_000, None, 4_000),
    ] {
        let times = CopyTimes {
            read_started: MonoTime(0),
            soft_ms: Millis(soft_ms),
            physical_ms: Millis(soft_ms),
            total_ms: Millis(total_ms),
            cost_ms: Millis(1),
        };
        let result = result_of(Bytes::new());
        let copy = MemoryCopy::new(&result, times, token, TAGS);
        assert_eq!(copy.kept_until(), MonoTime(0) + Millis(kept_ms));
    }
}

/// Renders only after another task of the worker has run.
struct Patient(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl Renderer for Patient {
    fn knows(&self, _: RenderingId) -> bool {
        true
    }

    fn render(&self, _: RenderingId, _: &ResultSet, _: Option<&str>) -> Result<Vec<u8>, RenderError> {
        let other_task = self.0.lock().unwrap();
        other_task.recv_timeout(std::time::Duration::from_secs(10)).map_err(|_| RenderError::BadRecords)?;
        Ok(b"rendered".to_vec())
    }

    fn with_bookmark(&self, _: RenderingId, rendered: Bytes, _: &str) -> Bytes {
        rendered
    }

    fn has_columns(&self, _: RenderingId, _: &[u8], _: &[Box<str>]) -> bool {
        true
    }

    fn with_columns(&self, _: RenderingId, _: &[u8], _: &[Box<str>]) -> Option<Bytes> {
        None
    }
}

/// F45, F29: while a large result is rendered, for memory or for a bypass, other tasks of the only worker go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_large_rendering_keeps_no_worker() {
    let len = u32::try_from(RENDER_INLINE_BYTES_MAX).unwrap();
    let text = std::iter::repeat_n(b'x', len as usize);
    let result = result_of([0x91, 0xd2].into_iter().chain(len.to_be_bytes()).chain(text).collect());
    let ms = Millis(1_000);
    let times =
        CopyTimes { read_started: MonoTime(0), soft_ms: ms, physical_ms: ms, total_ms: ms, cost_ms: ms };
    let copies = [MemoryCopy::new(&result, times, None, TAGS), MemoryCopy::passing(result, times, TAGS)];
    for copy in copies {
        let (other, other_task) = std::sync::mpsc::channel();
        let rendering = tokio::spawn(async move {
            // Spawned by the worker itself, so that it is in the worker's own queue.
            tokio::spawn(async move { other.send(()) });
            copy.rendering(RenderingId(1), &Patient(std::sync::Mutex::new(other_task)))
        });
        assert_eq!(rendering.await.unwrap().as_deref(), Ok(&b"rendered"[..]));
    }
}

fn times(ms: u64) -> CopyTimes {
    let ms = Millis(ms);
    CopyTimes { read_started: MonoTime(5_000), soft_ms: ms, physical_ms: ms, total_ms: ms, cost_ms: ms }
}

/// Those who wait for a run share a rendering that the copy does not keep: most results are never asked for again.
#[test]
fn a_copy_keeps_the_rendering_of_a_hit_and_none_before() {
    let result = result_of(Bytes::from_static(&[0x91, 0x01]));
    let (copy, id) = (MemoryCopy::new(&result, times(1_000), None, TAGS), RenderingId(1));
    let bare = copy.weight_bytes();
    let body = copy.rendered_of(id, &result, &Verbatim).unwrap();
    assert!(copy.is_small() && !copy.has_rendering(id) && copy.weight_bytes() == bare);
    assert_eq!(copy.rendering(id, &Verbatim), Ok(body));
    assert!(copy.has_rendering(id) && copy.weight_bytes() > bare);
    assert!(copy.cool() && !copy.has_rendering(id), "nobody asked for it again");
}

/// A copy gives back what it was made of, in both of its forms, and near copies nothing.
#[test]
fn a_stored_form_is_kept_whole() {
    for len in [2, hopcache_core::limits::SMALL_FORM_BYTES_MAX] {
        let result = result_of(vec![0x01; len].into());
        let copy = MemoryCopy::new(&result, times(1_000), None, TAGS);
        assert_eq!(copy.is_small(), len == 2);
        assert_eq!(copy.stored_form(), result.to_bytes());
        assert_eq!(copy.with_times(times(7)).stored_form(), result.to_bytes());
        assert_eq!(copy.rendering(RenderingId::RECORDS, &Verbatim).unwrap(), result.to_bytes());
    }
    let near = MemoryCopy::near(b"body", RenderingId(1), times(1_000), TAGS);
    assert!(near.near_hits().is_some() && near.stored_form().is_empty() && !near.cool());
}

/// Times and token in fewer bytes are the same ones, also at the ends of their ranges.
#[test]
fn what_is_held_compactly_is_not_changed() {
    let token = Token { counter: (1 << 55) - 1, nonce: u128::MAX - 7 };
    for ms in [0, 1, 60_000, hopcache_core::limits::ENTRY_LIFE_MS_MAX / 256 * 256] {
        let copy = MemoryCopy::new(&result_of(Bytes::new()), times(ms), Some(token), TAGS);
        let (held, given) = (copy.times(), times(ms));
        assert_eq!((held.soft_ms, held.physical_ms, held.total_ms, held.cost_ms), {
            // No run takes longer than 37 hours.
            let cost_ms = given.cost_ms.min(Millis(4_095 << 15));
            (given.soft_ms, given.physical_ms, given.total_ms, cost_ms)
        });
        assert_eq!((copy.read_started(), copy.token()), (given.read_started, Some(token)));
    }
    let copy = MemoryCopy::new(&result_of(Bytes::new()), times(1), None, TAGS);
    assert_eq!([(); 3].map(|()| copy.is_first_late()), [true, false, false]);
    assert!(copy.is_first_revalidated() && !copy.has_origin_failed());
}

/// What a copy depends on goes with it to a copy of other times. A copy that does not know it stays open for the query that brings
/// it.
#[test]
fn a_copy_keeps_what_it_depends_on() {
    let copy = || MemoryCopy::new(&result_of(Bytes::new()), times(1_000), None, TAGS);
    let reads =
        Arc::new(Reads { tags: Arc::default(), needs: Arc::default(), shown: None, is_of_graph: true });
    let of_answer = || AnswerReads { of_text: Arc::clone(&reads), classes: None, viewer: Viewer::default() };
    let (knows, unknown) = (copy().of_reads(of_answer()), copy().with_times(times(7)));
    assert_eq!(Arc::strong_count(&reads), 2, "it is shared, not copied");
    let again = knows.with_times(times(7));
    drop(knows);
    assert!(again.knows_reads() && again.is_of_graph() && Arc::strong_count(&reads) == 2);
    assert!(!unknown.knows_reads() && !unknown.is_of_graph() && unknown.reads().is_none());
    let known = unknown.of_reads(of_answer());
    assert_eq!(known.reads(), Some(&*reads));
}

/// Every byte here is a byte for each entry of a node: what grows it should be worth that.
#[test]
fn a_copy_stays_small() {
    assert!(size_of::<MemoryCopy>() <= 152, "{} bytes", size_of::<MemoryCopy>());
    assert_eq!(size_of::<Content>(), 2 * size_of::<usize>());
    assert_eq!(size_of::<Dependence>(), 3 * size_of::<usize>());
}

/// Each look at an ended copy asks, and the keys of writes change with the marks alone.
#[test]
fn a_copy_asks_once_for_each_version_which_keys_it_shows() {
    let query = Query::of_text("MATCH (n:A) RETURN n.id AS id, n.x AS x");
    let copy =
        MemoryCopy::new(&result_of(Bytes::new()), times(1_000), None, TAGS).of_reads(query.reads().clone());
    let mut asked = 0;
    let mut learn = |version, name: &str| {
        copy.learn_shown(version, |_| {
            asked += 1;
            vec![Key::Property(Box::from(name))]
        })
    };
    assert!(!learn(5, "y") && !learn(5, "y") && !learn(6, "y"), "it shows no y");
    learn(7, "id");
    learn(8, "id");
    assert_eq!(asked, 3, "at 5, 6 and 7: then it knows what it shows");
}
