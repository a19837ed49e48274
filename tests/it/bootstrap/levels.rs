//! The first level of a new cluster, with founders that are late or become silent.

use std::collections::BTreeSet;
use std::thread;

use serde_json::json;

use super::{Founders, Rule};
use crate::harness::{eventually, secs};

impl Founders {
    /// The cluster's level, and the highest level that the build supports.
    fn levels(&self, name: &str) -> (u64, u64) {
        let page = self.api(name).get("/metrics");
        let number = |name: &str| {
            let value = page.text().lines().find_map(|line| line.strip_prefix(name));
            value.unwrap().trim().parse().unwrap()
        };
        (number("mintleaf_cluster_level "), number("mintleaf_level_supported "))
    }
}

#[test]
fn founders_that_are_late_are_waited_for_so_that_the_level_is_what_all_support() {
    // Longer than a query waits for its answer.
    let mut founders = Founders::prepare(&["1", "2", "3"], Rule::LateTo(3, secs(2)));
    founders.start("1");
    founders.start("2");
    // The time that a leader waits for founders counts from the formation of the cluster, not from their start.
    thread::sleep(secs(6));
    assert_eq!(founders.ready(), BTreeSet::new());
    founders.start("3");
    founders.await_ready(3);
    let (level, supported) = founders.levels("1");
    assert!(level == supported && level > 1, "{level} of {supported}");
    assert!(!founders.log("1").contains("begins below the level"), "{}", founders.log("1"));
}

#[test]
fn a_founder_that_falls_silent_holds_the_level_back_and_not_the_cluster() {
    let mut founders = Founders::prepare(&["1", "2", "3"], Rule::OneTo(3));
    founders.start_all();
    let ready = founders.await_ready(2);
    assert_eq!(ready, BTreeSet::from(["1", "2"]));
    let (level, supported) = founders.levels("1");
    assert_eq!(level, 1, "node 3 has not said which level it supports");
    let says_so = |name: &&str| founders.log(name).contains("begins below the level");
    assert!(["1", "2"].iter().any(says_so));
    let api = founders.api("1");
    let strict = api.post("/v1/tags", &json!({ "tag": "invoices", "order": "strict" }));
    assert_eq!(strict.problem(), (409, "level".to_owned()));
    api.post("/v1/tags", &json!({ "tag": "orders" })).ok();
    // The level rises to what all members support, so a request that names one is not understood.
    let named = api.post("/v1/cluster/level", &json!({ "level": 1 }));
    assert_eq!(named.problem(), (400, "invalid_argument".to_owned()));
    let refused = api.post("/v1/cluster/level", &json!({}));
    assert_eq!(refused.problem(), (409, "level".to_owned()), "{}", refused.text());

    founders.heal();
    founders.await_ready(3);
    eventually("the level to be raised", secs(20), || {
        let raised = founders.api("3").try_post("/v1/cluster/level", &json!({})).ok()?;
        (raised.status == 200 && founders.levels("1") == (supported, supported)).then_some(())
    });
    api.post("/v1/tags", &json!({ "tag": "invoices", "order": "strict" })).ok();
}
