//! Paths, queries and bodies of HTTP requests, plain requests for ids, and changes, as their parsers see them.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str;

use libfuzzer_sys::fuzz_target;
use mintleaf::http::fuzzing::{count, is_admin, key, path, plain_requests, step_and_start};

const MAX: u64 = 1_000_000;

fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"GET ") {
        let [by_the_fast_path, by_hyper] = plain_requests(bytes);
        return assert_eq!(by_the_fast_path, by_hyper, "one request smuggles another");
    }
    if bytes.starts_with(b"POST ") {
        if is_admin(bytes) == Some(true) {
            check_admin(&String::from_utf8_lossy(bytes));
        }
        return;
    }
    let Some((&kind, rest)) = bytes.split_first() else { return };
    if kind % 4 == 0 {
        let fields = step_and_start(rest, MAX);
        let numbers = fields.into_iter().flatten().flatten();
        return numbers.for_each(|number| assert!((1..=MAX).contains(&number)));
    }
    let Ok(text) = str::from_utf8(rest) else { return };
    match kind % 4 {
        1 => {
            if let Some(key) = key(text) {
                assert!(!key.is_empty() && key.len() <= text.len());
            }
        }
        2 => {
            let [tag, node] = path(text);
            assert!(!node || tag, "a number is a name");
        }
        _ => {
            if let Some(count) = count(text, MAX) {
                assert!((1..=MAX).contains(&count));
            }
        }
    }
});

/// An accepted change names no machine but this one, in any line of its head. (Headers that are ignored may
/// contain anything.)
fn check_admin(head: &str) {
    let (request, headers) = head.split_once('\n').expect("a head has lines");
    let target = request.split(' ').nth(1).unwrap_or_default();
    let path =
        target.split_once("://").map_or(target, |(_, rest)| &rest[rest.find('/').unwrap_or(0)..]);
    let without_query = path.split('?').next().unwrap_or_default();
    if is_no_change(without_query) {
        return;
    }
    if let Some((_, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) {
        assert!(is_this_machine(rest.split(['/', '?']).next().unwrap_or_default()), "{head}");
    }
    let mut hosts = 0;
    let lines = headers.lines().take_while(|line| !line.trim_end_matches('\r').is_empty());
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim_matches([' ', '\t', '\r']);
        match name.to_ascii_lowercase().as_str() {
            "host" => {
                hosts += 1;
                assert!(is_this_machine(value), "{head}");
            }
            "origin" => {
                let site = value.strip_prefix("http://").or(value.strip_prefix("https://"));
                assert!(site.is_some_and(is_this_machine), "{head}");
            }
            "forwarded" | "x-forwarded-for" | "via" => panic!("came through a proxy: {head}"),
            _ => {}
        }
    }
    assert_eq!(hosts, 1, "{head}");
}

/// Whether no method changes anything at a path, because ids are taken there or it is one of Leaf's pages,
/// perhaps with extra slashes.
fn is_no_change(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_leafs = matches!(
        parts[..],
        ["api", "segment" | "snowflake", "get", _] | ["cache" | "db" | "decodeSnowflakeId"]
    );
    is_leafs || path.starts_with("/v1/segment/") || path == "/v1/snowflake"
}

fn is_this_machine(host_port: &str) -> bool {
    let port_start = host_port.rfind(':').filter(|&at| !host_port[at..].contains(']'));
    let (host, port) = host_port.split_at(port_start.unwrap_or(host_port.len()));
    let ipv6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or_default();
    let is_named = host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|ip: Ipv4Addr| ip.octets()[0] == 127)
        || ipv6.parse().is_ok_and(|ip: Ipv6Addr| ip == Ipv6Addr::LOCALHOST);
    is_named && port.trim_start_matches(':').bytes().all(|byte| byte.is_ascii_digit())
}
