//! The Redis protocol: its commands, its clients, and bytes that no proper client would send.

mod clients;
mod cluster;
mod hostile;
mod transactions;

use std::thread;
use std::time::Instant;

use crate::harness::{
    History, Load, Outcome, Port, RedisClient, Value, command, eventually, mintleaf, secs,
};

#[test]
fn ids_come_one_by_one_in_pieces_and_in_lists() {
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    assert_eq!(client.ask("GET orders"), Value::Null);
    assert_eq!(client.ask("EXISTS orders"), Value::Integer(0));
    assert_eq!(client.ask("TYPE orders"), Value::Simple("none".to_owned()));
    assert_eq!(client.ask("INCR orders"), Value::Integer(1));
    assert_eq!(client.ask("incr orders"), Value::Integer(2));
    assert_eq!(client.ask("INCRBY orders 10"), Value::Integer(12));
    assert_eq!(client.ask("MINT orders"), Value::Integer(13));
    assert_eq!(client.ask("MINT orders COUNT 3").ids(), [14, 15, 16]);
    assert_eq!(client.ask("MINT orders count 1").array(), [Value::Integer(17)]);
    assert_eq!(client.ask("EXISTS orders nothing orders"), Value::Integer(2));
    assert_eq!(client.ask("TYPE orders"), Value::Simple("string".to_owned()));
    let mark = client.ask("GET orders").ids()[0];
    assert!(mark >= 1_000, "the first grab reserves a step: {mark}");
    let next: u64 = dev.api().get("/api/segment/get/orders").text().parse().unwrap();
    assert_eq!(next, 18, "HTTP and the Redis protocol share the node's segments");
    assert_eq!(client.ask("INCR 订单"), Value::Integer(1));
}

#[test]
fn snowflakes_are_text_and_rise() {
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    let Value::Bulk(first) = client.ask("SNOWFLAKE") else { panic!("text") };
    let list = client.ask("SNOWFLAKE COUNT 5000").ids();
    assert_eq!(list.len(), 5_000);
    assert!(first.parse::<u64>().unwrap() < list[0] && list.is_sorted_by(|a, b| a < b));
}

#[test]
fn what_clients_say_at_connect_is_understood() {
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    let ok = Value::Simple("OK".to_owned());
    assert_eq!(client.ask("PING"), Value::Simple("PONG".to_owned()));
    assert_eq!(client.ask("PING hello"), Value::Bulk("hello".to_owned()));
    assert_eq!(client.ask("ECHO hello"), Value::Bulk("hello".to_owned()));
    for accepted in [
        "SELECT 0",
        "SELECT 7",
        "AUTH default any",
        "CLIENT SETNAME tester",
        "CLIENT SETINFO LIB-NAME tests",
        "CLIENT NO-EVICT on",
    ] {
        assert_eq!(client.ask(accepted), ok, "{accepted}");
    }
    assert_eq!(client.ask("CLIENT GETNAME"), Value::Bulk("tester".to_owned()));
    assert!(client.ask("CLIENT ID").integer() > 0);
    assert_eq!(client.ask("CONFIG GET save").array(), []);
    let Value::Bulk(info) = client.ask("INFO") else { panic!("text") };
    assert!(info.contains("redis_version:") && info.contains("leader_id:1\r\n"), "{info}");
    let Value::Bulk(server) = client.ask("INFO server") else { panic!("text") };
    assert!(server.contains("redis_version:") && !server.contains("leader_id"), "{server}");

    assert_eq!(client.ask("HELLO").array().len(), 14);
    let Value::Map(hello) = client.ask("HELLO 3 AUTH default any SETNAME other") else {
        panic!("a map")
    };
    assert_eq!(hello[5], Value::Integer(3));
    assert_eq!(client.ask("GET nothing"), Value::Null);
    assert_eq!(client.ask("CONFIG GET save"), Value::Map(Vec::new()));
    assert_eq!(client.ask("RESET"), Value::Simple("RESET".to_owned()));
    assert_eq!(client.ask("CLIENT GETNAME"), Value::Null);
    assert_eq!(client.ask("QUIT"), ok);
    assert_eq!(client.try_answer(), None);
}

