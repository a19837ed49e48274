//! Every role at every route and command, by the table of docs/security.md. Another test compares that table
//! with the node's own.

use std::fs;

use hyper::Method;

use super::{Guarded, Kept, bearer, entry, token};
use crate::harness::{RedisClient, Value, command};

/// A request or command of the table: its method or RESP, its path or name, who may use it, and what confined tokens get.
struct Row {
    method: String,
    what: String,
    /// Without a token, and with one of each role.
    may: [bool; 5],
    tags: String,
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/security.md"));
    text.unwrap().lines().flat_map(rows_of).collect()
}

/// What one line of the table has in its two columns of names.
fn rows_of(line: &str) -> Vec<Row> {
    let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
    let [requests, commands, nobody, issue, read, admin, tags] = cells[..] else {
        return Vec::new();
    };
    let row = |method: &str, what: &str| {
        // A sentence above the table says what the role `backup` may do.
        let backup = if what == "/v1/backup" { "yes" } else { nobody };
        let may = [nobody, issue, read, admin, backup].map(|cell| cell == "yes");
        Row { method: method.to_owned(), what: what.to_owned(), may, tags: tags.to_owned() }
    };
    let requests = requests.split('`').skip(1).step_by(2).map(|request| {
        let (method, path) = request.split_once(' ').unwrap_or(("any method", request));
        row(method, path)
    });
    let commands = commands.split('`').skip(1).step_by(2).map(|command| row("RESP", command));
    requests.chain(commands).collect()
}

/// Has a separate result for each tag.
const IMPORT: &str = "/v1/import";
const ROLES: [&str; 4] = ["issue", "read", "admin", "backup"];

/// A node with a token of each role, and a token of each role that is confined to `pay*`.
fn guarded(anonymous: &str) -> Guarded {
    let tokens = ROLES.map(|role| {
        entry(role, role, "") + &entry(&format!("{role}-pay"), role, "[\"pay*\", \"cash\"]")
    });
    Guarded::start(&(anonymous.to_owned() + &tokens.concat()))
}

/// The status of the refusal for the token of this name; `None` if it is not refused.
fn refusal(row: &Row, name: &str, tag: &str) -> Option<u16> {
    let role = name.strip_suffix("-pay").unwrap_or(name);
    let place = match role {
        "" | "unknown" => 0,
        role => 1 + ROLES.iter().position(|known| *known == role).unwrap(),
    };
    let reached = match row.tags.as_str() {
        "-" => true,
        "its tags" => tag.starts_with("pay") || !name.ends_with("-pay"),
        "no" => !name.ends_with("-pay"),
        other => panic!("{other}"),
    };
    match (row.may[0], place, row.may[place] && reached) {
        (true, ..) | (_, _, true) => None,
        (_, 0, _) => Some(401),
        _ => Some(403),
    }
}

fn callers() -> Vec<String> {
    let confined = ROLES.map(|role| format!("{role}-pay"));
    ["", "unknown"].iter().chain(&ROLES).map(|name| (*name).to_owned()).chain(confined).collect()
}

