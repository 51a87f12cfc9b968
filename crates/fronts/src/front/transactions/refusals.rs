//! The responses to requests about transactions that are not carried out, or whose answer did not come.

use hopcache_queryapi::render::Encoding;
use http::StatusCode;

use super::endpoint::{Endpoint, Verb};
use crate::front::answer::{CODE_INVALID, CODE_LEAVING, IN_DOUBT, content_type};
use crate::front::refusal::Refusal;
use crate::transactions::TransactionRefusal;

/// The response when a transaction cannot be used or opened.
pub(super) fn refused(why: TransactionRefusal, endpoint: &Endpoint, encoding: Encoding) -> Refusal {
    match why {
        TransactionRefusal::Unknown => unknown(endpoint, encoding),
        TransactionRefusal::InUse => Refusal::Response {
            status: StatusCode::BAD_REQUEST,
            code: "Neo.ClientError.Transaction.TransactionAccessedConcurrently".to_owned(),
            message: "Another request is currently accessing this transaction.".to_owned(),
            content_type: content_type(encoding),
        },
        TransactionRefusal::PrincipalFull => Refusal::own(
            StatusCode::TOO_MANY_REQUESTS,
            "Hopcache.ClientError.TooManyTransactions",
            "This user has too many open transactions. Commit or delete some, and try again.".to_owned(),
        ),
        TransactionRefusal::Full => Refusal::own(
            StatusCode::SERVICE_UNAVAILABLE,
            "Hopcache.TransientError.Overloaded",
            "Too many transactions are open on this node. Try again shortly.".to_owned(),
        ),
        TransactionRefusal::Leaving => leaving(endpoint.verb),
    }
}

/// The server's answer for a transaction that it does not have.
pub(super) fn unknown(endpoint: &Endpoint, encoding: Encoding) -> Refusal {
    let message = format!(
        "Transaction with Id: \"{}\" was not found. It may have timed out and therefore rolled back or the routing header 'neo4j-cluster-affinity' was not provided.",
        endpoint.id
    );
    let (status, code) = (StatusCode::NOT_FOUND, CODE_INVALID.to_owned());
    Refusal::Response { status, code, message, content_type: content_type(encoding) }
}

/// The node ends before it has answered.
pub(super) fn leaving(verb: Verb) -> Refusal {
    let next = match verb {
        Verb::Commit => "The transaction may have been committed: look before you send its statements again.",
        Verb::Open | Verb::Run | Verb::RollBack => {
            "Its transactions are rolled back. Begin again: other nodes answer."
        }
    };
    unless_committed(verb, CODE_LEAVING, format!("This node is leaving. {next}"))
}

/// There is no room for this answer.
pub(super) fn too_many_answers(verb: Verb) -> Refusal {
    let done = match verb {
        Verb::Commit => "The transaction is committed.",
        Verb::RollBack => "The transaction is rolled back.",
        Verb::Open | Verb::Run => "The statement was carried out: delete the transaction, and begin again.",
    };
    let message = format!("Too many large answers are being read slowly. {done}");
    unless_committed(verb, "Hopcache.TransientError.TooManyAnswers", message)
}

/// The response when the holder was not asked.
pub(super) fn unsent() -> Refusal {
    Refusal::own(
        StatusCode::SERVICE_UNAVAILABLE,
        "Hopcache.TransientError.HolderUnreachable",
        "The node that holds the transaction cannot be asked now. Nothing was done: try again shortly, or begin again."
            .to_owned(),
    )
}

/// The response when the holder's answer did not come.
pub(super) fn unanswered(verb: Verb) -> Refusal {
    let next = match verb {
        Verb::Commit => "The transaction may have been committed: look before you send its statements again.",
        Verb::Open | Verb::Run => {
            "Nothing is committed. Delete the transaction, or let it expire, and begin again."
        }
        Verb::RollBack => "The transaction is rolled back at the latest when it expires.",
    };
    let message = format!("The answer of the node that holds the transaction did not come. {next}");
    unless_committed(verb, "Hopcache.TransientError.HolderLost", message)
}

/// A failure that clients may repeat, unless the transaction may be committed: to repeat it would carry it out twice.
fn unless_committed(verb: Verb, code: &'static str, message: String) -> Refusal {
    let (status, code) = match verb {
        Verb::Commit => IN_DOUBT,
        Verb::Open | Verb::Run | Verb::RollBack => (StatusCode::SERVICE_UNAVAILABLE, code),
    };
    Refusal::own(status, code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drivers repeat what is transient, and balancers a 503.
    #[test]
    fn what_may_be_committed_is_not_to_be_repeated() {
        for refusal in [leaving, too_many_answers, unanswered] {
            let said = |verb| match refusal(verb) {
                Refusal::Response { status, code, .. } => (status, code),
                other => panic!("{other:?}"),
            };
            let (status, code) = said(Verb::Commit);
            assert_eq!((status.as_u16(), &*code), (500, "Neo.DatabaseError.General.UnknownError"));
            assert_eq!(said(Verb::Run).0, StatusCode::SERVICE_UNAVAILABLE, "nothing is committed");
        }
    }
}
