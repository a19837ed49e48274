//! Links between namespaces, as packets see them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use mintleaf_faultfs::links::{Link, Network, why_not};

fn network() -> Option<Network> {
    if let Some(why) = why_not() {
        eprintln!("SKIPPED: {why}");
        return None;
    }
    if Command::new("ping").arg("-V").output().is_err() {
        eprintln!("SKIPPED: no ping");
        return None;
    }
    Some(Network::new(3).unwrap())
}

fn run_in(network: &Network, node: u8, words: &[&str]) -> String {
    let enter = network.enter(node);
    let output = Command::new(&enter[0]).args(&enter[1..]).args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// How many of `count` pings were answered.
fn answered(network: &Network, from: u8, to: u8, count: u32) -> u32 {
    let (to, count) = (network.address(to).to_string(), count.to_string());
    let said = run_in(network, from, &["ping", "-q", "-c", &count, "-i", "0.01", "-W", "1", &to]);
    let received = said.split(", ").find_map(|part| part.strip_suffix(" received"));
    received.unwrap().parse().unwrap()
}

/// How many pings have reached a node.
fn reached(network: &Network, node: u8) -> u32 {
    let said = run_in(network, node, &["cat", "/proc/net/snmp"]);
    let mut lines = said.lines().filter(|line| line.starts_with("Icmp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "InEchos").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

#[test]
fn cut_is_for_one_direction_of_one_pair_and_heals() {
    let Some(network) = network() else { return };
    assert_eq!(answered(&network, 1, 2, 2), 2);
    network.set(2, 1, Link::Cut).unwrap();
    let before = reached(&network, 2);
    assert_eq!(answered(&network, 1, 2, 2), 0, "the answers are cut");
    assert_eq!(reached(&network, 2) - before, 2, "the questions are not");
    let before = reached(&network, 1);
    assert_eq!(answered(&network, 2, 1, 2), 0);
    assert_eq!(reached(&network, 1), before, "these questions are");
    assert_eq!(answered(&network, 1, 3, 2), 2);
    assert_eq!(answered(&network, 3, 2, 2), 2);
    network.heal().unwrap();
    assert_eq!(answered(&network, 1, 2, 2), 2);
}

#[test]
fn lossy_link_loses_its_share() {
    let Some(network) = network() else { return };
    network.set(1, 2, Link::Lossy(20)).unwrap();
    let answered = answered(&network, 1, 2, 200);
    assert!((120..=190).contains(&answered), "{answered} of 200");
    assert_eq!(self::answered(&network, 1, 3, 20), 20);
}

#[test]
fn reset_and_narrow_links_are_understood_and_the_outside_is_spared() {
    let Some(network) = network() else { return };
    network.set(1, 2, Link::Reset).unwrap();
    network.set(3, 2, Link::Narrow(100_000)).unwrap();
    network.set(1, 3, Link::Cut).unwrap();
    // A link that resets lets packets pass that are not TCP.
    assert_eq!(answered(&network, 1, 2, 2), 2);
    let address = network.address(2).to_string();
    let pinged = Command::new("ping").args(["-c", "1", "-W", "1", &address]).status().unwrap();
    assert!(pinged.success());
}

#[test]
fn network_leaves_nothing_behind() {
    let Some(network) = network() else { return };
    let space = network.enter(1).pop().unwrap();
    let path = std::path::Path::new("/run/netns").join(space);
    assert!(path.exists());
    drop(network);
    assert!(!path.exists());
}
