//! Pools of worker ids: leased to programs, renewed, given back, over killed nodes and a restore.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Api, Finished, Over, eventually, mintleaf, secs};

/// A lease as its holder was given it.
#[derive(Clone, Debug)]
struct Lease {
    worker_id: u64,
    name: String,
    from_ms: u64,
    until_ms: u64,
}

fn put(api: Api, pool: &str, workers: &str) -> Answer {
    let (json, body) = ([("content-type", "application/json")], json!({ "workers": workers }));
    api.send(&Method::PUT, &format!("/v1/pools/{pool}"), &json, &body.to_string())
}

fn give_back(api: Api, pool: &str, name: &str, last_ms: u64) -> Answer {
    let path = format!("/v1/pools/{pool}/leases/{name}");
    let body = json!({ "last_ms": last_ms.to_string() });
    api.send(&Method::DELETE, &path, &[("content-type", "application/json")], &body.to_string())
}

fn lease(api: Api, pool: &str, seconds: u64) -> Answer {
    api.post(
        &format!("/v1/pools/{pool}/leases"),
        &json!({ "seconds": seconds, "holder": "shop-7" }),
    )
}

fn renew(api: Api, pool: &str, name: &str, seconds: u64) -> Answer {
    api.post(&format!("/v1/pools/{pool}/leases/{name}"), &json!({ "seconds": seconds }))
}

#[track_caller]
fn read(lease: &Value) -> Lease {
    let ms = |field: &str| lease[field].as_str().unwrap().parse().unwrap();
    let (worker_id, name) = (lease["worker_id"].as_u64().unwrap(), &lease["lease"]);
    let name = name.as_str().unwrap().to_owned();
    Lease { worker_id, name, from_ms: ms("from_ms"), until_ms: ms("until_ms") }
}

#[test]
fn a_worker_id_is_leased_renewed_given_back_and_leased_again_above_what_was_stamped() {
    let node = mintleaf().dev();
    let api = node.api();
    assert_eq!(lease(api, "shops", 60).problem(), (404, "not_found".to_owned()));
    let made = put(api, "shops", "7").ok();
    assert_eq!((&made["workers"], &made["holders"]), (&json!("7"), &json!([])));
    let given = lease(api, "shops", 60);
    assert_eq!(given.status, 201);
    let first = read(&given.json());
    assert_eq!((first.worker_id, first.until_ms - first.from_ms), (7, 60_000));
    assert_eq!(lease(api, "shops", 60).problem(), (422, "exhausted".to_owned()));
    let longer = read(&renew(api, "shops", &first.name, 3_600).ok());
    assert_eq!((longer.from_ms, &longer.name), (first.from_ms, &first.name));
    assert!(longer.until_ms > first.until_ms + 3_000_000);
    let shown = api.get("/v1/pools/shops").ok();
    let until_ms = longer.until_ms.to_string();
    let holder = json!({ "worker_id": 7, "holder": "shop-7",
        "from_ms": first.from_ms.to_string(), "until_ms": until_ms });
    assert_eq!(shown["holders"], json!([holder]), "the name of the lease is the holder's alone");
    let delete = || api.delete("/v1/pools/shops");
    assert_eq!(delete().problem(), (409, "conflict".to_owned()));

    assert_eq!(give_back(api, "shops", &first.name, first.from_ms + 9).status, 204);
    assert_eq!(renew(api, "shops", &first.name, 60).problem(), (409, "conflict".to_owned()));
    let last_ms = first.from_ms + 10;
    assert_eq!(
        give_back(api, "shops", &first.name, last_ms).problem(),
        (409, "conflict".to_owned())
    );
    // What is stamped may be ahead of the clock: until it has passed, the worker id is not free.
    let again = || Some(lease(api, "shops", 60)).filter(|given| given.status == 201);
    let second = read(&eventually("the last stamp to pass", secs(30), again).json());
    assert!(second.worker_id == 7 && second.from_ms >= last_ms, "{first:?} {second:?}");
    assert_eq!(give_back(api, "shops", &second.name, second.from_ms).status, 204);
    eventually("its stamp to pass", secs(30), || (delete().status == 204).then_some(()));
    let actions = api.get("/v1/audit").ok();
    let actions: Vec<&Value> =
        actions["entries"].as_array().unwrap().iter().map(|entry| &entry["action"]).collect();
    assert_eq!(actions, ["pool.set", "pool.delete"]);
}

