//! The nodes as a cluster of Redis: what clients ask to find out where to send what.

use std::time::{Duration, Instant};

use crate::harness::{Cluster, Port, RedisClient, Value, mintleaf, ms, pause, secs};

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
