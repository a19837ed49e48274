//! The nodes as a cluster of Redis: what clients ask to find out where to send what, and clients that do so while nodes
//! come and go.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{
    Cluster, Port, Process, RedisClient, Value, eventually, mintleaf, ms, pause, python_with_redis,
    runs, secs,
};

/// A node has no slots any more this long after it has ended, or was asked to.
const NOTICED_WITHIN: Duration = secs(1);

fn bulk(text: &str) -> Value {
    Value::Bulk(text.to_owned())
}

fn name(id: u64) -> Value {
    Value::Bulk(format!("{id:040x}"))
}

/// Three nodes in processes of their own; the ports of the Redis protocol of those that speak it.
fn three(flags: &[&str], speakers: &[u64]) -> (Cluster, Vec<(u64, Port)>) {
    let mut cluster = mintleaf().prepare(3, flags);
    let ports: Vec<_> = speakers.iter().map(|id| (*id, Port::claim())).collect();
    for (id, port) in &ports {
        cluster.add_flag(*id, "--resp", port.addr().to_string());
    }
    cluster.start_all();
    (cluster, ports)
}

/// The slots as a node shows them: the first and the last of each range, and the node that it names.
fn slots(client: &mut RedisClient) -> Vec<(u64, u64, String, u64)> {
    let shown = client.ask("CLUSTER SLOTS");
    let range = |range: &Value| {
        let [first, last, node] = range.array() else { panic!("{range:?}") };
        let [Value::Bulk(host), port, Value::Bulk(name), Value::Array(_)] = node.array() else {
            panic!("{node:?}")
        };
        let id = u64::from_str_radix(name, 16).unwrap();
        (first.integer(), last.integer(), format!("{host}:{}", port.integer()), id)
    };
    shown.array().iter().map(range).collect()
}

/// The ids of the nodes that have slots, after a check that the slots are shared out evenly and in their order.
fn holders(client: &mut RedisClient) -> Vec<u64> {
    let slots = slots(client);
    let mut next = 0;
    for (first, last, ..) in &slots {
        assert_eq!(*first, next, "{slots:?}");
        assert!((last + 1 - first).abs_diff(16_384 / slots.len() as u64) <= 1, "{slots:?}");
        next = last + 1;
    }
    assert!(next == 16_384 || slots.is_empty(), "{slots:?}");
    let ids: Vec<u64> = slots.iter().map(|(.., id)| *id).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    ids
}

/// Waits until the node behind `client` shows that these have slots.
#[track_caller]
fn await_holders(client: &mut RedisClient, expected: &[u64], within: Duration) {
    let began = Instant::now();
    while holders(client) != expected {
        assert!(began.elapsed() < within, "{:?} after {within:?}", holders(client));
        pause(ms(20));
    }
}

#[test]
fn slots_are_shared_out_over_the_nodes_and_every_node_shows_the_same() {
    let dev = mintleaf().dev_with_nodes(3);
    let addresses: Vec<String> = (1..=3).map(|id| dev.resp(id).to_string()).collect();
    for id in 1..=3 {
        let mut client = RedisClient::connect(dev.resp(id));
        await_holders(&mut client, &[1, 2, 3], secs(10));
        assert_eq!(
            slots(&mut client),
            [
                (0, 5_460, addresses[0].clone(), 1),
                (5_461, 10_921, addresses[1].clone(), 2),
                (10_922, 16_383, addresses[2].clone(), 3),
            ]
        );
        assert_eq!(client.ask("CLUSTER MYID"), name(id as u64));
        let Value::Bulk(nodes) = client.ask("CLUSTER NODES") else { panic!("text") };
        let lines: Vec<Vec<&str>> = nodes.lines().map(|line| line.split(' ').collect()).collect();
        assert_eq!(lines.len(), 3, "{nodes}");
        for (at, line) in lines.iter().enumerate() {
            let port = dev.resp(at + 1).port();
            assert_eq!(line[0], format!("{:040x}", at + 1));
            assert_eq!(line[1], format!("127.0.0.1:{port}@{port}"));
            assert_eq!(line[2], if at + 1 == id { "myself,master" } else { "master" });
            assert_eq!(line[3..8], ["-", "0", "0", "1", "connected"]);
        }
        assert_eq!([lines[0][8], lines[2][8]], ["0-5460", "10922-16383"]);
        let Value::Bulk(info) = client.ask("CLUSTER INFO") else { panic!("text") };
        for line in ["cluster_state:ok", "cluster_slots_assigned:16384", "cluster_known_nodes:3"] {
            assert!(info.lines().any(|shown| shown == line), "{info}");
        }
        // Every node serves every key, whoever has its slot.
        for key in ["a", "b", "c", "d", "e"] {
            assert_eq!(client.ask(&format!("INCR {key}-{id}")), Value::Integer(1));
        }
    }
}

