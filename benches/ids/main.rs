//! The time that single functions take, on one thread and without a network, to compare one commit with
//! another. `scripts/bench` measures the whole service as its users see it.

mod node;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use mintleaf::access::{AuthFile, Tokens, hash_of, written_hash};
use mintleaf::http::fuzzing::Connections;
use mintleaf::resp::fuzzing::serve;
use mintleaf_core::encoding::{decode_command, encode_command};
use mintleaf_core::limits::STEP_MAX;
use mintleaf_core::segment::{Segment, SegmentBuffer};
use mintleaf_core::snowflake::{Format, Generator, Window};
use mintleaf_core::state::{Command, State};
use mintleaf_core::steps::Steps;
use mintleaf_core::tag::BizTag;

use node::{Client, Node, TAG};

/// A moment in Unix milliseconds. Its value does not matter.
const NOW_MS: u64 = 1_800_000_000_000;
/// Requests that a client sends at once.
const DEPTH: u64 = 64;
/// A token as `mintleaf token new` makes them.
const TOKEN: &str = "mlt_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    rules(&mut criterion);
    commands(&mut criterion);
    let node = Node::start();
    service(&mut criterion, &node);
    http(&mut criterion, &node);
    resp(&mut criterion, &node);
    criterion.final_summary();
}

fn rules(criterion: &mut Criterion) {
    let mut buffer = SegmentBuffer::new(Steps::from(STEP_MAX));
    buffer.begin_grab(NOW_MS, Steps::from(STEP_MAX), 0);
    buffer.install(Segment { start: 1, end: u64::MAX / 2 }, Steps::from(STEP_MAX), NOW_MS);
    criterion.bench_function("segment: one id of a buffer", |bench| {
        bench.iter(|| black_box(buffer.take_one(|| NOW_MS)));
    });

    // The clock stands still. Ids run ahead of it by a millisecond for every 4,096.
    let format = Format::LEAF;
    let mut generator = Generator::new(format, u64::MAX, 1);
    let fence_ms = format.times_ms().end;
    generator.install(Window { worker_id: 1, floor_ms: NOW_MS, fence_ms });
    criterion.bench_function("snowflake: one id of a generator", |bench| {
        bench.iter(|| black_box(generator.take_one(NOW_MS)));
    });
}

fn commands(criterion: &mut Criterion) {
    let mut state = State::default();
    let tags: Vec<BizTag> = (0..1_000).map(|number| tag(&format!("tag-{number:07}"))).collect();
    for tag in &tags {
        let (tag, description) = (tag.clone(), String::new());
        state.apply(NOW_MS, &Command::CreateTag { tag, step: 1_000, start: 1, description });
    }
    let grabs: Vec<Command> =
        tags.into_iter().map(|tag| Command::Grab { tag, size: 1_000 }).collect();
    let mut turn = grabs.iter().cycle();
    criterion.bench_function("state: apply a grab, 1,000 tags", |bench| {
        bench.iter(|| turn.next().map(|grab| black_box(state.apply(NOW_MS, grab))));
    });
    let bytes = encode_command(&grabs[0]);
    criterion.bench_function("state: decode a grab", |bench| {
        bench.iter(|| black_box(decode_command(black_box(&bytes)).is_ok()));
    });
}

fn service(criterion: &mut Criterion, node: &Node) {
    criterion.bench_function("service: one id of a tag", |bench| {
        bench.iter(|| black_box(node.services.ids.next_now(black_box(TAG))));
    });
    assert!(node.services.ids.next_now(TAG).is_some(), "the ids went out");
}

/// The tokens of an auth file that holds one token, which is confined to some tags.
fn tokens() -> Arc<Tokens> {
    let hash = written_hash(&hash_of(TOKEN.as_bytes()));
    let lines = format!(
        "[[token]]\nname = \"shop\"\nhash = \"{hash}\"\nrole = \"issue\"\ntags = [\"pay*\", \"ord*\"]\n"
    );
    Arc::new(Tokens::new(AuthFile::parse(&lines).expect("it is an auth file")))
}

