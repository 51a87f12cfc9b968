//! As much of a driver as a test with many principals needs: one connection of Bolt 5.4 on which users log on and off,
//! and one statement at a time.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::authority::TlsClient;
use super::bolt_bytes::{chunked, message, read_message, structure};
use super::http::Bytes;

const HELLO: u8 = 0x01;
const RESET: u8 = 0x0F;
const RUN: u8 = 0x10;
const BEGIN: u8 = 0x11;
const COMMIT: u8 = 0x12;
const ROLLBACK: u8 = 0x13;
const PULL: u8 = 0x3F;
const ROUTE: u8 = 0x66;
const LOGON: u8 = 0x6A;
const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;
const IGNORED: u8 = 0x7E;
const FAILURE: u8 = 0x7F;
/// The magic number, 5.4, and no other version.
const HANDSHAKE: [u8; 20] = [0x60, 0x60, 0xB0, 0x17, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A FAILURE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

/// A whole result.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The names of the columns.
    pub fields: Vec<String>,
    pub rows: Vec<Value>,
    /// The text of `Cache-Status`, where the server says one.
    pub cache_status: String,
}

/// How a request has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Well,
    Ignored,
    Failed(Failure),
}

pub struct BoltClient(Box<dyn Bytes>);

impl BoltClient {
    /// Connects and greets. Nobody is logged on yet.
    pub async fn connect(addr: SocketAddr) -> std::io::Result<Self> {
        Self::connect_by(None, addr).await
    }

    /// With TLS where there is a client for it.
    pub async fn connect_by(tls: Option<&TlsClient>, addr: SocketAddr) -> std::io::Result<Self> {
        Self::over(super::http::stream_by(tls, addr).await?).await
    }

    /// Over a connection that is there already.
    pub async fn over(mut stream: Box<dyn Bytes>) -> std::io::Result<Self> {
        stream.write_all(&HANDSHAKE).await?;
        let mut agreed = [0; 4];
        stream.read_exact(&mut agreed).await?;
        if agreed != [0, 0, 4, 5] {
            return Err(unexpected(&format!("version {agreed:?}")));
        }
        let mut client = Self(stream);
        client
            .send(&[message(
                HELLO,
                &[json!({"user_agent": "tests/1", "bolt_agent": {"product": "tests/1"}})],
            )])
            .await?;
        client.success().await?.map_err(|failure| unexpected(&format!("{failure:?}")))?;
        Ok(client)
    }

    /// After a failure the connection ends.
    pub async fn log_on(&mut self, user: &str, password: &str) -> std::io::Result<Result<(), Failure>> {
        Ok(self.log_on_answer(user, password).await?.map(drop))
    }

    /// The same, and what SUCCESS says.
    pub async fn log_on_answer(
        &mut self,
        user: &str,
        password: &str,
    ) -> std::io::Result<Result<Value, Failure>> {
        let auth = json!({"scheme": "basic", "principal": user, "credentials": password});
        self.send(&[message(LOGON, &[auth])]).await?;
        self.success().await
    }

    /// Asks for a routing table.
    pub async fn route(&mut self) -> std::io::Result<Result<Value, Failure>> {
        self.route_from(json!({})).await
    }

    /// The same of a driver with this routing context: `address` is what it has dialled.
    pub async fn route_from(&mut self, context: Value) -> std::io::Result<Result<Value, Failure>> {
        self.send(&[message(ROUTE, &[context, json!([]), json!({})])]).await?;
        self.success().await
    }

    /// Runs a statement to its end. After a failure another one can be run.
    pub async fn run(
        &mut self,
        database: &str,
        statement: &str,
        parameters: &Value,
    ) -> std::io::Result<Result<Rows, Failure>> {
        self.run_with(statement, parameters, json!({"db": database, "mode": "r"})).await
    }

    /// As [`BoltClient::run`], in write mode.
    pub async fn write(
        &mut self,
        database: &str,
        statement: &str,
        parameters: &Value,
    ) -> std::io::Result<Result<Rows, Failure>> {
        self.run_with(statement, parameters, json!({"db": database})).await
    }

    /// A transaction of one statement, in write mode.
    pub async fn write_in_transaction(
        &mut self,
        database: &str,
        statement: &str,
        parameters: &Value,
    ) -> std::io::Result<Result<(), Failure>> {
        let begun = self.begin(json!({"db": database})).await?;
        let ended = match begun {
            Ok(_) => self.run_with(statement, parameters, json!({})).await?.map(drop),
            Err(failure) => Err(failure),
        };
        if ended.is_ok() {
            return Ok(self.commit().await?.map(drop));
        }
        Ok(ended)
    }

    /// Begins a transaction with these options.
    pub async fn begin(&mut self, options: Value) -> std::io::Result<Result<Value, Failure>> {
        self.send(&[message(BEGIN, &[options])]).await?;
        self.success().await
    }

    /// Commits the open transaction.
    pub async fn commit(&mut self) -> std::io::Result<Result<Value, Failure>> {
        self.send(&[message(COMMIT, &[])]).await?;
        self.success().await
    }

    /// Rolls the open transaction back.
    pub async fn roll_back(&mut self) -> std::io::Result<Result<Value, Failure>> {
        self.send(&[message(ROLLBACK, &[])]).await?;
        self.success().await
    }

