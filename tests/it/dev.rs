//! `mintleaf dev`: it serves at once, survives any number of kills, and ends cleanly.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::{
    Api, Dev, Finished, Load, TagWriter, eventually, from_env, mintleaf, ms, secs,
};

/// The longest time from a start of the process, whether it is the first or after a kill, to the first id.
const FIRST_ID_WITHIN: Duration = secs(1);

fn first_id(api: Api, tag: &str) -> u64 {
    let path = format!("/api/segment/get/{tag}");
    eventually("an id", FIRST_ID_WITHIN, || {
        let answer = api.try_get(&path).ok().filter(|answer| answer.status == 200)?;
        Some(answer.text().parse().unwrap())
    })
}

#[test]
fn first_id_comes_at_once_after_start_kill_and_restart() {
    let mut began = Instant::now();
    let mut dev = Dev::just_started(&mintleaf(), 1);
    let mut last = 0;
    for _ in 0..3 {
        let id = first_id(dev.api(), "orders");
        let took = began.elapsed();
        println!("the first id took {took:?}");
        assert!(took < FIRST_ID_WITHIN, "the first id took {took:?}");
        assert!(id > last, "id {id} after {last}");
        last = id;
        began = Instant::now();
        dev.kill_and_start();
    }
}

#[test]
fn kills_under_load_repeat_no_id_and_lose_no_tag() {
    let mut dev = mintleaf().dev();
    let tags: Vec<String> = (0..6).map(|n| format!("tag-{n}")).collect();
    let node = [(1, dev.api().0)];
    let load = Load::start(&node, &tags, 4);
    let writer = TagWriter::start(&node, ms(20));
    for round in 0..from_env("MINTLEAF_ROUNDS", 3) {
        // The kills fall into different phases of the log.
        load.await_more(100 + round % 7 * 60);
        dev.restart();
    }
    load.await_more(100);
    let history = load.stop();
    let written = writer.stop();
    history.check();
    assert!(history.ids() > 400, "{} ids", history.ids());
    assert!(!written.is_empty());
    for tag in &written {
        assert_eq!(dev.api().get(&format!("/v1/tags/{tag}")).ok()["step"], 7);
    }
}

#[test]
fn three_nodes_in_one_process_are_one_cluster_and_survive_a_kill() {
    let mut dev = mintleaf().dev_with_nodes(3);
    let nodes: Vec<_> = (1..=3).map(|id| (id as u64, dev.node(id).0)).collect();
    let cluster = dev.node(2).get("/v1/cluster").ok();
    assert_eq!(cluster["nodes"].as_array().unwrap().len(), 3, "{cluster}");
    let load = Load::start(&nodes, &["one".to_owned(), "two".to_owned()], 2);
    load.await_more(300);
    dev.restart();
    load.await_more(300);
    load.stop().check();
}

#[test]
fn another_number_of_nodes_on_the_same_data_is_refused() {
    let mut dev = mintleaf().dev();
    dev.process().kill();
    let data = dev.dir().join("data");
    let refused = refused(&data, "3");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("holds a cluster of 1"), "{refused:?}");
    assert!(refused.stderr.contains("hint: mintleaf help dev"), "{refused:?}");
}

/// Runs `dev` in a directory that it must refuse.
fn refused(data: &Path, nodes: &str) -> Finished {
    let mut command = mintleaf().command();
    command.args(["dev", "--http", "127.0.0.1:0", "--nodes", nodes, "--data"]).arg(data);
    Finished::of(&mut command)
}

#[test]
fn dev_begins_no_cluster_beside_what_is_left_of_another() {
    let mut dev = mintleaf().dev_with_nodes(3);
    let data = dev.dir().join("data");
    dev.process().kill();
    std::fs::rename(data.join("node-1"), dev.dir().join("away")).unwrap();
    for nodes in ["1", "3"] {
        let refused = refused(&data, nodes);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.stderr.contains("holds node-2, node-3 and lacks node-1"), "{refused:?}");
    }
    assert!(!data.join("node-1").exists(), "nothing was begun");
}

#[test]
fn dev_begins_no_cluster_in_the_directory_of_a_node() {
    let mut cluster = mintleaf().cluster(1);
    cluster.stop(1);
    let refused = refused(&cluster.data(1), "1");
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("mintleaf serve --data"), "{refused:?}");
    cluster.start_node(1);
    cluster.await_ready();
}

#[test]
fn greeting_names_addresses_data_and_a_line_to_try() {
    let mut dev = mintleaf().dev();
    let url = dev.url();
    let greeting = eventually("the greeting", secs(5), || {
        let log = dev.process().log();
        log.contains("carries on").then_some(log)
    });
    assert!(greeting.contains(&format!("listening on   {url}")), "{greeting}");
    assert!(greeting.contains(&format!("curl {url}/api/segment/get/orders")), "{greeting}");
    assert!(greeting.contains("data in"), "{greeting}");
    assert!(greeting.contains(&format!("console        {url}/")), "{greeting}");
    assert!(greeting.contains("mintleaf dev --nodes 3 --data"), "{greeting}");
}

#[test]
fn signals_end_it_cleanly_under_load() {
    for signal in ["TERM", "INT"] {
        let mut dev = mintleaf().dev();
        let load = Load::start(&[(1, dev.api().0)], &["orders".to_owned()], 4);
        load.await_more(50);
        dev.process().signal(signal);
        // A stop may take 5 s for requests in flight and 5 s for the log; here nothing stalls.
        let code = dev.process().exit_code(secs(10));
        assert_eq!(code, Some(0), "after SIG{signal}");
        load.stop().check();
    }
}

#[test]
fn nodes_of_one_process_stop_as_one() {
    for signal in ["TERM", "INT"] {
        let mut dev = mintleaf().dev_with_nodes(3);
        let nodes: Vec<_> = (1..=3).map(|id| (id as u64, dev.node(id).0)).collect();
        let load = Load::start(&nodes, &["orders".to_owned()], 2);
        load.await_more(50);
        // The leader reports this once a quorum has confirmed it. Ids may come earlier.
        eventually("the leader's word", secs(10), || {
            dev.process().log().contains("this node leads now").then_some(())
        });
        dev.process().signal(signal);
        let asked = Instant::now();
        assert_eq!(dev.process().exit_code(secs(10)), Some(0), "after SIG{signal}");
        println!("stopped after {:?}", asked.elapsed());
        load.stop().check();
        let log = dev.process().log();
        let (_, stopping) = log.split_once("a second signal stops at once").unwrap();
        for unwanted in ["ERROR", "WARN", "standing for election", "leads now"] {
            assert!(!stopping.contains(unwanted), "{stopping}");
        }
    }
}
