//! Clients that take up what others need: places, descriptors, memory.

pub(crate) mod slow_readers;
mod strangers;

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Runtime};

use crate::harness::{Api, Binary, Dev, eventually, mintleaf, ms, pause, secs};

pub(crate) const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Another client address on this machine.
pub(crate) const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const GET_ID: &[u8] = b"GET /api/segment/get/orders HTTP/1.1\r\nhost: a\r\n\r\n";
const INCR: &[u8] = b"INCR orders\r\n";
/// The node gives up a connection that stalls after 10 to 15 s, and one that reads too slowly after 20 to 25 s.
/// The rest is a margin for a busy machine.
const GIVEN_UP_WITHIN: Duration = secs(40);

/// The binary, limited to `files` open files.
fn with_open_files(files: usize) -> Binary {
    mintleaf().under(["prlimit".to_owned(), format!("--nofile={files}:{files}")])
}

/// Raises this process's limit of open files to the maximum.
pub(crate) fn raise_own_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// A runtime for sockets with options that `std` lacks.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A client from this address, with a receive buffer of this size.
pub(crate) fn connect(from: Ipv4Addr, to: SocketAddr, buffer: Option<u32>) -> TcpStream {
    let connected = async {
        let socket = TcpSocket::new_v4().unwrap();
        if let Some(bytes) = buffer {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        socket.bind((IpAddr::V4(from), 0).into()).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    };
    let stream = runtime().block_on(connected);
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(secs(10))).unwrap();
    stream
}

/// One protocol of a node under test: its address, a request for an id, and the beginning of a good answer.
#[derive(Clone, Copy)]
struct Door {
    address: SocketAddr,
    request: &'static [u8],
    good: &'static str,
    turned_away: &'static str,
}

impl Door {
    fn both(dev: &Dev) -> [Self; 2] {
        [
            Self {
                address: dev.api().0,
                request: GET_ID,
                good: "HTTP/1.1 200 ",
                turned_away: "HTTP/1.1 503 ",
            },
            Self {
                address: dev.resp(1),
                request: INCR,
                good: ":",
                turned_away: "-ERR max number of clients reached",
            },
        ]
    }

    /// Asks for an id on a connection. Returns the beginning of the answer; empty when there is no answer.
    fn ask(&self, stream: &mut TcpStream) -> String {
        let mut answer = [0; 512];
        let length = stream.write_all(self.request).and_then(|()| stream.read(&mut answer));
        String::from_utf8_lossy(&answer[..length.unwrap_or_default()]).into_owned()
    }

    /// A connection that has asked for an id.
    #[track_caller]
    fn used(&self, from: Ipv4Addr) -> TcpStream {
        let mut stream = connect(from, self.address, None);
        self.assert_served(&mut stream);
        stream
    }

    #[track_caller]
    fn assert_served(&self, stream: &mut TcpStream) {
        let answer = self.ask(stream);
        assert!(answer.starts_with(self.good), "{answer:?}");
    }

    /// Connections that have asked for an id, as many as there are places.
    fn fill(&self, from: Ipv4Addr) -> Vec<TcpStream> {
        let mut held = Vec::new();
        loop {
            let mut stream = connect(from, self.address, None);
            let answer = self.ask(&mut stream);
            if !answer.starts_with(self.good) {
                assert!(answer.starts_with(self.turned_away), "{answer:?}");
                return held;
            }
            held.push(stream);
        }
    }
}

