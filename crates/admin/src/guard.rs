//! Which requests the admin listener answers: those for an allowed host, not made by a web page, and with the token.
//! The two health probes are not guarded: they show yes or no and the reason, and orchestrators name any host there.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hopcache_net::listener::CertifiedClient;
use http::{HeaderValue, Method, StatusCode, header};
use subtle::ConstantTimeEq;

use super::Admin;
use super::problem::Problem;
use hopcache_state::audit;
use hopcache_state::host_check::{self, HostFault};

/// Refuses requests for another host (DNS rebinding, F52). A page cannot send the token, so with a token any host
/// will do.
pub(super) async fn check_host(State(admin): State<Arc<Admin>>, request: Request, next: Next) -> Response {
    let hosts = admin.token.load().is_none().then_some(&admin.hosts);
    match host_check::check(hosts, &request) {
        Ok(()) => next.run(request).await,
        Err(fault @ HostFault::NotOne) => Problem::bad(fault.to_string()).into_response(),
        Err(fault @ (HostFault::Foreign | HostFault::ForeignPage)) => {
            Problem::new(StatusCode::FORBIDDEN, fault.to_string()).into_response()
        }
    }
}

/// The only path to which a page may send something: the console asks for an explanation, which changes nothing.
const ASKED_BY_CONSOLE: &str = "/admin/v1/explain";

/// Refuses requests that a web page makes in an operator's browser: a page must not purge or drain. A browser names the
/// page's origin on every such request, and no tool of hopcache does.
pub(super) async fn refuse_web_pages(request: Request, next: Next) -> Response {
    let is_consoles = request.uri().path() == ASKED_BY_CONSOLE && is_of_this_node(&request);
    if request.method() != Method::GET && request.headers().contains_key(header::ORIGIN) && !is_consoles {
        return Problem::new(StatusCode::FORBIDDEN, "requests of web pages are refused").into_response();
    }
    next.run(request).await
}

/// Whether the page that sends this has the host and port that it sends it to. [`check_host`] knows the host.
fn is_of_this_node(request: &Request) -> bool {
    let mut origins = request.headers().get_all(header::ORIGIN).iter();
    let origin =
        origins.next().and_then(|origin| origin.to_str().ok()).and_then(|origin| origin.split_once("://"));
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let is_same = |(scheme, page): (&str, &str), host: &str| {
        matches!(scheme, "http" | "https") && page.eq_ignore_ascii_case(host)
    };
    origins.next().is_none() && origin.zip(host).is_some_and(|(origin, host)| is_same(origin, host))
}

/// Refuses requests without a client certificate, if the configuration asks operators for one. The handshake refuses
/// a wrong certificate, and accepts a client without one.
pub(super) async fn check_certificate(
    State(admin): State<Arc<Admin>>,
    request: Request,
    next: Next,
) -> Response {
    if admin.needs_certificate && request.extensions().get::<CertifiedClient>().is_none() {
        let detail =
            "show a client certificate that an authority of node.admin_tls.client_ca_file has signed";
        return Problem::new(StatusCode::FORBIDDEN, detail).into_response();
    }
    next.run(request).await
}

/// Refuses requests without the token, if there is one.
pub(super) async fn check_token(State(admin): State<Arc<Admin>>, request: Request, next: Next) -> Response {
    let mut presented = request.headers().get_all(header::AUTHORIZATION).iter();
    let first = presented.next();
    if presented.next().is_some() {
        return Problem::bad("Authorization: is given more than once: send one").into_response();
    }
    let Some(token) = admin.token.load_full() else { return next.run(request).await };
    let value = first.map(HeaderValue::as_bytes);
    let value = value.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
    if bool::from(value.ct_eq(token.expose().as_bytes())) {
        return next.run(request).await;
    }
    audit::admin_token(first.is_some(), request.uri().path());
    let detail = match first {
        None => "send Authorization: Bearer with the node's admin token",
        Some(_) => "this token is not this node's: send the one in its node.admin_token_file",
    };
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, detail).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn only_a_page_of_the_same_host_and_port_is_of_this_node() {
        let is_own = |origins: &[&str]| {
            let request = http::Request::post("/admin/v1/explain").header(header::HOST, "127.0.0.1:7477");
            let request =
                origins.iter().fold(request, |request, origin| request.header(header::ORIGIN, *origin));
            is_of_this_node(&request.body(Body::empty()).unwrap())
        };
        assert!(is_own(&["http://127.0.0.1:7477"]) && is_own(&["https://127.0.0.1:7477"]));
        for foreign in [
            "http://127.0.0.1",
            "http://127.0.0.1:8080",
            "http://evil.example",
            "null",
            "file://127.0.0.1:7477",
        ] {
            assert!(!is_own(&[foreign]), "{foreign}");
        }
        assert!(!is_own(&[]) && !is_own(&["http://127.0.0.1:7477", "http://evil.example"]));
    }
}
