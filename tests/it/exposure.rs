//! Who can reach what: requests from pages and through proxies, addresses that strangers can reach, and the
//! data directory.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::{Api, Finished, Port, Process, eventually, mintleaf, secs};

/// A node's answer to these bytes, up to the end of the connection.
fn exchange(api: Api, bytes: &str) -> String {
    let mut stream = TcpStream::connect(api.0).unwrap();
    stream.set_read_timeout(Some(secs(5))).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The statuses of the answers to these bytes.
fn statuses(api: Api, bytes: &str) -> Vec<u16> {
    let answers = exchange(api, bytes);
    let heads = answers.split("HTTP/1.").skip(1);
    heads.filter_map(|head| head.get(2..5)?.parse().ok()).collect()
}

const ID: &str = "/api/segment/get/orders";
/// From then on hyper answers everything on the connection.
const TO_HYPER: &str = "GET /livez HTTP/1.1\r\nhost: a\r\n\r\n";

#[test]
fn a_request_without_one_host_that_can_be_read_is_400_wherever_it_is_read() {
    let dev = mintleaf().dev();
    assert_eq!(dev.api().get(ID).text(), "1");
    for hosts in [
        "",
        "host: a\r\nhost: a\r\n",
        "host: a\r\nx: y\r\nHOST: b\r\n",
        "host: a b\r\n",
        "host: a@b\r\n",
        "host: a/b\r\n",
        "host: [::1\r\n",
        "host: a:b\r\n",
        "host: \u{fc}\r\n",
    ] {
        for path in [ID, "/v1/segment/orders?count=5", "/v1/snowflake", "/livez", "/nothing"] {
            let wrong = format!("GET {path} HTTP/1.1\r\n{hosts}\r\n");
            let right = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
            assert_eq!(statuses(dev.api(), &wrong), [400], "{wrong}");
            assert_eq!(
                statuses(dev.api(), &format!("{TO_HYPER}{wrong}{right}")),
                [200, 400],
                "{wrong}"
            );
            let answer = exchange(dev.api(), &wrong);
            assert!(answer.contains("content-type: application/problem+json\r\n"), "{answer}");
            assert!(answer.contains(r#""code":"invalid_argument""#), "{answer}");
            assert!(answer.contains("connection: close\r\n"), "{answer}");
        }
        let change = format!("POST /v1/tags HTTP/1.1\r\n{hosts}content-length: 0\r\n\r\n");
        assert_eq!(statuses(dev.api(), &change), [400], "{change}");
    }
    // The requests before the wrong one are answered; those after it are not.
    let right = format!("GET {ID} HTTP/1.1\r\nhost: a\r\n\r\n");
    let wrong = format!("GET {ID} HTTP/1.1\r\n\r\n");
    assert_eq!(statuses(dev.api(), &format!("{right}{right}{wrong}{right}")), [200, 200, 400]);
    assert_eq!(dev.api().get(ID).text(), "4", "a refused request took an id");
}

#[test]
fn a_request_of_http_1_0_needs_no_host_and_an_empty_host_is_one() {
    let dev = mintleaf().dev();
    assert_eq!(statuses(dev.api(), &format!("GET {ID} HTTP/1.0\r\n\r\n")), [200]);
    assert_eq!(
        statuses(dev.api(), &format!("GET {ID} HTTP/1.0\r\nhost: a\r\nhost: a\r\n\r\n")),
        [400]
    );
    let empty = format!("GET {ID} HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n");
    assert_eq!(statuses(dev.api(), &empty), [200]);
    let change = "DELETE /v1/tags/orders HTTP/1.0\r\n\r\n";
    assert_eq!(statuses(dev.api(), change), [403], "nobody knows under which name it was asked");
}

#[test]
fn head_on_an_id_path_answers_the_head_of_get_and_takes_no_id() {
    let cluster = mintleaf().cluster(1);
    let api = cluster.api(1);
    let head = |path: &str| api.send(&hyper::Method::HEAD, path, &[], "");
    assert_eq!(api.post("/v1/tags", &json!({ "tag": "orders", "step": 10 })).status, 201);
    // The first requests find nothing held, later ones find a segment.
    for expected in ["1", "2"] {
        for path in [ID, "/v1/segment/orders", "/v1/segment/orders?count=7&format=ranges"] {
            for _ in 0..10 {
                let answer = head(path);
                assert_eq!((answer.status, answer.body.len()), (200, 0), "{path}: {answer:?}");
                assert_eq!(answer.header("content-length"), "", "{answer:?}");
                let get = if path == ID { "text/plain;charset=UTF-8" } else { "application/json" };
                assert_eq!(answer.header("content-type"), get);
                assert_eq!(answer.header("cache-control"), "no-store");
            }
        }
        assert_eq!(api.get(ID).text(), expected);
    }
    let given = |metrics: &str| {
        let line = metrics
            .lines()
            .find(|line| line.starts_with(r#"mintleaf_ids_total{mode="snowflake"}"#));
        line.unwrap_or_default().to_owned()
    };
    let before = given(api.get("/metrics").text());
    for path in ["/api/snowflake/get/x", "/v1/snowflake", "/v1/snowflake?count=9"] {
        let answer = head(path);
        assert_eq!((answer.status, answer.header("content-length")), (200, ""), "{path}");
    }
    assert_eq!(given(api.get("/metrics").text()), before);

    for (path, status) in [
        ("/api/segment/get/nobody", 500),
        ("/v1/segment/nobody", 404),
        ("/v1/segment/orders?count=0", 400),
        ("/v1/segment/%zz", 400),
        ("/v1/snowflake?n=1", 400),
    ] {
        assert_eq!(api.get(path).status, status, "{path}");
        let answer = head(path);
        assert_eq!((answer.status, answer.header("content-length")), (status, ""), "{path}");
    }
    let few = json!({ "tag": "few", "start": ((1_u64 << 63) - 3).to_string() });
    assert_eq!(api.post("/v1/tags", &few).status, 201);
    for (path, status) in [("/v1/segment/few?count=4", 422), ("/v1/segment/few?count=3", 200)] {
        assert_eq!((head(path).status, api.get(path).status), (status, status), "{path}");
    }
    assert_eq!(head("/api/segment/get/few").status, 500, "all are given");
}

#[test]
fn head_creates_no_tag_where_get_would() {
    let dev = mintleaf().dev();
    for path in ["/api/segment/get/new", "/v1/segment/new"] {
        let answer = dev.api().send(&hyper::Method::HEAD, path, &[], "");
        assert_eq!(answer.status, 200, "{path}");
    }
    assert_eq!(dev.api().get("/v1/tags/new").status, 404);
    assert_eq!(dev.api().get("/api/segment/get/new").text(), "1");
}

/// The status of a request to create a tag with these header lines, and the whole answer.
fn create(api: Api, tag: &str, headers: &str) -> (u16, String) {
    let body = format!(r#"{{"tag":"{tag}"}}"#);
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let request =
        format!("POST /v1/tags HTTP/1.1\r\n{headers}{head}connection: close\r\n\r\n{body}");
    let answer = exchange(api, &request);
    (answer[9..12].parse().unwrap(), answer)
}

/// Requests that must not get through: each is the header lines of a request from this machine.
const TRICKS: [&str; 16] = [
    "host: evil.example:8080\r\norigin: http://evil.example:8080\r\n",
    "host: evil.example\r\n",
    "host: localhost.evil.example\r\n",
    "host:\r\n",
    "host: localhost\r\norigin: http://evil.example\r\n",
    "host: 127.0.0.1\r\norigin: null\r\n",
    "host: [::1]\r\norigin: http://localhost\r\norigin: http://evil.example\r\n",
    "host: localhost\r\norigin: http://localhost@evil.example\r\n",
    "host: localhost\r\nx-forwarded-for: 10.0.0.7\r\n",
    "host: localhost\r\nX-Forwarded-For: 127.0.0.1\r\n",
    "host: localhost\r\nforwarded: for=127.0.0.1\r\n",
    "host: localhost\r\nvia: 1.1 localhost\r\n",
    "host: localhost\r\nvia:\r\n",
    "host: localhost\r\nx-real-ip: 10.0.0.1\r\n",
    "host: localhost\r\nx-forwarded-host: a\r\n",
    "host: localhost\r\nsec-fetch-site: cross-site\r\n",
];

#[test]
fn what_a_page_or_a_proxy_sends_changes_nothing_and_what_another_site_sends_gets_nothing() {
    let dev = mintleaf().dev();
    for headers in TRICKS {
        let (status, answer) = create(dev.api(), "evil", headers);
        assert_eq!(status, 403, "{headers}: {answer}");
        assert!(answer.contains("content-type: application/problem+json\r\n"), "{answer}");
        assert!(answer.contains(r#""code":"forbidden""#), "{answer}");
        let of_another_site = headers.contains("sec-fetch-site")
            || (headers.contains("origin")
                && !headers.contains("origin: http://evil.example:8080"));
        let status = if of_another_site { 403 } else { 200 };
        for path in [ID, "/v1/tags", "/db"] {
            let get = format!("GET {path} HTTP/1.1\r\n{headers}\r\n");
            let last = format!("GET {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
            assert_eq!(statuses(dev.api(), &(get + &last)), [status; 2], "{path} {headers}");
        }
    }
    let link = "host: localhost\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n";
    for (path, status) in [("/", 200), ("/openapi", 200), (ID, 403)] {
        let get = format!("GET {path} HTTP/1.1\r\n{link}connection: close\r\n\r\n");
        assert_eq!(statuses(dev.api(), &get), [status], "{path}");
    }
    for headers in [
        // A parser may read the folded line as two, or as none, so parsers that differ could be misled.
        "host: evil.example\r\n localhost\r\n",
        "host: localhost\r\norigin:\r\n http://evil.example\r\n",
        "host : localhost\r\n",
        "host: localhost\r\nhost: localhost\r\n",
    ] {
        assert_eq!(create(dev.api(), "evil", headers).0, 400, "{headers}");
    }
    let absolute = "DELETE http://evil.example/v1/tags/orders HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(statuses(dev.api(), absolute), [403]);
    for change in [
        "DELETE /v1/tags/orders",
        "PATCH /v1/tags/orders",
        "POST /v1/cluster/level",
        "DELETE /v1/cluster/nodes/1",
        "PUT /x",
    ] {
        let change =
            format!("{change} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
        assert_eq!(statuses(dev.api(), &change), [403], "{change}");
        assert_eq!(statuses(dev.api(), &format!("{TO_HYPER}{change}")), [200, 403], "{change}");
    }
    assert_eq!(dev.api().get("/v1/tags/evil").status, 404);
    assert_eq!(dev.api().get("/v1/tags/orders").status, 200);
}

#[test]
fn no_html_page_is_shown_in_a_frame_or_taken_for_something_else() {
    let dev = mintleaf().dev();
    for path in ["/", "/db", "/cache", "/openapi", "/api/none"] {
        let get = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/html\r\nconnection: close\r\n\r\n"
        );
        let answer = exchange(dev.api(), &get).to_ascii_lowercase();
        for header in
            ["content-type: text/html", "frame-ancestors 'none'", "x-content-type-options: nosniff"]
        {
            assert!(answer.contains(header), "{path}: {answer}");
        }
    }
}

#[test]
fn the_nodes_own_machine_changes_what_it_wants_under_a_loopback_name() {
    let dev = mintleaf().dev();
    let port = dev.api().0.port();
    for (n, name) in
        ["localhost", "LOCALHOST", "127.0.0.1", "127.9.8.7", "[::1]"].iter().enumerate()
    {
        let headers = format!("host: {name}:{port}\r\norigin: http://{name}:{port}\r\n");
        let (status, answer) = create(dev.api(), &format!("tag-{n}"), &headers);
        assert_eq!(status, 201, "{name}: {answer}");
    }
    for (tag, host) in [("a", "127.0.0.1"), ("b", "localhost")] {
        let mut command = mintleaf().command();
        let url = format!("http://{host}:{port}");
        let run = Finished::of(command.args(["tag", "create", tag, "--url", &url]));
        assert_eq!(run.code, Some(0), "{run:?}");
    }
}

fn serve(dir: &Path, args: &[&str]) -> Command {
    let mut command = mintleaf().command();
    command.args(["serve", "--node-id", "1", "--data"]).arg(dir.join("data")).args(args);
    command
}

#[test]
fn an_address_that_strangers_can_reach_is_refused_by_name_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
    let secret = secret.to_str().unwrap();
    let own = "127.0.0.1:0";
    for (args, named) in [
        (&["--http", "0.0.0.0:0"][..], "--http 0.0.0.0:0"),
        (&["--http", "[::]:0"], "--http [::]:0"),
        (&["--http", "10.1.2.3:8080"], "--http 10.1.2.3:8080"),
        (&["--http", own, "--resp", "0.0.0.0:0"], "--resp 0.0.0.0:0"),
        (&["--http", own, "--raft", "10.1.2.3:9080"], "--raft 10.1.2.3:9080"),
        (&["--http", own, "--raft", own, "--peers", "1=a.example:9080"], "--peers a.example:9080"),
        (
            &["--http", own, "--raft", own, "--advertise-raft", "a.example:9080"],
            "--advertise-raft a.example:9080",
        ),
        (&["--http", "0.0.0.0:0", "--cluster-secret-file", secret], "--http 0.0.0.0:0"),
    ] {
        let refused = Finished::of(&mut serve(dir.path(), args));
        assert_eq!(refused.code, Some(2), "{args:?}: {refused:?}");
        assert!(refused.stderr.contains(named), "{args:?}: {refused:?}");
        assert!(refused.stderr.contains("--insecure"), "{args:?}: {refused:?}");
    }
    for args in [["--http", "0.0.0.0:0"], ["--resp", "[::]:0"]] {
        let mut command = mintleaf().command();
        command.arg("dev").args(args).arg("--data").arg(dir.path().join("data"));
        let refused = Finished::of(&mut command);
        assert_eq!(refused.code, Some(2), "{args:?}: {refused:?}");
        assert!(refused.stderr.contains("--insecure"), "{args:?}: {refused:?}");
    }
    assert!(!dir.path().join("data").exists());
}

#[test]
fn insecure_lifts_what_keeps_strangers_out_and_says_so_once() {
    let dir = tempfile::tempdir().unwrap();
    let [http, resp, raft] = [(); 3].map(|()| Port::claim());
    let everywhere = |port: &Port| format!("0.0.0.0:{}", port.addr().port());
    let mut serving = serve(dir.path(), &["--peers", &format!("1={}", raft.addr())]);
    serving.args(["--http", &everywhere(&http), "--resp", &everywhere(&resp)]);
    serving.args(["--raft", &everywhere(&raft)]).env("MINTLEAF_INSECURE", "1");
    let dev_ports = Port::claim_row(3);
    let mut dev = mintleaf().command();
    dev.args(["dev", "--insecure", "--nodes", "3", "--http", &everywhere(&dev_ports[0])]);
    dev.arg("--data").arg(dir.path().join("dev"));
    for (command, address) in [(&mut serving, http.addr()), (&mut dev, dev_ports[0].addr())] {
        let node = Process::start("the node", command, &dir.path().join("log")).unwrap();
        let api = Api(address);
        eventually("the node to be ready", secs(15), || {
            (api.try_get("/readyz").ok()?.status == 200).then_some(())
        });
        for (n, headers) in TRICKS.iter().enumerate() {
            let (status, answer) = create(api, &format!("tag-{n}"), headers);
            assert_eq!(status, 201, "{headers}: {answer}");
        }
        let said = node.said();
        assert_eq!(said.matches("--insecure is given").count(), 1, "{said}");
        assert!(said.contains(&format!("--http 0.0.0.0:{}", address.port())), "{said}");
    }
}

#[test]
fn insecure_on_loopback_addresses_is_nothing_to_warn_of() {
    let dir = tempfile::tempdir().unwrap();
    let port = Port::claim();
    let mut dev = mintleaf().command();
    dev.args(["dev", "--insecure", "--http", &port.addr().to_string(), "--data"]);
    dev.arg(dir.path().join("data"));
    let node = Process::start("dev", &mut dev, &dir.path().join("log")).unwrap();
    let api = Api(port.addr());
    eventually("the node to be ready", secs(15), || {
        (api.try_get("/readyz").ok()?.status == 200).then_some(())
    });
    assert_eq!(create(api, "a", TRICKS[0]).0, 201);
    assert!(!node.said().contains("--insecure is given"), "{}", node.said());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn data_directories_are_the_owners_alone_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let dir = tempfile::tempdir().unwrap();
        let shell = [
            "sh".to_owned(),
            "-c".to_owned(),
            format!("umask {umask}; exec \"$@\""),
            "sh".to_owned(),
        ];
        let port = Port::claim();
        let start = || {
            let mut dev = mintleaf().under(shell.clone()).command();
            dev.args(["dev", "--http", &port.addr().to_string(), "--data"]);
            dev.arg(dir.path().join("data"));
            let node = Process::start("dev", &mut dev, &dir.path().join("log")).unwrap();
            eventually("the node to answer", secs(10), || Api(port.addr()).try_get("/livez").ok());
            node
        };
        let directories = [dir.path().join("data"), dir.path().join("data/node-1")];
        let mut node = start();
        assert_eq!(directories.each_ref().map(|path| mode(path)), [0o700; 2], "umask {umask}");
        node.kill();
        for directory in &directories {
            fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
        }
        let _node = start();
        assert_eq!(directories.each_ref().map(|path| mode(path)), [0o700; 2], "umask {umask}");
    }
}
