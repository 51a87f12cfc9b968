//! Tests of which requests are traced, without a collector. A provider blocks the thread that drops it: two threads. `tests/cluster/traced.rs` has the spans themselves.

use super::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn traces(sample_ratio: f64) -> Traces {
    // Nobody listens at this port: spans are lost, and nothing waits for that.
    let otlp_endpoint = "http://127.0.0.1:9".to_owned();
    Traces::of(&TraceSection { otlp_endpoint, sample_ratio, statements: false }, "node-a").unwrap()
}

fn request(traces: &Traces, traceparent: Option<&str>) -> Option<String> {
    let context = || TraceContext { traceparent, tracestate: None };
    traces.request("RUN", Instant::now(), context).map(|span| span.traceparent())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_decides_before_the_ratio() {
    let (sampled, unsampled) =
        (format!("00-{TRACE}-00f067aa0ba902b7-01"), format!("00-{TRACE}-00f067aa0ba902b7-00"));
    for ratio in [0.0, 1.0] {
        let traces = traces(ratio);
        let continued = request(&traces, Some(&sampled)).unwrap();
        assert!(continued.starts_with(&format!("00-{TRACE}-")) && continued.ends_with("-01"), "{continued}");
        assert_ne!(continued, sampled, "it is a span of its own");
        assert_eq!(request(&traces, Some(&unsampled)), None, "ratio {ratio}");
        assert_eq!(request(&traces, None).is_some(), ratio > 0.0);
        // What has not the form of W3C is no context.
        for garbage in ["", "garbage", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"] {
            assert_eq!(request(&traces, Some(garbage)).is_some(), ratio > 0.0, "{garbage:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_traced_if_its_request_is() {
    let traces = traces(1.0);
    let sampled = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let step = traces.begin(&sampled, Step::Run).unwrap();
    assert!(step.traceparent().starts_with(&format!("00-{TRACE}-")));
    assert!(traces.begin(&sampled.replace("-01", "-00"), Step::Run).is_none());
    assert!(traces.begin("garbage", Step::Run).is_none());
    assert!(Traces::off().begin(&sampled, Step::Run).is_none());
}

#[test]
fn a_ratio_is_a_share_of_all_numbers() {
    assert_eq!((below(0.0), below(1.0)), (0, u64::MAX));
    assert_eq!(below(0.5) >> 32, u64::from(u32::MAX) / 2 + 1);
}
