//! A run: rounds of clients, with faults or without, each judged before the next. A round begins with the first graph in all
//! cells, which is written through Hopcache as any other write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::clients::{CLIENTS, Client, ClientHistory, Round};
use super::history::{Answer, CELLS};
use super::line::{ClientConnections, Said};
use super::replay::judge;
use super::stage::{MEMBERS, Scene, Stage};
use super::verdict::{self, Account, Fault, Verdict};
use crate::support::dice::Dice;
use crate::support::{say, size};

/// How much is asked.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub reads: usize,
    pub reads_of_round: usize,
    pub groups: usize,
    /// Lines of `[freshness]`.
    pub freshness: &'static str,
    /// Faults of a round.
    pub faults: usize,
    pub pause: Duration,
}

/// Stories that are printed.
const STORIES: usize = 5;
/// Errors of a round that are printed.
const ERRORS_SHOWN: usize = 3;
/// Writes of 100 requests, round by round.
const WRITE_PERCENTS: [usize; 4] = [10, 1, 30, 3];
/// Cells that get their first graph at a time.
const RESETS: usize = 8;

/// Runs a plan, and says what came of it.
pub async fn run(name: &str, plan: Plan) -> Account {
    let seed = size("HOPCACHE_TEST_ORACLE_SEED", std::time::UNIX_EPOCH.elapsed().unwrap().as_secs());
    let (mut stage, scene) = Stage::start(plan.freshness, plan.groups, plan.faults > 0).await;
    say(&format!("{name}: seed {seed}, {} reads, {CLIENTS} clients, {MEMBERS} nodes", plan.reads));
    let (scene, mut account, mut told) = (Arc::new(scene), Account::default(), 0);
    let mut dice = Dice::part(seed, u64::MAX);
    let mut clients: Vec<Client> =
        (0..CLIENTS).map(|client| Client::new(&scene, Dice::part(seed, client as u64))).collect();
    let began = Instant::now();
    for number in 0.. {
        if account.reads >= plan.reads {
            break;
        }
        let resetting = Instant::now();
        reset(&scene).await;
        let reset = resetting.elapsed();
        let round = Arc::new(Round {
            reads: plan.reads_of_round.min(plan.reads - account.reads),
            asked: AtomicUsize::new(0),
            write_percent: WRITE_PERCENTS[number % WRITE_PERCENTS.len()],
            pause: plan.pause,
            faults: plan.faults,
            faults_over: AtomicUsize::new(0),
        });
        let asking = Instant::now();
        let mut tasks = JoinSet::new();
        // The nodes close connections that were idle while the last round was judged.
        clients.iter_mut().for_each(|client| client.line = ClientConnections::new(Arc::clone(&scene)));
        clients.drain(..).for_each(|client| drop(tasks.spawn(client.go(Arc::clone(&round)))));
        let faults = stage.cause_faults(&scene, &round, &mut dice).await;
        clients = tasks.join_all().await;
        for client in &mut clients {
            client.end_abandoned().await;
        }
        for fault in &faults {
            *account.faults.entry(fault.kind).or_default() += 1;
        }
        let answers = gather(&mut clients, &mut account);
        let (asked, judging) = (asking.elapsed(), Instant::now());
        told += settle(&scene, &mut account, answers, &faults, told).await;
        say(&format!(
            "{name}: round {number}, {} % writes, {} faults, {:.1} s after {:.1} s to reset, {:.1} s to judge: so far {account}",
            round.write_percent,
            faults.len(),
            asked.as_secs_f64(),
            reset.as_secs_f64(),
            judging.elapsed().as_secs_f64()
        ));
    }
    let watched = stage.watched().await;
    say(&format!("{name}: seed {seed}, {:.0} s: {account}", began.elapsed().as_secs_f64()));
    say(&format!("{name}: faults {:?}; looks of the watchers: {watched}", account.faults));
    account
}

/// Takes what the clients have seen in a round.
fn gather(clients: &mut [Client], account: &mut Account) -> Vec<Answer> {
    let (mut all, mut shown) = (Vec::new(), 0);
    for client in clients {
        let ClientHistory { answers, writes, rolled_back, unacknowledged, errors, .. } =
            std::mem::take(&mut client.seen);
        account.reads += answers.len();
        account.hits += answers.iter().filter(|answer| answer.is_hit()).count();
        account.proved += answers.iter().filter(|answer| answer.is_proved()).count();
        account.marked_stale += answers.iter().filter(|answer| answer.is_marked_stale()).count();
        let relied_on = || answers.iter().filter(|answer| answer.is_relied_on);
        account.relied_on += relied_on().count();
        account.relied_on_hits += relied_on().filter(|answer| answer.is_hit()).count();
        account.bypassed += answers.iter().filter(|answer| answer.status.contains("fwd=bypass")).count();
        account.writes += writes;
        account.rolled_back += rolled_back;
        account.unacknowledged += unacknowledged;
        account.errors += errors.len();
        if let Some(error) = errors.first().filter(|_| shown < ERRORS_SHOWN) {
            say(&format!("an error: {error:.400}"));
            shown += 1;
        }
        all.extend(answers);
    }
    all
}

/// Judges a round. Returns how many stories were told.
async fn settle(
    scene: &Arc<Scene>,
    account: &mut Account,
    answers: Vec<Answer>,
    faults: &[Fault],
    told: usize,
) -> usize {
    let judged = judge(scene, answers).await;
    account.evaluated += judged.evaluated;
    account.versions += judged.versions;
    account.unjudged += judged.unjudged;
    let mut stories = 0;
    for wrong in &judged.wrong {
        let verdict = verdict::of(wrong, faults);
        *account.wrong.entry(verdict).or_default() += 1;
        account.wrong_proved += usize::from(wrong.answer.is_proved());
        account.wrong_relied_on += usize::from(verdict == Verdict::Violation && wrong.answer.is_relied_on);
        if verdict == Verdict::Violation && told + stories < STORIES {
            say(&verdict::story(wrong, verdict, faults));
            stories += 1;
        }
    }
    stories
}

/// Every cell gets its first graph. Nobody reads or writes meanwhile.
async fn reset(scene: &Arc<Scene>) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for worker in 0..RESETS {
        let (scene, next) = (Arc::clone(scene), Arc::clone(&next));
        tasks.spawn(async move {
            let mut line = ClientConnections::new(Arc::clone(&scene));
            loop {
                let cell = next.fetch_add(1, Ordering::Relaxed);
                if cell >= CELLS {
                    return;
                }
                reset_cell(&scene, &mut line, cell, (worker + cell) % MEMBERS).await;
            }
        });
    }
    tasks.join_all().await;
}

async fn reset_cell(scene: &Scene, line: &mut ClientConnections, cell: usize, node: usize) {
    let mut said = vec![line.begin(node).await];
    for text in scene.reset(cell) {
        said.push(line.run_in(node, &text, serde_json::json!({})).await);
    }
    said.push(line.end(node, true).await);
    assert!(said.iter().all(|said| matches!(said, Said::Rows { .. })), "{said:?}");
    let cell = &scene.cells[cell];
    let mut log = cell.log.lock().await;
    log.steps.clear();
    (log.quiet_until, log.unknown_from) = (None, None);
    cell.begun.store(0, Ordering::SeqCst);
    cell.acknowledged.store(0, Ordering::SeqCst);
}
