//! Libraries for Redis: in cluster mode at three nodes that speak TLS and require tokens, while the nodes are killed,
//! drained and rolled; and in both modes at one node without TLS. Their programs are in `tests/redis`. If the language
//! of a library is not installed, its programs report that they are skipped.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use super::TlsClient;
use super::clients::{make_trust_store, trusting};
use super::doors::{Doors, auth_file};
use crate::auth::{entry, token, write};
use crate::harness::{
    Finished, Process, eventually, mintleaf, ms, npm_installs, pause, python_with_redis, runs, secs,
};
use crate::rolling::overload;

/// Ids that each program has to get after each fault: five of each of its 30 tags, so that every node is asked.
const MORE: usize = 150;
/// The time for them. A library may wait for some seconds; the machine has other work, too.
const MORE_WITHIN: Duration = secs(180);

/// Where the programs are, and where they are built.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis")
}

fn built() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("redis")
}

fn trust_store() -> PathBuf {
    built().join("trust.p12")
}

/// A program that takes ids through a library of this name.
struct Program {
    name: &'static str,
    command: Vec<String>,
}

impl Program {
    fn new(name: &'static str, command: &[&str]) -> Self {
        let command = command.iter().map(|&word| word.to_owned()).collect();
        Self { name, command }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).stdin(Stdio::null());
        command
    }
}

/// The programs of the libraries that can be had here, ready to run.
static PROGRAMS: LazyLock<Vec<Program>> = LazyLock::new(|| {
    let _ = fs::remove_dir_all(built());
    fs::create_dir_all(built()).unwrap();
    let languages: [fn() -> Vec<Program>; 5] = [python, node, php, go, java];
    thread::scope(|scope| {
        let ready: Vec<_> = languages.map(|language| scope.spawn(language)).into();
        ready.into_iter().flat_map(|language| language.join().unwrap()).collect()
    })
});

fn source(name: &str) -> String {
    sources().join(name).display().to_string()
}

fn place(name: &str) -> String {
    built().join(name).display().to_string()
}

fn python() -> Vec<Program> {
    let Some(python) = python_with_redis() else { return vec![] };
    let python = python.get_program().to_str().unwrap();
    vec![Program::new("redis-py", &[python, &source("redis_py.py")])]
}

fn node() -> Vec<Program> {
    // Node.js looks for modules beside the program.
    let to = place("node");
    if !npm_installs(&["ioredis@6.0.0", "redis@6.3.1"], to.as_ref()) {
        return vec![];
    }
    let program = |(library, name): (_, &str)| {
        let program = format!("{to}/{name}");
        fs::copy(source(name), &program).unwrap();
        Program::new(library, &["node", &program])
    };
    [("ioredis", "ioredis.cjs"), ("node-redis", "node_redis.cjs")].map(program).into()
}

fn php() -> Vec<Program> {
    if !runs("php", &["-r", "exit(class_exists('RedisCluster') ? 0 : 1);"]) {
        return vec![];
    }
    vec![Program::new("phpredis", &["php", &source("phpredis.php")])]
}

fn go() -> Vec<Program> {
    let (module, program) = (source("go"), place("go-redis"));
    if !runs("timeout", &["120", "go", "mod", "download", "-C", &module]) {
        return vec![];
    }
    let mut build = Command::new("go");
    let built = Finished::of(build.args(["build", "-C", &module, "-o", &program, "."]));
    assert_eq!(built.code, Some(0), "{built:?}");
    vec![Program::new("go-redis", &[&program])]
}

fn java() -> Vec<Program> {
    let (pom, jars, classes) = (source("java/pom.xml"), place("jars"), place("classes"));
    let to = format!("-DoutputDirectory={jars}");
    let mvn =
        ["300", "mvn", "--quiet", "--batch-mode", "--file", &pom, "dependency:copy-dependencies"];
    if !runs("keytool", &["-help"]) || !runs("timeout", &[&mvn[..], &[&to]].concat()) {
        return vec![];
    }
    let libraries = [
        ("Jedis", "Jedis"),
        ("Lettuce", "Lettuce"),
        ("Redisson", "RedissonIds"),
        ("Spring Data Redis", "Spring"),
    ];
    let path = format!("{classes}:{jars}/*");
    let mut javac = Command::new("javac");
    javac.args(["-d", &classes, "-cp", &path, &source("java/Ids.java")]);
    javac.args(libraries.map(|(_, class)| source(&format!("java/{class}.java"))));
    let compiled = Finished::of(&mut javac);
    assert_eq!(compiled.code, Some(0), "{compiled:?}");
    let [store, password] = trusting(&trust_store());
    let program = |(library, class)| {
        Program::new(
            library,
            &["java", "-XX:TieredStopAtLevel=1", &store, &password, "-cp", &path, class],
        )
    };
    libraries.map(program).into()
}

