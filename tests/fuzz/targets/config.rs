//! The configuration file, the auth file and the command line.
#![no_main]

use std::net::SocketAddr;
use std::str;
use std::time::Duration;

use clap::Parser;
use libfuzzer_sys::fuzz_target;
use mintleaf::access::{AuthFile, AuthFileError};
use mintleaf::cli::{Cli, CliCommand};
use mintleaf::config::{DevConfig, NodeConfig, ServeArgs};

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let Ok(text) = str::from_utf8(rest) else { return };
    if kind >= 0x80 {
        return tokens(text);
    }
    if kind % 2 == 0 {
        return ServeArgs::from_toml(text).map_or((), |(args, _)| served(args));
    }
    let words = ["mintleaf"].into_iter().chain(text.split('\n'));
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(CliCommand::Serve(args)) => served(*args),
        Ok(CliCommand::Dev(mut args)) => {
            if take_name(&mut args.place.http).is_some() {
                return;
            }
            let nodes = u16::from(args.nodes);
            if let Ok(config) = DevConfig::resolve(*args) {
                assert!((1..=9).contains(&nodes));
                assert!(config.first.http.port().checked_add(nodes - 1).is_some());
            }
        }
        _ => {}
    }
});

/// Writing an auth file gives the same file again. An error names a line that exists.
fn tokens(text: &str) {
    match AuthFile::parse(text) {
        Ok(file) => assert_eq!(AuthFile::parse(text), Ok(file)),
        Err(AuthFileError::Line { line, .. }) => {
            assert!((1..=1 + text.matches('\n').count()).contains(&line));
        }
        Err(AuthFileError::Whole(_)) => {}
    }
}

/// A configuration that is accepted is within all bounds.
fn served(mut args: ServeArgs) {
    // The target reads no file and resolves no name. Settings that are not addresses are only parsed.
    args.config = None;
    args.advertise_http = args.advertise_http.or_else(|| take_name(&mut args.place.http));
    args.advertise_raft = args.advertise_raft.or_else(|| take_name(&mut args.raft));
    if take_name(&mut args.place.http).is_some() || take_name(&mut args.raft).is_some() {
        return;
    }
    let Ok(config) = NodeConfig::resolve(args) else { return };
    assert!(config.node_id >= 1);
    let listed = config.peers.contains_key(&config.node_id);
    assert!(config.peers.is_empty() || (listed && config.join.is_none()));
    assert!((100..=10_000_000).contains(&config.snapshot_entries));
    let hour = Duration::from_secs(3600);
    let snowflake = &config.snowflake;
    assert!((Duration::from_secs(1)..=hour).contains(&snowflake.window));
    assert!((Duration::from_millis(10)..=hour).contains(&snowflake.max_clock_skew));
    let worker_ids = snowflake.format.layout().worker_ids();
    assert!(snowflake.worker_ids.iter().all(|id| *id < worker_ids));
    assert!(snowflake.worker_ids.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(snowflake.format.times_ms().end > snowflake.format.epoch_ms());
}

fn take_name(address: &mut Option<String>) -> Option<String> {
    address.take_if(|address| address.parse::<SocketAddr>().is_err())
}
