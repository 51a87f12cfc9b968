//! The address of a Bolt server, and whether its certificate is checked. This file parses and does not connect.

use std::fmt;
use std::str::FromStr;

/// Bolt's registered port, for addresses that name none.
const PORT_DEFAULT: u16 = 7687;

/// How the connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// `bolt://`: no protection.
    Plain,
    /// `bolt+s://`: TLS, the certificate checked against [`Roots`](crate::Roots).
    Tls,
    /// `bolt+ssc://`: TLS, any certificate accepted. It protects against eavesdroppers, not against impostors.
    TlsAnyCertificate,
}

/// A server's address, read from `scheme://host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Host name or IP address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// From the scheme.
    pub security: Security,
}

/// Why a text is not an [`Address`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// `neo4j://` and similar schemes name a cluster, and this is the address of one server.
    #[error("{0}:// names a cluster: name one server with bolt://, bolt+s:// or bolt+ssc://")]
    Routing(String),
    /// Another scheme, or none.
    #[error("expected bolt://host:port, bolt+s://host:port or bolt+ssc://host:port")]
    Scheme,
    /// No host.
    #[error("the address names no host")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("the port {0:?} is not a number from 1 to 65535")]
    Port(String),
    /// User, path, query or fragment: a Bolt address has none of them.
    #[error("only host and port may follow the scheme; credentials, database and options are set elsewhere")]
    Extra,
}

impl Address {
    /// The address of a cluster's member, from `host:port` as a routing table has it.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn of_member(text: &str, security: Security) -> Result<Self, AddressError> {
        Self::parse(text, security)
    }

    /// `host:port`, as a routing context has it.
    #[must_use]
    pub fn host_and_port(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    fn parse(rest: &str, security: Security) -> Result<Self, AddressError> {
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) || rest.contains(char::is_whitespace) {
            return Err(AddressError::Extra);
        }
        let (host, port) = split_port(rest)?;
        if host.is_empty() {
            return Err(AddressError::Host);
        }
        Ok(Self { host: host.to_owned(), port, security })
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let security = match scheme {
            "bolt" => Security::Plain,
            "bolt+s" => Security::Tls,
            "bolt+ssc" => Security::TlsAnyCertificate,
            "neo4j" | "neo4j+s" | "neo4j+ssc" => return Err(AddressError::Routing(scheme.to_owned())),
            _ => return Err(AddressError::Scheme),
        };
        Self::parse(rest, security)
    }
}

fn split_port(rest: &str) -> Result<(&str, u16), AddressError> {
    let (host, port) = match rest.strip_prefix('[') {
        Some(bracketed) => {
            let (host, behind) = bracketed.split_once(']').ok_or(AddressError::Host)?;
            if behind.is_empty() {
                return Ok((host, PORT_DEFAULT));
            }
            (host, behind.strip_prefix(':').ok_or_else(|| AddressError::Port(behind.to_owned()))?)
        }
        None => match rest.split_once(':') {
            None => return Ok((rest, PORT_DEFAULT)),
            Some(parts) => parts,
        },
    };
    match port.parse::<u16>() {
        Ok(number) if number > 0 => Ok((host, number)),
        _ => Err(AddressError::Port(port.to_owned())),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.security {
            Security::Plain => "bolt",
            Security::Tls => "bolt+s",
            Security::TlsAnyCertificate => "bolt+ssc",
        };
        write!(out, "{scheme}://{}", self.host_and_port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_and_write_back() {
        for (text, full) in [
            ("bolt://127.0.0.1:7687", "bolt://127.0.0.1:7687"),
            ("bolt://db", "bolt://db:7687"),
            ("bolt+s://db.example:1/", "bolt+s://db.example:1"),
            ("bolt+ssc://[::1]:99", "bolt+ssc://[::1]:99"),
            ("bolt://[::1]", "bolt://[::1]:7687"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), full);
            assert_eq!(full.parse::<Address>().unwrap(), address);
        }
    }

    #[test]
    fn wrong_addresses_say_what_is_wrong() {
        let refused = |text: &str| text.parse::<Address>().unwrap_err();
        assert_eq!(refused("neo4j+s://db"), AddressError::Routing("neo4j+s".to_owned()));
        assert_eq!(refused("db:7687"), AddressError::Scheme);
        assert_eq!(refused("http://db"), AddressError::Scheme);
        assert_eq!(refused("bolt://"), AddressError::Host);
        assert_eq!(refused("bolt://:7687"), AddressError::Host);
        assert_eq!(refused("bolt://db:0"), AddressError::Port("0".to_owned()));
        assert_eq!(refused("bolt://db:70000"), AddressError::Port("70000".to_owned()));
        assert_eq!(refused("bolt://[::1]7"), AddressError::Port("7".to_owned()));
        assert_eq!(refused("bolt://user:pw@db"), AddressError::Extra);
        assert_eq!(refused("bolt://db/neo4j"), AddressError::Extra);
    }
}
