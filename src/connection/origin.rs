//! The groups that clients are counted in, so that one client cannot use up what all of them share.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address, or the /64 of an IPv6 one, which is what one subscriber gets: its first address.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct ClientSubnet(IpAddr);

impl ClientSubnet {
    /// The origin of clients whose address is not known.
    pub(crate) const UNKNOWN: Self = Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

    /// The first address of the network that it is a part of: the /24 of an IPv4 address, or the /48 of an IPv6 one,
    /// which is what a provider gives to one customer.
    pub(crate) fn network(self) -> IpAddr {
        first_of(self.0, 24, 48)
    }
}

impl From<IpAddr> for ClientSubnet {
    fn from(address: IpAddr) -> Self {
        Self(first_of(address.to_canonical(), 32, 64))
    }
}

impl fmt::Display for ClientSubnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(address) => write!(f, "{address}/64"),
        }
    }
}

/// The first of the addresses that begin with the same bits as this one, with so many of them in each family.
fn first_of(address: IpAddr, v4_bits: u32, v6_bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            Ipv4Addr::from_bits(address.to_bits() & u32::MAX << (32 - v4_bits)).into()
        }
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & u128::MAX << (128 - v6_bits)).into()
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
