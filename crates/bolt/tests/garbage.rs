//! Any bytes from a server: no panic, no hang, and readiness only after a clean end (I13).

use std::time::Duration;

use super::support::*;
use hopcache_bolt::{Auth, Connection, Run, RunFault};
use hopcache_packstream::Value;
use proptest::prelude::*;

/// How far the server behaves before the garbage.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Nothing,
    Handshake,
    Greeting,
    Columns,
}

fn stage() -> impl Strategy<Value = Stage> {
    prop_oneof![Just(Stage::Nothing), Just(Stage::Handshake), Just(Stage::Greeting), Just(Stage::Columns)]
}

/// Raw bytes, framed bytes, and pieces of real messages, in any order.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..40),
        3 => prop::collection::vec(any::<u8>(), 1..200).prop_map(|bytes| framed(&bytes)),
        2 => prop::collection::vec(any::<u8>(), 0..60).prop_map(|tail| framed(&[&[0xB1, 0x71], &tail[..]].concat())),
        2 => prop::collection::vec(any::<u8>(), 0..60).prop_map(|tail| framed(&[&[0xB1, 0x70], &tail[..]].concat())),
        1 => Just(record(vec![Value::Int(1)])),
        1 => Just(success(&[("has_more", Value::Bool(true))])),
        1 => Just(success(&[])),
        1 => Just(columns(&["n"])),
        1 => Just(ignored()),
        1 => Just(failure("Neo.ClientError.Statement.SyntaxError")),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

async fn meet(stage: Stage, bytes: Vec<u8>) {
    let mut script = match stage {
        Stage::Nothing => Vec::new(),
        Stage::Handshake => greeted()[..3].to_vec(),
        Stage::Greeting => run_answered(Vec::new()),
        Stage::Columns => run_answered(columns(&["n"])),
    };
    script.push(Step::Send(bytes));
    let (address, _server) = serve(script).await;
    let Ok(mut connection) = Connection::open(&address, &Auth::None, &options()).await else { return };
    let run = Run { timeout: Duration::from_secs(20), ..statement("RETURN 1") };
    match connection.run(&run).await {
        Ok(finished) => {
            assert!(connection.is_ready());
            let mut reader = hopcache_packstream::Reader::new(&finished.records);
            for _ in 0..finished.rows {
                let Ok(Value::List(values)) = reader.value() else { panic!("a kept record is not a list") };
                assert_eq!(values.len(), finished.fields.len());
            }
            assert!(reader.is_empty());
        }
        Err(error) => {
            assert_ne!(error.fault, RunFault::TimedOut, "the server has closed: nothing to wait for");
            assert!(!connection.is_ready() || matches!(error.fault, RunFault::Failed(_)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]
    #[test]
    fn any_bytes_from_a_server_are_survived(stage in stage(), bytes in garbage()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(meet(stage, bytes));
    }
}
