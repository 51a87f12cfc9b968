//! As much of a Bolt 5.4 client as keeps the records of a result as bytes.

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;
/// PULL {n: -1}.
const PULL_ALL: [u8; 6] = [0xB1, 0x3F, 0xA1, 0x81, b'n', 0xFF];

/// A logged-on connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    message: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(addr: &str, password: &str) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(addr).await.with_context(|| format!("connect to {addr}"))?;
        stream.set_nodelay(true)?;
        stream.write_all(&[0x60, 0x60, 0xB0, 0x17, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await?;
        let mut agreed = [0; 4];
        stream.read_exact(&mut agreed).await?;
        ensure!(agreed == [0, 0, 4, 5], "{addr} does not speak Bolt 5.4: {agreed:?}");
        let mut client = Self { stream: BufReader::with_capacity(256 << 10, stream), message: Vec::new() };
        let agent = [&text("bolt_agent")[..], &[0xA1], &text("product"), &text("hopcache-bench/1")].concat();
        let hello = [&[0xB1, 0x01, 0xA2][..], &text("user_agent"), &text("hopcache-bench"), &agent].concat();
        let auth = [("scheme", "basic"), ("principal", "neo4j"), ("credentials", password)];
        let pairs: Vec<u8> =
            auth.iter().flat_map(|(name, value)| [text(name), text(value)].concat()).collect();
        let logon = [&[0xB1, 0x6A, 0xA3][..], &pairs].concat();
        client.send(&[hello, logon]).await?;
        for _ in 0..2 {
            client.success().await?;
        }
        Ok(client)
    }

    /// Runs a [message that reads](read_message), and returns its records as they came.
    pub(crate) async fn records(&mut self, run: &[u8]) -> anyhow::Result<Vec<u8>> {
        self.send(&[run.to_vec(), PULL_ALL.to_vec()]).await?;
        self.success().await?;
        let mut records = Vec::new();
        loop {
            self.receive().await?;
            match self.message.get(1) {
                Some(&RECORD) => records.extend_from_slice(&self.message),
                Some(&SUCCESS) => return Ok(records),
                _ => bail!("{}", String::from_utf8_lossy(&self.message)),
            }
        }
    }

    async fn success(&mut self) -> anyhow::Result<()> {
        self.receive().await?;
        ensure!(self.message.get(1) == Some(&SUCCESS), "{}", String::from_utf8_lossy(&self.message));
        Ok(())
    }

    async fn send(&mut self, messages: &[Vec<u8>]) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.extend_from_slice(&u16::try_from(message.len())?.to_be_bytes());
            bytes.extend_from_slice(message);
            bytes.extend_from_slice(&[0, 0]);
        }
        Ok(self.stream.write_all(&bytes).await?)
    }

    /// The next message that is no NOOP.
    async fn receive(&mut self) -> anyhow::Result<()> {
        self.message.clear();
        loop {
            let len = usize::from(self.stream.read_u16().await?);
            if len == 0 && !self.message.is_empty() {
                return Ok(());
            }
            let start = self.message.len();
            self.message.resize(start + len, 0);
            self.stream.read_exact(&mut self.message[start..]).await?;
        }
    }
}

/// RUN of a statement that reads, for [`Client::records`]. Parameters are whole numbers and texts.
pub(crate) fn read_message(statement: &str, parameters: &Value) -> anyhow::Result<Vec<u8>> {
    let pairs = parameters.as_object().context("parameters are an object")?;
    let mut map =
        vec![0xA0 | u8::try_from(pairs.len()).ok().filter(|len| *len < 16).context("few parameters")?];
    for (name, value) in pairs {
        map.extend(text(name));
        match (value.as_i64(), value.as_str()) {
            (Some(number), _) => {
                map.push(0xCB);
                map.extend(number.to_be_bytes());
            }
            (None, Some(value)) => map.extend(text(value)),
            (None, None) => bail!("{value} is neither a whole number nor a text"),
        }
    }
    Ok(run_message(statement, &map, "r"))
}

fn run_message(statement: &str, parameters: &[u8], mode: &str) -> Vec<u8> {
    [&[0xB3, 0x10][..], &text(statement), parameters, &[0xA1], &text("mode"), &text(mode)].concat()
}

fn text(text: &str) -> Vec<u8> {
    let len = u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&[0xD1][..], &len, text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_in_the_message_as_packstream() {
        let message = read_message("X", &json!({ "id": -2, "name": "tea" })).unwrap();
        let wanted = [
            &[0xB3, 0x10, 0xD1, 0, 1, b'X', 0xA2][..],
            &[0xD1, 0, 2, b'i', b'd', 0xCB, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE],
            &[0xD1, 0, 4, b'n', b'a', b'm', b'e', 0xD1, 0, 3, b't', b'e', b'a'],
            &[0xA1, 0xD1, 0, 4, b'm', b'o', b'd', b'e', 0xD1, 0, 1, b'r'],
        ];
        assert_eq!(message, wanted.concat());
        assert!(read_message("X", &json!({ "list": [1] })).is_err());
    }
}
