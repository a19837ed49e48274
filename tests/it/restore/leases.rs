//! Worker ids of a pool that programs may still hold when its cluster is restored.

use hyper::Method;
use serde_json::json;

use super::{back_up, restored, start};
use crate::harness::{LAYOUT, eventually, mintleaf, secs};

const HOUR_MS: u64 = 3_600_000;

#[test]
fn a_worker_id_that_was_leased_since_the_copy_is_not_leased_again_before_that_lease_ends() {
    let mut cluster = mintleaf().cluster(1);
    let (api, copy) = (cluster.api(1), cluster.dir().join("copy"));
    let json = [("content-type", "application/json")];
    api.send(&Method::PUT, "/v1/pools/shops", &json, &json!({ "workers": "0" }).to_string()).ok();
    // The format of snowflake ids is in the log with the first window.
    eventually("a snowflake id", secs(20), || api.get("/v1/snowflake").is_ok().then_some(()));
    back_up(api, &copy);
    let lease = |seconds: u64| json!({ "seconds": seconds, "holder": "shop-7" });
    let given = api.post("/v1/pools/shops/leases", &lease(3_600));
    assert_eq!(given.status, 201, "{given:?}");
    let until_ms: u64 = given.json()["until_ms"].as_str().unwrap().parse().unwrap();
    cluster.kill(1);

    // Programs have used nothing but pools for days.
    let days_ago_ms = jiff::Timestamp::now().as_millisecond() as u64 - 120 * HOUR_MS;
    let last = ((days_ago_ms - LAYOUT.epoch_ms) << 22).to_string();
    let data = cluster.dir().join("restored");
    restored(&copy, &data, 1, &["--advance-all-by", "1000", "--snowflake-above", &last]);
    let node = start(1, data, &[]);
    let refused = node.api().post("/v1/pools/shops/leases", &lease(60));
    assert_eq!(refused.status, 503, "held until {until_ms}: {refused:?}");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    let begin = detail.split(' ').find_map(|word| word.parse::<jiff::Timestamp>().ok());
    let begin_ms = begin.unwrap_or_else(|| panic!("{detail}")).as_millisecond() as u64;
    assert!(begin_ms >= until_ms, "{begin_ms} {until_ms}");
}
