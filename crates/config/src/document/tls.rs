//! The keys of `[node.client_tls]` and `[node.admin_tls]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TLS of the client listener: both files or none.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClientTlsSection {
    /// Certificates in PEM: the node's own first, then the intermediate ones.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub cert_file: Option<PathBuf>,
    /// The private key of the first certificate, in PEM, not encrypted.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub key_file: Option<PathBuf>,
}

/// TLS of the admin listener: the first two files or none.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdminTlsSection {
    /// Certificates in PEM: the node's own first, then the intermediate ones.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub cert_file: Option<PathBuf>,
    /// The private key of the first certificate, in PEM, not encrypted.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub key_file: Option<PathBuf>,
    /// Certificates in PEM of the authorities that sign operators' certificates. With it all paths but `/livez` and
    /// `/readyz` need such a certificate, beside the token.
    #[schemars(with = "Option<String>", extend("x-kind" = "path"))]
    pub client_ca_file: Option<PathBuf>,
}
