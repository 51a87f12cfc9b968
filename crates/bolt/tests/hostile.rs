//! Faults of a server in the middle of a run. A connection turns each of them into an error with its name: never a
//! panic (I13), never half a result (I10, F28), never a reused broken stream.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use super::support::*;
use hopcache_bolt::{Run, RunError, RunFault, WholeResult};
use hopcache_packstream::Value;

fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

fn fault(outcome: Result<WholeResult, RunError>) -> RunFault {
    outcome.unwrap_err().fault
}

#[tokio::test]
async fn a_result_is_fields_records_as_sent_and_merged_metadata() {
    // 1 as a 16-bit integer: longer than needed, and to be kept so.
    let odd = framed(&[0xB1, 0x71, 0x91, 0xC9, 0x00, 0x01]);
    let first =
        success(&[("t_first", 3.into()), ("fields", Value::List(vec!["n".into()])), ("db", "a".into())]);
    let last =
        success(&[("type", "r".into()), ("bookmark", "bm".into()), ("t_last", 4.into()), ("db", "b".into())]);
    let (outcome, connection) = run_against(joined(&[first, odd, record(vec![Value::Null]), last])).await;
    let finished = outcome.unwrap();
    assert_eq!(finished.fields, ["n"]);
    assert_eq!(&finished.records[..], [0x91, 0xC9, 0x00, 0x01, 0x91, 0xC0]);
    assert_eq!(finished.rows, 2);
    assert_eq!(finished.statement_type.as_deref(), Some("r"));
    assert_eq!(finished.bookmark.as_deref(), Some("bm"));
    let names = [("t_first", 3.into()), ("db", "b".into()), ("t_last", 4.into())];
    assert_eq!(
        finished.summary,
        Value::Map(names.map(|(name, value): (&str, Value)| (name.to_owned(), value)).into())
    );
    assert!(connection.is_ready());
}

#[tokio::test]
async fn noops_and_tiny_chunks_change_nothing() {
    let noop = vec![0, 0, 0, 0];
    let tiny = chunked(&[0xB1, 0x71, 0x91, 0x83, b'a', b'b', b'c'], 1);
    let answer = joined(&[noop.clone(), columns(&["n"]), noop.clone(), tiny, noop.clone(), success(&[])]);
    let finished = run_against(answer).await.0.unwrap();
    assert_eq!(&finished.records[..], kept(vec!["abc".into()]));
}

#[tokio::test]
async fn batches_are_pulled_until_there_is_no_more() {
    let more = success(&[("has_more", Value::Bool(true))]);
    let mut script = run_answered(joined(&[columns(&["n"]), record(vec![1.into()]), more.clone()]));
    for number in [2, 3] {
        script.push(Step::Expect(PULL));
        script.push(Step::Send(record(vec![number.into()])));
        script.push(Step::Send(if number == 3 { success(&[("type", "r".into())]) } else { more.clone() }));
    }
    let (address, server) = serve(script).await;
    let finished = open(&address).await.run(&statement("UNWIND [1,2,3] AS n RETURN n")).await.unwrap();
    assert_eq!(finished.rows, 3);
    assert_eq!(&finished.records[..], [0x91, 1, 0x91, 2, 0x91, 3]);
    assert_eq!(finished.summary, Value::Map(Vec::new()));
    assert_eq!(server.await.unwrap().len(), 6, "HELLO, LOGON, RUN and three PULLs");
}

