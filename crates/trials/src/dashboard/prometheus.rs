//! Range queries of a Prometheus, over its HTTP API. Nothing is retried.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest wait for an answer. Prometheus' own limit for a query is two minutes.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Largest answer that is read: a panel has some dozens of series of some hundred samples.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Samples for each series: about as many as a panel has pixels.
const SAMPLES: f64 = 240.0;

/// One series of a query's answer: its finite values; never empty.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) values: Vec<f64>,
}

/// The part of the past that is asked for, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    start: f64,
    end: f64,
    step: f64,
}

impl Window {
    pub(super) fn until_now(seconds: f64) -> anyhow::Result<Self> {
        let end = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        Ok(Self { start: end - seconds, end, step: (seconds / SAMPLES).max(1.0) })
    }
}

/// Where a Prometheus answers.
pub(super) struct Prometheus {
    authority: String,
}

impl Prometheus {
    pub(super) fn at(url: &str) -> anyhow::Result<Self> {
        let authority = url.trim_end_matches('/').strip_prefix("http://");
        let authority = authority.context("--prometheus takes http://HOST:PORT")?.to_owned();
        Ok(Self { authority })
    }

    /// The series with a sample in the window. A value that is not finite (0/0) is no sample.
    pub(super) async fn range(&self, query: &str, window: &Window) -> anyhow::Result<Vec<Series>> {
        let Window { start, end, step } = window;
        let form = format!("query={}&start={start}&end={end}&step={step}", form_encoded(query));
        let answer = tokio::time::timeout(WAIT_MAX, self.post("/api/v1/query_range", &form))
            .await
            .with_context(|| format!("no answer of Prometheus within {} s", WAIT_MAX.as_secs()))??;
        let answer: Value = serde_json::from_slice(&answer).context("Prometheus sent no JSON")?;
        if answer["status"] != "success" {
            bail!("Prometheus: {}", answer["error"]);
        }
        let found = answer["data"]["result"].as_array().context("Prometheus sent no result")?;
        let series = found.iter().map(|each| Series { values: finite(&each["values"]) });
        Ok(series.filter(|series| !series.values.is_empty()).collect())
    }

    /// HTTP/1.0, so that the answer ends with the connection and is never chunked.
    async fn post(&self, path: &str, form: &str) -> anyhow::Result<Vec<u8>> {
        let connected = TcpStream::connect(&self.authority).await;
        let mut stream = connected.with_context(|| format!("connect to Prometheus at {}", self.authority))?;
        let request = format!(
            "POST {path} HTTP/1.0\r\nhost: {}\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
            self.authority,
            form.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        let head = answer.windows(4).position(|at| at == b"\r\n\r\n").context("no HTTP answer")?;
        Ok(answer.split_off(head + 4))
    }
}

fn finite(samples: &Value) -> Vec<f64> {
    let samples = samples.as_array().map_or(&[] as &[Value], Vec::as_slice);
    let values = samples.iter().filter_map(|pair| pair[1].as_str()?.parse().ok());
    values.filter(|value: &f64| value.is_finite()).collect()
}

fn form_encoded(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_survives_a_form() {
        assert_eq!(form_encoded("a{b=\"c d\"}+1"), "a%7Bb%3D%22c%20d%22%7D%2B1");
    }

    #[test]
    fn zero_divided_by_zero_is_no_sample() {
        let samples = json!([[10.0, "NaN"], [11.0, "+Inf"], [12.0, "0.5"]]);
        assert_eq!(finite(&samples), [0.5]);
    }
}
