//! Addresses as people write them, `HOST:PORT`, and what can be found out about them without a look-up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest host name.
const HOST_BYTES_MAX: usize = 253;
/// Maximum number of digits of a port. Without this bound, zeros in front could make an address arbitrarily long.
const PORT_DIGITS_MAX: usize = 5;

/// Which ports an address may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortRule {
    /// One that can be connected to: 1 to 65535.
    Real,
    /// Also 0, which takes a free one.
    OrFree,
}

/// Checks that `text` is `HOST:PORT`; an IPv6 host stands in brackets.
///
/// # Errors
/// What it must be.
pub(crate) fn check_host_port(text: &str, allowed: PortRule) -> Result<(), &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("must be HOST:PORT")?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host_is_sound = match bracketed {
        Some(host) => host.parse::<Ipv6Addr>().is_ok(),
        None => {
            (1..=HOST_BYTES_MAX).contains(&host.len())
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    };
    if !host_is_sound {
        return Err("must be HOST:PORT, with a host name, an IPv4 address or [IPv6 address]");
    }
    let digits = port.len() <= PORT_DIGITS_MAX && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(0) if allowed == PortRule::Real => Err("must name a port of 1 to 65535"),
        Ok(_) if digits => Ok(()),
        _ => Err("must be HOST:PORT, with a port of at most 65535 in at most 5 digits"),
    }
}

/// Whether an address means every address of the machine that uses it: a server can listen there, but it cannot be
/// given to others as a destination.
pub(crate) fn is_everywhere(host_port: &str) -> bool {
    let host = host_of(host_port).trim_start_matches('[').trim_end_matches(']');
    host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_unspecified())
}

/// Whether a host, an IPv6 address in its brackets, always means the machine that uses it: `localhost`, an address of
/// 127.0.0.0/8, or [::1]. No other name does, whatever it resolves to at the moment.
pub(crate) fn is_loopback_host(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_loopback()),
        None => {
            host.eq_ignore_ascii_case("localhost")
                || host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
        }
    }
}

/// Whether the host of `HOST:PORT` always means the machine that uses it: see [`is_loopback_host`].
pub(crate) fn is_loopback(host_port: &str) -> bool {
    is_loopback_host(host_of(host_port))
}

/// The port `port` of the host in `host_port`.
pub(crate) fn at_host_of(host_port: &str, port: u16) -> String {
    format!("{}:{port}", host_of(host_port))
}

fn host_of(host_port: &str) -> &str {
    host_port.rsplit_once(':').map_or(host_port, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_and_localhost_are_this_machine() {
        for own in ["localhost:1", "LOCALHOST:1", "127.0.0.1:1", "127.255.0.9:1", "[::1]:1"] {
            assert!(is_loopback(own), "{own}");
        }
        for other in [
            "a:1",
            "localhost.a:1",
            "a.localhost:1",
            "0.0.0.0:1",
            "10.0.0.1:1",
            "[::]:1",
            "127.1:1",
        ] {
            assert!(!is_loopback(other), "{other}");
        }
    }

    #[test]
    fn addresses_are_host_and_port() {
        for sound in ["a:1", "a-b.c_d:65535", "127.0.0.1:80", "[::1]:80", "a:00080"] {
            assert_eq!(check_host_port(sound, PortRule::Real), Ok(()), "{sound}");
        }
        for wrong in [
            "",
            "a",
            "a:",
            ":1",
            "a:+1",
            "a:65536",
            "a:000080",
            "::1:80",
            "http://a:1",
            "a b:1",
            "[x]:1",
        ] {
            assert!(check_host_port(wrong, PortRule::Real).is_err(), "{wrong}");
        }
        let longest = format!("{}:65535", "a".repeat(HOST_BYTES_MAX));
        assert_eq!(check_host_port(&longest, PortRule::Real), Ok(()));
        assert!(longest.len() <= 260);
        assert!(check_host_port(&format!("a{longest}"), PortRule::Real).is_err());
        assert!(check_host_port("a:0", PortRule::Real).is_err());
        assert!(check_host_port("a:0", PortRule::OrFree).is_ok());
    }
}
