//! The proxy before the origin: it makes the benchmark's runs slow and counts them by query, outside hopcache: the
//! truth about origin runs. It changes no byte.
//!
//! The benchmark's statements carry [`MARK`]. EXPLAINs, log-ons and a node's own queries pass at once and do not count
//! as runs.

use super::delay::Delays;
use hopcache_testbed::bolt_proxy::BoltProxy;

/// Every statement of the benchmark names a column so, and no other does.
pub(crate) const MARK: &str = "AS benched";

/// One for a server at `upstream`, `host:port`; its runs are those that it has [seen](BoltProxy::seen) with [`MARK`].
pub(crate) async fn start(upstream: &str, delays: Delays) -> std::io::Result<BoltProxy> {
    let proxy = BoltProxy::start(upstream).await?;
    proxy.draw_delays(MARK, move || delays.draw());
    Ok(proxy)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use hopcache_testbed::bolt_bytes::chunked;

    /// RUN of a statement of fewer than 256 bytes with only `{n: 5}`.
    fn run(statement: &str) -> Vec<u8> {
        let length = u8::try_from(statement.len()).unwrap();
        [&[0xB3, 0x10, 0xD0, length], statement.as_bytes(), &[0xA1, 0x81, b'n', 5, 0xA0]].concat()
    }

    #[tokio::test]
    async fn only_the_benchmarks_runs_count() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = server.local_addr().unwrap().to_string();
        let proxy = start(&upstream, Delays::new(Duration::ZERO, 1)).await.unwrap();
        let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
        client.write_all(&[0; 20]).await.unwrap();
        for message in [
            run("EXPLAIN RETURN $n AS benched"),
            run("RETURN $n AS degree"),
            vec![0xB1, 0x3F, 0xA0],
            run("RETURN $n AS benched"),
        ] {
            client.write_all(&chunked(&message)).await.unwrap();
        }
        // This statement was sent last, so the others have arrived.
        let is_here = |runs: &[hopcache_testbed::bolt_proxy::RunSeen]| !runs.is_empty();
        assert!(proxy.wait_until(MARK, Duration::from_secs(10), is_here).await);
        let queries: Vec<String> = proxy.seen(MARK).into_iter().map(|run| run.query).collect();
        assert_eq!(queries, ["RETURN $n AS benched {\"n\":5}"]);
        assert_eq!((proxy.runs("AS degree"), proxy.explains(MARK)), (1, 1));
    }
}
