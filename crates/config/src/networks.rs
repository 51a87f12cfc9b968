//! Networks in `node.proxy_protocol`. It decides their forms, and never whether an address is believed.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::uri::text_value;

/// `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(pub IpNet);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let network = match text.parse::<IpAddr>() {
            Ok(addr) => IpNet::from(addr.to_canonical()),
            Err(_) => text.parse::<IpNet>().map_err(|_| {
                "it is no address and no network: names are not looked up here, since DNS is no proof"
                    .to_owned()
            })?,
        };
        if network.prefix_len() == 0 {
            return Err("every address would be believed: name the balancers' own network".to_owned());
        }
        Ok(Self(network.trunc()))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.prefix_len() == self.0.max_prefix_len() {
            true => self.0.addr().fmt(out),
            false => self.0.fmt(out),
        }
    }
}

text_value!(Network, "Network", "network", "a network such as 10.0.0.0/8, or an address such as 192.0.2.7");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_addresses_are_read_and_nothing_that_means_everybody() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            (" 192.0.2.7 ", "192.0.2.7"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::1", "::1"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), shown);
        }
        for text in ["0.0.0.0/0", "::/0", "balancer", "10.0.0.0/33", "10.0.0.1:80", ""] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