#[tokio::test]
async fn lengths_and_depths_that_nothing_stands_behind_are_refused() {
    let huge_list = [&[0xB1, 0x71, 0xD6][..], &[0xFF; 4]].concat();
    let huge_text = [&[0xB1, 0x71, 0x91, 0xD2][..], &[0xFF; 4], b"abc"].concat();
    let huge_bytes = [&[0xB1, 0x71, 0x91, 0xCE][..], &[0x7F; 4], b"abc"].concat();
    let huge_map = [&[0xB1, 0x71, 0x91, 0xDA][..], &[0xFF; 4]].concat();
    let deep_lists = [&[0xB1, 0x71][..], &[0x91; 100_000], &[0xC0]].concat();
    let deep_metadata = [&[0xB1, 0x70, 0xA1, 0x81, b'a'][..], &[0x91; 100_000], &[0xC0]].concat();
    let wide_metadata = [&[0xB1, 0x70, 0xDA, 0, 1, 0, 0][..], &[0x81, b'a', 0xC0].repeat(65_536)].concat();
    let not_utf8 = vec![0xB1, 0x71, 0x91, 0x82, 0xC3, 0x28];
    let empty_struct = vec![0xB0];
    for hostile in [
        huge_list,
        huge_text,
        huge_bytes,
        huge_map,
        deep_lists,
        deep_metadata,
        wide_metadata,
        not_utf8,
        empty_struct,
    ] {
        let (outcome, connection) = run_against(joined(&[columns(&["n"]), framed(&hostile)])).await;
        let error = outcome.unwrap_err();
        assert!(
            matches!(error.fault, RunFault::Protocol(_)),
            "{error:?} for {:02X?}",
            &hostile[..6.min(hostile.len())]
        );
        assert_eq!(error.fields, Some(vec!["n".to_owned()]));
        assert!(!connection.is_ready());
    }
}

#[tokio::test]
async fn answers_out_of_order_are_refused() {
    let wide = record(vec![1.into(), 2.into()]);
    for answer in [
        ignored(),
        record(vec![1.into()]),
        success(&[]),                                            // no fields
        success(&[("fields", "n".into())]),                      // fields that are no list
        joined(&[columns(&["n"]), wide]),                        // a value too many
        joined(&[columns(&["n"]), ignored()]),                   // PULL ignored, nothing failed
        joined(&[columns(&["n"]), framed(&[0xB1, 0x10, 0xA0])]), // a request
    ] {
        let (outcome, connection) = run_against(answer.clone()).await;
        assert!(matches!(fault(outcome), RunFault::Protocol(_)), "{answer:02X?}");
        assert!(!connection.is_ready());
    }
}

#[tokio::test]
async fn a_stream_cut_anywhere_gives_no_result() {
    let whole = joined(&[columns(&["n"]), record(vec!["abc".into()]), success(&[("type", "r".into())])]);
    for length in 0..whole.len() {
        let (outcome, connection) = run_against(whole[..length].to_vec()).await;
        assert!(matches!(fault(outcome), RunFault::Cut(_)), "cut after {length} bytes");
        assert!(!connection.is_ready());
    }
    assert!(run_against(whole).await.0.is_ok());
}

#[tokio::test]
async fn a_failure_is_reset_and_the_connection_serves_on() {
    let mut script = run_answered(joined(&[failure("Neo.ClientError.Statement.SyntaxError"), ignored()]));
    script.extend([Step::Expect(RESET), Step::Send(success(&[]))]);
    script.extend([Step::Expect(RUN), Step::Expect(PULL)]);
    let late = failure("Neo.ClientError.Statement.ArithmeticError");
    script.push(Step::Send(joined(&[columns(&["n"]), record(vec![1.into()]), late])));
    script.extend([Step::Expect(RESET), Step::Send(success(&[]))]);
    script.extend([Step::Expect(RUN), Step::Expect(PULL)]);
    script.push(Step::Send(joined(&[columns(&["n"]), success(&[])])));
    script.push(Step::Expect(GOODBYE));
    let (address, server) = serve(script).await;
    let mut connection = open(&address).await;

    let syntax = connection.run(&statement("RETRUN 1")).await.unwrap_err();
    assert!(matches!(&syntax.fault, RunFault::Failed(failure) if failure.code.ends_with("SyntaxError")));
    assert_eq!(syntax.fields, None);
    assert!(connection.is_ready());

    let arithmetic = connection.run(&statement("UNWIND [1,0] AS x RETURN 1/x AS n")).await.unwrap_err();
    assert!(
        matches!(&arithmetic.fault, RunFault::Failed(failure) if failure.code.ends_with("ArithmeticError"))
    );
    assert_eq!(arithmetic.fields, Some(vec!["n".to_owned()]));

    assert_eq!(connection.run(&statement("RETURN 1 AS n LIMIT 0")).await.unwrap().rows, 0);
    connection.close().await;
    server.await.unwrap();
}