#[test]
fn a_lease_needs_no_body() {
    let node = mintleaf().dev();
    let api = node.api();
    put(api, "shops", "7").ok();
    let bare = |path: &str| api.send(&Method::POST, path, &[], "");
    let given = bare("/v1/pools/shops/leases");
    assert_eq!(given.status, 201);
    let first = read(&given.json());
    assert_eq!(first.until_ms - first.from_ms, 60_000);
    let path = format!("/v1/pools/shops/leases/{}", first.name);
    assert!(read(&bare(&path).ok()).until_ms >= first.until_ms);
    assert_eq!(bare("/v1/pools/shops/leases?seconds=5").status, 400);
    // A body is not guessed at.
    let form = api.send(&Method::POST, "/v1/pools/shops/leases", &[], "seconds=5");
    assert_eq!(form.problem(), (415, "unsupported_media_type".to_owned()));
}

#[test]
fn a_refused_name_of_a_pool_is_called_that_of_a_pool_and_a_deletion_answers_in_json() {
    let node = mintleaf().dev();
    let api = node.api();
    for (name, fault) in [("%20a", "begin or end with a blank"), ("a%00", "contain control")] {
        let refused = put(api, name, "7").json();
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.starts_with(&format!("pool must not {fault}")), "{detail}");
    }
    put(api, "shops", "7").ok();
    let mut delete = mintleaf().command();
    delete.args(["pool", "delete", "shops", "--yes", "--json", "--url", &node.url()]);
    let deleted: Value = serde_json::from_str(&Finished::of(&mut delete).stdout).unwrap();
    assert_eq!(deleted, json!({ "pool": "shops", "deleted": true }));
}

#[test]
fn worker_ids_that_run_elsewhere_are_not_leased_and_every_page_shows_them() {
    let node = mintleaf().dev();
    let api = node.api();
    let set = |body: Value| {
        let json = [("content-type", "application/json")];
        api.send(&Method::PUT, "/v1/pools/shops", &json, &body.to_string())
    };
    let made = set(json!({ "workers": "2-3,65535", "taken": [3, 2] })).ok();
    assert_eq!((&made["taken"], &made["size"]), (&json!([2, 3]), &json!(3)));
    let leased = read(&lease(api, "shops", 60).json());
    assert_eq!(leased.worker_id, 65_535);
    assert_eq!(lease(api, "shops", 60).problem(), (422, "exhausted".to_owned()));
    let held = set(json!({ "workers": "2-3,65535", "taken": [65535] }));
    assert_eq!(held.problem(), (409, "conflict".to_owned()));
    for taken in [json!([4]), json!([65536]), json!("2"), json!(null)] {
        let refused = set(json!({ "workers": "2-3,65535", "taken": taken }));
        assert_eq!(refused.problem().0, 400, "{taken}");
    }
    let pool = json!({ "pool": "shops", "workers": "2-3,65535", "size": 3, "leased": 1, "taken": 2,
        "first_end_ms": leased.until_ms.to_string() });
    assert_eq!(api.get("/v1/workers").ok()["pools"], json!([pool]));
    assert_eq!(api.get("/v1/pools").ok()["pools"], json!([pool]));
    let page = api.get("/metrics").text().to_owned();
    assert!(page.contains("mintleaf_pool_worker_ids 3\n"), "{page}");
    assert!(page.contains("mintleaf_pool_worker_ids_leased 1\n"), "{page}");
    // A list without one frees it; without the field the list stays.
    assert_eq!(set(json!({ "workers": "2-3,65535", "taken": [3] })).ok()["taken"], json!([3]));
    assert_eq!(set(json!({ "workers": "2-3,65535" })).ok()["taken"], json!([3]));
    assert_eq!(read(&lease(api, "shops", 60).json()).worker_id, 2);
    let entries = api.get("/v1/audit").ok();
    assert_eq!(entries["entries"][1]["before"]["taken"], "2-3");
    assert_eq!(entries["entries"][1]["after"]["taken"], "3");
}

