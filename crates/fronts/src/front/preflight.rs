//! `OPTIONS`: which methods a path has, and a browser's question whether a page of another origin may ask (CORS). The
//! answers are those of Neo4j 5.26, with which `tests/differential/pages.rs` compares them: every page may ask with any header.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::answer::{Reply, plain};

/// Methods of the query path.
pub(super) const OF_QUERIES: HeaderValue = HeaderValue::from_static("POST,OPTIONS");
/// Methods of the path of one transaction.
pub(super) const OF_TRANSACTIONS: HeaderValue = HeaderValue::from_static("DELETE,POST,OPTIONS");
/// Methods of the discovery document.
const OF_DISCOVERY: HeaderValue = HeaderValue::from_static("HEAD,GET,OPTIONS");

/// `OPTIONS` of the query path.
pub(super) async fn of_queries(asked: HeaderMap) -> Reply {
    answer(&asked, OF_QUERIES, b"POST, OPTIONS")
}

/// The same on the path of one transaction.
pub(super) async fn of_transactions(asked: HeaderMap) -> Reply {
    answer(&asked, OF_TRANSACTIONS, b"DELETE, POST, OPTIONS")
}

/// The same of the discovery document.
pub(super) async fn of_discovery(asked: HeaderMap) -> Reply {
    answer(&asked, OF_DISCOVERY, b"HEAD, GET, OPTIONS")
}

fn answer(asked: &HeaderMap, methods: HeaderValue, text: &'static [u8]) -> Reply {
    let mut response =
        plain(StatusCode::OK, HeaderValue::from_static("text/plain"), Bytes::from_static(text));
    let headers = response.headers_mut();
    headers.insert(ALLOW, methods);
    // Like Neo4j: a name that is no method is not repeated. Whether the path has the method says `Allow`.
    let wanted = asked.get_all(ACCESS_CONTROL_REQUEST_METHOD).iter();
    for method in wanted.filter(|method| is_known_method(method)) {
        headers.append(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    }
    for names in asked.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter(|names| are_names(names)) {
        headers.append(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    response
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