#[test]
fn what_clients_of_a_cluster_ask_has_an_answer() {
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    let ok = Value::Simple("OK".to_owned());
    for words in ["READONLY", "READWRITE", "ASKING"] {
        assert_eq!(client.ask(words), ok, "{words}");
    }
    assert_eq!(client.ask("CLUSTER KEYSLOT foo"), Value::Integer(12_182));
    assert_eq!(client.ask("cluster keyslot {foo}.orders"), Value::Integer(12_182));
    assert_eq!(client.ask("CLUSTER COUNTKEYSINSLOT 16383"), Value::Integer(0));
    for (words, expected) in [
        ("CLUSTER COUNTKEYSINSLOT 16384", "ERR Invalid slot"),
        ("CLUSTER RESET", "ERR unknown subcommand 'RESET' of 'CLUSTER'"),
        ("CLUSTER SLOTS x", "ERR unknown subcommand"),
        ("CLUSTER", "ERR wrong number of arguments for 'cluster' command"),
        ("COMMAND GETKEYS PING", "ERR The command has no key arguments"),
    ] {
        let Value::Error(told) = client.ask(words) else { panic!("{words} was accepted") };
        assert!(told.starts_with(expected), "{words}: {told}");
    }
    for words in ["INFO", "INFO server", "INFO cluster"] {
        let Value::Bulk(info) = client.ask(words) else { panic!("text") };
        let lines = ["redis_mode:cluster\r\n", "cluster_enabled:1\r\n"];
        let shown = lines.map(|line| info.contains(line));
        assert_eq!(shown, [words != "INFO cluster", words != "INFO server"], "{info}");
    }

    let commands = client.ask("COMMAND");
    let count = client.ask("COMMAND COUNT").integer();
    assert_eq!(commands.array().len() as u64, count);
    assert_eq!(client.ask("COMMAND LIST").array().len() as u64, count);
    let of = |name: &str| {
        let found = commands.array().iter().find(|command| command.array()[0] == bulk(name));
        found.unwrap_or_else(|| panic!("no {name}")).array().to_vec()
    };
    let one = Value::Integer(1);
    for key in ["incr", "incrby", "mint", "hincrby", "hget", "get", "type", "set", "setnx"] {
        assert_eq!(of(key)[3..6], [one.clone(), one.clone(), one.clone()], "{key}");
    }
    assert_eq!(
        of("incr")[1..3],
        [Value::Integer(2), Value::Array(vec![Value::Simple("write".to_owned())])]
    );
    assert_eq!(of("exists")[1..2], [Value::Negative(-2)]);
    assert_eq!(of("exists")[3..6], [one.clone(), Value::Negative(-1), one]);
    assert_eq!(of("ping")[3..6], [0, 0, 0].map(Value::Integer));
    let info = client.ask("COMMAND INFO incr nothing");
    assert_eq!(info.array(), [Value::Array(of("incr")), Value::Null]);
    assert_eq!(client.ask("COMMAND GETKEYS INCRBY orders 5").array(), [bulk("orders")]);
    assert_eq!(client.ask("COMMAND GETKEYS EXISTS a b").array(), [bulk("a"), bulk("b")]);
    assert_eq!(client.ask("COMMAND DOCS").array(), []);

    let Value::Map(hello) = client.ask("HELLO 3") else { panic!("a map") };
    assert!(hello.chunks(2).any(|pair| pair == [bulk("mode"), bulk("cluster")]), "{hello:?}");
    let shards = client.ask("CLUSTER SHARDS");
    let [Value::Map(shard)] = shards.array() else { panic!("{shards:?}") };
    assert_eq!(shard[1].ids(), [0, 16_383]);
    let [Value::Map(node)] = shard[3].array() else { panic!("{shard:?}") };
    let port = Value::Integer(dev.resp(1).port().into());
    for pair in [
        [bulk("id"), name(1)],
        [bulk("endpoint"), bulk("127.0.0.1")],
        [bulk("role"), bulk("master")],
        [bulk("health"), bulk("online")],
        [bulk("port"), port],
    ] {
        assert!(node.chunks(2).any(|shown| shown == pair), "{pair:?} {node:?}");
    }
}

