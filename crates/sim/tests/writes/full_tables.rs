//! More databases are written than a node has places for marks.

use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::WRITTEN_DATABASES_MAX;
use hopcache_core::write_position::{WriteEpoch, WritePosition, WriteRecord};

use super::proofs::{LEFT, LONG_MS, WATCH_MS, policy, proved, warm_reads};
use super::{NODES, world_of};
use crate::prelude::*;

/// The mark of a write to another database, by a name of its own.
fn record_of(number: usize) -> WriteRecord {
    let number = number as u64;
    let database = DatabaseUuid((1 << 64 | u128::from(number)).to_be_bytes());
    let written = Position { database, id: TransactionId(5) };
    WriteRecord::of_all(DatabaseTag(number), WritePosition::at(WriteEpoch(0), written))
}

/// The marks of other databases take all places. A result is read by one name of the database, and a write uses another one: its mark finds
/// no place. Nothing of the database is proved, with a watcher or without one, and results end by age.
#[tokio::test(start_paused = true)]
async fn nothing_is_proved_of_a_database_that_has_no_place() {
    for (seed, watch_ms) in [(488, WATCH_MS), (489, 0)] {
        let world = world_of(NODES, seed, &policy(watch_ms)).await;
        let others: Vec<_> = (1..=WRITTEN_DATABASES_MAX).map(record_of).collect();
        world.store.tell_written(&others, &[]);
        world.pass(FRESHNESS_LEASE_MS_DEFAULT).await;
        for node in &world.nodes {
            assert_eq!(node.engine.writes().known().len(), WRITTEN_DATABASES_MAX);
        }
        warm_reads(&world).await;
        // The watcher of this name, if there is one, accounts for the write.
        for node in 0..NODES {
            read(&world, node, &world.ask(LEFT)).await;
        }
        read(&world, 0, &world.ask_in("alias", WRITE_LEFT, "alice")).await;
        let now = i64::from(world.origin.version());
        for _ in 0..10 {
            world.pass(LONG_MS / 10).await;
            for node in 0..NODES {
                assert_eq!(proved(&read(&world, node, &world.ask(LEFT)).await), None, "{watch_ms}");
            }
        }
        for node in 0..NODES {
            assert_eq!(version(&read(&world, node, &world.ask(LEFT)).await), now, "{watch_ms}");
        }
    }
}
