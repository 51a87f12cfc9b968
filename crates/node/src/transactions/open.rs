//! The open transactions of a node: who may use them, until when, and how many there are.
//!
//! - A transaction belongs to its principal and its database. For everybody else it does not exist (I5).
//! - One request at a time uses a transaction. [`InUse`] is its permission. When that is dropped without
//!   [`InUse::keep`], the transaction is forgotten, its relay is closed, and Neo4j rolls back. So a client that leaves in
//!   mid-request leaks nothing.
//! - A transaction that no request uses until it expires is rolled back by [`OpenTransactions::expire_for_ever`].
//! - Commits and rollbacks that have to end, also when their client has gone, run in the tasks of this struct.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hopcache_core::limits::{
    HTTP_TRANSACTION_IDLE_MS, HTTP_TRANSACTIONS_MAX, HTTP_TRANSACTIONS_PER_PRINCIPAL_MAX,
    HTTP_TRANSACTIONS_SWEEP_MS,
};
use hopcache_core::node::Incarnation;
use parking_lot::Mutex;
use rand::RngCore;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::held::HeldTransaction;
use super::id::{Secret, TransactionId};

/// The principal of a transaction: the fingerprint of accepted credentials.
type Principal = [u8; 32];

/// Why a transaction cannot be used, or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// This node holds no such transaction of this principal and database.
    Unknown,
    /// Another request uses it.
    InUse,
    /// The principal has as many transactions as it may have.
    PrincipalFull,
    /// The node has as many as it may have.
    Full,
    /// The node is leaving and opens no more.
    Leaving,
}

