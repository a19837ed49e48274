//! The faults, and the alerts that each makes fire.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, SystemTime};

use mintleaf_harness::{Clocks, Load, SlowSyncs, secs};
use serde_json::json;

use super::world::{CLEAR, DISK_BYTES, Done, FIRING, World};

/// One fault.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) alerts: &'static [&'static str],
    /// Makes the alerts fire, ends the fault, and sees the alerts clear.
    pub(crate) inflict: fn(&mut World, &[&str]) -> Done<()>,
}

/// Rows of functions, of what each does, and of the alerts that it makes fire.
macro_rules! faults {
    ($($function:ident: $what:literal => $($alert:ident)+;)+) => {
        &[$(Fault {
            name: stringify!($function),
            what: $what,
            alerts: &[$(stringify!($alert)),+],
            inflict: $function,
        }),+]
    };
}

/// All faults in their order. The last one leaves a cluster that is closed to the binary under test.
pub(crate) const FAULTS: &[Fault] = faults! {
    backup: "no backup; and after the first, all restarted" => BackupOld;
    kill: "kill -9 of a follower, which lags meanwhile" => NodeDown PeerUnreachable PeerLags;
    pause: "SIGSTOP of a follower" => NodeDown PeerUnreachable;
    quorum: "kill -9 of two nodes, until ids are spent"
        => NoLeader QuorumLost GrabsFail SnowflakeWindowMissing NotReady;
    all: "kill -9 of all nodes" => AllNodesDown NodeDown;
    leader: "leadership handed round" => LeaderChanges;
    restarts: "a node killed and started three times" => Restarts;
    clock: "a node whose clock is 5 s off; libfaketime" => ClockOff;
    disk: "a node whose disk is full but for 5 %; root" => DiskNearlyFull;
    sync: "a node whose syncs take 0.2 s; cc" => SyncSlow;
    tags: "a tag that ends soon, and too many names" => TagNearlyExhausted TagNamesNearlyFull;
    keys: "certificates of ten days, and expired; a bad key"
        => CertificateNearEnd ReloadFailed CertificateExpired;
    clients: "more connections than there are places" => ClientsTurnedAway;
    rounds: "one follower dead, the other paused" => RoundsSlow;
    epoch: "a cluster of its own, of an old epoch" => SnowflakeTimeEnds;
    releases: "nodes roll to a build of another level" => ReleasesMixed LevelBehind;
};

const ALL: [u64; 3] = [1, 2, 3];
/// More entries than a node may lag behind without an alert.
const CHANGES: u32 = 1_200;
/// The first id of a tag that has 807 ids.
const NEAR_THE_END: &str = "9223372036854775000";
/// As few open files as a node can have. They leave it fewer places than this many connections.
const FILES: &str = "--nofile=700:700";
const CONNECTIONS: usize = 900;

fn backup(world: &mut World, alerts: &[&str]) -> Done<()> {
    world.fires(alerts)?;
    world.mintleaf(&["backup", "first-backup"])?;
    world.clears(alerts)?;
    world.restart(&ALL);
    // Until Prometheus has seen the restarted nodes.
    mintleaf_harness::pause(secs(6));
    world.clears(alerts)
}

fn kill(world: &mut World, alerts: &[&str]) -> Done<()> {
    let node = world.follower();
    world.cluster.kill(node);
    (0..CHANGES).for_each(|_| world.change());
    world.fires(alerts)?;
    world.restart(&[node]);
    world.clears(alerts)
}

fn pause(world: &mut World, alerts: &[&str]) -> Done<()> {
    let node = world.follower();
    world.cluster.process(node).signal("STOP");
    world.fires(alerts)?;
    world.cluster.process(node).signal("CONT");
    world.clears(alerts)
}

fn quorum(world: &mut World, alerts: &[&str]) -> Done<()> {
    world.cluster.kill(2);
    world.cluster.kill(3);
    // Takes all that node 1 holds, and asks for more.
    let load = Load::start(&world.cluster.targets()[..1], &["orders".to_owned()], 1);
    world.fires(alerts)?;
    load.stop();
    world.restart(&[2, 3]);
    world.clears(alerts)
}

fn all(world: &mut World, alerts: &[&str]) -> Done<()> {
    ALL.iter().for_each(|&node| world.cluster.kill(node));
    world.fires(alerts)?;
    world.restart(&ALL);
    world.clears(alerts)
}