#[test]
fn worker_ids_that_the_nodes_or_another_pool_have_too_are_shown_and_warned_of() {
    let mut cluster = mintleaf().prepare(1, &["--snowflake-workers", "0-15"]);
    cluster.start_all();
    let api = cluster.api(1);
    eventually("a worker id", secs(10), || api.get("/v1/snowflake").is_ok().then_some(()));
    assert_eq!(put(api, "shops", "16-1023").ok()["shared"], json!([]));
    let with_shops = json!({ "pool": "shops", "workers": "16-20" });
    let with_nodes = json!({ "pool": null, "workers": "10-15" });
    assert_eq!(put(api, "bills", "10-20").ok()["shared"], json!([with_nodes, with_shops]));
    assert_eq!(
        api.get("/v1/pools/shops").ok()["shared"],
        json!([{ "pool": "bills", "workers": "16-20" }])
    );
    let url = format!("http://{}", api.0);
    let create = ["pool", "create", "bills", "--workers", "10-20", "--url", &url];
    let created = Finished::of(mintleaf().command().args(create));
    assert_eq!(created.code, Some(0), "{created:?}");
    let warnings: Vec<&str> = created.stderr.lines().collect();
    assert!(
        warnings.len() == 2
            && warnings[0].starts_with("warning: the nodes have the worker ids 10-15 too")
            && warnings[1].starts_with("warning: the pool shops has the worker ids 16-20 too"),
        "{warnings:?}"
    );
}

#[test]
fn what_is_out_of_bounds_is_refused_by_name() {
    let node = mintleaf().dev();
    let api = node.api();
    for workers in ["", "x", "9-3", "0-65536"] {
        assert_eq!(put(api, "shops", workers).problem().0, 400, "{workers}");
    }
    assert_eq!(put(api, "%20a", "1").problem().0, 400);
    put(api, "shops", "1-2").ok();
    assert_eq!(put(api, "shops", "2-3").problem(), (409, "conflict".to_owned()));
    for seconds in [0, 4, 3_601] {
        assert_eq!(lease(api, "shops", seconds).problem().0, 400, "{seconds}");
    }
    let nonce = "0".repeat(32);
    for name in ["1", "1-2", &format!("70000-{nonce}"), &format!("1-+{}", &nonce[1..])] {
        assert_eq!(renew(api, "shops", name, 60).problem().0, 400, "{name}");
    }
    assert_eq!(renew(api, "shops", &format!("1-{nonce}"), 60).problem().0, 409);
    let long = json!({ "holder": "x".repeat(129) });
    assert_eq!(api.post("/v1/pools/shops/leases", &long).problem().0, 400);
}