/// All open transactions of this node.
pub(crate) struct OpenTransactions {
    me: Incarnation,
    per_principal_max: usize,
    table: Mutex<Table>,
    /// Told when the last transaction has ended.
    ended: Notify,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Table {
    open: HashMap<Secret, Place>,
    of_principals: HashMap<Principal, usize>,
    is_leaving: bool,
    /// Whether a transaction ends with its request.
    keeps_none: bool,
}

struct Place {
    whose: Principal,
    database: Arc<str>,
    /// `None` while a request uses the transaction.
    idle: Option<Idle>,
}

struct Idle {
    transaction: Box<HeldTransaction>,
    expires: Instant,
}

impl OpenTransactions {
    /// No transaction is open yet at the node of this life. With one principal for all clients, that one may have all.
    pub(crate) fn new(me: Incarnation, has_one_principal: bool) -> Arc<Self> {
        let per_principal_max =
            if has_one_principal { HTTP_TRANSACTIONS_MAX } else { HTTP_TRANSACTIONS_PER_PRINCIPAL_MAX };
        Arc::new(Self {
            me,
            per_principal_max,
            table: Mutex::default(),
            ended: Notify::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// A place for a transaction that begins now.
    pub(crate) fn open(self: &Arc<Self>, whose: Principal, database: Arc<str>) -> Result<InUse, Refused> {
        let mut secret = [0; 16];
        rand::rng().fill_bytes(&mut secret);
        let secret = Secret(secret);
        let mut table = self.table.lock();
        if table.is_leaving {
            return Err(Refused::Leaving);
        }
        if table.open.len() >= HTTP_TRANSACTIONS_MAX {
            return Err(Refused::Full);
        }
        let count = table.of_principals.entry(whose).or_insert(0);
        if *count >= self.per_principal_max {
            return Err(Refused::PrincipalFull);
        }
        *count += 1;
        table.open.insert(secret, Place { whose, database, idle: None });
        Ok(InUse { open: Arc::clone(self), secret, transaction: None, is_kept: false })
    }

    /// Takes a transaction for one request.
    pub(crate) fn take(
        self: &Arc<Self>,
        id: TransactionId,
        whose: &Principal,
        database: &str,
    ) -> Result<InUse, Refused> {
        let mut table = self.table.lock();
        let place = table.open.get_mut(&id.secret).filter(|_| id.holder == self.me);
        let place = place.filter(|place| place.whose == *whose && &*place.database == database);
        let Some(place) = place else { return Err(Refused::Unknown) };
        let Some(idle) = place.idle.take() else { return Err(Refused::InUse) };
        let transaction = Some(idle.transaction);
        Ok(InUse { open: Arc::clone(self), secret: id.secret, transaction, is_kept: false })
    }

    /// The number of open transactions.
    pub(crate) fn len(&self) -> usize {
        self.table.lock().open.len()
    }

    /// Runs work that has to end, also when the client that waits for it has gone.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tasks.spawn(work)
    }

    /// Rolls back the transactions that have expired, for ever.
    pub(crate) async fn expire_for_ever(&self) -> std::convert::Infallible {
        loop {
            sleep(Duration::from_millis(HTTP_TRANSACTIONS_SWEEP_MS)).await;
            let now = Instant::now();
            roll_back(self.remove_idle(|idle| idle.expires <= now)).await;
        }
    }

    /// Opens no more transactions.
    pub(crate) fn close(&self) {
        self.table.lock().is_leaving = true;
    }

    /// Waits until no transaction is open, and every commit has ended.
    pub(crate) async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.table.lock().open.is_empty() {
                break;
            }
            ended.await;
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Rolls back all transactions: those that no request uses now, the others when their request ends.
    pub(crate) async fn roll_back(&self) -> usize {
        self.table.lock().keeps_none = true;
        let idle = self.remove_idle(|_| true);
        let count = idle.len();
        roll_back(idle).await;
        count
    }

    fn remove_idle(&self, is_due: impl Fn(&Idle) -> bool) -> Vec<Box<HeldTransaction>> {
        let mut table = self.table.lock();
        let due: Vec<Secret> = table
            .open
            .iter()
            .filter(|(_, place)| place.idle.as_ref().is_some_and(&is_due))
            .map(|(secret, _)| *secret)
            .collect();
        let removed = due.into_iter().filter_map(|secret| table.remove(secret)?.idle);
        let removed: Vec<_> = removed.map(|idle| idle.transaction).collect();
        if table.open.is_empty() {
            self.ended.notify_waiters();
        }
        removed
    }
}

impl Table {
    fn remove(&mut self, secret: Secret) -> Option<Place> {
        let place = self.open.remove(&secret)?;
        if let Entry::Occupied(mut count) = self.of_principals.entry(place.whose) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(place)
    }
}

async fn roll_back(transactions: Vec<Box<HeldTransaction>>) {
    join_all(transactions.into_iter().map(|transaction| transaction.roll_back())).await;
}

/// One request's permission to use a transaction. Dropped, it ends the transaction.
pub(crate) struct InUse {
    open: Arc<OpenTransactions>,
    secret: Secret,
    transaction: Option<Box<HeldTransaction>>,
    is_kept: bool,
}

impl InUse {
    /// The transaction's name.
    pub(crate) fn id(&self) -> TransactionId {
        TransactionId { holder: self.open.me, secret: self.secret }
    }

    /// The transaction has begun.
    pub(crate) fn begin(&mut self, transaction: HeldTransaction) -> &mut HeldTransaction {
        self.transaction.insert(Box::new(transaction))
    }

    /// The transaction; `None` before [`InUse::begin`].
    pub(crate) fn transaction(&mut self) -> Option<&mut HeldTransaction> {
        self.transaction.as_deref_mut()
    }

    /// Takes the transaction out, to end it. Its name is not known any more when this is dropped.
    pub(crate) fn take(&mut self) -> Option<Box<HeldTransaction>> {
        self.transaction.take()
    }

    /// The request has ended, and the transaction stays open.
    pub(crate) fn keep(mut self) {
        let Some(transaction) = self.transaction.take() else { return };
        let expires = Instant::now() + Duration::from_millis(HTTP_TRANSACTION_IDLE_MS);
        let mut table = self.open.table.lock();
        if !table.keeps_none
            && let Some(place) = table.open.get_mut(&self.secret)
        {
            place.idle = Some(Idle { transaction, expires });
            // From here on another request may use it.
            self.is_kept = true;
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let mut table = self.open.table.lock();
        table.remove(self.secret);
        if table.open.is_empty() {
            self.open.ended.notify_waiters();
        }
    }
}
