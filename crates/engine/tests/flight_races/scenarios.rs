//! A few requests for one key, as threads of a controlled scheduler. An assertion that fails in one interleaving, or a
//! thread that waits for ever, fails the test.

use std::sync::Arc;

use futures_util::FutureExt;
use shuttle::future::block_on;
use shuttle::rand::Rng;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::thread;

use crate::flight::{FlightBounds, FlightTable, Follower, Leader, Seat, Wait};

pub type Scenario = fn();
type Table = Arc<FlightTable<u8, u32>>;

const KEY: u8 = 1;

fn table(followers_max: u32) -> Table {
    FlightTable::new(FlightBounds { flights_max: 4, followers_max })
}

fn lead(table: &Table) -> Leader<u8, u32> {
    match table.join(&KEY) {
        Seat::Lead(leader) => leader,
        Seat::Follow(_) | Seat::Full => panic!("somebody leads already"),
    }
}

fn follow(table: &Table) -> Follower<u32> {
    match table.join(&KEY) {
        Seat::Follow(follower) => follower,
        Seat::Lead(_) | Seat::Full => panic!("nobody leads, or there is no room"),
    }
}

fn land(leader: Leader<u8, u32>, value: u32) {
    leader.land(value);
}

fn all(threads: Vec<thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Requests for one key: one leads at a time, and each follower gets a leader's value.
pub fn crowd() {
    let (table, leading) = (table(9), Arc::new(AtomicU32::new(0)));
    let request = |value: u32| {
        let (table, leading) = (Arc::clone(&table), Arc::clone(&leading));
        thread::spawn(move || match table.join(&KEY) {
            Seat::Lead(leader) => {
                assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead at a time");
                assert!(leader.is_attached());
                leading.fetch_sub(1, Ordering::SeqCst);
                leader.land(value);
            }
            Seat::Follow(follower) => assert!(matches!(block_on(follower.wait()), Wait::Landed(_))),
            Seat::Full => panic!("there is room"),
        })
    };
    all((0..4).map(request).collect());
    assert!(table.is_empty());
}

/// A request that finds no flight leads; by then the flight before it has told its end.
pub fn succession() {
    let table = table(9);
    let first = lead(&table);
    let seen_by_next = first.follow();
    let next = Arc::clone(&table);
    let lands = thread::spawn(move || land(first, 1));
    let joins = thread::spawn(move || match next.join(&KEY) {
        Seat::Lead(leader) => {
            assert_eq!(seen_by_next.wait().now_or_never(), Some(Wait::Landed(1)), "two fly at a time");
            leader.land(2);
        }
        Seat::Follow(follower) => assert_eq!(block_on(follower.wait()), Wait::Landed(1)),
        Seat::Full => panic!("there is room"),
    });
    all(vec![lands, joins]);
    assert!(table.is_empty());
}

/// F4: a leader is dropped, as by a panic. Its followers compete again, and none meets the lost flight twice.
pub fn loss() {
    let table = table(9);
    let lost = lead(&table);
    let followers: Vec<_> = (0..2).map(|_| follow(&table)).collect();
    let mut threads = vec![thread::spawn(move || drop(lost))];
    for follower in followers {
        let table = Arc::clone(&table);
        threads.push(thread::spawn(move || {
            assert_eq!(block_on(follower.wait()), Wait::Lost);
            match table.join(&KEY) {
                Seat::Lead(leader) => land(leader, 7),
                Seat::Follow(again) => assert_eq!(block_on(again.wait()), Wait::Landed(7)),
                Seat::Full => panic!("there is room"),
            }
        }));
    }
    all(threads);
    assert!(table.is_empty());
}

/// F3: followers leave before, while and after the leader lands. One stays, and gets the value.
pub fn leavers() {
    let table = table(9);
    let leader = lead(&table);
    let (stays, own) = (follow(&table), leader.follow());
    let leave = |follower: Follower<u32>| {
        thread::spawn(move || {
            // Polled once, so that it waits in line, and dropped there.
            let _ = follower.wait().now_or_never();
        })
    };
    let mut threads: Vec<_> = (0..2).map(|_| leave(follow(&table))).collect();
    threads.push(leave(own));
    threads.push(thread::spawn(move || assert!((1..=3).contains(&leader.land(9)))));
    threads.push(thread::spawn(move || assert_eq!(block_on(stays.wait()), Wait::Landed(9))));
    all(threads);
    assert!(table.is_empty());
}

/// I3: a purge detaches a flight while it lands; a request after the purge starts a new flight.
pub fn detach() {
    let table = table(9);
    let old = lead(&table);
    let waits = follow(&table);
    let purged = Arc::clone(&table);
    let threads = vec![
        thread::spawn(move || land(old, 1)),
        thread::spawn(move || assert_eq!(block_on(waits.wait()), Wait::Landed(1))),
        thread::spawn(move || {
            purged.detach(|key| *key == KEY);
            let Seat::Lead(new) = purged.join(&KEY) else { panic!("it joined what was detached") };
            thread::yield_now();
            assert!(new.is_attached(), "the old flight's end took the new one out");
            let Seat::Follow(follows) = purged.join(&KEY) else { panic!("two fly at a time") };
            assert_eq!(new.land(2), 1);
            assert_eq!(block_on(follows.wait()), Wait::Landed(2));
        }),
    ];
    all(threads);
    assert!(table.is_empty());
}

/// I9: never more followers than the bound; a follower that leaves makes room.
pub fn bound() {
    let (table, present) = (table(1), Arc::new(AtomicU32::new(0)));
    let leader = lead(&table);
    let request = |_| {
        let (table, present) = (Arc::clone(&table), Arc::clone(&present));
        thread::spawn(move || match table.join(&KEY) {
            Seat::Follow(follower) => {
                assert_eq!(present.fetch_add(1, Ordering::SeqCst), 0, "over the bound");
                present.fetch_sub(1, Ordering::SeqCst);
                drop(follower);
            }
            Seat::Full => {}
            Seat::Lead(_) => panic!("somebody leads already"),
        })
    };
    all((0..3).map(request).collect());
    let late = follow(&table);
    assert_eq!(leader.land(3), 1);
    assert_eq!(block_on(late.wait()), Wait::Landed(3));
}

/// Landing, losing, leaving, purging and joining in any order: nobody waits for ever, nothing is left.
pub fn medley() {
    let table = table(2);
    let act = |_| {
        let table = Arc::clone(&table);
        thread::spawn(move || {
            for _ in 0..2 {
                let dice: u32 = shuttle::rand::thread_rng().gen_range(0..4);
                match table.join(&KEY) {
                    Seat::Lead(leader) if dice == 0 => drop(leader),
                    Seat::Lead(leader) => land(leader, dice),
                    Seat::Follow(follower) if dice == 0 => drop(follower),
                    Seat::Follow(follower) => drop(block_on(follower.wait())),
                    Seat::Full => {}
                }
                if dice == 1 {
                    table.detach(|_| true);
                }
            }
        })
    };
    all((0..4).map(act).collect());
    assert!(table.is_empty());
}