/// A sample of the metrics page.
fn metric(api: Api, name: &str) -> u64 {
    let page = api.get("/metrics");
    let line = page.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// `mintleaf dev` with few places, and the number of places of each protocol.
fn dev_with_few_places() -> (Dev, usize) {
    dev_with_few_places_and(&[])
}

/// The same, with these settings in its environment.
fn dev_with_few_places_and(settings: &[String]) -> (Dev, usize) {
    let cores = thread::available_parallelism().unwrap().get();
    // 64 files for the node, 4 for each thread that serves clients, 32 for leaving connections of each protocol.
    let files = 64 + 4 * cores + 2 * (32 + 24);
    let limit = ["prlimit".to_owned(), format!("--nofile={files}:{files}"), "env".to_owned()];
    let mut dev = mintleaf().under(limit.into_iter().chain(settings.iter().cloned())).dev();
    let log = dev.process().log();
    assert!(log.contains("LimitNOFILE=") && log.contains("connections_max=24"), "{log}");
    (dev, 24)
}

#[test]
fn idle_clients_neither_end_a_node_nor_hold_up_a_failover() {
    raise_own_limit();
    let mut cluster = with_open_files(1024).prepare(3, &["--snapshot-entries", "100"]);
    cluster.start_all();
    let leader = cluster.leader();
    cluster.api(leader).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let mut idle = Vec::new();
    for (_, address) in cluster.targets() {
        idle.extend((0..1_200).map(|_| TcpStream::connect(address).unwrap()));
    }
    // A client that has sent nothing makes room after a second.
    eventually("a place", secs(5), || {
        cluster.api(leader).try_get("/readyz").ok().filter(|answer| answer.is_ok())
    });
    for step in 1..=300 {
        cluster.api(leader).patch("/v1/tags/orders", &json!({ "step": step })).ok();
    }
    let snapshots = cluster.data(leader).join("snapshot");
    eventually("a snapshot", secs(10), || {
        fs::read_dir(&snapshots).is_ok_and(|mut files| files.next().is_some()).then_some(())
    });
    assert!(cluster.process(leader).is_running());

    let others = cluster.others(leader);
    let survivor = cluster.api(others[0]);
    eventually("a place", secs(5), || {
        survivor.try_get("/readyz").ok().filter(|answer| answer.is_ok())
    });
    cluster.kill(leader);
    let began = Instant::now();
    eventually("another leader", secs(5), || {
        let changed = survivor.try_post("/v1/tags", &json!({ "tag": "after" }));
        changed.ok().filter(|answer| answer.is_ok())
    });
    println!("a change was made {:?} after the leader was killed", began.elapsed());
    assert!(others.into_iter().all(|id| cluster.process(id).is_running()));
}

#[test]
fn an_address_that_holds_half_of_the_places_leaves_the_others_alone() {
    let (dev, places) = dev_with_few_places();
    for door in Door::both(&dev) {
        let mut held = door.fill(HERE);
        // The harness may hold one or two of them.
        assert!((places / 2 - 2..=places / 2).contains(&held.len()), "{}", held.len());
        let mut guest = door.used(ELSEWHERE);
        // A place is free again when its connection is closed.
        drop(held.pop());
        eventually("a free place", secs(5), || {
            let mut stream = connect(HERE, door.address, None);
            door.ask(&mut stream).starts_with(door.good).then(|| held.push(stream))
        });
        door.assert_served(&mut guest);
        held.iter_mut().for_each(|stream| door.assert_served(stream));
    }
}

#[test]
fn idle_connections_make_room_and_active_ones_never_do() {
    let (dev, _) = dev_with_few_places();
    let doors = Door::both(&dev);
    let mut active = doors.map(|door| door.used(HERE));
    let resting = doors.map(|door| door.fill(HERE));
    let began = Instant::now();
    // A connection counts as idle after two checks by its watchdog without a request: 10 to 15 s.
    while began.elapsed() < secs(16) {
        for (door, stream) in doors.iter().zip(&mut active) {
            door.assert_served(stream);
        }
        pause(ms(500));
    }
    // Probes of this test come and go on this address's places, too.
    let mut newcomers = Vec::new();
    for (door, stream) in doors.iter().zip(&mut active) {
        for _ in 0..5 {
            newcomers.push(door.used(HERE));
            door.assert_served(stream);
        }
    }
    for (evicted, refused) in [
        ("mintleaf_http_connections_evicted_total", "mintleaf_http_connections_refused_total"),
        ("mintleaf_resp_connections_evicted_total", "mintleaf_resp_connections_refused_total"),
    ] {
        eventually("the ends of five connections", secs(5), || {
            (metric(dev.api(), evicted) >= 5).then_some(())
        });
        assert!(
            metric(dev.api(), refused) >= 1,
            "some were turned away while all places were taken"
        );
    }
    for (resting, door) in resting.into_iter().zip(doors) {
        let ended = resting.iter().filter(|stream| {
            stream.set_read_timeout(Some(ms(50))).unwrap();
            matches!((&**stream).read(&mut [0]), Ok(0))
        });
        let ended = ended.count();
        // Each read of the metrics took one more place.
        assert!(ended >= 5, "{ended} of {} ended at {}", resting.len(), door.address);
    }
}

#[test]
fn strangers_at_an_internal_port_of_dev_take_no_more_files_than_were_set_aside() {
    /// A third of the 32 places for strangers and 24 for each of two peers.
    const UNPROVEN_MAX: usize = (32 + 2 * 24) / 3;
    let mut dev = mintleaf().dev_with_nodes(3);
    let pid = dev.process().pid();
    let files = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let mut raft = dev.api().0;
    raft.set_port(raft.port() + 1_000);
    let before = files();
    let silent: Vec<TcpStream> = (0..300)
        .map(|number| connect(if number % 2 == 0 { HERE } else { ELSEWHERE }, raft, None))
        .collect();
    eventually("strangers to be counted", secs(10), || {
        assert_eq!(dev.api().get("/api/segment/get/orders").status, 200);
        (files() > before + UNPROVEN_MAX / 2).then_some(())
    });
    pause(ms(500));
    let more = files().saturating_sub(before);
    // The nodes may have opened a connection or two in that time.
    assert!(more <= UNPROVEN_MAX + 8, "{more} files more, for {} strangers", silent.len());
}

#[test]
fn too_few_open_files_are_refused_by_name() {
    let data = tempfile::tempdir().unwrap();
    let mut command = with_open_files(60).command();
    command.args(["dev", "--http", "127.0.0.1:0", "--data"]).arg(data.path());
    let ended = crate::harness::Finished::of(&mut command);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let told = ended.stderr + &ended.stdout;
    assert!(told.contains("only 60 files may be open") && told.contains("ulimit -n"), "{told}");
}