#[test]
fn a_node_that_drains_or_is_gone_has_no_slots_within_a_second() {
    let (mut cluster, ports) = three(&["--drain", "4s"], &[1, 2, 3]);
    let mut client = RedisClient::connect(ports[0].1.addr());
    let mut second = RedisClient::connect(ports[1].1.addr());
    await_holders(&mut client, &[1, 2, 3], secs(5));
    cluster.process(2).signal("TERM");
    await_holders(&mut client, &[1, 3], NOTICED_WITHIN);
    // The node that drains says the same, and shows itself without slots.
    await_holders(&mut second, &[1, 3], NOTICED_WITHIN);
    let Value::Bulk(nodes) = second.ask("CLUSTER NODES") else { panic!("text") };
    assert!(nodes.lines().any(|line| line.ends_with("myself,master - 0 0 1 connected")), "{nodes}");
    assert_eq!(cluster.ended(2, secs(15)).0, Some(0));
    cluster.kill(3);
    await_holders(&mut client, &[1], NOTICED_WITHIN);
    cluster.start_node(2);
    cluster.start_node(3);
    await_holders(&mut client, &[1, 2, 3], secs(15));
    cluster.process(3).signal("STOP");
    await_holders(&mut client, &[1, 2], NOTICED_WITHIN);
    cluster.process(3).signal("CONT");
    await_holders(&mut client, &[1, 2, 3], secs(15));
}

#[test]
fn a_node_without_the_protocol_has_no_slots_and_another_is_found_where_it_says() {
    let mut cluster = mintleaf().prepare(3, &[]);
    let [one, three] = [Port::claim(), Port::claim()];
    cluster.add_flag(1, "--resp", one.addr().to_string());
    cluster.add_flag(3, "--resp", three.addr().to_string());
    let longest = format!("{}.example:65535", "a".repeat(240));
    cluster.add_flag(3, "--advertise-resp", &longest);
    cluster.start_all();
    let mut client = RedisClient::connect(one.addr());
    await_holders(&mut client, &[1, 3], secs(5));
    let own = one.addr().to_string();
    assert_eq!(slots(&mut client), [(0, 8_191, own, 1), (8_192, 16_383, longest, 3)]);
}

/// Has a client of a cluster take ids for `seconds`, and ends nodes of it in the meantime: one by SIGKILL, another by a
/// drain. The client prints a line when it has begun, and ends with the ids that it has got, or the first error.
fn rides_out_a_kill_and_a_drain(client: impl FnOnce(&[SocketAddr]) -> Command) {
    let flags = ["--drain", "2s", "--auto-create-tags"];
    let (mut cluster, ports) = three(&flags, &[1, 2, 3]);
    let addresses: Vec<SocketAddr> = ports.iter().map(|(_, port)| port.addr()).collect();
    let mut command = client(&addresses);
    let log = cluster.dir().join("client.log");
    let mut client = Process::start("client", command.stdin(Stdio::null()), &log).unwrap();
    let printed = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("the client to begin", secs(60), || {
        assert!(client.is_running(), "{}", printed());
        printed().contains("begun").then_some(())
    });
    pause(secs(1));
    cluster.kill(2);
    pause(secs(3));
    cluster.start_node(2);
    cluster.await_ready();
    pause(secs(1));
    cluster.process(3).signal("TERM");
    assert_eq!(cluster.ended(3, secs(15)).0, Some(0));
    assert_eq!(client.exit_code(secs(60)), Some(0), "{}", printed());
    println!("{}", printed());
}

/// Takes ids of 30 tags in turn, with the settings that a program has that knows nothing of the cluster but an address.
const REDIS_PY: &str = r#"
import sys, time, redis
from redis.cluster import ClusterNode, RedisCluster
host, port = sys.argv[1].rsplit(":", 1)
r = RedisCluster(startup_nodes=[ClusterNode(host, int(port))])
assert len(r.get_primaries()) == 3, r.get_nodes()
taken, slowest, end = {}, 0, time.time() + 12
print("begun", flush=True)
while time.time() < end:
    for tag in range(30):
        began = time.time()
        taken.setdefault(tag, []).append(r.incr(f"tag-{tag}"))
        slowest = max(slowest, time.time() - began)
