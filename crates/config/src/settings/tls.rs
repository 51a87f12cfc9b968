//! The rules of TLS: which files go together. The files of a listener change while the node runs, so the listener
//! reads them and not the configuration: a bad new certificate must not end a health check.

use std::path::{Path, PathBuf};

use super::{Rules, Settings, located};
use crate::document::{AdminTlsSection, ClientTlsSection, OriginSection, StoreSection};
use crate::uri::{BoltEncryption, OriginUri, StoreUri};
use hopcache_net::tls::{Authorities, TlsFiles};

impl Settings {
    /// The errors of the listeners' certificates at this moment.
    #[must_use]
    pub fn tls_problems(&self) -> Vec<String> {
        let listeners =
            [("node.client_tls", &self.node.client_tls), ("node.admin_tls", &self.node.admin_tls)];
        let problem = |(key, files): (&str, &Option<TlsFiles>)| {
            files.as_ref()?.check().err().map(|error| format!("{key}: {error}"))
        };
        listeners.into_iter().filter_map(problem).collect()
    }
}

/// `cert_file`, `key_file` and `client_ca_file` as configured.
type Files<'a> = (&'a Option<PathBuf>, &'a Option<PathBuf>, Option<&'a PathBuf>);

impl Rules<'_> {
    pub(super) fn client_tls(&mut self, section: &ClientTlsSection) -> Option<TlsFiles> {
        self.listener_tls("node.client_tls", (&section.cert_file, &section.key_file, None))
    }

    pub(super) fn admin_tls(&mut self, section: &AdminTlsSection) -> Option<TlsFiles> {
        let AdminTlsSection { cert_file, key_file, client_ca_file } = section;
        self.listener_tls("node.admin_tls", (cert_file, key_file, client_ca_file.as_ref()))
    }

    fn listener_tls(&mut self, table: &str, files: Files<'_>) -> Option<TlsFiles> {
        let key_of = |name: &str| format!("{table}.{name}");
        let (cert, key) = match files {
            (None, None, None) => return None,
            (Some(cert), Some(key), _) => (cert, key),
            (cert, _, _) => {
                let missing = key_of(if cert.is_none() { "cert_file" } else { "key_file" });
                let rule = "TLS needs a certificate and its key: set cert_file and key_file";
                self.refuse(&missing, "not set".to_owned(), rule);
                return None;
            }
        };
        let place = |name: &str, file: &Path| located(&self.report.source(&key_of(name)), file);
        Some(TlsFiles {
            cert_file: place("cert_file", cert),
            key_file: place("key_file", key),
            client_ca_file: files.2.map(|file| place("client_ca_file", file)),
        })
    }

    pub(super) fn origin_authorities(&mut self, origin: &OriginSection) -> Option<Authorities> {
        let encryption = match &origin.uri {
            OriginUri::Bolt { encryption, .. } => Some(*encryption),
            OriginUri::Embedded => None,
        };
        let rule =
            "only bolt+s:// and neo4j+s:// check a certificate: write origin.uri with it, or leave this out";
        let is_checked = encryption == Some(BoltEncryption::Tls);
        self.authorities("origin.ca_file", origin.ca_file.as_deref(), (is_checked, rule))
    }

    pub(super) fn store_authorities(&mut self, store: &StoreSection) -> Option<Authorities> {
        let is_checked = matches!(&store.uri, StoreUri::Redis(uri) if uri.is_tls());
        let rule = "only rediss:// checks a certificate: write store.uri with it, or leave this out";
        self.authorities("store.ca_file", store.ca_file.as_deref(), (is_checked, rule))
    }

    fn authorities(
        &mut self,
        key: &str,
        file: Option<&Path>,
        (is_checked, rule): (bool, &str),
    ) -> Option<Authorities> {
        let file = file?;
        if !is_checked {
            self.refuse(key, file.display().to_string(), rule);
            return None;
        }
        let read = Authorities::read(&located(&self.report.source(key), file));
        read.map_err(|error| self.refuse(key, file.display().to_string(), error.to_string())).ok()
    }
}
