//! The task that owns the gossip socket: datagrams in, effects out.
//!
//! This file decides the order of work. It reads waiting datagrams before it handles a timer, because the answer that
//! the timer misses may be among them: a slow node must not blame others. It reads datagrams in bursts of bounded size,
//! so that a flood cannot delay timers and orders. Sending never waits. A datagram that the system does not take is lost,
//! as on the network, and counted.
//!
//! News go to [`Cluster`]. Only [`Cluster`] decides what they mean for routing.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::limits::{GOSSIP_BURST_MAX, GOSSIP_SEALED_BYTES_MAX, GOSSIP_TIMERS_MAX};
use hopcache_core::membership::{Card, Change, Report};
use hopcache_core::time::Millis;
use hopcache_gossip::{Effect, Gossip, Settings, Timers};
use hopcache_ops::gossip_refusals::GossipRefusal;
use hopcache_ops::meters::Meters;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::announce::AnnounceSchedule;
use super::order::Order;
use super::refused::{RefusalLog, reason_of};
use super::seal::{Opener, Sealer};
use crate::membership::Cluster;
use crate::peer::auth::Keyring;

/// Called with each piece that another node spreads. It never blocks.
pub type HeardSpread = Box<dyn Fn(&Bytes) + Send + Sync>;

/// Gossip over one socket, for as long as [`GossipTask::run`] is polled.
pub struct GossipTask<R> {
    socket: UdpSocket,
    sealer: Sealer,
    opener: Opener,
    core: Gossip,
    timers: Timers,
    announce_schedule: AnnounceSchedule,
    members: Arc<Cluster<R>>,
    meters: Arc<Meters>,
    refusal_log: RefusalLog,
    orders: mpsc::Receiver<Order>,
    effects: Vec<Effect>,
    started: Instant,
    heard_spread: HeardSpread,
}