#[tokio::test]
async fn a_failure_that_cannot_be_reset_ends_the_connection() {
    for answer in [vec![], failure("Neo.ClientError.Request.Invalid"), ignored().repeat(2), record(vec![])] {
        let mut script = run_answered(joined(&[failure("Neo.ClientError.Statement.SyntaxError"), ignored()]));
        script.extend([Step::Expect(RESET), Step::Send(answer)]);
        let (address, _server) = serve(script).await;
        let mut connection = open(&address).await;
        assert!(matches!(fault(connection.run(&statement("x")).await), RunFault::Failed(_)));
        assert!(!connection.is_ready());
        assert_eq!(fault(connection.run(&statement("x")).await), RunFault::NotReady);
    }
}

#[tokio::test]
async fn a_silent_server_is_left_at_the_deadline() {
    let mut script = run_answered(joined(&[columns(&["n"]), record(vec![1.into()])]));
    script.push(Step::Hang);
    let (address, _server) = serve(script).await;
    let mut connection = open(&address).await;
    let run = Run { timeout: Duration::from_millis(50), ..statement("RETURN 1") };
    let error = connection.run(&run).await.unwrap_err();
    assert_eq!(error, RunError { fields: Some(vec!["n".to_owned()]), ..RunFault::TimedOut.into() });
    assert!(!connection.is_ready());
}

#[tokio::test]
async fn a_server_that_reads_nothing_is_left_at_the_deadline() {
    let mut script = greeted();
    script.push(Step::Deaf);
    let (address, _server) = serve(script).await;
    let mut connection = open(&address).await;
    let text = "x".repeat(32 << 20);
    let run = Run { timeout: Duration::from_millis(200), ..statement(&text) };
    assert_eq!(fault(connection.run(&run).await), RunFault::TimedOut);
    assert!(!connection.is_ready());
}

#[tokio::test]
async fn reading_stops_at_the_byte_limit() {
    // Whole records over the limit, and one record that never ends.
    let text = Value::String("x".repeat(1_000));
    let many = joined(&[columns(&["n"]), record(vec![text]).repeat(2_000)]);
    let chunk = [&0xFFFF_u16.to_be_bytes()[..], &[0x91; 0xFFFF]].concat();
    let endless = joined(&[columns(&["n"]), chunk.repeat(200)]);
    for answer in [many, endless] {
        let (outcome, connection) = run_against(answer).await;
        assert_eq!(fault(outcome), RunFault::TooLarge { limit_bytes: 1 << 20 });
        assert!(!connection.is_ready());
    }
}

#[tokio::test]
async fn the_byte_limit_is_inclusive() {
    let (three, four) = (kept(vec!["a".into()]), record(vec!["a".into()]));
    let answer = joined(&[columns(&["n"]), four.repeat(4), success(&[])]);
    for (bytes_max, fits) in [(4 * three.len(), true), (4 * three.len() - 1, false)] {
        let (address, _server) = serve(run_answered(answer.clone())).await;
        let run = Run { bytes_max, ..statement("RETURN 1") };
        assert_eq!(open(&address).await.run(&run).await.is_ok(), fits, "{bytes_max}");
    }
}

#[tokio::test]
async fn a_dropped_run_leaves_a_connection_that_refuses() {
    let mut script = run_answered(columns(&["n"]));
    script.push(Step::Hang);
    let (address, server) = serve(script).await;
    let mut connection = open(&address).await;
    {
        let run = statement("RETURN 1");
        let mut future = pin!(connection.run(&run));
        // Polled once, so that the request is on its way, then dropped.
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert!(!connection.is_ready());
    assert!(!connection.is_alive().await);
    assert_eq!(fault(connection.run(&statement("RETURN 1")).await), RunFault::NotReady);
    connection.close().await;
    assert_eq!(server.await.unwrap().len(), 4, "no GOODBYE and no second RUN was sent");
}

#[tokio::test]
async fn parameters_that_are_no_map_never_leave() {
    let mut script = run_answered(joined(&[columns(&["n"]), success(&[])]));
    script.push(Step::Hang);
    let (address, _server) = serve(script).await;
    let mut connection = open(&address).await;
    for params in [&[][..], &[0x90], &[0xA1], &[0xA0, 0xA0], &[0xA1, 0x01, 0x01]] {
        let run = Run { params, ..statement("RETURN 1") };
        assert_eq!(fault(connection.run(&run).await), RunFault::BadParameters);
    }
    assert!(connection.run(&statement("RETURN 1")).await.is_ok(), "the connection is still good");
    assert!(connection.is_alive().await);
}
