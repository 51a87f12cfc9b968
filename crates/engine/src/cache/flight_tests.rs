//! The flight table on tokio's own runtime. Its races are explored in `tests/flight_races`.

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::flight::{FlightBounds, FlightTable, Seat, Wait};

fn table() -> std::sync::Arc<FlightTable<u32, u32>> {
    FlightTable::new(FlightBounds { flights_max: 2, followers_max: 3 })
}

#[tokio::test]
async fn one_leads_and_all_get_its_value() {
    let table = table();
    let Seat::Lead(leader) = table.join(&1) else { panic!("the first leads") };
    let followers: Vec<_> = (0..3)
        .map(|_| match table.join(&1) {
            Seat::Follow(follower) => tokio::spawn(follower.wait()),
            _ => panic!("later ones follow"),
        })
        .collect();
    assert!(matches!(table.join(&1), Seat::Full), "the fourth follower is over the bound");
    assert_eq!(leader.land(7), 3);
    for follower in followers {
        assert_eq!(follower.await.unwrap(), Wait::Landed(7));
    }
    assert!(table.is_empty());
}

/// F4: a leader that panics strands nobody.
#[tokio::test]
async fn a_lost_leader_is_told() {
    let table = table();
    let Seat::Lead(leader) = table.join(&1) else { panic!("the first leads") };
    let Seat::Follow(follower) = table.join(&1) else { panic!("the second follows") };
    let lead = tokio::spawn(async move {
        let _leader = leader;
        panic!("seeded: the leader panics");
    });
    assert!(lead.await.unwrap_err().is_panic());
    assert_eq!(follower.wait().await, Wait::Lost);
    assert!(matches!(table.join(&1), Seat::Lead(_)), "the next one leads");
}

/// F3: a follower that leaves has no effect on others.
#[tokio::test]
async fn a_follower_that_leaves_changes_nothing() {
    let table = table();
    let Seat::Lead(leader) = table.join(&1) else { panic!("the first leads") };
    let Seat::Follow(leaves) = table.join(&1) else { panic!("the second follows") };
    let Seat::Follow(stays) = table.join(&1) else { panic!("the third follows") };
    drop(leaves);
    leader.land(9);
    assert_eq!(stays.wait().await, Wait::Landed(9));
}

#[tokio::test]
async fn after_a_detach_new_requests_start_anew_and_old_followers_are_served() {
    let table = table();
    let Seat::Lead(old) = table.join(&1) else { panic!("the first leads") };
    let Seat::Follow(waits) = table.join(&1) else { panic!("the second follows") };
    assert_eq!(table.detach(|key| *key == 1), 1);
    assert!(!old.is_attached());
    let Seat::Lead(new) = table.join(&1) else { panic!("a new flight") };
    old.land(1);
    assert_eq!(waits.wait().await, Wait::Landed(1));
    assert!(new.is_attached(), "the old flight's end must not remove the new one");
    new.land(2);
    assert!(table.is_empty());
}

#[test]
fn the_table_is_bounded() {
    let table = table();
    let _first = table.join(&1);
    let _second = table.join(&2);
    assert!(matches!(table.join(&3), Seat::Full));
}

/// Of clients that end what they leave the last one ends the flight. Others keep it.
#[tokio::test]
async fn a_flight_that_nobody_wants_is_abandoned() {
    for anybody_joins in [false, true] {
        let table = table();
        let Seat::Lead(leader) = table.join(&1) else { panic!("the first leads") };
        let clients = [CancellationToken::new(), CancellationToken::new()];
        leader.follow().wanted_by(Some(&clients[0]));
        let mut abandonment = Box::pin(leader.abandonment().wait());
        assert!(abandonment.as_mut().now_or_never().is_none());
        let Seat::Follow(joined) = table.join(&1) else { panic!("the second follows") };
        joined.wanted_by(if anybody_joins { None } else { Some(&clients[1]) });
        clients[0].cancel();
        assert!(abandonment.as_mut().now_or_never().is_none(), "somebody is still there");
        clients[1].cancel();
        assert_eq!(abandonment.as_mut().now_or_never().is_some(), !anybody_joins);
    }
}

/// I9: a client that comes and leaves all the time takes no memory.
#[tokio::test]
async fn those_who_have_left_are_forgotten() {
    let table = table();
    let Seat::Lead(leader) = table.join(&1) else { panic!("the first leads") };
    leader.follow().wanted_by(Some(&CancellationToken::new()));
    for _ in 0..1_000 {
        let Seat::Follow(joined) = table.join(&1) else { panic!("another follows") };
        let client = CancellationToken::new();
        joined.wanted_by(Some(&client));
        client.cancel();
    }
    assert!(leader.clients_noted() <= 8, "{} of 1,001", leader.clients_noted());
}
