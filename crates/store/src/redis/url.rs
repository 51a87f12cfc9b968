//! The address of Redis: the accepted forms of `store.uri`.
//!
//! - `redis://[user:password@]host[:port][/db]`, and `rediss://…` over TLS;
//! - `redis+sentinel://[user:password@]host1[:26379],host2,…/service[/db][?sentinel_username=…&sentinel_password=…]`:
//!   the hosts are Sentinels, user and password are Redis'; `rediss+sentinel://…` has TLS to Redis and Sentinels;
//! - `redis+cluster://[user:password@]host1[:port],host2,…`, and `rediss+cluster://…` over TLS.
//!
//! `TCP_NODELAY` is set on all of them (measured: GET p99 4.2 ms → 0.16 ms).

use hopcache_net::tls::Authorities;
use redis::cluster::ClusterClient;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{ConnectionInfo, IntoConnectionInfo, TlsCertificates, TlsMode};

const SENTINEL_PORT: u16 = 26_379;
const REDIS_PORT: u16 = 6_379;

/// Why a text is not a store address. It never shows the text, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadStoreUrl {
    /// The text has none of the accepted forms.
    #[error(
        "store.uri: use redis://host:port, rediss://…, redis+sentinel://host1,host2/service or redis+cluster://host1,host2"
    )]
    Scheme,
    /// `redis+sentinel` without a service name.
    #[error(
        "store.uri: name the service that the Sentinels watch, as in redis+sentinel://host1,host2/mymaster"
    )]
    Service,
    /// The scheme is right, but not the rest.
    #[error("store.uri: {0}")]
    Form(String),
}

/// A parsed address.
#[derive(Clone)]
pub(super) enum Target {
    Single(Box<ConnectionInfo>),
    Sentinel(SentinelTarget),
    Cluster(Box<ClusterClient>),
}

#[derive(Clone)]
pub(super) struct SentinelTarget {
    sentinels: Vec<ConnectionInfo>,
    /// Credentials and database number of the Redis behind the Sentinels. The Sentinels give its address.
    redis: Box<ConnectionInfo>,
    service: String,
    tls: bool,
    certificates: Option<TlsCertificates>,
}

impl Target {
    /// `authorities` replace those of the system for `rediss`.
    pub(super) fn parse(
        text: &str,
        connect: std::time::Duration,
        authorities: Option<&Authorities>,
    ) -> Result<Self, BadStoreUrl> {
        let (scheme, rest) = text.split_once("://").ok_or(BadStoreUrl::Scheme)?;
        let tls = scheme.starts_with("rediss");
        if tls {
            // This fails when the process has chosen a provider already, which is fine.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let certificates = authorities.filter(|_| tls).map(|authorities| TlsCertificates {
            client_tls: None,
            root_cert: Some(authorities.pem().to_vec()),
        });
        match scheme {
            "redis" | "rediss" => {
                let info = trusting(info(scheme, rest)?, certificates)?;
                Ok(Self::Single(Box::new(info)))
            }
            "redis+sentinel" | "rediss+sentinel" => sentinel(rest, tls, certificates).map(Self::Sentinel),
            "redis+cluster" | "rediss+cluster" => {
                cluster(rest, tls, (connect, certificates)).map(Box::new).map(Self::Cluster)
            }
            _ => Err(BadStoreUrl::Scheme),
        }
    }
}

/// Whether the address names a user, so that the log-on is not the default user's.
pub(super) fn names_user(text: &str) -> bool {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let credentials = rest.split_once('?').map_or(rest, |(rest, _)| rest).rsplit_once('@');
    credentials.is_some_and(|(credentials, _)| !credentials.starts_with(':'))
}

