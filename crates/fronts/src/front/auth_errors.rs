//! Responses for credentials that Neo4j refused or that could not be checked: status and message. The statement has
//! not been read at this point, so the messages do not mention it.

use hopcache_engine::identity::Credentials;
use hopcache_engine::outcome::{Failure, FailureKind};
use hopcache_engine::ports::OriginFault;
use hopcache_queryapi::failure;
use hopcache_queryapi::render::Encoding;
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};

use super::answer::{JSON, JSON_UTF8, RETRY_AFTER_S, Reply, error, of_neo4j, plain};

/// The response to a client that presented these credentials.
pub(super) fn of(fault: &OriginFault, presented: &Credentials) -> Reply {
    match (fault, presented) {
        // Neo4j's message over HTTP differs from its message over Bolt.
        (OriginFault::Unauthorized(neo4j), _) if neo4j.code == "Neo.ClientError.Security.Unauthorized" => {
            error(StatusCode::UNAUTHORIZED, &neo4j.code, "Invalid credential.", JSON_UTF8)
        }
        (OriginFault::Unauthorized(neo4j), _) if neo4j.code.ends_with(".AuthenticationRateLimit") => {
            let message = "Too many failed authentication requests. Please wait 5 seconds and try again.";
            error(StatusCode::TOO_MANY_REQUESTS, &neo4j.code, message, JSON_UTF8)
        }
        (fault, _) => of_unchecked(fault),
    }
}

/// The response to a request that needs Neo4j, while Neo4j refuses this node's own log-on (`origin.auth =
/// "service"`). A client cannot repair that.
pub(super) fn own_log_on_refused() -> Reply {
    let code = "Hopcache.TransientError.OriginLogOnRefused";
    let message = "Neo4j refuses this cache's own log-on. Its operator can correct origin.user or origin.password_file.";
    let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, JSON, failure::body(code, message).into());
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    response
}

/// The response when the credentials could not be checked.
fn of_unchecked(fault: &OriginFault) -> Reply {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    let (status, code, message) = match fault {
        OriginFault::Failed(neo4j) | OriginFault::Unauthorized(neo4j) | OriginFault::Transient(neo4j) => {
            let failure = Failure::from(FailureKind::Neo4j(neo4j.clone()));
            let (status, content_type, body, _) =
                of_neo4j(&failure, &neo4j.code, &neo4j.message, Encoding::Plain);
            return plain(status, content_type, body);
        }
        OriginFault::Unreachable(_) => (
            unavailable,
            "Hopcache.TransientError.OriginUnreachable",
            "Neo4j cannot be reached, and these credentials have to be checked there. Try again shortly.",
        ),
        OriginFault::Cut(_) => (
            unavailable,
            "Hopcache.TransientError.OriginConnectionLost",
            "The connection to Neo4j broke before it had checked these credentials. Try again shortly.",
        ),
        OriginFault::TimedOut => (
            StatusCode::GATEWAY_TIMEOUT,
            "Hopcache.TransientError.OriginTimedOut",
            "Neo4j did not check these credentials in time. Try again shortly.",
        ),
        OriginFault::TooManyRuns => (
            StatusCode::TOO_MANY_REQUESTS,
            "Hopcache.ClientError.TooManyRequests",
            "Too many credentials of this user wait to be checked. Try again shortly.",
        ),
        OriginFault::Overloaded | OriginFault::TooLarge { .. } => (
            unavailable,
            "Hopcache.TransientError.Overloaded",
            "Too many credentials wait to be checked. Try again shortly.",
        ),
    };
    let mut response = plain(status, JSON, failure::body(code, message).into());
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    response
}