#[test]
fn what_cannot_be_done_is_said_and_the_connection_goes_on() {
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    for (words, expected) in [
        (
            "FOO a b",
            "ERR unknown command 'FOO', with args beginning with: 'a' 'b' (COMMAND LIST names those that are served)",
        ),
        ("INCR", "ERR wrong number of arguments for 'incr' command"),
        ("INCRBY orders", "ERR wrong number of arguments for 'incrby' command"),
        ("INCRBY orders 0", "ERR increment must be an integer of 1 to 1000000"),
        ("INCRBY orders -1", "ERR increment must be an integer of 1 to 1000000"),
        ("INCRBY orders 1000001", "ERR increment must be an integer of 1 to 1000000"),
        ("MINT orders COUNT 10001", "ERR count must be an integer of 1 to 10000"),
        ("MINT orders 5", "ERR syntax error: behind the name comes COUNT n, or nothing"),
        ("SET orders 1", "ERR 'SET' is not served: ids only move forward"),
        ("SET orders 1 NX EX 60", "ERR 'SET' is not served: ids only move forward"),
        ("SET orders -1 NX", "ERR value must be an integer of 0 to 9223372036854775806"),
        ("SETNX orders 9223372036854775807", "ERR value must be an integer of 0 to"),
        ("decr orders", "ERR 'DECR' is not served"),
        (
            "EXPIRE orders 60",
            "ERR 'EXPIRE' is not served: ids do not expire; for numbers that begin",
        ),
        ("WATCH orders", "ERR 'WATCH' is not served: EXEC carries each command out by itself"),
        ("AUTH secret", "ERR AUTH <password> called without any password configured"),
        ("AUTH somebody secret", "WRONGPASS"),
        ("HELLO 4", "NOPROTO"),
        ("HELLO 3 AUTH somebody secret", "WRONGPASS"),
        ("SELECT x", "ERR invalid DB index"),
        ("CLIENT KILL x", "ERR unknown subcommand 'KILL' of 'CLIENT'"),
    ] {
        let Value::Error(told) = client.ask(words) else { panic!("{words} was accepted") };
        assert!(told.starts_with(expected), "{words}: {told}");
    }
    let long = "x".repeat(129);
    let Value::Error(told) = client.ask(&format!("INCR {long}")) else { panic!("too long") };
    assert_eq!(told, "ERR tag must have at most 128 characters");
    client.send(b"*2\r\n$4\r\nINCR\r\n$1\r\n\xff\r\n");
    assert_eq!(client.answer(), Value::Error("ERR tag must be UTF-8".to_owned()));
    assert_eq!(client.ask("INCR orders"), Value::Integer(1));
    let metrics = dev.api().get("/metrics");
    let counted = r#"mintleaf_resp_commands_total{mode="segment"}"#;
    assert!(metrics.text().lines().any(|line| line.starts_with(counted) && !line.ends_with(" 0")));
    assert!(metrics.text().contains("mintleaf_resp_connections 1\n"), "{}", metrics.text());
}

#[test]
fn a_tag_is_set_once_and_goes_on_from_there() {
    let dev = mintleaf().dev_with_nodes(3);
    let [mut one, mut other] = [1, 2].map(|id| RedisClient::connect(dev.resp(id)));
    let ok = Value::Simple("OK".to_owned());
    assert_eq!(one.ask("SET orders 0 NX"), ok);
    assert_eq!(one.ask("INCR orders"), Value::Integer(1));
    assert_eq!(other.ask("SETNX orders 500000"), Value::Integer(0));
    assert_eq!(other.ask("SET orders 500000 NX"), Value::Null);
    assert!(other.ask("INCR orders").integer() < 500_000);
    assert_eq!(one.ask("SETNX invoices 4711"), Value::Integer(1));
    assert_eq!(one.ask("set invoices 9 nx"), Value::Null);
    assert_eq!(one.ask("INCR invoices"), Value::Integer(4_712));
    // One of them makes the tag, whichever it is.
    let words = command("SETNX races 10");
    let mut clients = [1, 2, 3].map(|id| RedisClient::connect(dev.resp(id)));
    clients.iter_mut().for_each(|client| client.send(&words));
    let made =
        clients.map(|mut client| (client.answer().integer(), client.ask("INCR races").integer()));
    assert_eq!(made.iter().map(|(made, _)| made).sum::<u64>(), 1, "{made:?}");
    assert!(made.iter().all(|(_, id)| *id > 10), "{made:?}");
    let mut ids = made.map(|(_, id)| id);
    ids.sort();
    assert!(ids[0] < ids[1] && ids[1] < ids[2], "{ids:?}");
    assert_eq!(dev.api().delete("/v1/tags/invoices").status, 204);
    assert_eq!(one.ask("SETNX invoices 0"), Value::Integer(1));
    assert!(one.ask("INCR invoices").integer() > 4_712, "the name keeps its mark");
    assert_eq!(one.ask("SETNX last 9223372036854775806"), Value::Integer(1));
    assert_eq!(one.ask("INCR last"), Value::Integer(i64::MAX as u64));
}

