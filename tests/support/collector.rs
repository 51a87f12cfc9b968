//! A collector of traces: it takes OTLP over HTTP (protobuf), and keeps what it gets. It decides nothing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message;
use tokio::task::JoinHandle;

/// A span as it came, with the name of the node that sent it.
#[derive(Debug, Clone)]
pub struct Span {
    pub node: String,
    pub name: String,
    pub trace: String,
    pub id: String,
    /// Empty for the first of a trace.
    pub parent: String,
    pub is_failed: bool,
    pub nanos: u64,
    pub attributes: Vec<(String, String)>,
}

impl Span {
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

type Kept = Arc<Mutex<Vec<Span>>>;

pub struct Collector {
    pub addr: SocketAddr,
    kept: Kept,
    serving: JoinHandle<()>,
}

impl Collector {
    pub async fn start() -> Self {
        let kept = Kept::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let routes = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&kept));
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { addr, kept, serving }
    }

    /// The spans of a trace, in order of arrival.
    pub fn of_trace(&self, trace: &str) -> Vec<Span> {
        let kept = self.kept.lock().unwrap();
        kept.iter().filter(|span| span.trace == trace).cloned().collect()
    }

    /// All spans.
    pub fn all(&self) -> Vec<Span> {
        self.kept.lock().unwrap().clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn take(State(kept): State<Kept>, body: Bytes) -> Result<Vec<u8>, StatusCode> {
    let request = ExportTraceServiceRequest::decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    for group in request.resource_spans {
        let resource = texts(group.resource.map(|resource| resource.attributes).unwrap_or_default());
        let node = resource.iter().find(|(name, _)| name == "service.instance.id");
        let node = node.map_or(String::new(), |(_, value)| value.clone());
        let spans = group.scope_spans.into_iter().flat_map(|scope| scope.spans);
        kept.lock().unwrap().extend(spans.map(|span| Span {
            node: node.clone(),
            name: span.name,
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            // STATUS_CODE_ERROR
            is_failed: span.status.is_some_and(|status| status.code == 2),
            nanos: span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano),
            attributes: texts(span.attributes),
        }));
    }
    Ok(ExportTraceServiceResponse::default().encode_to_vec())
}

fn texts(attributes: Vec<KeyValue>) -> Vec<(String, String)> {
    let text = |value: Option<Value>| match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(is)) => is.to_string(),
        other => format!("{other:?}"),
    };
    attributes.into_iter().map(|pair| (pair.key, text(pair.value.and_then(|value| value.value)))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
