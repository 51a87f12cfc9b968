//! Questions between the fronts of nodes, and the answers to them: any bytes that a holder of the cluster key sends.

use bytes::Bytes;
use hopcache_core::limits::{HOLDER_PATH_BYTES_MAX, HOME_NAME_BYTES_MAX, REFUSALS_TOLD_AT_ONCE};
use hopcache_core::time::Millis;
use hopcache_engine::message::encode_answer as encode;
use hopcache_engine::outcome::{How, Reason};
use hopcache_fronts::credentials::credential_messages::{CredentialAnswer, KnownHome};
use hopcache_fronts::front::transactions::TransactionResponse;
use hopcache_fronts::front::transactions::messages::{
    HolderRequest, Nonce, SentRequest, decode_answer, encode_answer,
};
use hopcache_fronts::front_question::FrontQuestion;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};

pub(crate) fn check(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let known = CredentialAnswer::decode(&bytes);
    assert_eq!(CredentialAnswer::decode(&encode(&known)), known);
    let home = KnownHome::decode(&bytes);
    assert!(home.as_ref().is_none_or(|home| home.name.len() <= HOME_NAME_BYTES_MAX));
    assert_eq!(KnownHome::decode(&KnownHome::encode(home.as_ref())), home);
    if let Some(answer) = decode_answer(&bytes) {
        let again = decode_answer(&encode_answer(&answer));
        assert_eq!(again.as_ref().map(parts_of_answer), Some(parts_of_answer(&answer)));
    }
    let Some(question) = FrontQuestion::decode(&bytes) else { return };
    assert_eq!(FrontQuestion::decode(&question.encode()).as_ref(), Some(&question));
    match question {
        FrontQuestion::Refused(refused) => assert!(refused.len() <= REFUSALS_TOLD_AT_ONCE),
        FrontQuestion::Transaction(sent) => {
            let Some(request) = sent.read(&bytes) else { return };
            assert!(request.head.uri.path().len() <= HOLDER_PATH_BYTES_MAX, "a long path");
            let again =
                FrontQuestion::Transaction(SentRequest::of(request.nonce, &request.head, &request.body));
            let message = again.encode();
            let Some(FrontQuestion::Transaction(again)) = FrontQuestion::decode(&message) else {
                panic!("an encoded message decodes")
            };
            let again = again.read(&message);
            assert_eq!(again.as_ref().map(parts_of_request), Some(parts_of_request(&request)));
        }
        FrontQuestion::Credentials(_) | FrontQuestion::Home(..) | FrontQuestion::ConsolePart => {}
    }
}

fn parts_of_request(request: &HolderRequest) -> (Nonce, &Method, &str, &HeaderMap, &Bytes) {
    let HolderRequest { nonce, head, body } = request;
    (*nonce, &head.method, head.uri.path(), &head.headers, body)
}

fn parts_of_answer(answer: &TransactionResponse) -> (StatusCode, &HeaderMap, &Bytes, Option<How>) {
    (answer.status, &answer.headers, &answer.body, answer.how)
}

fn head(method: &str, path: &str) -> Parts {
    let head = Request::builder().method(method).uri(path).header("accept", "application/json");
    let head = head.header("authorization", "Basic bmVvNGo6cHc=").body(());
    head.expect("a request").into_parts().0
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let refused = (0..40).map(|number| ([number; 32], Millis(u64::from(number) * 99))).collect();
    let mut seeds: Vec<Bytes> = [
        FrontQuestion::Credentials([7; 32]),
        FrontQuestion::Refused(refused),
        FrontQuestion::Home([7; 32], None),
        FrontQuestion::Home([7; 32], Some("ann")),
        FrontQuestion::ConsolePart,
    ]
    .iter()
    .map(FrontQuestion::encode)
    .collect();
    let body = Bytes::from_static(b"{\"statement\":\"RETURN 1\"}");
    // The last one has no path.
    let paths = [
        ("POST", "/db/neo4j/query/v2/tx/abcd/commit"),
        ("DELETE", "/db/neo4j/query/v2/tx/abcd"),
        ("GET", "*"),
    ];
    for (method, path) in paths {
        let head = head(method, path);
        seeds.push(FrontQuestion::Transaction(SentRequest::of([7; 16], &head, &body)).encode());
    }
    let answers = [
        CredentialAnswer::Unknown,
        CredentialAnswer::Accepted(Millis(29_000)),
        CredentialAnswer::Refused(Millis(1)),
    ];
    seeds.extend(answers.iter().map(encode));
    let home = KnownHome { age_ms: Millis(9), name: "neo4j".to_owned() };
    seeds.extend([None, Some(&home)].map(KnownHome::encode));
    for how in [None, Some(How::bypass(Reason::Transaction))] {
        let headers = HeaderMap::from_iter([(http::header::AGE, HeaderValue::from_static("3"))]);
        seeds.push(encode_answer(&TransactionResponse {
            status: StatusCode::ACCEPTED,
            headers,
            body: body.clone(),
            how,
        }));
    }
    seeds.iter().map(|bytes| bytes.to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hopcache_core::wire::{WIRE_VERSION, from_bytes};
    use hopcache_engine::message::KIND_OF_FRONTS;

    use super::*;
    use crate::peer_message::known_kinds;

    /// Whoever adds a kind adds a seed of it, which this target reads as it was written.
    #[test]
    fn every_kind_has_a_seed() {
        let head = [WIRE_VERSION, KIND_OF_FRONTS];
        let seeds: BTreeSet<u8> =
            seeds().iter().filter_map(|seed| seed.strip_prefix(&head)?.first().copied()).collect();
        assert_eq!(seeds, known_kinds(|bytes| from_bytes::<FrontQuestion<'_>>(bytes).map(drop)));
    }
}
