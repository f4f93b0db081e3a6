//! Broker addresses as users write them.

use std::{fmt, str::FromStr};

/// A host name or address, and a port. IPv6 addresses are written in brackets: `[::1]:9092`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BrokerAddress {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port, 1 to 65535.
    pub port: u16,
}

/// Kafka's usual port, taken when an address names none.
pub const DEFAULT_PORT: u16 = 9092;

/// Why an element of `bootstrap.servers` is no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{element}' is not a broker address: {reason}")]
pub struct AddressError {
    /// The element as it was written.
    pub element: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl FromStr for BrokerAddress {
    type Err = AddressError;

    /// Reads `host`, `host:port`, `[ipv6]`, `[ipv6]:port`; a listener name in front (`SSL://host:port`) is ignored, as Java does. The port
    /// is 9092 if none is named.
    fn from_str(element: &str) -> Result<Self, AddressError> {
        let error = |reason| AddressError { element: element.to_owned(), reason };
        let text = element.split_once("://").map_or(element, |(_, rest)| rest);
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(|| error("the ']' is missing"))?;
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err(error("after ']' comes ':' and the port")),
            }
        } else {
            match text.split_once(':') {
                Some((_, rest)) if rest.contains(':') => {
                    return Err(error("an IPv6 address stands in brackets: [::1]:9092"));
                }
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() {
            return Err(error("the host is missing"));
        }
        if host.contains(|c: char| c.is_whitespace() || c == '/') {
            return Err(error("a host name has no blanks or slashes"));
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => match port.parse::<u16>() {
                Ok(port) if port > 0 => port,
                _ => return Err(error("the port is a number from 1 to 65535")),
            },
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl BrokerAddress {
    /// Reads `bootstrap.servers`: addresses between commas, blanks and empty parts ignored, each named once.
    ///
    /// # Errors
    /// The first element that is no address, or an empty list.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, AddressError> {
        let mut addresses = Vec::new();
        for element in list.split(',').map(str::trim).filter(|element| !element.is_empty()) {
            let address = element.parse()?;
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(AddressError { element: list.to_owned(), reason: "no address in the list" });
        }
        Ok(addresses)
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Result<Vec<String>, String> {
        BrokerAddress::parse_list(list)
            .map(|addresses| addresses.iter().map(ToString::to_string).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn s_n03_addresses_as_people_write_them() {
        assert_eq!(parse("[::1]:9092").unwrap(), ["[::1]:9092"]);
        assert_eq!(parse("[::1]").unwrap(), ["[::1]:9092"]);
        assert_eq!(parse("host").unwrap(), ["host:9092"]);
        assert_eq!(parse("a:9092,,b:9093 , ").unwrap(), ["a:9092", "b:9093"]);
        assert_eq!(parse("SASL_SSL://h:9092").unwrap(), ["h:9092"]);
        assert_eq!(parse("a:1,a:1").unwrap(), ["a:1"]);
        for (bad, named) in [
            ("::1", "'::1'"),
            ("ok:1,host:0", "'host:0'"),
            ("host:70000", "'host:70000'"),
            ("host:", "'host:'"),
            (":9092", "':9092'"),
            ("[::1", "'[::1'"),
            ("[::1]9092", "'[::1]9092'"),
            ("a b:1", "'a b:1'"),
            (" , ", "' , '"),
            ("http://h:1/x", "'http://h:1/x'"),
        ] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(named), "{bad}: {error}");
        }
    }
}