#[test]
fn every_route_answers_every_role_as_documented() {
    let node = guarded("");
    let api = node.dev.api();
    let mut asked = 0;
    // tinyid's paths refuse in tinyid's words, which another test reads.
    let of_http = |row: &&Row| row.method != "RESP" && !row.what.starts_with("/tinyid/");
    for row in rows().iter().filter(of_http) {
        let methods: &[&str] = match row.method.as_str() {
            "any method" => &["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"],
            "GET" => &["GET", "HEAD", "OPTIONS"],
            method => &[method],
        };
        for (method, name) in
            methods.iter().flat_map(|method| callers().into_iter().map(move |name| (*method, name)))
        {
            for tag in ["payments", "orders"] {
                let what = row.what.replace("{tag}", tag).replace("{key}", tag);
                let path = what.replace("{id}", "99");
                let shown = format!("Bearer {}", token(&name));
                let mut headers = vec![("content-type", "application/json")];
                if !name.is_empty() {
                    headers.push(("authorization", &shown));
                }
                let body = match (method, what.as_str()) {
                    ("GET" | "HEAD" | "OPTIONS", _) => String::new(),
                    (_, IMPORT) => {
                        format!(r#"{{"import":"all","tags":[{{"tag":"{tag}","max_id":"1"}}]}}"#)
                    }
                    _ => format!(r#"{{"tag":"{tag}","id":99}}"#),
                };
                let method = Method::from_bytes(method.as_bytes()).unwrap();
                let answer = api.send(&method, &path, &headers, &body);
                let case = format!("{method} {path} as {name:?}: {answer:?}");
                asked += 1;
                match refusal(row, &name, tag) {
                    Some(403) if what == IMPORT && name == "admin-pay" => {
                        assert_eq!(answer.ok()["tags"][0]["code"], "forbidden", "{case}");
                    }
                    None => assert!(![401, 403].contains(&answer.status), "{case}"),
                    Some(status) => {
                        assert_eq!(answer.status, status, "{case}");
                        let challenge = if status == 401 { "Bearer" } else { "" };
                        assert_eq!(answer.header("www-authenticate"), challenge, "{case}");
                        let kind = answer.header("content-type");
                        assert_eq!(kind, "application/problem+json", "{case}");
                        if method != Method::HEAD {
                            let code = if status == 401 { "unauthenticated" } else { "forbidden" };
                            assert_eq!(answer.problem(), (status, code.to_owned()), "{case}");
                        }
                    }
                }
            }
        }
    }
    assert!(asked > 700, "{asked}");
}

#[test]
fn a_token_of_tinyid_is_one_of_the_file_wherever_it_stands_and_is_in_no_log() {
    let mut node = guarded("");
    let form = ("content-type", "application/x-www-form-urlencoded");
    for (name, tag, is_given) in [
        ("issue", "orders", true),
        ("admin", "orders", true),
        ("issue-pay", "payments", true),
        ("issue-pay", "orders", false),
        ("read", "orders", false),
        ("backup", "orders", false),
        ("unknown", "orders", false),
        ("", "orders", false),
    ] {
        let shown = if name.is_empty() { String::new() } else { token(name) };
        let bearer = format!("Bearer {shown}");
        let with_token = format!("bizType={tag}&token={shown}");
        let path = "/tinyid/id/nextId";
        let api = node.dev.api();
        let headers: &[_] = if name.is_empty() { &[] } else { &[("authorization", &*bearer)] };
        for answer in [
            api.send(&Method::GET, &format!("{path}?{with_token}"), &[], ""),
            api.send(&Method::POST, &format!("{path}?{with_token}"), &[form], ""),
            api.send(&Method::POST, path, &[form], &with_token),
            api.send(&Method::GET, &format!("{path}?bizType={tag}"), headers, ""),
        ] {
            let code = if is_given { 200 } else { 5 };
            assert_eq!(answer.ok()["code"], code, "{name} {tag}: {answer:?}");
            let message = if is_given { "" } else { "token is error" };
            assert_eq!(answer.json()["message"], message);
            assert_eq!(answer.json()["data"].is_null(), !is_given);
        }
        let simple = format!("/tinyid/id/nextSegmentIdSimple?{with_token}");
        let answer = api.send(&Method::POST, &simple, &[form], "");
        assert_eq!((answer.status, answer.text().is_empty()), (200, !is_given), "{name} {tag}");
    }
    // What the header says counts where there is one.
    let path = format!("/tinyid/id/nextIdSimple?bizType=orders&token={}", token("issue"));
    let wrong = format!("Bearer {}", token("unknown"));
    let answer = node.dev.api().send(&Method::GET, &path, &[("authorization", &wrong)], "");
    assert_eq!((answer.status, answer.text()), (200, ""));
    let said = node.dev.process().said();
    for name in ["issue", "issue-pay", "read", "unknown"] {
        assert!(!said.contains(&token(name)), "{said}");
    }
    assert!(said.contains("shown tokens that do not hold"), "{said}");
}

#[test]
fn the_fast_path_and_hyper_refuse_alike_on_one_connection() {
    let node = guarded("");
    for first in ["", "/livez"] {
        let mut kept = Kept::open(node.dev.api().0);
        if !first.is_empty() {
            // From then on hyper answers everything on the connection.
            assert_eq!(kept.get(first, "").0, 200);
        }
        for path in
            ["/api/segment/get/payments", "/v1/segment/payments?count=5", "/v1/segment/payments"]
        {
            // Twice each, in turn: the node must not apply a remembered result to another token.
            for (headers, status) in [
                (String::new(), 401),
                (bearer("issue-pay"), 200),
                (bearer("issue-pay"), 200),
                (bearer("unknown"), 401),
                (bearer("issue-pay"), 200),
                (bearer("read"), 403),
                (String::new(), 401),
                (bearer("admin"), 200),
                (bearer("admin") + &bearer("admin"), 401),
                (bearer("issue").replace("Bearer", "bEARER"), 200),
                (bearer("issue").replace("Bearer", "Basic"), 401),
                (bearer("issue").replace("Bearer ", "Bearer"), 401),
                (format!("authorization: Bearer {}\r\n", "x".repeat(3000)), 401),
            ] {
                let (answered, body) = kept.get(path, &headers);
                assert_eq!(answered, status, "{first} {path} {headers}: {body}");
            }
        }
        for (tag, status) in [("orders", 403), ("pay", 200), ("%70ay", 200), ("cash", 200)] {
            let path = format!("/v1/segment/{tag}");
            assert_eq!(kept.get(&path, &bearer("issue-pay")).0, status, "{path}");
        }
        for (tag, status) in [("cashier", 403), ("pa", 403), ("%6Frders", 403), ("repay", 403)] {
            let path = format!("/api/segment/get/{tag}");
            let (answered, body) = kept.get(&path, &bearer("issue-pay"));
            assert_eq!(answered, status, "{path}");
            let there = kept.get("/api/segment/get/pay-2", &bearer("issue-pay"));
            assert_eq!(there.0, 200);
            let other = kept.get("/api/segment/get/nobody", &bearer("issue-pay")).1;
            let nameless = |body: &str, tag: &str| body.replace(tag, "TAG");
            assert_eq!(nameless(&body, tag), nameless(&other, "nobody"), "it tells what is there");
        }
    }
    let page = {
        let mut kept = Kept::open(node.dev.api().0);
        kept.get("/metrics", &bearer("read")).1
    };
    let count = page.lines().find_map(|line| {
        line.strip_prefix("mintleaf_auth_failures_total{protocol=\"http\"} ")?.parse::<u64>().ok()
    });
    assert_eq!(count, Some(2 * 3 * 5), "{page}");
    // Tags that a confined token may not use are not created.
    let mut kept = Kept::open(node.dev.api().0);
    assert_eq!(kept.get("/v1/tags/cashier", &bearer("admin")).0, 404);
    assert_eq!(kept.get("/v1/tags/pay-2", &bearer("admin")).0, 200);
}

#[test]
fn anonymous_callers_have_the_role_that_the_file_gives_them() {
    let node = guarded("anonymous = \"issue\"\n");
    let mut kept = Kept::open(node.dev.api().0);
    for (path, headers, status) in [
        ("/v1/segment/orders", String::new(), 200),
        ("/v1/snowflake", String::new(), 200),
        ("/v1/tags", String::new(), 401),
        ("/v1/segment/orders", bearer("unknown"), 401),
        ("/v1/tags", bearer("read"), 200),
    ] {
        assert_eq!(kept.get(path, &headers).0, status, "{path} {headers}");
    }
    let mut redis = RedisClient::connect(node.dev.resp(1));
    assert_eq!(redis.ask("INCR fresh"), Value::Integer(1));
    assert!(refused(&redis.ask("GET fresh"), "NOAUTH "));
    assert_eq!(redis.ask(&format!("AUTH {}", token("admin"))), Value::Simple("OK".into()));
    assert!(!matches!(redis.ask("GET fresh"), Value::Error(_)));
}

fn refused(answer: &Value, code: &str) -> bool {
    matches!(answer, Value::Error(text) if text.starts_with(code))
}

#[test]
fn every_command_answers_every_role_as_documented() {
    let node = guarded("");
    let admin = format!("Bearer {}", token("admin"));
    let headers = [("content-type", "application/json"), ("authorization", admin.as_str())];
    for (of, kind) in [("keys", "sequence"), ("book", "register")] {
        for tag in ["payments", "orders"] {
            let body = format!(r#"{{"tag":"{tag}-{of}","kind":"{kind}"}}"#);
            assert_eq!(node.dev.api().send(&Method::POST, "/v1/tags", &headers, &body).status, 201);
        }
    }
    let mut asked = 0;
    for row in rows().iter().filter(|row| row.method == "RESP") {
        for name in callers() {
            for tag in ["payments", "orders"] {
                let mut redis = RedisClient::connect(node.dev.resp(1));
                match name.as_str() {
                    "" => {}
                    "unknown" => {
                        let answer = redis.ask("AUTH unknown x");
                        assert!(refused(&answer, "WRONGPASS invalid username-password pair"));
                    }
                    name => {
                        let answer = redis.ask(&format!("AUTH {name} {}", token(name)));
                        assert_eq!(answer, Value::Simple("OK".to_owned()), "{name}");
                    }
                }
                let words = match row.what.as_str() {
                    "INCR" | "MINT" | "GET" | "TYPE" => format!("{} {tag}", row.what),
                    "EXISTS" => format!("EXISTS payments {tag}"),
                    "SETNX" => format!("SETNX {tag} 0"),
                    "SET" => format!("SET {tag} 0 NX"),
                    "INCRBY" => format!("INCRBY {tag} 5"),
                    "HINCRBY" => format!("HINCRBY {tag}-keys key 1"),
                    "REGISTER" => format!("REGISTER {tag}-book key"),
                    "HGET" => format!("HGET {tag}-keys key"),
                    "ECHO" => "ECHO a".to_owned(),
                    "SELECT" => "SELECT 0".to_owned(),
                    "CLIENT" => "CLIENT ID".to_owned(),
                    "CONFIG" => "CONFIG GET x".to_owned(),
                    "CLUSTER" => "CLUSTER SLOTS".to_owned(),
                    "AUTH" => format!("AUTH issue {}", token("issue")),
                    "HELLO" => format!("HELLO 3 AUTH issue {}", token("issue")),
                    "EXEC" | "DISCARD" => {
                        redis.ask("MULTI");
                        row.what.clone()
                    }
                    other => other.to_owned(),
                };
                let answer = redis.ask(&words);
                asked += 1;
                let case = format!("{words} as {name:?}: {answer:?}");
                match refusal(row, &name, tag) {
                    None => assert!(!matches!(answer, Value::Error(_)), "{case}"),
                    Some(401) => {
                        let text = Value::Error("NOAUTH Authentication required.".to_owned());
                        assert_eq!(answer, text, "{case}");
                    }
                    Some(_) => assert!(refused(&answer, "NOPERM "), "{case}"),
                }
            }
        }
    }
    assert!(asked > 200, "{asked}");
}

#[test]
fn logging_in_works_as_redis_clients_expect() {
    let node = guarded("");
    let connect = || RedisClient::connect(node.dev.resp(1));
    let ok = Value::Simple("OK".to_owned());
    let (issue, read) = (token("issue"), token("read"));
    for words in
        [format!("AUTH issue {issue}"), format!("AUTH {issue}"), format!("AUTH default {issue}")]
    {
        let mut redis = connect();
        assert_eq!(redis.ask(&words), ok, "{words}");
        assert!(matches!(redis.ask("INCR payments"), Value::Integer(_)), "{words}");
        assert!(refused(&redis.ask(&format!("AUTH issue {read}")), "WRONGPASS "));
        assert!(matches!(redis.ask("INCR payments"), Value::Integer(_)), "it was logged out");
        assert_eq!(redis.ask(&format!("AUTH read {read}")), ok);
        let answer = redis.ask("INCR payments");
        let text = "NOPERM User read has no permissions to run the 'incr' command";
        assert_eq!(answer, Value::Error(text.to_owned()));
        assert_eq!(redis.ask("RESET"), Value::Simple("RESET".to_owned()));
        assert!(refused(&redis.ask("PING"), "NOAUTH "));
    }
    let mut redis = connect();
    for words in ["HELLO", "HELLO 3", "HELLO 3 SETNAME a"] {
        assert!(refused(&redis.ask(words), "NOAUTH HELLO must be called"), "{words}");
    }
    for words in ["AUTH x", "AUTH issue x", "HELLO 3 AUTH issue x", "AUTH nobody x"] {
        assert!(refused(&redis.ask(words), "WRONGPASS "), "{words}");
    }
    assert!(refused(&redis.ask("EXISTS a"), "NOAUTH "));
    let answer = redis.ask(&format!("HELLO 3 AUTH issue {issue} SETNAME app"));
    assert!(matches!(answer, Value::Map(_)), "{answer:?}");
    // Many copies of one command are answered together.
    let incr = command("INCR payments");
    let mut confined = connect();
    assert_eq!(confined.ask(&format!("AUTH {}", token("issue-pay"))), ok);
    let others = command("INCR orders");
    confined.send(&[incr.repeat(3), others.repeat(2), incr].concat());
    let answers: Vec<Value> = (0..6).map(|_| confined.answer()).collect();
    let given = answers.iter().map(|answer| matches!(answer, Value::Integer(_)));
    assert_eq!(given.collect::<Vec<_>>(), [true, true, true, false, false, true], "{answers:?}");
}
