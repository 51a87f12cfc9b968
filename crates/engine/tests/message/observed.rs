//! Observations, as bytes.

use hopcache_core::node::Incarnation;
use hopcache_learning::OriginTag;
use hopcache_learning::clock_offsets::SenderClock;
use hopcache_learning::sessions::SessionKey;

use super::*;

const SENDER: SenderClock = SenderClock { node: OriginTag(u64::MAX), life: Incarnation(7) };

fn seen(param: i64, session: u8, (began, ended): (u64, u64)) -> Observation {
    let query = ask("MATCH (n {id: $p}) RETURN n", "ann", "secret", param, None).query;
    Observation {
        query: Arc::new(ObservedQuery {
            key: query.key,
            database: Arc::clone(&query.database),
            scope: query.identity.scope,
            statement: Arc::clone(&query.statement),
            params: query.params.clone(),
        }),
        session: SessionKey([session; 32]),
        began: MonoTime(began),
        ended: MonoTime(ended),
        sender: SENDER,
        began_there: MonoTime(began),
    }
}

/// Times come back as ages before the sending time. Each text travels once, and no credentials do.
#[test]
fn observations_come_back_as_they_went() {
    let all = [seen(1, 1, (100, 200)), seen(2, 1, (300, 350)), seen(1, 2, (400, 900))];
    let mut pages = observed_pages(&all, SENDER, MonoTime(1_000));
    assert_eq!((pages.len(), pages[0].count()), (1, 3));
    let message = encode_question(&Question::Observed(pages.remove(0)));
    let Ok(Question::Observed(observed)) = decode_question(&message) else { panic!("observations") };
    let read = observed
        .read(|sender, reading| {
            assert_eq!((sender, reading), (SENDER, MonoTime(1_000)));
            MonoTime(71_000)
        })
        .unwrap();
    assert_eq!(read.len(), 3);
    for (read, sent) in read.iter().zip(&all) {
        assert_eq!((&read.query, read.session, read.sender), (&sent.query, sent.session, sent.sender));
        let later = |time: MonoTime| MonoTime(time.0 + 70_000);
        assert_eq!((read.began, read.ended), (later(sent.began), later(sent.ended)));
        assert_eq!(read.began_there, sent.began_there);
    }
    let times = |text: &[u8]| message.windows(text.len()).filter(|window| *window == text).count();
    assert_eq!((times(b"MATCH (n {id: $p})"), times(b"neo4j"), times(b"secret")), (1, 1, 0));
}

/// I13, F33: cut anywhere, a message is refused, and so is one whose parts are at no place.
#[test]
fn cut_and_dangling_observations_are_refused() {
    let page = observed_pages(&[seen(1, 1, (1, 2))], SENDER, MonoTime(9)).remove(0);
    let message = encode_question(&Question::Observed(page));
    for len in 0..message.len() {
        assert!(decode_question(&message.slice(..len)).is_err(), "{len}");
    }
    // The last bytes: the place of the query, its session, and the two ages.
    let mut dangling = message.to_vec();
    let place = dangling.len() - 32 - 2 - 1;
    dangling[place] = 1;
    let Ok(Question::Observed(observed)) = decode_question(&dangling.into()) else { panic!("observations") };
    assert!(observed.read(|_, _| MonoTime(9)).is_err());
}
