//! The `Host` of a request: that there is one, and only one, that can be read.

use axum::http::header::HOST;
use axum::http::{HeaderMap, Version};
use std::net::Ipv6Addr;

/// What is wrong with the `Host` of a request (RFC 9112, 3.2). It may be empty: a client sends that when it knows no
/// name of the server.
pub(super) fn fault(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version <= Version::HTTP_10 => None,
        (None, _) => Some("the Host header is missing, which every request of HTTP/1.1 must have"),
        (Some(_), Some(_)) => Some("the Host header must be there once only"),
        (Some(host), None) if name(host.as_bytes()).is_some() => None,
        (Some(_), None) => Some("the Host header must be HOST or HOST:PORT"),
    }
}

/// The name in `HOST` or `HOST:PORT`, an IPv6 address with its brackets; `None` when it is neither.
pub(super) fn name(host_port: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(host_port).ok()?;
    let end = match text.strip_prefix('[') {
        Some(behind) => 1 + behind.find(']').filter(|&end| is_ipv6(&behind[..end]))? + 1,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (name, port) = text.split_at(end);
    let port_is_sound = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => port.is_empty(),
    };
    (port_is_sound && (name.starts_with('[') || is_reg_name(name))).then_some(name)
}

/// Whether the text between brackets is an address, maybe with a zone (RFC 6874).
fn is_ipv6(text: &str) -> bool {
    let (address, zone) = text.split_once('%').unwrap_or((text, ""));
    address.parse::<Ipv6Addr>().is_ok() && zone.bytes().all(is_reg_name_byte)
}

/// Whether the text is made of what names may be made of, IPv4 addresses among them (RFC 3986, 3.2.2).
fn is_reg_name(text: &str) -> bool {
    let escapes = text.split('%').skip(1);
    let are_hex = |escape: &str| escape.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    text.bytes().all(is_reg_name_byte) && escapes.into_iter().all(are_hex)
}

fn is_reg_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn fault_of(version: Version, hosts: &[&str]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap());
        }
        fault(version, &headers)
    }

    #[test]
    fn a_request_has_one_host_and_one_of_http_1_0_may_have_none() {
        assert!(fault_of(Version::HTTP_11, &[]).unwrap().contains("missing"));
        assert_eq!(fault_of(Version::HTTP_10, &[]), None);
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert_eq!(fault_of(version, &["a"]), None);
            assert!(fault_of(version, &["a", "a"]).unwrap().contains("once"));
            assert!(fault_of(version, &["a b"]).unwrap().contains("HOST:PORT"));
        }
    }

    #[test]
    fn names_stand_before_their_port() {
        for (host_port, expected) in [
            ("", ""),
            ("a", "a"),
            ("A-b_c.example:8080", "A-b_c.example"),
            ("localhost:", "localhost"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("%E8%AE%A2", "%E8%AE%A2"),
            ("[::1]", "[::1]"),
            ("[::1]:80", "[::1]"),
            ("[fe80::1%25eth0]:80", "[fe80::1%25eth0]"),
        ] {
            assert_eq!(name(host_port.as_bytes()), Some(expected), "{host_port}");
        }
        for wrong in [
            "a b",
            "a,b c",
            "a/b",
            "a\tb",
            "a@b",
            "a:b",
            "a:80:80",
            "::1",
            "[::1",
            "[::1]a",
            "[::1]80",
            "[a]",
            "[]",
            "a?b",
            "a#b",
            "\"a\"",
            "<a>",
            "a\\b",
            "%",
            "%a",
            "%zz",
            "订",
            "[::1%/]",
            "localhost:80 ",
            "http://a",
        ] {
            assert_eq!(name(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(name(b"\xfc"), None);
    }
}