    /// As [`BoltClient::run`], with these options of RUN.
    pub async fn run_with(
        &mut self,
        statement: &str,
        parameters: &Value,
        extra: Value,
    ) -> std::io::Result<Result<Rows, Failure>> {
        let run = [Value::from(statement), parameters.clone(), extra];
        self.send(&[message(RUN, &run), message(PULL, &[json!({"n": -1})])]).await?;
        let opened = self.success().await?;
        let names = opened.as_ref().ok().and_then(|opened| opened.get("fields")?.as_array());
        let names = names.into_iter().flatten().filter_map(|name| name.as_str().map(ToOwned::to_owned));
        let fields = names.collect();
        let mut rows = Vec::new();
        let ended = loop {
            let (tag, fields) = self.reply().await?;
            match tag {
                RECORD => rows.push(fields.into_iter().next().unwrap_or_default()),
                IGNORED => break opened,
                _ => break outcome(tag, fields)?,
            }
        };
        match ended {
            Ok(summary) => {
                let status = summary.get("hopcache").and_then(Value::as_str).unwrap_or_default();
                Ok(Ok(Rows { fields, rows, cache_status: status.to_owned() }))
            }
            Err(failure) => {
                self.send(&[message(RESET, &[])]).await?;
                self.success().await?.map_err(|failure| unexpected(&format!("{failure:?}")))?;
                Ok(Err(failure))
            }
        }
    }

    /// Opens the result of a statement in write mode. [`BoltClient::pull`] asks for its rows.
    pub async fn open(&mut self, database: &str, statement: &str) -> std::io::Result<()> {
        self.send(&[message(RUN, &[Value::from(statement), json!({}), json!({"db": database})])]).await?;
        self.success().await?.map(drop).map_err(|failure| unexpected(&format!("{failure:?}")))
    }

    /// Asks for so many rows of the open result; -1: for all.
    pub async fn pull(&mut self, rows: i64) -> std::io::Result<()> {
        self.send(&[message(PULL, &[json!({ "n": rows })])]).await
    }

    /// The next row, as soon as it comes. `None` behind the last that was asked for.
    pub async fn next_row(&mut self) -> std::io::Result<Option<Value>> {
        let (tag, fields) = self.reply().await?;
        if tag == RECORD {
            return Ok(Some(fields.into_iter().next().unwrap_or_default()));
        }
        outcome(tag, fields)?.map(|_| None).map_err(|failure| unexpected(&format!("{failure:?}")))
    }

    /// Sends statements one behind the other, and reads no answer.
    pub async fn send_runs(&mut self, runs: &[(&str, Value)]) -> std::io::Result<()> {
        let messages: Vec<_> = runs
            .iter()
            .flat_map(|(statement, parameters)| {
                let run = [Value::from(*statement), parameters.clone(), json!({"mode": "r"})];
                [message(RUN, &run), message(PULL, &[json!({"n": -1})])]
            })
            .collect();
        self.send(&messages).await
    }

    /// A RUN with its options, and PULL of all.
    pub async fn send_run_with(
        &mut self,
        statement: &str,
        parameters: &Value,
        options: &Value,
    ) -> std::io::Result<()> {
        let run = [Value::from(statement), parameters.clone(), options.clone()];
        self.send(&[message(RUN, &run), message(PULL, &[json!({"n": -1})])]).await
    }

    /// LOGON with any token; the failure.
    pub async fn log_on_by(&mut self, auth: Value) -> std::io::Result<Result<Value, Failure>> {
        self.send(&[message(LOGON, &[auth])]).await?;
        self.success().await
    }

    /// RESET, and the outcomes of all that was sent before it.
    pub async fn reset_after(&mut self, sent: usize) -> std::io::Result<Vec<Outcome>> {
        self.send(&[message(RESET, &[])]).await?;
        let mut outcomes = Vec::new();
        while outcomes.len() < sent + 1 {
            let (tag, fields) = self.reply().await?;
            match tag {
                RECORD => {}
                IGNORED => outcomes.push(Outcome::Ignored),
                _ => outcomes.push(outcome(tag, fields)?.map_or_else(Outcome::Failed, |_| Outcome::Well)),
            }
        }
        Ok(outcomes)
    }

    async fn send(&mut self, messages: &[Vec<u8>]) -> std::io::Result<()> {
        let bytes: Vec<u8> = messages.iter().flat_map(|message| chunked(message)).collect();
        self.0.write_all(&bytes).await
    }

    async fn success(&mut self) -> std::io::Result<Result<Value, Failure>> {
        let (tag, fields) = self.reply().await?;
        outcome(tag, fields)
    }

    /// The next message that is no NOOP.
    async fn reply(&mut self) -> std::io::Result<(u8, Vec<Value>)> {
        loop {
            let message = read_message(&mut self.0).await?;
            if !message.is_empty() {
                return structure(&message).ok_or_else(|| unexpected(&format!("{message:02X?}")));
            }
        }
    }
}

fn outcome(tag: u8, fields: Vec<Value>) -> std::io::Result<Result<Value, Failure>> {
    let metadata = fields.into_iter().next().unwrap_or_default();
    let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
    match tag {
        SUCCESS => Ok(Ok(metadata)),
        FAILURE => Ok(Err(Failure { code: text("code"), message: text("message") })),
        _ => Err(unexpected(&format!("message {tag:02X}"))),
    }
}

fn unexpected(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("not expected: {what}"))
}