fn http(criterion: &mut Criterion, node: &Node) {
    let connect = |tokens| {
        let connections = Connections::new(node.services.clone(), tokens);
        Client::new(async move |far| connections.serve(far).await)
    };
    let (mut client, mut known) = (connect(None), connect(Some(tokens())));
    // The header is sent even when there is no auth file, so that its bytes cost the same on both sides.
    let shown = format!("authorization: Bearer {TOKEN}\r\n");
    let ask = |target: &str| format!("GET {target} HTTP/1.1\r\nhost: a\r\n{shown}\r\n");
    let leaf = format!("/api/segment/get/{TAG}");
    let one = ask(&leaf).repeat(DEPTH as usize);
    // No request equals the one before, so each is checked again.
    let in_turn = (ask(&leaf) + &ask(&format!("/v1/segment/{TAG}"))).repeat(DEPTH as usize / 2);
    let single = ask(&leaf);
    let mut group = criterion.benchmark_group("http");
    for (name, bytes, count) in [
        ("64 requests for one id", one, DEPTH),
        ("64 requests that differ", in_turn, DEPTH),
        ("1 request for one id", single, 1),
    ] {
        group.throughput(Throughput::Elements(count));
        for (client, with) in [(&mut client, ""), (&mut known, ", with a token")] {
            let request = client.request(bytes.clone());
            let name = format!("{name}{with}");
            group.bench_function(name, |bench| bench.iter(|| client.ask(&request)));
        }
    }

    let batch = format!(
        "GET /v1/segment/{TAG}?count=1000 HTTP/1.1\r\nhost: a\r\naccept: text/plain\r\n\r\n"
    );
    let batch = client.request(batch);
    group.throughput(Throughput::Elements(1_000));
    group.bench_function("1,000 ids as text", |bench| bench.iter(|| client.ask(&batch)));
    group.finish();

    // After a request of another kind hyper reads the rest, and the dispatch answers it.
    let mut client = connect(None);
    client.request_answered("GET /livez HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(), b"HTTP/1.1 200");
    let browser = "accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";
    let ask = |headers: &str| format!("GET {leaf} HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
    let many = |query: &str| {
        format!("GET /v1/segment/{TAG}?{query} HTTP/1.1\r\nhost: a\r\n\r\n").repeat(DEPTH as usize)
    };
    let mut group = criterion.benchmark_group("http, through hyper");
    for (name, bytes) in [
        ("64 requests for one id", ask("").repeat(DEPTH as usize)),
        ("64 requests for one id, of a browser", ask(browser).repeat(DEPTH as usize)),
        ("64 requests for ten ids", many("count=10")),
    ] {
        let request = client.request(bytes);
        group.throughput(Throughput::Elements(DEPTH));
        group.bench_function(name, |bench| bench.iter(|| client.ask(&request)));
    }
    group.finish();
}

fn resp(criterion: &mut Criterion, node: &Node) {
    let incr = format!("*2\r\n$4\r\nINCR\r\n${}\r\n{TAG}\r\n", TAG.len());
    let bytes = incr.as_bytes();
    criterion.bench_function("resp: parse INCR, arguments copied", |bench| {
        bench.iter(|| black_box(mintleaf::resp::fuzzing::command(black_box(bytes)).is_ok()));
    });
    let services = node.services.clone();
    let connect = |tokens: Option<Arc<Tokens>>| {
        let services = services.clone();
        Client::new(async move |far| serve(far, &services, tokens.as_deref()).await)
    };
    let (mut client, mut known) = (connect(None), connect(Some(tokens())));
    known.request_answered(format!("AUTH shop {TOKEN}\r\n"), b"+OK");
    let mut group = criterion.benchmark_group("resp");
    group.throughput(Throughput::Elements(DEPTH));
    let pipelined = incr.repeat(DEPTH as usize);
    let in_turn = format!("{incr}{}", incr.replace("INCR", "incr")).repeat(DEPTH as usize / 2);
    for (name, bytes) in [("64 INCR", pipelined), ("64 INCR that differ", in_turn)] {
        for (client, with) in [(&mut client, ""), (&mut known, ", logged in")] {
            let request = client.request(bytes.clone());
            let name = format!("{name}{with}");
            group.bench_function(name, |bench| bench.iter(|| client.ask(&request)));
        }
    }
    // The time of a refusal must not reveal whether a name is known, or how much of a token is right.
    let most_of_it = format!("{}x", &TOKEN[..TOKEN.len() - 1]);
    for (name, user, token) in [
        ("AUTH with an unknown name", "shot", "x".repeat(TOKEN.len())),
        ("AUTH with a wrong token", "shop", "x".repeat(TOKEN.len())),
        ("AUTH with a token that is almost right", "shop", most_of_it),
    ] {
        let wrong = format!("AUTH {user} {token}\r\n");
        let wrong = known.request_answered(wrong.repeat(DEPTH as usize), b"-WRONGPASS");
        group.bench_function(name, |bench| bench.iter(|| known.ask(&wrong)));
    }
    group.finish();
}

fn tag(name: &str) -> BizTag {
    BizTag::parse(name).expect("it is a name")
}
