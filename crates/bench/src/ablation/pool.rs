//! Keep-alive HTTP connections to one server, used again most recently used first: as an application's pool. Decides
//! nothing about the answers.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_testbed::http::{Answer, Connection};

/// Idle connections of one server. It has no bound of its own: the load bounds the requests under way.
pub(super) struct Pool {
    addr: SocketAddr,
    idle: Mutex<Vec<Connection>>,
    asked: AtomicU64,
}

impl Pool {
    pub(super) const fn new(addr: SocketAddr) -> Self {
        Self { addr, idle: Mutex::new(Vec::new()), asked: AtomicU64::new(0) }
    }

    /// Requests that were sent, repetitions on a new connection apart.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// A server may have closed an idle connection. In that case the request is sent once more on a new one.
    pub(super) async fn ask(&self, request: &[u8]) -> anyhow::Result<Answer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(mut connection) = self.take()
            && let Ok(answer) = connection.ask(request).await
        {
            self.put(connection);
            return Ok(answer);
        }
        let mut connection = Connection::open(self.addr).await?;
        let answer = connection.ask(request).await?;
        self.put(connection);
        Ok(answer)
    }

    fn take(&self) -> Option<Connection> {
        self.idle.lock().ok()?.pop()
    }

    /// Only behind a whole answer: half of one must not be the next request's.
    fn put(&self, connection: Connection) {
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn connections_are_used_again_and_opened_anew_where_the_server_closed_them() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = Pool::new(listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            for answers in [10, 1] {
                let (mut stream, _) = listener.accept().await.unwrap();
                for _ in 0..answers {
                    stream.read_exact(&mut [0]).await.unwrap();
                    stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                }
            }
        });
        for _ in 0..11 {
            assert_eq!(pool.ask(b"x").await.unwrap().status(), 202);
        }
        server.await.unwrap();
        assert_eq!(pool.asked(), 11);
    }
}
