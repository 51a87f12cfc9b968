//! Messages of nodes about credentials, and the answers to them: any bytes that a holder of the cluster key sends.

use hopcache_core::limits::REFUSALS_TOLD_AT_ONCE;
use hopcache_core::time::Millis;
use hopcache_fronts::credentials::credential_messages::{CredentialAnswer, CredentialMessage};

pub(crate) fn check(bytes: &[u8]) {
    let answer = CredentialAnswer::decode(bytes);
    assert_eq!(CredentialAnswer::decode(&answer.encode()), answer);
    let Some(message) = CredentialMessage::decode(bytes) else { return };
    if let CredentialMessage::Refused(refused) = &message {
        assert!(refused.len() <= REFUSALS_TOLD_AT_ONCE, "{} refusals at once", refused.len());
    }
    assert_eq!(message.encode(), bytes, "a message has one form");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let refused =
        |count: u8| (0..count).map(|number| ([number; 32], Millis(u64::from(number) * 99))).collect();
    let messages = [
        CredentialMessage::Asked([7; 32]),
        CredentialMessage::Refused(refused(1)),
        CredentialMessage::Refused(refused(40)),
    ];
    let answers = [
        CredentialAnswer::Unknown,
        CredentialAnswer::Accepted(Millis(29_000)),
        CredentialAnswer::Refused(Millis(1)),
    ];
    let messages = messages.iter().map(CredentialMessage::encode);
    messages.chain(answers.map(CredentialAnswer::encode)).map(|bytes| bytes.to_vec()).collect()
}