/// A program that is running.
struct Caller {
    program: &'static Program,
    process: Process,
}

impl Caller {
    fn start(program: &'static Program, args: &[&OsStr], dir: &Path) -> Self {
        let log = dir.join(format!("{}.log", program.name));
        let process = Process::start(program.name, program.command().args(args), &log).unwrap();
        Self { program, process }
    }

    /// What it has got, each time a tag and an id, and the errors that it has seen. Libraries print, too.
    fn seen(&self) -> (Vec<String>, Vec<String>) {
        let said = self.process.said();
        // The last line may still be being written.
        let lines = || said[..said.rfind('\n').unwrap_or(0)].lines();
        let is_id = |line: &&str| {
            let words = line.split_once(' ');
            words.is_some_and(|(tag, id)| tag.starts_with("orders") && id.parse::<u64>().is_ok())
        };
        let ids = lines().filter(is_id).map(str::to_owned).collect();
        (ids, lines().filter_map(|line| Some(line.strip_prefix("error ")?.to_owned())).collect())
    }
}

#[track_caller]
fn await_more(callers: &mut [Caller], when: &str) {
    let (began, count) = (Instant::now(), |caller: &Caller| caller.seen().0.len());
    let goals: Vec<usize> = callers.iter().map(|caller| count(caller) + MORE).collect();
    for (caller, goal) in callers.iter_mut().zip(goals) {
        eventually(&format!("ids of {} {when}", caller.program.name), MORE_WITHIN, || {
            assert!(caller.process.is_running(), "{} has ended {when}", caller.program.name);
            pause(ms(100));
            (count(caller) >= goal).then_some(())
        });
    }
    println!("{MORE} ids each {when}: {:.1?}", began.elapsed());
}

#[test]
fn callers_of_libraries_for_redis_see_no_error_while_nodes_are_killed_drained_and_rolled() {
    let programs: &'static [Program] = &PROGRAMS;
    let mut doors = Doors::prepare();
    let client = TlsClient::believing(&[doors.old.ca()]);
    for id in doors.cluster.ids() {
        doors.cluster.add_flag(id, "--drain", "2s");
        write(&auth_file(&doors.cluster, id), &entry("shop", "issue", "[\"ord*\"]"));
    }
    doors.start(&client);
    make_trust_store(&trust_store(), &doors.old.ca());
    let nodes: Vec<String> = doors.resp.iter().map(|port| port.addr().to_string()).collect();
    let nodes = nodes.join(",");
    let (ca, shop, dir) = (doors.old.ca(), token("shop"), doors.cluster.dir());
    let args = [nodes.as_ref(), ca.as_os_str(), shop.as_ref()];
    let mut callers: Vec<Caller> =
        programs.iter().map(|program| Caller::start(program, &args, dir)).collect();
    await_more(&mut callers, "before any fault");
    doors.cluster.kill(2);
    await_more(&mut callers, "without node 2");
    doors.cluster.start_node(2);
    doors.await_ready(&client);
    doors.cluster.process(3).signal("TERM");
    await_more(&mut callers, "while node 3 drains and is gone");
    assert_eq!(doors.cluster.ended(3, secs(30)).0, Some(0));
    doors.cluster.start_node(3);
    doors.await_ready(&client);
    for id in doors.cluster.ids() {
        doors.cluster.stop(id);
        doors.cluster.start_node(id);
        doors.await_ready(&client);
        await_more(&mut callers, &format!("after node {id} was rolled"));
    }
    judge(&callers);
}

/// Fails if an id came twice, to the same caller or to two, or if a caller saw an error. On a machine that other processes
/// overload, nodes may not hear each other in time, and refuse; then a message is printed.
fn judge(callers: &[Caller]) {
    let (mut distinct, mut given, mut complaints) = (BTreeSet::new(), 0, Vec::new());
    for caller in callers {
        let (name, (ids, errors)) = (caller.program.name, caller.seen());
        println!("{name}: {} ids, {} errors", ids.len(), errors.len());
        complaints.extend(errors.iter().map(|error| format!("{name}: {error}")));
        given += ids.len();
        distinct.extend(ids);
    }
    assert_eq!(distinct.len(), given, "an id came twice");
    if let Some(overload) = overload() {
        let count = complaints.len();
        complaints.retain(|complaint| !complaint.contains("UNAVAILABLE"));
        let refused = count - complaints.len();
        if refused > 0 {
            eprintln!("SKIPPED: {refused} refusals without a quorum, on a machine of {overload}");
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn libraries_for_redis_take_ids_of_one_node_in_plain_mode_and_in_cluster_mode() {
    let dev = mintleaf().dev();
    let address = dev.resp(1).to_string();
    for program in PROGRAMS.iter() {
        let run = Finished::of(program.command().arg(&address));
        assert_eq!(run.code, Some(0), "{}: {run:?}", program.name);
    }
}