impl<R: Send + Sync + 'static> GossipTask<R> {
    pub(super) fn new(
        (socket, keys): (UdpSocket, Keyring),
        members: Arc<Cluster<R>>,
        meters: Arc<Meters>,
        orders: mpsc::Receiver<Order>,
    ) -> Self {
        let sealer = Sealer::new(keys.own());
        Self {
            socket,
            opener: Opener::new(keys, &sealer),
            sealer,
            core: Gossip::new(members.me(), Settings::default(), rand::random()),
            timers: Timers::default(),
            announce_schedule: AnnounceSchedule::new(Instant::now()),
            members,
            meters,
            refusal_log: RefusalLog::default(),
            orders,
            effects: Vec::new(),
            started: Instant::now(),
            heard_spread: Box::new(|_| {}),
        }
    }

    /// Calls `heard_spread` with each piece that another node spreads.
    #[must_use]
    pub fn on_spread(self, heard_spread: HeardSpread) -> Self {
        Self { heard_spread, ..self }
    }

    /// Runs until dropped. The caller spawns it and owns the task.
    pub async fn run(mut self) {
        let mut views = self.members.subscribe();
        // Without this the socket is not ready yet for the first sends.
        let _ = self.socket.writable().await;
        loop {
            self.publish_own_card();
            let wake_at = self.next_due();
            tokio::select! {
                biased;
                Some(order) = self.orders.recv() => self.execute(order),
                _ = self.socket.readable() => {}
                () = tokio::time::sleep_until(wake_at) => {}
                // This cannot fail: this task holds the cluster that sends the views.
                _ = views.changed() => self.announce_schedule.hurry(Instant::now()),
            }
            if self.read_burst() {
                tokio::task::yield_now().await;
            }
            self.run_timers();
            self.announce();
        }
    }

    fn next_due(&self) -> Instant {
        let timer = self.timers.next().map(|at| self.started + at.duration());
        timer.into_iter().chain([self.announce_schedule.next_due()]).min().unwrap_or_else(Instant::now)
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Spreads this node's card when its phase has changed. The cluster decides the phase.
    fn publish_own_card(&mut self) {
        let me = self.members.me();
        if me.supersedes(self.core.me()) {
            self.core.say(me, &mut self.effects);
            self.carry_out();
        }
    }

    fn execute(&mut self, order: Order) {
        match order {
            Order::Leave(done) => {
                self.core.leave(&mut self.effects);
                self.carry_out();
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
            Order::Spread(piece) => {
                // A piece that is too long, or that comes after the goodbye, counts as lost on the network.
                let _ = self.core.spread(&piece, &mut self.effects);
                self.carry_out();
            }
        }
    }

    /// Reads waiting datagrams up to a bound. Returns whether the bound was reached.
    fn read_burst(&mut self) -> bool {
        // One byte more than the longest datagram, so that a longer one is noticed.
        let mut buffer = [0; GOSSIP_SEALED_BYTES_MAX + 1];
        for _ in 0..GOSSIP_BURST_MAX {
            // An error means that nothing waits, or comes from an earlier send (ICMP).
            let Ok((len, from)) = self.socket.try_recv_from(&mut buffer) else { return false };
            self.meters.received_gossip(len);
            if let Err(why) = self.take(buffer.get_mut(..len).unwrap_or_default()) {
                self.meters.refused_gossip(why);
                self.refusal_log.datagram(why, from);
            }
            self.carry_out();
        }
        true
    }

    fn take(&mut self, datagram: &mut [u8]) -> Result<(), GossipRefusal> {
        let message = self.opener.open(datagram)?;
        self.core.heard(message, &mut self.effects).map_err(reason_of)?;
        Ok(())
    }

    fn run_timers(&mut self) {
        for _ in 0..GOSSIP_TIMERS_MAX {
            let Some((timer, late)) = self.timers.pop(self.now()) else { return };
            self.core.due(timer, late, &mut self.effects);
            self.carry_out();
        }
    }

    /// Announces this node to addresses that should know it and do not. Also reports members to the prober that gossip
    /// knows and that are not routed to.
    fn announce(&mut self) {
        let now = Instant::now();
        if !self.announce_schedule.are_due(now) {
            return;
        }
        let (seeds, view) = (self.members.seeds(), self.members.view());
        for addr in self.announce_schedule.addresses(now, &seeds, &view.members, &self.core) {
            self.core.announce(addr, &mut self.effects);
        }
        if self.announce_schedule.is_rehearing_due(now) {
            let known = |card: &Card| {
                view.members
                    .iter()
                    .any(|member| member.incarnation == card.life && member.state.is_routable())
            };
            let unknown = self.core.members().filter(|card| !known(card)).cloned();
            self.effects.extend(unknown.map(Effect::Heard));
        }
        self.carry_out();
    }

    fn carry_out(&mut self) {
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Send { to, datagram } => self.send(to, &datagram),
                Effect::Wake { after, timer } => self.timers.add(self.now(), after, timer),
                Effect::Heard(card) => {
                    if let Err(why) = self.members.heard(&card) {
                        self.refusal_log.card(&why);
                    }
                }
                Effect::Down(card) => self.ended(&card, Report::GossipDown(card.life)),
                Effect::Left(card) => self.ended(&card, Report::Left(card.life)),
                Effect::Spread(piece) => (self.heard_spread)(&piece),
                Effect::Rejoined => {
                    self.meters.gossip_rejoin();
                    tracing::info!("gossip had declared this node dead; it has objected");
                }
            }
        }
    }

    fn ended(&self, card: &Card, report: Report) {
        if matches!(report, Report::GossipDown(_)) {
            self.meters.gossip_down();
        }
        if self.members.heard_of_end(&card.name, report) != Change::None {
            tracing::info!(node = %card.name, life = %format_args!("{:016x}", card.life.0), ?report, "out, says gossip");
        }
    }

    fn send(&mut self, to: SocketAddr, message: &[u8]) {
        let Some(sealed) = self.sealer.seal(message) else { return self.meters.sent_gossip(0, false) };
        let sent = self.socket.try_send_to(&sealed, to);
        self.meters.sent_gossip(sealed.len(), sent.is_ok());
    }
}