#[test]
fn tags_that_are_unknown_or_used_up_are_told_apart() {
    let port = Port::claim();
    let address = port.addr().to_string();
    let mut cluster = mintleaf().prepare(1, &["--resp", &address]);
    cluster.start_all();
    let body = serde_json::json!({ "tag": "last", "step": 5, "start": "9223372036854775806" });
    assert_eq!(cluster.api(1).post("/v1/tags", &body).status, 201);
    let mut client = RedisClient::connect(port.addr());
    let unknown = Value::Error("ERR unknown tag".to_owned());
    assert_eq!(client.ask("INCR nothing"), unknown);
    assert_eq!(client.ask("INCRBY nothing 3"), unknown);
    for words in ["SETNX nothing 0", "SET nothing 0 NX"] {
        let Value::Error(told) = client.ask(words) else { panic!("{words} was granted") };
        assert!(told.ends_with("tags are not created on first use"), "{told}");
    }
    assert_eq!(client.ask("SETNX last 0"), Value::Integer(0));
    assert_eq!(client.ask("INCR last"), Value::Integer(i64::MAX as u64 - 1));
    assert_eq!(client.ask("INCR last"), Value::Integer(i64::MAX as u64));
    for words in ["INCR last", "INCRBY last 3", "MINT last COUNT 2"] {
        let Value::Error(told) = client.ask(words) else { panic!("{words} was granted") };
        assert!(told.starts_with("EXHAUSTED "), "{told}");
    }
    assert_eq!(client.ask("GET last"), Value::Bulk(i64::MAX.to_string()));
}

#[test]
fn pipelined_answers_come_in_order_though_some_wait_for_grabs() {
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    let mut bytes = Vec::new();
    for round in 0..50 {
        for words in [&format!("INCR new-{round}"), "PING", "INCR old", "MINT list COUNT 3"] {
            bytes.extend(command(words));
        }
    }
    client.send(&bytes);
    for round in 0..50 {
        assert_eq!(client.answer(), Value::Integer(1));
        assert_eq!(client.answer(), Value::Simple("PONG".to_owned()));
        assert_eq!(client.answer(), Value::Integer(round + 1));
        assert_eq!(client.answer().ids(), [3 * round + 1, 3 * round + 2, 3 * round + 3]);
    }
}

/// What a client of a node receives in `rounds`; each is one id, or a piece, or a list.
fn take(node: u64, client: &mut RedisClient, rounds: u64) -> History {
    let mut history = History::default();
    for round in 0..rounds {
        let began = Instant::now();
        let ids = match round % 7 {
            3 => {
                let count = 1 + round * 37 % 3_000;
                let last = client.ask(&format!("INCRBY orders {count}")).integer();
                vec![(last + 1 - count, last + 1)]
            }
            5 => {
                let listed = client.ask("MINT orders COUNT 40").ids();
                listed.into_iter().map(|id| (id, id + 1)).collect()
            }
            _ => {
                let id = client.ask("INCR orders").integer();
                vec![(id, id + 1)]
            }
        };
        history.note(node, Some(0), began, Outcome::Ids(ids));
    }
    history
}

#[test]
fn no_id_is_given_twice_over_both_protocols_and_three_nodes() {
    let dev = mintleaf().dev_with_nodes(3);
    let nodes: Vec<_> = (1..=3).map(|id| (id as u64, dev.node(id).0)).collect();
    let load = Load::start(&nodes, &["orders".to_owned()], 2);
    let takers = [1, 1, 2, 3].map(|id| {
        let address = dev.resp(id);
        thread::spawn(move || take(id as u64, &mut RedisClient::connect(address), 300))
    });
    let over_redis = takers.map(|taker| taker.join().unwrap());
    let mut history = load.stop();
    over_redis.into_iter().for_each(|taken| history.0.extend(taken.0));
    history.check();
}

#[test]
fn a_stop_answers_what_was_read_and_closes() {
    let mut dev = mintleaf().dev();
    let mut resting = RedisClient::connect(dev.resp(1));
    assert_eq!(resting.ask("INCR orders"), Value::Integer(1));
    let mut busy = RedisClient::connect(dev.resp(1));
    busy.send(&command("INCR orders").repeat(2_000));
    assert_eq!(busy.answer(), Value::Integer(2));
    dev.process().signal("TERM");
    let rest = std::iter::from_fn(|| busy.try_answer()).map(|answer| answer.integer());
    assert!(rest.eq(3..=2_001), "every command that was sent in time is answered");
    assert_eq!(resting.try_answer(), None);
    assert_eq!(dev.process().exit_code(secs(10)), Some(0));
}

#[test]
fn a_connection_counts_while_it_is_open() {
    let dev = mintleaf().dev();
    let open = |count: usize| {
        let line = format!("mintleaf_resp_connections {count}\n");
        eventually("the gauge", secs(5), || {
            dev.api().get("/metrics").text().contains(&line).then_some(())
        });
    };
    let clients = [(); 3].map(|()| RedisClient::connect(dev.resp(1)));
    open(3);
    drop(clients);
    open(0);
}
