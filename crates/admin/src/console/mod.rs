//! The console: one page on the admin listener, and the stream of snapshots that it draws.
//!
//! | file | content |
//! |---|---|
//! | `assets` | the page, embedded in the program |
//! | `events` | `GET /admin/v1/events`: one snapshot a second, made once for all open pages |
//! | `cluster` | a snapshot: the parts of all nodes, asked over the sealed link between peers |
//! | `part` | one node's part |
//! | `series` | counters and gauges, from the exposition that Prometheus gets |
//!
//! The page needs no token, because it is the same for everybody; everything that it shows needs one. It changes nothing.

pub(super) mod assets;
mod cluster;
mod events;
mod part;
mod series;

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use hopcache_cluster::peer::link::PeerLink;
use http::{HeaderValue, StatusCode, header};
use tokio_util::sync::CancellationToken;

use self::cluster::Cluster;
use self::events::Events;
use self::part::Parts;
use super::Admin;
use super::problem::Problem;
use hopcache_state::node_state::NodeState;

/// Makes snapshots of the cluster, and answers other nodes that make theirs.
pub struct Console {
    cluster: Cluster,
    events: Events,
}

impl Console {
    /// The console of a node. `question` asks another node for its part. Its streams end when `stop` is cancelled.
    #[must_use]
    pub fn new(
        state: Arc<NodeState>,
        link: Arc<PeerLink>,
        question: Bytes,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self { cluster: Cluster::new(Parts::new(state), link, question), events: Events::new(stop) })
    }

    /// This node's part, as bytes for another node.
    pub fn own_part(&self) -> Bytes {
        self.cluster.own_part()
    }

    /// Makes snapshots while pages are open, for ever.
    pub async fn run(&self) -> Infallible {
        self.events.run(|| self.cluster.snapshot()).await
    }
}

/// `GET /admin/v1/events`.
pub(super) async fn events(State(admin): State<Arc<Admin>>) -> Response {
    let Some(stream) = admin.console.events.open() else {
        let detail = "as many consoles are open as there may be: close one";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into_response();
    };
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