fn leader(world: &mut World, alerts: &[&str]) -> Done<()> {
    for node in ["2", "3", "1", "2", "3", "1", "2", "3"] {
        // A node that leads already refuses.
        let _ = world.mintleaf(&["cluster", "transfer", node]);
        mintleaf_harness::pause(secs(1));
    }
    world.fires(alerts)?;
    world.clears(alerts)
}

fn restarts(world: &mut World, alerts: &[&str]) -> Done<()> {
    let node = world.follower();
    for _ in 0..3 {
        world.restart(&[node]);
        // Until Prometheus has seen this start.
        mintleaf_harness::pause(secs(6));
    }
    world.fires(alerts)?;
    world.clears(alerts)
}

fn clock(world: &mut World, alerts: &[&str]) -> Done<()> {
    let Some(clocks) = Clocks::find(world.cluster.dir()) else {
        return skip("clock needs libfaketime");
    };
    let node = world.follower();
    clocks.shift(node, 0)?;
    world.restart_with(&[node], clocks.environment(node));
    clocks.shift(node, 5_000)?;
    world.fires(alerts)?;
    clocks.shift(node, 0)?;
    world.clears(alerts)?;
    world.restart_with(&[node], [("LD_PRELOAD", "")]);
    Ok(())
}

fn disk(world: &mut World, alerts: &[&str]) -> Done<()> {
    let Some(disk) = &world.disk else { return skip("disk needs root and /dev/fuse") };
    let filler = File::create(disk.path().join("filler"))?;
    filler.set_len(disk.device().bytes_free() - DISK_BYTES / 20)?;
    world.fires(alerts)?;
    filler.set_len(0)?;
    world.clears(alerts)
}

fn sync(world: &mut World, alerts: &[&str]) -> Done<()> {
    let syncs = match SlowSyncs::build(world.cluster.dir()) {
        Ok(syncs) => syncs,
        Err(why) => return skip(&format!("sync: {why}")),
    };
    let node = world.follower();
    world.restart_with(&[node], [("LD_PRELOAD", syncs.shared_object()), syncs.environment(node)]);
    if !syncs.is_loaded(world.cluster.process(node).pid()) {
        return skip("sync needs a binary that is linked dynamically");
    }
    syncs.set(node, 200)?;
    world.becomes(FIRING, alerts, World::change)?;
    syncs.set(node, 0)?;
    world.becomes(CLEAR, alerts, World::change)?;
    world.restart_with(&[node], [("LD_PRELOAD", "")]);
    Ok(())
}

fn tags(world: &mut World, alerts: &[&str]) -> Done<()> {
    world.mintleaf(&["tag", "create", "ends-soon", "--start", NEAR_THE_END])?;
    let api = world.cluster.api(1);
    for number in 1..=20 {
        api.post("/v1/tags", &json!({ "tag": format!("name-{number}") })).ok();
    }
    world.restart_with(&ALL, [("MINTLEAF_TAGS_MAX", "23")]);
    world.fires(alerts)?;
    api.delete("/v1/tags/ends-soon").ok();
    world.restart_with(&ALL, [("MINTLEAF_TAGS_MAX", "1000")]);
    world.clears(alerts)
}

fn keys(world: &mut World, alerts: &[&str]) -> Done<()> {
    let [near_end, reload_failed, expired] = alerts else { return Err("three alerts".into()) };
    let dir = world.cluster.dir().to_owned();
    world.mintleaf(&["cert", "ca", "--out", "ca"])?;
    for node in ALL {
        world.mintleaf(&certificate(&node.to_string(), &format!("keys-{node}"), "365"))?;
        let file = |end: &str| dir.join(format!("keys-{node}/node-{node}.{end}"));
        world.cluster.add_flag(node, "--raft-cert", file("pem"));
        world.cluster.add_flag(node, "--raft-key", file("key"));
        world.cluster.add_flag(node, "--raft-ca", dir.join("ca/ca.pem"));
    }
    world.restart(&ALL);
    let node = world.follower();
    let id = node.to_string();
    let install = |from: &str| install(&dir.join(from), &dir.join(format!("keys-{node}")), node);
    world.mintleaf(&certificate(&id, "good", "365"))?;
    world.mintleaf(&certificate(&id, "short", "10"))?;
    install("short")?;
    world.fires(&[near_end])?;
    fs::write(dir.join(format!("keys-{node}/node-{node}.key")), "damaged")?;
    world.fires(&[reload_failed])?;
    install("good")?;
    world.clears(&[reload_failed, near_end])?;
    let Some(clocks) = Clocks::find(&dir) else {
        return skip("a certificate that has expired needs libfaketime");
    };
    let preload = format!("LD_PRELOAD={}", clocks.shared_object().display());
    let earlier = world.binary.under(["env", &preload, "FAKETIME=-20d"]);
    world.run(&earlier, &certificate(&id, "expired", "10"))?;
    install("expired")?;
    world.fires(&[expired])?;
    install("good")?;
    world.cluster.await_ready();
    world.clears(&[expired])
}

