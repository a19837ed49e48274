//! Clients that ask for much and read the answers slowly.

use super::*;

/// The memory of a process that is not backed by files, in bytes.
pub(crate) fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    kilobytes * 1024
}

/// 300 clients from two addresses, which together may use up the budget, send requests and read 350 bytes a
/// second, until the node has ended every one with a waiting answer. During that time another client is served,
/// and memory stays within bounds.
fn slow_readers_are_ended(dev: &mut Dev, address: SocketAddr, request: &[u8], protocol: &str) {
    /// The budget of unread answers, 64 MiB, plus 32 KiB for each connection outside the budget.
    const MORE_BYTES_MAX: u64 = (64 << 20) + 300 * (32 << 10);
    raise_own_limit();
    let (api, pid) = (dev.api(), dev.process().pid());
    let before = resident(pid);
    let mut readers: Vec<TcpStream> = (0..300)
        .map(|number| {
            let from = if number % 2 == 0 { HERE } else { ELSEWHERE };
            let mut stream = connect(from, address, Some(2048));
            stream.write_all(request).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    let ended = format!("mintleaf_{protocol}_connections_too_slow_total");
    let (began, mut most) = (Instant::now(), 0);
    let all = readers.len() as u64;
    eventually("the ends of the slow readers", GIVEN_UP_WITHIN, || {
        for reader in &mut readers {
            // The node may end a connection at any time, with unread bytes.
            let mut some = [0; 350];
            let _ = reader.read(&mut some).map(|length| some[..length].len());
        }
        most = most.max(resident(pid));
        assert_eq!(api.get("/api/segment/get/orders").status, 200);
        pause(secs(1));
        let unread = metric(api, "mintleaf_unread_answer_bytes");
        assert!(unread <= 64 << 20, "{unread}");
        let gone = metric(api, &ended) + metric(api, "mintleaf_unread_answers_dropped_total");
        (unread == 0 && gone >= all / 2).then_some(())
    });
    println!("{} MB more, ended after {:?}", (most - before) >> 20, began.elapsed());
    assert!(most - before < MORE_BYTES_MAX, "{} MB more", (most - before) >> 20);
}

#[test]
fn slow_readers_of_large_lists_are_ended_and_pin_no_more_than_the_budget() {
    let mut dev = mintleaf().dev();
    let api = dev.api();
    // A row has nearly 1,900 bytes, so a page is full at 256 KiB, with some 135 rows.
    let create = |number: usize| {
        let tag = format!("{number:03}{}", "𝒕".repeat(125));
        let body = json!({ "tag": tag, "description": "𝒅".repeat(256) });
        assert_eq!(api.post("/v1/tags", &body).status, 201);
    };
    thread::scope(|scope| {
        for writer in 0..8 {
            scope.spawn(move || (writer..200).step_by(8).for_each(create));
        }
    });
    let list = "/v1/tags?limit=1000&consistency=stale";
    let page = api.get(list);
    let rows = page.ok()["tags"].as_array().unwrap().len();
    assert!(page.body.len() <= 256 << 10 && (125..150).contains(&rows), "{rows} rows");
    assert!(page.ok()["next"].is_string());
    let request = format!("GET {list} HTTP/1.1\r\nhost: a\r\n\r\n");
    slow_readers_are_ended(&mut dev, api.0, request.as_bytes(), "http");
}

#[test]
fn slow_readers_of_redis_replies_are_ended_and_pin_no_more_than_the_budget() {
    let mut dev = mintleaf().dev();
    let address = dev.resp(1);
    let request = b"SNOWFLAKE COUNT 10000\r\n".repeat(3);
    slow_readers_are_ended(&mut dev, address, &request, "resp");
}
