//! Sends spans to a collector: OTLP over HTTP, as protobuf.
//!
//! The SDK's thread makes batches of a bounded queue. This node's runtime sends them, with a deadline for each.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use tokio::runtime::Handle;

/// Spans that wait for the next batch. More are dropped (OpenTelemetry specification, Batching processor: the default).
const QUEUED_SPANS_MAX: usize = 2_048;
/// Spans of one batch (the same source).
const BATCH_SPANS_MAX: usize = 512;
/// How long a span waits at most for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// How long a collector may take for a batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer of a collector that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A provider that sends its spans to `{endpoint}/v1/traces` (OTLP specification, section OTLP/HTTP).
pub(super) fn provider(endpoint: &str, node: &str) -> anyhow::Result<SdkTracerProvider> {
    let endpoint = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .with_timeout(EXPORT_TIMEOUT)
        .with_http_client(Sender::start()?)
        .build()?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUED_SPANS_MAX)
        .with_max_export_batch_size(BATCH_SPANS_MAX)
        .with_scheduled_delay(BATCH_WAIT)
        .build();
    let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
    let resource = Resource::builder()
        .with_service_name("hopcache")
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", node.to_owned()),
        ])
        .build();
    Ok(SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource).build())
}

/// Sends on the node's runtime what the SDK's own thread asks for.
#[derive(Debug)]
struct Sender {
    runtime: Handle,
    client: reqwest::Client,
}

impl Sender {
    fn start() -> anyhow::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(system_roots())
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            // As all connections of a node: a proxy of the machine is not asked.
            .no_proxy()
            .timeout(EXPORT_TIMEOUT)
            .build()?;
        Ok(Self { runtime: Handle::try_current()?, client })
    }
}

/// The authorities of the system; none if it has none. Then a collector behind TLS is not trusted, and the export says so.
fn system_roots() -> rustls::RootCertStore {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sending = self.runtime.spawn(async move { send(&client, request).await });
        sending.await?
    }
}

async fn send(client: &reqwest::Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let mut answer = client.execute(request.try_into()?).await?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(format!("the collector's answer is over {ANSWER_BYTES_MAX} bytes").into());
        }
        body.extend_from_slice(&chunk);
    }
    let mut response = Response::builder().status(status).body(Bytes::from(body))?;
    *response.headers_mut() = headers;
    Ok(response)
}
