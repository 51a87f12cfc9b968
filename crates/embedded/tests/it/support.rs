//! What the tests of the embedded graph share: one graph for reading, runs, and decoded answers.

use std::sync::{Arc, OnceLock};

use hopcache_core::key::PrincipalScope;
use hopcache_core::result::ResultSet;
use hopcache_core::time::Millis;
use hopcache_embedded::{EmbeddedOrigin, Sample, Settings};
use hopcache_engine::fetch_times::FetchTimes;
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::{AccessMode, Origin, OriginFault, OriginRun, RunBookmarks};
use hopcache_packstream::{Reader, Value, encode};

pub(crate) fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(Sample::generate)
}

/// A graph that no test writes to.
pub(crate) fn shared() -> &'static EmbeddedOrigin {
    static ORIGIN: OnceLock<EmbeddedOrigin> = OnceLock::new();
    ORIGIN.get_or_init(|| EmbeddedOrigin::start(Settings::default()).unwrap())
}

pub(crate) fn identity() -> Arc<Identity> {
    let credentials = Credentials::Basic { user: "any".to_owned(), password: "any".to_owned() };
    Arc::new(Identity { scope: PrincipalScope([0; 32]), fingerprint: [0; 32], credentials })
}

pub(crate) fn run_of(statement: &str, params: &[(&str, Value)], mode: AccessMode) -> OriginRun {
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    OriginRun {
        identity: identity(),
        impersonated: None,
        database: Arc::from("neo4j"),
        statement: Arc::from(statement),
        pattern: None,
        params: encode(&Value::Map(params)).into(),
        mode,
        may_be_repeated: true,
        bookmarks: RunBookmarks::default(),
        timeout_ms: Millis(60_000),
        bytes_max: 16 << 20,
        traceparent: None,
        class: hopcache_core::turns::RunClass::Miss,
        metadata: None,
        live: None,
        times: FetchTimes::default(),
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

pub(crate) fn try_run(origin: &EmbeddedOrigin, run: &OriginRun) -> Result<ResultSet, OriginFault> {
    block_on(origin.run(run)).map_err(|error| error.kind)
}

pub(crate) fn rows_of(result: &ResultSet) -> Vec<Vec<Value>> {
    let mut reader = Reader::new(&result.records);
    let mut rows = Vec::new();
    while !reader.is_empty() {
        let Value::List(row) = reader.value().unwrap() else { panic!("a record is a list") };
        assert_eq!(row.len(), result.fields.len());
        rows.push(row);
    }
    assert_eq!(rows.len() as u64, result.rows);
    rows
}

/// Rows of a read on the shared graph, in the order they came.
pub(crate) fn rows(statement: &str, params: &[(&str, Value)]) -> Vec<Vec<Value>> {
    let result = try_run(shared(), &run_of(statement, params, AccessMode::Read));
    rows_of(&result.unwrap_or_else(|why| panic!("{statement}: {why:?}")))
}

/// The code of the failure that a statement meets.
pub(crate) fn code(origin: &EmbeddedOrigin, run: &OriginRun) -> String {
    match try_run(origin, run) {
        Err(OriginFault::Failed(failure) | OriginFault::Transient(failure)) => failure.code,
        other => panic!("{}: no failure but {other:?}", run.statement),
    }
}

pub(crate) fn int(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap())
}

pub(crate) fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}