/// The command that makes a certificate and its key in a directory.
fn certificate<'a>(node: &'a str, dir: &'a str, days: &'a str) -> [&'a str; 9] {
    ["cert", "node", node, "--ca", "ca", "--out", dir, "--days", days]
}

/// Puts a key and its certificate, in this order, in the place of those that a node uses.
fn install(from: &Path, to: &Path, node: u64) -> Done<()> {
    for name in [format!("node-{node}.key"), format!("node-{node}.pem")] {
        let new = to.join("new");
        fs::copy(from.join(&name), &new)?;
        // The rename is atomic: a node must never read half of the file.
        fs::rename(new, to.join(name))?;
    }
    Ok(())
}

fn clients(world: &mut World, alerts: &[&str]) -> Done<()> {
    let node = world.follower();
    world.cluster.run_under(node, ["prlimit", FILES]);
    world.restart(&[node]);
    let address = world.cluster.api(node).0;
    world.becomes(FIRING, alerts, |_| {
        let connect = |_| TcpStream::connect_timeout(&address, secs(1)).ok();
        let held: Vec<_> = (0..CONNECTIONS).map_while(connect).collect();
        mintleaf_harness::pause(secs(1));
        drop(held);
    })?;
    world.cluster.use_build(node, None);
    world.restart(&[node]);
    world.clears(alerts)
}

fn rounds(world: &mut World, alerts: &[&str]) -> Done<()> {
    world.mintleaf(&["tag", "create", "rounds", "--order", "strict"])?;
    world.mintleaf(&["next", "rounds"])?;
    let leader = world.cluster.leader();
    let [dead, paused] = world.cluster.others(leader)[..] else { return Err("two others".into()) };
    world.cluster.kill(dead);
    world.cluster.process(paused).signal("STOP");
    let load = Load::start(&[(leader, world.cluster.api(leader).0)], &["rounds".to_owned()], 1);
    world.fires(alerts)?;
    world.cluster.process(paused).signal("CONT");
    load.stop();
    world.restart(&[dead]);
    world.clears(alerts)
}

#[allow(clippy::disallowed_methods, reason = "the epoch is that of a cluster on this machine")]
fn epoch(world: &mut World, alerts: &[&str]) -> Done<()> {
    // 2^40 ms that end in half a year.
    let end = SystemTime::now() + Duration::from_secs(180 * 86_400);
    let end_ms = end.duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    let epoch_ms = (end_ms - (1 << 40)).to_string();
    world.alone.add_flag(1, "--snowflake-layout", "40+10+13");
    world.alone.add_flag(1, "--snowflake-epoch-ms", epoch_ms);
    world.alone.start_node(1);
    world.fires(alerts)?;
    // A cluster keeps its epoch for ever. Another one takes over.
    world.alone.kill(1);
    world.alone.wipe(1);
    let peers = format!("1={}", world.alone.raft(1));
    world.alone.set_flags(1, ["--peers", &peers]);
    world.alone.start_node(1);
    world.clears(alerts)
}

fn releases(world: &mut World, alerts: &[&str]) -> Done<()> {
    let Some(build) = world.next_level.clone() else {
        return skip("releases needs MINTLEAF_NEXT_LEVEL beside MINTLEAF_BIN");
    };
    let (mixed, behind) = alerts.split_at(1);
    world.cluster.use_build(3, Some(&build));
    world.restart(&[3]);
    world.fires(mixed)?;
    for node in [1, 2] {
        world.cluster.use_build(node, Some(&build));
        world.restart(&[node]);
    }
    world.clears(mixed)?;
    world.fires(behind)?;
    world.mintleaf(&["cluster", "level", "raise", "--yes"])?;
    world.clears(behind)
}

/// Says what the machine lacks.
fn skip(what: &str) -> Done<()> {
    println!("SKIPPED: {what}");
    Ok(())
}
