//! `MULTI`, `EXEC` and `DISCARD`, which clients put around pipelines.

use crate::harness::{RedisClient, Value, command, mintleaf};

fn ok() -> Value {
    Value::Simple("OK".to_owned())
}

fn error(text: &str) -> Value {
    Value::Error(text.to_owned())
}

fn queued() -> Value {
    Value::Simple("QUEUED".to_owned())
}

/// Sends commands, one by one, and returns the answer to the last.
fn say(client: &mut RedisClient, commands: &[&str]) -> Value {
    commands.iter().map(|words| client.ask(words)).last().unwrap()
}

#[test]
fn exec_carries_out_each_queued_command_and_answers_all_of_them() {
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    let body = serde_json::json!({ "tag": "chat", "kind": "sequence" });
    assert_eq!(dev.api().post("/v1/tags", &body).status, 201);
    assert_eq!(client.ask("MULTI"), ok());
    for words in [
        "INCR orders",
        "incr orders",
        "INCRBY orders 0",
        "INCR orders",
        "HINCRBY chat room 1",
        "HINCRBY chat room 2",
        "HGET chat room",
        "MINT orders COUNT 2",
        "PING",
    ] {
        assert_eq!(client.ask(words), queued(), "{words}");
    }
    client.send(&command("EXEC"));
    client.send(&command("INCR orders"));
    let answers = client.answer();
    assert_eq!(
        answers.array(),
        [
            Value::Integer(1),
            Value::Integer(2),
            error("ERR increment must be an integer of 1 to 1000000"),
            Value::Integer(3),
            Value::Integer(1),
            Value::Integer(3),
            Value::Bulk("3".to_owned()),
            Value::Array(vec![Value::Integer(4), Value::Integer(5)]),
            Value::Simple("PONG".to_owned()),
        ]
    );
    assert_eq!(client.answer(), Value::Integer(6));
    assert_eq!(say(&mut client, &["MULTI", "EXEC"]).array(), []);
}

#[test]
fn a_transaction_that_is_discarded_or_has_a_wrong_command_gives_no_id() {
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    assert_eq!(client.ask("EXEC"), error("ERR EXEC without MULTI"));
    assert_eq!(client.ask("DISCARD"), error("ERR DISCARD without MULTI"));
    assert_eq!(say(&mut client, &["MULTI", "INCR orders", "DISCARD"]), ok());
    let aborted = error("EXECABORT Transaction discarded because of previous errors.");
    for (wrong, told) in [
        ("INCR", "ERR wrong number of arguments for 'incr' command"),
        ("FLUSHALL", "ERR 'FLUSHALL' is not served"),
        ("CLIENT ID", "ERR Command not allowed inside a transaction"),
        ("WATCH orders", "ERR 'WATCH' is not served"),
    ] {
        assert_eq!(say(&mut client, &["MULTI", "INCR orders"]), queued());
        let Value::Error(text) = client.ask(wrong) else { panic!("{wrong} was accepted") };
        assert!(text.starts_with(told), "{text}");
        assert_eq!(client.ask("INCR orders"), queued());
        assert_eq!(client.ask("EXEC"), aborted, "{wrong}");
    }
    assert_eq!(
        say(&mut client, &["MULTI", "INCR orders", "RESET", "INCR orders"]),
        Value::Integer(1)
    );
    assert_eq!(client.ask("MULTI"), ok());
    assert_eq!(client.ask("MULTI"), error("ERR MULTI calls can not be nested"));
    assert_eq!(say(&mut client, &["INCR orders", "EXEC"]).ids(), [2]);
}

#[test]
fn a_transaction_has_as_many_commands_and_bytes_as_it_may() {
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    let padded = format!("PING {}", "x".repeat(60_000));
    for (words, fitting) in [("INCR orders", 10_000), (padded.as_str(), 17)] {
        assert_eq!(client.ask("MULTI"), ok());
        client.send(&command(words).repeat(fitting));
        (0..fitting).for_each(|_| assert_eq!(client.answer(), queued()));
        let Value::Error(told) = client.ask(words) else { panic!("there was room") };
        assert!(told.starts_with("ERR a transaction has at most 10000 commands and 1048576 bytes"));
        assert_eq!(client.ask("INCR orders"), queued(), "it is looked at, and not kept");
        assert!(matches!(client.ask("EXEC"), Value::Error(text) if text.starts_with("EXECABORT")));
    }
    assert_eq!(client.ask("MULTI"), ok());
    client.send(&command("INCR orders").repeat(10_000));
    (0..10_000).for_each(|_| assert_eq!(client.answer(), queued()));
    let holds_none = || dev.api().get("/metrics").text().contains("unread_answer_bytes 0\n");
    assert!(!holds_none(), "the queue is held against the budget");
    assert_eq!(client.ask("EXEC").ids(), Vec::from_iter(1..=10_000));
    assert!(holds_none());
}
