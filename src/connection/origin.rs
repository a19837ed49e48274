//! The groups that clients are counted in, so that one client cannot use up what all of them share.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address, or the /64 of an IPv6 one, which is what one subscriber gets.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum ClientSubnet {
    /// All of the address.
    V4([u8; 4]),
    /// The first half of the address.
    V6([u8; 8]),
}

/// The /24 of an IPv4 address, or the /48 of an IPv6 one, which is what a provider gives to one customer.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Network {
    /// The first part of the address.
    V4([u8; 3]),
    /// The same of IPv6.
    V6([u8; 6]),
}

impl ClientSubnet {
    /// The origin of clients whose address is not known.
    pub(crate) const UNKNOWN: Self = Self::V4(Ipv4Addr::UNSPECIFIED.octets());

    /// The network that it is a part of.
    pub(crate) fn network(self) -> Network {
        match self {
            Self::V4([a, b, c, _]) => Network::V4([a, b, c]),
            Self::V6([a, b, c, d, e, f, ..]) => Network::V6([a, b, c, d, e, f]),
        }
    }
}

impl From<IpAddr> for ClientSubnet {
    fn from(address: IpAddr) -> Self {
        let prefix = |address: Ipv6Addr| {
            let [a, b, c, d, e, f, g, h, ..] = address.octets();
            Self::V6([a, b, c, d, e, f, g, h])
        };
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => prefix(address),
        }
    }
}

impl fmt::Display for ClientSubnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::V4(octets) => Ipv4Addr::from(octets).fmt(f),
            Self::V6(prefix) => {
                write!(
                    f,
                    "{}/64",
                    Ipv6Addr::from_bits(u128::from(u64::from_be_bytes(prefix)) << 64)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_together_as_subscribers_get_them() {
        let same = [
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
        ];
        for (one, other, together) in same {
            let origin = |text: &str| ClientSubnet::from(text.parse::<IpAddr>().unwrap());
            assert_eq!(origin(one) == origin(other), together, "{one} {other}");
            assert_eq!(origin(one).network(), origin(other).network(), "{one} {other}");
        }
        let shown = |text: &str| ClientSubnet::from(text.parse::<IpAddr>().unwrap()).to_string();
        assert_eq!(shown("2001:db8:1:2::1"), "2001:db8:1:2::/64");
        assert_eq!(shown("::ffff:10.0.0.1"), "10.0.0.1");
        let network = |text: &str| ClientSubnet::from(text.parse::<IpAddr>().unwrap()).network();
        assert_ne!(network("10.0.0.1"), network("10.0.1.1"));
        assert_ne!(network("2001:db8:1::1"), network("2001:db8:2::1"));
    }
}