/// One program: leases, renews, gives back at a millisecond that it has reached, and leases again. Returns what it held,
/// by worker id. Every answer may be lost, and every node may be gone.
fn program(
    nodes: &[Api],
    at: usize,
    (leased, over): (&AtomicUsize, &AtomicBool),
) -> Vec<(u64, u64, u64)> {
    let (mut held, mut turn) = (Vec::new(), at);
    while !over.load(Relaxed) {
        turn += 1;
        let api = nodes[turn % nodes.len()];
        let asked = json!({ "seconds": 5, "holder": format!("program {at}") });
        let json = [("content-type", "application/json")];
        let leases = "/v1/pools/shops/leases";
        let Ok(given) = api.try_send(&Method::POST, leases, &json, &asked.to_string()) else {
            continue;
        };
        if given.status != 201 {
            thread::sleep(Duration::from_millis(20));
            continue;
        }
        let mut mine = read(&given.json());
        for round in 0..turn % 4 {
            let path = format!("{leases}/{}", mine.name);
            let api = nodes[(turn + round) % nodes.len()];
            let renewed = api.try_send(&Method::POST, &path, &json, "{\"seconds\":5}");
            if let Ok(renewed) = renewed.as_ref().map(Answer::json)
                && renewed["until_ms"].is_string()
            {
                mine = read(&renewed);
            }
        }
        // Some stamp all that they may, and leave. Others stop early and give the rest back: whether the answer arrives
        // or not, they stamp nothing of it any more.
        let until_ms = if turn % 5 == 0 { mine.until_ms } else { mine.from_ms + 8 };
        if until_ms < mine.until_ms {
            let body = json!({ "last_ms": (until_ms - 1).to_string() }).to_string();
            let path = format!("{leases}/{}", mine.name);
            let _ = api.try_send(&Method::DELETE, &path, &json, &body);
        }
        held.push((mine.worker_id, mine.from_ms, until_ms));
        leased.fetch_add(1, Relaxed);
    }
    held
}

#[test]
fn renewals_at_one_time_travel_in_one_entry() {
    let node = mintleaf().dev();
    let api = node.api();
    put(api, "shops", "0-39").ok();
    let leased: Vec<Lease> = (0..40).map(|_| read(&lease(api, "shops", 60).json())).collect();
    let entries = || {
        let cluster = api.get("/v1/cluster").ok();
        cluster["nodes"][0]["last_log_index"].as_u64().unwrap()
    };
    let before = entries();
    thread::scope(|scope| {
        for lease in &leased {
            scope.spawn(|| renew(api, "shops", &lease.name, 60).ok());
        }
    });
    let entries = entries() - before;
    assert!(entries < 30, "{entries} entries for 40 renewals");
}

#[test]
fn no_millisecond_of_a_worker_id_has_two_holders_while_nodes_are_killed() {
    let mut cluster = mintleaf().cluster(3);
    let nodes: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    put(nodes[0], "shops", "0-7").ok();
    let (leased, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let held: Vec<(u64, u64, u64)> = thread::scope(|scope| {
        let over = Over(&over);
        let programs: Vec<_> = (0..8)
            .map(|at| {
                scope.spawn({
                    let (nodes, so_far) = (&nodes, (&leased, over.0));
                    move || program(nodes, at, so_far)
                })
            })
            .collect();
        for _ in 0..3 {
            thread::sleep(Duration::from_secs(1));
            let leader = cluster.leader();
            cluster.kill(leader);
            thread::sleep(Duration::from_secs(1));
            cluster.start_node(leader);
        }
        eventually("many leases", secs(120), || (leased.load(Relaxed) > 60).then_some(()));
        drop(over);
        programs.into_iter().flat_map(|program| program.join().unwrap()).collect()
    });
    let mut by_worker: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    held.iter().for_each(|&(id, from, until)| by_worker.entry(id).or_default().push((from, until)));
    for (worker_id, mut windows) in by_worker {
        windows.sort_unstable();
        for pair in windows.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "worker id {worker_id} has two holders: {pair:?}");
        }
    }
}

#[test]
fn the_command_line_makes_shows_and_deletes_pools() {
    let node = mintleaf().dev();
    let url = format!("http://{}", node.api().0);
    let run = |args: &[&str]| {
        let run = Finished::of(mintleaf().command().arg("pool").args(args).args(["--url", &url]));
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
    };
    let made = run(&["create", "shops", "--workers", "0-9,20"]);
    assert_eq!(made, "pool shops: worker ids 0-9,20, 0 of 11 leased\n");
    lease(node.api(), "shops", 60);
    assert!(run(&["get", "shops"]).contains("shop-7"));
    assert!(run(&["list"]).contains("0-9,20     11       1"), "{}", run(&["list"]));
}
