//! A client's request about a transaction on its way between nodes, and the answer: any bytes that a holder of the cluster
//! key sends.

use bytes::Bytes;
use hopcache_core::limits::HOLDER_PATH_BYTES_MAX;
use hopcache_fronts::front::transactions::Handled;
use hopcache_fronts::front::transactions::messages::{
    HolderRequest, Nonce, decode_answer, decode_request, encode_answer, encode_request,
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};

pub(crate) fn check(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Some(request) = decode_request(&bytes) {
        assert!(request.head.uri.path().len() <= HOLDER_PATH_BYTES_MAX, "a long path");
        let again = decode_request(&encode_request(request.nonce, &request.head, &request.body));
        assert_eq!(again.as_ref().map(parts_of_request), Some(parts_of_request(&request)));
    }
    if let Some(answer) = decode_answer(&bytes) {
        let again = decode_answer(&encode_answer(&answer));
        assert_eq!(again.as_ref().map(parts_of_answer), Some(parts_of_answer(&answer)));
    }
}

fn parts_of_request(request: &HolderRequest) -> (Nonce, &Method, &str, &HeaderMap, &Bytes) {
    let HolderRequest { nonce, head, body } = request;
    (*nonce, &head.method, head.uri.path(), &head.headers, body)
}

fn parts_of_answer(answer: &Handled) -> (StatusCode, &HeaderMap, &Bytes) {
    (answer.status, &answer.headers, &answer.body)
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let request = |method: &str, path: &str, body: &'static str| {
        let head = Request::builder().method(method).uri(path).header("accept", "application/json");
        let head =
            head.header("authorization", "Basic bmVvNGo6cHc=").body(()).map(|request| request.into_parts().0);
        head.map(|head| encode_request([7; 16], &head, &Bytes::from_static(body.as_bytes())))
            .unwrap_or_default()
    };
    let answer = |status, body: &'static str| {
        let headers = HeaderMap::from_iter([(http::header::AGE, HeaderValue::from_static("3"))]);
        encode_answer(&Handled { status, headers, body: Bytes::from_static(body.as_bytes()), how: None })
    };
    let messages = [
        request("POST", "/db/neo4j/query/v2/tx/abcd", "{\"statement\":\"RETURN 1\"}"),
        request("POST", "/db/neo4j/query/v2/tx/abcd/commit", "{}"),
        request("DELETE", "/db/neo4j/query/v2/tx/abcd", ""),
        answer(StatusCode::ACCEPTED, "{\"data\":{\"fields\":[\"x\"],\"values\":[[1]]}}"),
        answer(StatusCode::NOT_FOUND, ""),
    ];
    messages.map(|bytes| bytes.to_vec()).to_vec()
}
