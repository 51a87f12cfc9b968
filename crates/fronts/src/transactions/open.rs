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
pub enum TransactionRefusal {
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
pub struct OpenTransactions {
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
    pub fn new(me: Incarnation, has_one_principal: bool) -> Arc<Self> {
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
    pub(crate) fn open(
        self: &Arc<Self>,
        whose: Principal,
        database: Arc<str>,
    ) -> Result<InUse, TransactionRefusal> {
        let mut secret = [0; 16];
        rand::rng().fill_bytes(&mut secret);
        let secret = Secret(secret);
        let mut table = self.table.lock();
        if table.is_leaving {
            return Err(TransactionRefusal::Leaving);
        }
        if table.open.len() >= HTTP_TRANSACTIONS_MAX {
            return Err(TransactionRefusal::Full);
        }
        let count = table.of_principals.entry(whose).or_insert(0);
        if *count >= self.per_principal_max {
            return Err(TransactionRefusal::PrincipalFull);
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
    ) -> Result<InUse, TransactionRefusal> {
        let mut table = self.table.lock();
        let place = table.open.get_mut(&id.secret).filter(|_| id.holder == self.me);
        let place = place.filter(|place| place.whose == *whose && &*place.database == database);
        let Some(place) = place else { return Err(TransactionRefusal::Unknown) };
        let Some(idle) = place.idle.take() else { return Err(TransactionRefusal::InUse) };
        let transaction = Some(idle.transaction);
        Ok(InUse { open: Arc::clone(self), secret: id.secret, transaction, is_kept: false })
    }

    /// The number of open transactions.
    pub fn count(&self) -> usize {
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
    pub async fn expire_for_ever(&self) -> std::convert::Infallible {
        loop {
            sleep(Duration::from_millis(HTTP_TRANSACTIONS_SWEEP_MS)).await;
            let now = Instant::now();
            roll_back(self.remove_idle(|idle| idle.expires <= now)).await;
        }
    }

    /// Opens no more transactions.
    pub fn close(&self) {
        self.table.lock().is_leaving = true;
    }

    /// Waits until no transaction is open, and every commit has ended.
    pub async fn all_ended(&self) {
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
    pub async fn roll_back(&self) -> usize {
        self.table.lock().keeps_none = true;
        let idle = self.remove_idle(|_| true);
        let count = idle.len();
        roll_back(idle).await;
        count
    }

    fn remove_idle(&self, is_due: impl Fn(&Idle) -> bool) -> Vec<HeldTransaction> {
        let mut table = self.table.lock();
        let due: Vec<Secret> = table
            .open
            .iter()
            .filter(|(_, place)| place.idle.as_ref().is_some_and(&is_due))
            .map(|(secret, _)| *secret)
            .collect();
        let removed = due.into_iter().filter_map(|secret| table.remove(secret)?.idle);
        let removed: Vec<_> = removed.map(|idle| *idle.transaction).collect();
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

async fn roll_back(transactions: Vec<HeldTransaction>) {
    join_all(transactions.into_iter().map(HeldTransaction::roll_back)).await;
}

/// One request's permission to use a transaction. Dropped, it ends the transaction.
pub struct InUse {
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use hopcache_core::key::{KeyHasher, PrincipalScope};
    use hopcache_engine::TransactionReads;
    use hopcache_engine::identity::{Credentials, Identity};
    use hopcache_engine::ports::AccessMode;
    use hopcache_packstream::Value;

    use super::*;
    use crate::transactions::held::Terms;
    use crate::transactions::lazy_begin::LazyBegin;

    const ME: Incarnation = Incarnation(7);

    fn transactions() -> Arc<OpenTransactions> {
        OpenTransactions::new(ME, false)
    }

    /// A transaction that has not reached Neo4j.
    fn begun() -> HeldTransaction {
        let scope = PrincipalScope::of(&KeyHasher::new(b""), "none", "", None);
        let identity = Arc::new(Identity { scope, fingerprint: [0; 32], credentials: Credentials::None });
        let terms = Terms {
            login: Arc::clone(&identity),
            acting: identity,
            impersonated: None,
            database: "neo4j".into(),
            mode: AccessMode::Write,
            traceparent: None,
        };
        let reads = TransactionReads::new(AccessMode::Write, None);
        HeldTransaction::new(terms, LazyBegin::new(&Value::Map(Vec::new()), None, reads), None)
    }

    fn open(all: &Arc<OpenTransactions>, whose: u8) -> TransactionId {
        let mut in_use = all.open([whose; 32], "neo4j".into()).ok().unwrap();
        in_use.begin(begun());
        let id = in_use.id();
        in_use.keep();
        id
    }

    fn why(taken: Result<InUse, TransactionRefusal>) -> Option<TransactionRefusal> {
        taken.err()
    }

    /// I5: for everybody else a transaction does not exist.
    #[tokio::test]
    async fn a_transaction_is_found_by_its_principal_and_database_alone() {
        let all = transactions();
        let id = open(&all, 1);
        assert_eq!(why(all.take(id, &[2; 32], "neo4j")), Some(TransactionRefusal::Unknown));
        assert_eq!(why(all.take(id, &[1; 32], "other")), Some(TransactionRefusal::Unknown));
        let other_life = TransactionId { holder: Incarnation(8), ..id };
        assert_eq!(why(all.take(other_life, &[1; 32], "neo4j")), Some(TransactionRefusal::Unknown));
        let in_use = all.take(id, &[1; 32], "neo4j").ok().unwrap();
        assert_eq!(why(all.take(id, &[1; 32], "neo4j")), Some(TransactionRefusal::InUse));
        assert_eq!(
            why(all.take(id, &[2; 32], "neo4j")),
            Some(TransactionRefusal::Unknown),
            "nor that it is in use"
        );
        in_use.keep();
        assert!(all.take(id, &[1; 32], "neo4j").is_ok());
    }

    /// A request that is dropped half way leaves nothing behind.
    #[tokio::test]
    async fn a_dropped_request_ends_its_transaction() {
        let all = transactions();
        let id = open(&all, 1);
        drop(all.take(id, &[1; 32], "neo4j").ok().unwrap());
        assert_eq!(
            (why(all.take(id, &[1; 32], "neo4j")), all.count()),
            (Some(TransactionRefusal::Unknown), 0)
        );
        drop(all.open([1; 32], "neo4j".into()).ok().unwrap());
        assert_eq!((all.count(), all.table.lock().of_principals.len()), (0, 0));
    }

    /// I9.
    #[tokio::test]
    async fn transactions_are_bounded_for_each_principal_and_in_all() {
        let all = transactions();
        let first: Vec<_> = (0..HTTP_TRANSACTIONS_PER_PRINCIPAL_MAX).map(|_| open(&all, 1)).collect();
        assert_eq!(why(all.open([1; 32], "neo4j".into())), Some(TransactionRefusal::PrincipalFull));
        for _ in all.count()..HTTP_TRANSACTIONS_MAX {
            open(&all, 2);
        }
        assert_eq!(why(all.open([3; 32], "neo4j".into())), Some(TransactionRefusal::Full));
        drop(all.take(first[0], &[1; 32], "neo4j").ok().unwrap());
        open(&all, 3);
        let only = OpenTransactions::new(ME, true);
        for _ in 0..HTTP_TRANSACTIONS_MAX {
            open(&only, 1);
        }
        assert_eq!(why(only.open([1; 32], "neo4j".into())), Some(TransactionRefusal::Full));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_transaction_expires_and_a_request_extends_its_life() {
        let all = transactions();
        let sweeping = tokio::spawn({
            let all = Arc::clone(&all);
            async move { all.expire_for_ever().await }
        });
        let (idle, used, in_use) = (open(&all, 1), open(&all, 1), open(&all, 1));
        let busy = all.take(in_use, &[1; 32], "neo4j").ok().unwrap();
        // tidy: virtual time
        tokio::time::sleep(Duration::from_millis(HTTP_TRANSACTION_IDLE_MS / 2)).await;
        all.take(used, &[1; 32], "neo4j").ok().unwrap().keep();
        let rest = HTTP_TRANSACTION_IDLE_MS / 2 + HTTP_TRANSACTIONS_SWEEP_MS;
        // tidy: virtual time
        tokio::time::sleep(Duration::from_millis(rest)).await;
        assert_eq!(why(all.take(idle, &[1; 32], "neo4j")), Some(TransactionRefusal::Unknown));
        assert!(all.take(used, &[1; 32], "neo4j").is_ok(), "half of its time is left");
        busy.keep();
        assert!(all.take(in_use, &[1; 32], "neo4j").is_ok(), "a request used it");
        sweeping.abort();
    }

    /// F12: a leaving node waits for open transactions, and then ends them.
    #[tokio::test]
    async fn a_leaving_node_opens_none_and_ends_all() {
        let all = transactions();
        let (idle, in_use) = (open(&all, 1), open(&all, 1));
        let busy = all.take(in_use, &[1; 32], "neo4j").ok().unwrap();
        all.close();
        assert_eq!(why(all.open([1; 32], "neo4j".into())), Some(TransactionRefusal::Leaving));
        let ended = all.all_ended();
        tokio::pin!(ended);
        assert!(ended.as_mut().now_or_never().is_none());
        assert_eq!(all.roll_back().await, 1);
        assert_eq!(why(all.take(idle, &[1; 32], "neo4j")), Some(TransactionRefusal::Unknown));
        assert!(ended.as_mut().now_or_never().is_none(), "one is in use");
        busy.keep();
        ended.await;
        assert_eq!(all.count(), 0);
    }
}
