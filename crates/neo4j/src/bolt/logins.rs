//! Whose credentials a run has, and how they are checked.

use std::sync::Arc;

use hopcache_bolt::{Auth, Connection, OpenError, Options};
use hopcache_core::turns::RunClass;
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::OriginFault;

use tokio_util::task::AbortOnDropHandle;

use super::{BoltOrigin, BoltSettings, CallPermit, Fingerprint, LendError, Login};
use crate::fault::{self, must_change_password};
use crate::service_login::auth_of;

impl BoltOrigin {
    /// Logs on again on a free connection of the principal's pool. A new connection was checked when it was opened. `None`
    /// when there is no free connection or it broke: then the result is still unknown. A check makes no pool, because
    /// each wrong password would evict the pool of an accepted principal.
    async fn verify_in_pool(
        &self,
        identity: &Identity,
        ticket: &CallPermit<'_>,
    ) -> Option<Result<(), OriginFault>> {
        let whose = self.fingerprint(identity);
        let mut lent = match self.pools.lend_again(&whose).await? {
            Ok(lent) => lent,
            Err(LendError::Full) => return None,
            Err(error) => return Some(Err(self.not_lent(&whose, error, ticket))),
        };
        if lent.is_new() {
            return lent.connection().map(|connection| standing_of(connection));
        }
        let connection = lent.connection().filter(|connection| connection.can_log_on_again())?;
        match connection.log_on_again().await {
            Ok(()) => Some(standing_of(connection)),
            Err(error @ OpenError::Refused(_)) => {
                Some(Err(self.not_lent(&whose, LendError::Open(error), ticket)))
            }
            Err(_) => None,
        }
    }

    /// Checks with a LOGON that happens now. If the password has to be changed, connections that were logged on before that are
    /// closed: Neo4j would run statements on them.
    pub(super) async fn verify_now(
        &self,
        identity: &Identity,
        ticket: &CallPermit<'_>,
    ) -> Result<(), OriginFault> {
        let verified = match self.verify_in_pool(identity, ticket).await {
            Some(answer) => answer,
            None => match self.pools.open_apart(self.auth(identity)).await {
                Ok(connection) => {
                    let standing = standing_of(&connection);
                    connection.close().await;
                    standing
                }
                Err(error) => Err(self.not_lent(&self.fingerprint(identity), error, ticket)),
            },
        };
        if verified.as_ref().is_err_and(is_password_to_change) {
            self.pools.forget(&self.fingerprint(identity));
        }
        verified
    }

    pub(super) fn fingerprint(&self, identity: &Identity) -> Fingerprint {
        self.settings.login.fingerprint(identity)
    }

    pub(super) fn auth(&self, identity: &Identity) -> Auth {
        auth_of(&self.settings.login.credentials(identity))
    }

    /// A prefetch never logs on. The credentials of a hit were accepted earlier and may be wrong now, and after three wrong
    /// passwords in a row Neo4j refuses the right one as well. So a prefetch takes a connection that clients' runs have
    /// left idle. A client's run that finds no connection opens a new one, so the pool grows to the number that both
    /// use together.
    pub(super) fn may_log_on(&self, identity: &Identity, class: RunClass) -> bool {
        let has_none = match &self.settings.login {
            Login::Passthrough => identity.credentials == Credentials::None,
            Login::Service(login) => login.has_none(),
        };
        class != RunClass::Prefetch || has_none
    }
}

/// Follows the file of this node's own password, if there is one.
pub(super) fn follow_password(settings: &BoltSettings, options: &Options) -> Option<AbortOnDropHandle<()>> {
    let Login::Service(login) = &settings.login else { return None };
    if !settings.follows_password {
        return None;
    }
    let (login, address, options) = (Arc::clone(login), settings.address.clone(), options.clone());
    Some(AbortOnDropHandle::new(tokio::spawn(async move { match login.follow(address, options).await {} })))
}

/// Whether Neo4j runs statements of a principal that has logged on just now.
pub(super) fn standing_of(connection: &Connection) -> Result<(), OriginFault> {
    if connection.must_change_password() { Err(fault::password_to_change()) } else { Ok(()) }
}

fn is_password_to_change(fault: &OriginFault) -> bool {
    matches!(fault, OriginFault::Unauthorized(failure) if must_change_password(failure))
}