impl SentinelTarget {
    /// A client that asks the Sentinels for the current master, which changes at a fail-over.
    pub(super) fn client(&self) -> redis::RedisResult<SentinelClient> {
        let addresses = self.sentinels.iter().map(|info| info.addr().clone());
        let mut builder = SentinelClientBuilder::new(addresses, &self.service, SentinelServerType::Master)?
            .set_client_to_redis_db(self.redis.redis_settings().db())
            .set_client_to_redis_tcp_settings(nodelay())
            .set_client_to_sentinel_tcp_settings(nodelay());
        if self.tls {
            builder = builder
                .set_client_to_redis_tls_mode(TlsMode::Secure)
                .set_client_to_sentinel_tls_mode(TlsMode::Secure);
        }
        if let Some(certificates) = &self.certificates {
            builder = builder
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_certificates(certificates.clone());
        }
        if let Some(user) = self.redis.redis_settings().username() {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = self.redis.redis_settings().password() {
            builder = builder.set_client_to_redis_password(password);
        }
        let of_sentinel = self.sentinels.first().map(ConnectionInfo::redis_settings);
        if let Some(user) = of_sentinel.and_then(|settings| settings.username()) {
            builder = builder.set_client_to_sentinel_username(user);
        }
        if let Some(password) = of_sentinel.and_then(|settings| settings.password()) {
            builder = builder.set_client_to_sentinel_password(password);
        }
        builder.build()
    }
}

fn nodelay() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

fn info(scheme: &str, rest: &str) -> Result<ConnectionInfo, BadStoreUrl> {
    let parsed = format!("{scheme}://{rest}").into_connection_info();
    let info = parsed.map_err(|error| BadStoreUrl::Form(error.category().to_owned()))?;
    // Without CLIENT SETINFO: it needs another right in the ACL, and Redis before 7.2 does not know it.
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    Ok(info.set_redis_settings(settings).set_tcp_settings(nodelay()))
}

/// The same address, with these authorities for its server's certificate.
fn trusting(
    info: ConnectionInfo,
    certificates: Option<TlsCertificates>,
) -> Result<ConnectionInfo, BadStoreUrl> {
    let Some(certificates) = certificates else { return Ok(info) };
    let client = redis::Client::build_with_tls(info, certificates);
    client
        .map(|client| client.get_connection_info().clone())
        .map_err(|error| BadStoreUrl::Form(error.to_string()))
}

/// `user:password@` (or nothing), and the hosts with their ports.
fn authority(text: &str, port: u16) -> Result<(String, Vec<String>), BadStoreUrl> {
    let (credentials, hosts) = match text.rsplit_once('@') {
        Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
        None => (String::new(), text),
    };
    let with_port = |host: &str| {
        let bare = host.rsplit_once(':').is_none_or(|(_, end)| end.ends_with(']'));
        if bare { format!("{host}:{port}") } else { host.to_owned() }
    };
    let hosts: Vec<String> = hosts.split(',').filter(|host| !host.is_empty()).map(with_port).collect();
    if hosts.is_empty() {
        return Err(BadStoreUrl::Form("no host".to_owned()));
    }
    Ok((credentials, hosts))
}

fn sentinel(
    rest: &str,
    tls: bool,
    certificates: Option<TlsCertificates>,
) -> Result<SentinelTarget, BadStoreUrl> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, path) = place.split_once('/').ok_or(BadStoreUrl::Service)?;
    let (service, db) = path.split_once('/').unwrap_or((path, "0"));
    if service.is_empty() {
        return Err(BadStoreUrl::Service);
    }
    let (mut user, mut password) = ("", "");
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sentinel_username", value)) => user = value,
            Some(("sentinel_password", value)) => password = value,
            _ => {
                return Err(BadStoreUrl::Form(
                    "sentinel_username and sentinel_password are known".to_owned(),
                ));
            }
        }
    }
    let scheme = if tls { "rediss" } else { "redis" };
    let (credentials, hosts) = authority(hosts, SENTINEL_PORT)?;
    let of_sentinel = if password.is_empty() { String::new() } else { format!("{user}:{password}@") };
    let sentinels = hosts.iter().map(|host| info(scheme, &format!("{of_sentinel}{host}")));
    Ok(SentinelTarget {
        sentinels: sentinels.collect::<Result<_, _>>()?,
        redis: Box::new(info(scheme, &format!("{credentials}{}/{db}", hosts[0]))?),
        service: service.to_owned(),
        tls,
        certificates,
    })
}

fn cluster(
    rest: &str,
    tls: bool,
    (connect, certificates): (std::time::Duration, Option<TlsCertificates>),
) -> Result<ClusterClient, BadStoreUrl> {
    let scheme = if tls { "rediss" } else { "redis" };
    let (credentials, hosts) = authority(rest.trim_end_matches('/'), REDIS_PORT)?;
    let infos = hosts.iter().map(|host| info(scheme, &format!("{credentials}{host}")));
    let infos = infos.collect::<Result<Vec<_>, _>>()?;
    // Measured: the defaults hang for seconds; our own deadline is outside these anyway.
    let builder = ClusterClient::builder(infos)
        .tcp_settings(nodelay())
        .retries(2)
        .max_retry_wait(200)
        .connection_timeout(connect);
    let builder = match certificates {
        Some(certificates) => builder.certs(certificates),
        None => builder,
    };
    builder.build().map_err(|error| BadStoreUrl::Form(error.category().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Target, BadStoreUrl> {
        Target::parse(text, std::time::Duration::from_secs(1), None)
    }

    #[test]
    fn the_documented_forms_are_read() {
        let Ok(Target::Single(info)) = parse("redis://u:p%40ss@h:7000/3") else { panic!("single") };
        assert_eq!(info.addr().to_string(), "h:7000");
        assert_eq!(info.redis_settings().password(), Some("p@ss"));
        assert_eq!(info.redis_settings().db(), 3);
        assert!(info.tcp_settings().nodelay());
        assert!(matches!(parse("rediss://h"), Ok(Target::Single(_))));
        let text = "redis+sentinel://u:p@a,b:7,[::1]/main/2?sentinel_password=s";
        let Ok(Target::Sentinel(found)) = parse(text) else { panic!("sentinel") };
        let hosts: Vec<_> = found.sentinels.iter().map(|info| info.addr().to_string()).collect();
        assert_eq!(hosts[..2], ["a:26379", "b:7"]);
        assert_eq!((found.service.as_str(), found.redis.redis_settings().db()), ("main", 2));
        assert_eq!(found.redis.redis_settings().password(), Some("p"));
        assert_eq!(found.sentinels[0].redis_settings().password(), Some("s"));
        assert!(found.client().is_ok());
        assert!(matches!(parse("redis+cluster://u:p@a,b:7001"), Ok(Target::Cluster(_))));
        assert!(matches!(parse("rediss+cluster://a"), Ok(Target::Cluster(_))));
    }

    #[test]
    fn a_user_is_known_from_a_password_alone() {
        for text in ["redis://u:p%40ss@h:7000/3", "redis+sentinel://u:p@a,b:7/main", "rediss+cluster://u@a"] {
            assert!(names_user(text), "{text}");
        }
        for text in
            ["redis://h", "redis://:p@h", "redis+sentinel://a/m?sentinel_username=u&sentinel_password=p@", ""]
        {
            assert!(!names_user(text), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_without_showing_a_password() {
        for text in [
            "",
            "h:1",
            "http://h",
            "redis+sentinel://a",
            "redis+sentinel://a/",
            "redis+cluster://",
            "redis://u:secret@h:99999999",
            "redis+sentinel://u:secret@a/m?secret=1",
        ] {
            let error = parse(text).err().unwrap();
            assert!(!error.to_string().contains("secret="), "{error}");
            assert!(!error.to_string().contains("u:secret"), "{error}");
        }
    }
}