for ids in taken.values():
    assert len(ids) == len(set(ids))
assert r.incrby("tag-0", 5) > 5
pipe = r.pipeline()
for tag in range(30):
    pipe.incr(f"tag-{tag}")
assert len(pipe.execute()) == 30
print("redis-py", redis.__version__, sum(map(len, taken.values())), "ids, slowest", round(slowest, 3), "s")
"#;

#[test]
fn redis_py_takes_ids_of_a_cluster_while_nodes_are_killed_and_drained() {
    let Some(mut python) = python_with_redis() else { return };
    rides_out_a_kill_and_a_drain(|nodes| {
        python.args(["-c", REDIS_PY, &nodes[0].to_string()]);
        python
    });
}

const IOREDIS: &str = r#"
const Redis = require("ioredis");
const [host, port] = process.argv[2].split(":");
const r = new Redis.Cluster([{ host, port: Number(port) }]);
r.on("error", () => {});
(async () => {
  await new Promise((ready) => r.once("ready", ready));
  console.log("begun");
  const taken = new Set(), end = Date.now() + 12000;
  let given = 0;
  while (Date.now() < end) {
    for (let tag = 0; tag < 30; tag++, given++) taken.add(`${tag}:${await r.incr(`tag-${tag}`)}`);
  }
  const [[, one], [, two]] = await r.multi().incr("tag-0").incr("tag-0").exec();
  if (taken.size !== given || one >= two) throw new Error(`${taken.size} of ${given}, ${one}, ${two}`);
  console.log("ioredis", given, "ids");
  process.exit(0);
})().catch((error) => { console.log(error); process.exit(1); });
"#;

#[test]
fn ioredis_takes_ids_of_a_cluster_while_nodes_are_killed_and_drained() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let install = ["120", "npm", "install", "--silent", "--prefix", place, "ioredis@6.0.0"];
    if !runs("timeout", &install) {
        return;
    }
    let program = dir.path().join("client.cjs");
    std::fs::write(&program, IOREDIS).unwrap();
    rides_out_a_kill_and_a_drain(|nodes| {
        let mut node = Command::new("node");
        node.arg(&program).arg(nodes[0].to_string());
        node
    });
}

const JEDIS_POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>a</artifactId><version>1</version>
<dependencies><dependency>
<groupId>redis.clients</groupId><artifactId>jedis</artifactId><version>5.2.0</version>
</dependency></dependencies></project>"#;

const JEDIS: &str = r#"
import java.util.HashSet;
import redis.clients.jedis.*;

class Client {
    public static void main(String[] args) {
        try (JedisCluster cluster = new JedisCluster(HostAndPort.from(args[0]))) {
            HashSet<String> taken = new HashSet<>();
            System.out.println("begun");
            int given = 0;
            for (long end = System.currentTimeMillis() + 12000; System.currentTimeMillis() < end; ) {
                for (int tag = 0; tag < 30; tag++, given++) taken.add(tag + ":" + cluster.incr("tag-" + tag));
            }
            if (taken.size() != given) throw new AssertionError(taken.size() + " of " + given);
            if (cluster.setnx("tag-0", "5") != 0 || cluster.setnx("new", "5") != 1) throw new AssertionError("setnx");
            System.out.println("Jedis " + given + " ids");
        }
    }
}
"#;

#[test]
fn jedis_takes_ids_of_a_cluster_while_nodes_are_killed_and_drained() {
    let dir = tempfile::tempdir().unwrap();
    let [pom, program] = ["pom.xml", "Client.java"].map(|name| dir.path().join(name));
    std::fs::write(&pom, JEDIS_POM).unwrap();
    std::fs::write(&program, JEDIS).unwrap();
    let (goal, jars) = ("dependency:copy-dependencies", dir.path().join("target/dependency/*"));
    let fetch = ["300", "mvn", "--quiet", "--batch-mode", "--file", pom.to_str().unwrap(), goal];
    if !runs("timeout", &fetch) {
        return;
    }
    rides_out_a_kill_and_a_drain(|nodes| {
        let mut java = Command::new("java");
        java.arg("-cp").arg(&jars).arg(&program).arg(nodes[0].to_string());
        java
    });
}
