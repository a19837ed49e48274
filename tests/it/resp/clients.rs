//! Widely used clients of the Redis protocol. If a client is not installed, its test reports that it is skipped.

use std::process::Command;

use crate::harness::{Finished, mintleaf, python_with_redis, runs};

/// A command for `program`; `None` where it cannot be started.
fn found(program: &str, args: &[&str]) -> Option<Command> {
    runs(program, args).then(|| Command::new(program))
}

#[test]
fn redis_cli_takes_ids() {
    let Some(_) = found("redis-cli", &["--version"]) else { return };
    let dev = mintleaf().dev();
    let port = dev.resp(1).port().to_string();
    for (args, expected) in [
        (&["INCR", "orders"][..], "1\n"),
        (&["INCRBY", "orders", "9"], "10\n"),
        (&["MINT", "orders", "COUNT", "2"], "11\n12\n"),
        (&["-3", "GET", "nothing"], "\n"),
        (&["-n", "3", "INCR", "orders"], "13\n"),
        (&["-r", "3", "INCR", "orders"], "14\n15\n16\n"),
    ] {
        let run = Finished::of(Command::new("redis-cli").args(["-e", "-p", &port]).args(args));
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), expected), "{args:?}: {run:?}");
    }
    let run = Finished::of(Command::new("redis-cli").args(["-e", "-p", &port, "SET", "a", "1"]));
    assert!(run.code != Some(0) && run.stderr.contains("is not served"), "{run:?}");
}

#[test]
fn redis_benchmark_runs() {
    let Some(mut benchmark) = found("redis-benchmark", &["--version"]) else { return };
    let dev = mintleaf().dev();
    let port = dev.resp(1).port().to_string();
    benchmark.args(["-p", &port, "-n", "20000", "-c", "20", "-P", "16", "--csv", "-r", "50"]);
    let run = Finished::of(benchmark.args(["INCR", "key:__rand_int__"]));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!run.stderr.contains("Error") && run.stdout.contains("INCR"), "{run:?}");
    let page = dev.api().get("/metrics");
    assert!(
        page.text().contains("mintleaf_ids_total{mode=\"segment\"} 20000\n"),
        "{}",
        page.text()
    );
}

/// A program that uses redis-py as applications do: pooled, pipelined, with a name and a password.
const REDIS_PY: &str = r#"
import sys, threading, redis
port = int(sys.argv[1])
r = redis.Redis(port=port, db=2, username="default", password="any", client_name="app")
assert r.ping()
assert r.incr("orders") == 1 and r.incr("orders", 10) == 11
assert r.get("nothing") is None and r.exists("orders") == 1
pipe = r.pipeline(transaction=False)
for _ in range(1000):
    pipe.incr("orders")
assert pipe.execute() == list(range(12, 1012))
pipe = r.pipeline()
for _ in range(5000):
    pipe.incr("queued")
assert pipe.execute() == list(range(1, 5001))
pipe = r.pipeline().incr("queued").incr("queued", 0).execute_command("MINT", "queued", "COUNT", 2)
given = pipe.execute(raise_on_error=False)
assert given[0] == 5001 and isinstance(given[1], redis.ResponseError) and given[2] == [5002, 5003], given
assert len(r.execute_command("MINT", "orders", "COUNT", 50)) == 50
assert int(r.execute_command("SNOWFLAKE")) > 0
try:
    r.set("orders", 1)
    sys.exit("SET was accepted")
except redis.ResponseError as error:
    assert "is not served" in str(error)
taken, lock = [], threading.Lock()
def take():
    mine = [r.incr("shared") for _ in range(200)]
    assert mine == sorted(mine)
    with lock:
        taken.extend(mine)
threads = [threading.Thread(target=take) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert len(set(taken)) == 1600, len(set(taken))
print("redis-py", redis.__version__)
"#;

#[test]
fn redis_py_takes_ids() {
    let Some(mut python) = python_with_redis() else { return };
    let dev = mintleaf().dev();
    let run = Finished::of(python.args(["-c", REDIS_PY, &dev.resp(1).port().to_string()]));
    assert_eq!(run.code, Some(0), "{run:?}");
    println!("{}", run.stdout);
}
