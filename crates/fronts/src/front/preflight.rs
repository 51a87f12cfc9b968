//! `OPTIONS`: which methods a path has, and a browser's question whether a page of another origin may ask (CORS). The
//! answers are those of Neo4j 5.26, with which `tests/differential/pages.rs` compares them: every page may ask with any header.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use hopcache_state::host_check::check_page;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};

use super::Front;
use super::answer::{Reply, plain};

/// Methods of the query path.
pub(super) const OF_QUERIES: HeaderValue = HeaderValue::from_static("POST,OPTIONS");
/// Methods of the path of one transaction.
pub(super) const OF_TRANSACTIONS: HeaderValue = HeaderValue::from_static("DELETE,POST,OPTIONS");
/// Methods of the discovery document.
const OF_DISCOVERY: HeaderValue = HeaderValue::from_static("HEAD,GET,OPTIONS");

/// `OPTIONS` of the query path.
pub(super) async fn of_queries(State(front): State<Arc<Front>>, asked: Request<Body>) -> Reply {
    answer(&front, &asked, (OF_QUERIES, b"POST, OPTIONS"))
}

/// The same on the path of one transaction.
pub(super) async fn of_transactions(State(front): State<Arc<Front>>, asked: Request<Body>) -> Reply {
    answer(&front, &asked, (OF_TRANSACTIONS, b"DELETE, POST, OPTIONS"))
}

/// The same of the discovery document.
pub(super) async fn of_discovery(State(front): State<Arc<Front>>, asked: Request<Body>) -> Reply {
    answer(&front, &asked, (OF_DISCOVERY, b"HEAD, GET, OPTIONS"))
}

/// Where no secret is asked for, any page could read the graph: only those of this node's hosts may ask then (F52).
fn answer(front: &Front, asked: &Request<Body>, (methods, text): (HeaderValue, &'static [u8])) -> Reply {
    let mut response =
        plain(StatusCode::OK, HeaderValue::from_static("text/plain"), Bytes::from_static(text));
    let headers = response.headers_mut();
    headers.insert(ALLOW, methods);
    if check_page(front.shared.hosts.as_deref(), asked).is_ok() {
        permit(asked.headers(), headers);
    }
    response
}

/// Repeats what the page asks for. Like Neo4j: a name that is no method is not repeated. Whether the path has the method says
/// `Allow`.
fn permit(asked: &HeaderMap, permitted: &mut HeaderMap) {
    let wanted = asked.get_all(ACCESS_CONTROL_REQUEST_METHOD).iter();
    for method in wanted.filter(|method| is_known_method(method)) {
        permitted.append(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    }
    for names in asked.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter(|names| are_names(names)) {
        permitted.append(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
}

fn is_known_method(text: &HeaderValue) -> bool {
    let known = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
        Method::HEAD,
        Method::OPTIONS,
        Method::TRACE,
    ];
    known.iter().any(|method| method.as_str() == text)
}

/// Whether all of a list are names that a header can have: nothing else is repeated to a browser.
fn are_names(list: &HeaderValue) -> bool {
    list.to_str()
        .is_ok_and(|list| list.split(',').all(|name| HeaderName::from_bytes(name.trim().as_bytes()).is_ok()))
}
