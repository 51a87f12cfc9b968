//! Shared forms of random queries: all spellings of a query have one, and a changed query has another.
//! `shared_real` asks a real Neo4j whether that is right.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

pub(crate) mod change;
pub(crate) mod generate;
pub(crate) mod random;
pub(crate) mod spell;

use hopcache_cypher::forms::shared::SharedForm;
use random::Random;

const QUERIES: u64 = 20_000;

#[derive(Debug, Default)]
struct Account {
    pairs: usize,
    shared: usize,
    unread: usize,
    /// Two forms of one query: it reads the same in both directions, or keeps an order for another reason.
    apart: usize,
}

#[test]
fn spellings_of_a_query_share_and_changed_queries_do_not() {
    let mut account = Account::default();
    for seed in 0..QUERIES {
        let mut random = Random::new(seed);
        let query = generate::query(&mut random);
        let [one, other] = [(); 2].map(|()| spell::spell(&query, &mut random));
        let changed = change::changed(&query, &mut random);
        let third = spell::spell(&changed, &mut random);
        let [form, second, changed] = [&one, &other, &third].map(|text| SharedForm::of(text));
        account.pairs += 1;
        match (&form, &second) {
            (Some(form), Some(second)) if form.as_str() == second.as_str() => account.shared += 1,
            (Some(_), Some(_)) => account.apart += 1,
            _ => account.unread += 1,
        }
        if let (Some(form), Some(changed)) = (&form, &changed) {
            assert_ne!(form.as_str(), changed.as_str(), "seed {seed}\n{one}\n{third}");
        }
        if let Some(form) = form {
            let again = SharedForm::of(form.as_str()).unwrap();
            assert_eq!(again.as_str(), form.as_str(), "a form is its own form\n{one}");
            assert_eq!(again.columns().len(), form.columns().len());
        }
    }
    eprintln!("{account:?}");
    assert!(account.shared * 10 > account.pairs * 8, "{account:?}");
    assert!(account.unread * 50 < account.pairs, "{account:?}");
}
