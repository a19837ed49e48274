//! `/v1/buffers`: what a node holds of tags, and which tags will make callers wait soonest.

use serde_json::Value;

use super::*;

fn tags(api: Api, query: &str) -> Vec<Value> {
    let page = api.get(&format!("/v1/buffers?{query}")).ok();
    page["tags"].as_array().unwrap().clone()
}

fn names(tags: &[Value]) -> Vec<&str> {
    tags.iter().map(|tag| tag["tag"].as_str().unwrap()).collect()
}

#[test]
fn a_node_shows_the_segments_that_it_holds_and_nothing_of_tags_that_it_was_not_asked_for() {
    let cluster = strict();
    let api = cluster.api(1);
    create(api, "orders", 1000).ok();
    create(api, "rest", 1000).ok();
    assert_eq!(api.get("/v1/segment/orders?count=300").ids().len(), 300);
    let both = eventually("the second segment", secs(5), || {
        let tags = tags(api, "");
        tags[0]["buffer"]["upcoming"].is_object().then_some(tags)
    });
    let orders = &both[0];
    let held = &orders["buffer"];
    assert_eq!((&orders["step"], &held["next_id"]), (&json!(1000), &json!("301")));
    assert_eq!(held["current"], json!({ "start": "1", "end": "1001" }));
    let [start, end, held_ids, to_grab] =
        [&held["upcoming"]["start"], &held["upcoming"]["end"], &held["held"], &held["ids_to_grab"]]
            .map(|number| number.as_str().unwrap().parse::<u64>().unwrap());
    assert_eq!((start, held_ids, &held["handed_out"]), (1001, 700 + end - start, &json!("300")));
    // The rest of this segment, and a tenth of the next.
    assert_eq!((to_grab, &held["grabbing"]), (700 + (end - start).div_ceil(10), &json!(false)));
    assert_eq!((&held["waiting"], &held["exhausted"]), (&json!(0), &json!(false)));
    assert!(held["rate"].as_f64().unwrap() > 1.0 && held["lasts_s"].is_number(), "{held}");
    assert_eq!((&both[1]["tag"], &both[1]["buffer"]), (&json!("rest"), &Value::Null));
    assert_eq!(api.get("/v1/buffers").ok()["total"], 2);
    // Reading the page takes no ids.
    assert_eq!(api.get("/v1/segment/orders").ids(), [301]);
}

#[test]
fn tags_are_found_by_what_they_begin_with_page_by_page() {
    let cluster = strict();
    let api = cluster.api(1);
    for name in ["订单", "订单-退款", "orders", "order-lines", "ordinary", "a b+c", "a b"] {
        create(api, name, 10).ok();
    }
    for path in ["/v1/tags", "/v1/buffers"] {
        let found = |query: &str| {
            let page = api.get(&format!("{path}?{query}")).ok();
            let tags = page["tags"].as_array().unwrap();
            let names = names(tags).into_iter().map(str::to_owned).collect::<Vec<_>>();
            (names, page["next"].as_str().map(str::to_owned))
        };
        let all = |names: &[&str]| (names.iter().map(|name| (*name).to_owned()).collect(), None);
        assert_eq!(found("prefix=order"), all(&["order-lines", "orders"]), "{path}");
        assert_eq!(found("prefix=orders&consistency=stale"), all(&["orders"]));
        assert_eq!(found(&format!("prefix={}", encoded("订"))), all(&["订单", "订单-退款"]));
        assert_eq!(found("prefix=a+b"), all(&["a b", "a b+c"]));
        assert_eq!(found("prefix=zz"), all(&[]));
        let one = (vec!["order-lines".to_owned()], Some("order-lines".to_owned()));
        assert_eq!(found("prefix=ord&limit=1"), one);
        assert_eq!(found("prefix=ord&after=order-lines"), all(&["orders", "ordinary"]));
        assert_eq!(found("prefix=order&after=zz"), all(&[]));
        assert_eq!(found("prefix=").0.len(), 7);
        let twice = api.get(&format!("{path}?prefix=a&prefix=b"));
        assert_eq!(refusal(&twice, 400, path).0, "invalid_argument");
    }
}

#[test]
fn those_that_wait_soonest_come_first_and_those_at_rest_not_at_all() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let follower = cluster.ids().into_iter().find(|id| *id != leader).unwrap();
    let api = cluster.api(follower);
    for (tag, step) in [("long", 100_000), ("short", 20), ("rest", 10), ("icy", 10)] {
        create(api, tag, step).ok();
    }
    for tag in ["long", "short", "icy"] {
        assert_eq!(api.get(&format!("/v1/segment/{tag}")).ids().len(), 1);
    }
    api.patch("/v1/tags/icy", &json!({ "frozen": true })).ok();
    let soonest = eventually("the tags in use", secs(10), || {
        let tags = tags(api, "sort=need");
        (names(&tags) == ["short", "long"]).then_some(tags)
    });
    assert!(soonest[0]["buffer"]["lasts_s"].as_f64() < soonest[1]["buffer"]["lasts_s"].as_f64());
    assert_eq!(names(&tags(api, "sort=need&limit=1")), ["short"]);
    assert_eq!(names(&tags(api, "sort=need&prefix=l")), ["long"]);
    assert_eq!(names(&tags(api, "sort=need&after=long")), ["short"]);

    // Without the other nodes, no more ids come. Callers wait, and the page still shows what is held.
    for id in cluster.ids().into_iter().filter(|id| *id != follower) {
        cluster.kill(id);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| api.get("/v1/segment/long?count=1000000&format=ranges"));
        eventually("a caller that waits", secs(10), || {
            let tags = tags(api, "sort=need&consistency=stale");
            (tags[0]["tag"] == "long" && tags[0]["buffer"]["waiting"] == 1).then_some(())
        });
    });
}

#[test]
fn registers_show_their_keys_and_how_many_all_of_them_may_have() {
    let mut cluster = mintleaf().prepare(1, &["--register-keys-max", "20"]);
    cluster.start_all();
    let api = cluster.api(1);
    for tag in ["bills", "notes"] {
        api.post("/v1/tags", &json!({ "tag": tag, "kind": "register" })).ok();
    }
    create(api, "orders", 1000).ok();
    for key in ["a", "b", "a"] {
        api.post(&format!("/v1/register/bills/{key}"), &json!({})).ok();
    }
    api.post("/v1/register/notes/a", &json!({})).ok();
    let page = api.get("/v1/buffers").ok();
    let of = |at: usize| (&page["tags"][at]["keys"], &page["tags"][at]["taken_here"]);
    assert_eq!(of(0), (&json!("2"), &json!("2")));
    assert_eq!(of(1), (&json!("1"), &json!("1")));
    assert_eq!(of(2), (&Value::Null, &Value::Null));
    assert_eq!([&page["register_keys"], &page["register_keys_max"]], [&json!("3"), &json!("20")]);
}

/// What a node names as refused lately: tags and codes.
fn refused(api: Api) -> Vec<[String; 2]> {
    let page = api.get("/v1/buffers?sort=need&consistency=stale").ok();
    let refused = page["refused"].as_array().unwrap().iter();
    refused.map(|it| ["tag", "code"].map(|field| it[field].as_str().unwrap().to_owned())).collect()
}

#[test]
fn a_tag_whose_callers_are_refused_is_named_where_they_asked_until_it_gives_ids_again() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let (api, other) = (cluster.api(leader), cluster.api(cluster.others(leader)[0]));
    create(api, "orders", 10).ok();
    let few = json!({ "tag": "few", "start": "9223372036854775805", "order": "strict" });
    api.post("/v1/tags", &few).ok();
    let keys = json!({ "tag": "keys", "kind": "sequence", "frozen": true });
    api.post("/v1/tags", &keys).ok();
    api.post("/v1/tags", &json!({ "tag": "cold", "frozen": true })).ok();
    assert_eq!(api.get("/v1/segment/orders").ids().len(), 1);
    assert_eq!(refused(api), [] as [[String; 2]; 0]);
    assert_eq!(api.get("/v1/segment/few?count=100").problem().1, "exhausted");
    assert_eq!(api.get("/v1/sequence/keys/a").problem().1, "frozen");
    assert_eq!(api.get("/v1/segment/cold").problem().1, "frozen");
    let named = [["cold", "frozen"], ["keys", "frozen"], ["few", "exhausted"]];
    assert_eq!(refused(api), named);
    assert_eq!(refused(other), [] as [[String; 2]; 0], "no caller was refused there");
    api.patch("/v1/tags/cold", &json!({ "frozen": false })).ok();
    api.delete("/v1/tags/few");
    assert_eq!(refused(api), [["keys", "frozen"]]);
}

#[test]
fn ids_that_the_leader_hands_out_are_counted_where_callers_took_them() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let (api, other) = (cluster.api(leader), cluster.api(cluster.others(leader)[0]));
    api.post("/v1/tags", &json!({ "tag": "ledger", "order": "strict" })).ok();
    api.post("/v1/tags", &json!({ "tag": "rooms", "kind": "sequence" })).ok();
    create(api, "orders", 10).ok();
    assert_eq!(api.get("/v1/segment/orders").ids().len(), 1);
    assert_eq!(api.get("/v1/segment/ledger").ids().len(), 1);
    assert_eq!(other.get("/v1/segment/ledger?count=20").ids().len(), 20);
    other.get("/v1/sequence/rooms/a?count=7").ok();
    let taken = |api: Api| {
        let tags = tags(api, "consistency=stale");
        tags.iter().map(|tag| tag["taken_here"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(taken(api), [json!("1"), Value::Null, Value::Null]);
    assert_eq!(taken(other), [json!("20"), Value::Null, json!("7")]);
    // Both nodes apply the same entries, whichever node reserved.
    let reserved = |api: Api| {
        let page = api.get("/metrics");
        let line =
            page.text().lines().find_map(|it| it.strip_prefix("mintleaf_ids_reserved_total "));
        line.unwrap().parse::<u64>().unwrap()
    };
    assert!(reserved(api) >= 28, "{}", reserved(api));
    eventually("the same count", secs(10), || (reserved(api) == reserved(other)).then_some(()));
}

/// The number of tags that a node reports to hold ids of.
fn loaded(api: Api) -> u64 {
    let page = api.get("/metrics");
    let line = page.text().lines().find_map(|line| line.strip_prefix("mintleaf_tags_loaded "));
    line.unwrap().parse().unwrap()
}

#[test]
fn what_is_held_of_shaped_tags_is_shown_by_the_node_that_holds_it() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let follower = cluster.others(leader)[0];
    let (led, api) = (cluster.api(leader), cluster.api(follower));
    for tag in [
        json!({ "tag": "coupons", "digits": 6 }),
        json!({ "tag": "daily", "period": "day", "time_zone": "Asia/Kolkata" }),
        json!({ "tag": "plain" }),
        json!({ "tag": "rooms", "kind": "sequence" }),
        json!({ "tag": "strict", "order": "strict", "step": 100 }),
        json!({ "tag": "strict-monthly", "order": "strict", "period": "month" }),
    ] {
        led.post("/v1/tags", &tag).ok();
    }
    let next = |path: &str| {
        eventually("an id", secs(10), || {
            let answer = api.try_get(path).ok().filter(|answer| answer.status == 200)?;
            Some(answer.json()["period"].as_str().unwrap_or_default().to_owned())
        })
    };
    next("/v1/segment/coupons?count=10");
    let today = next("/v1/segment/daily?count=10");
    next("/v1/segment/plain?count=10");
    next("/v1/sequence/rooms/a?count=10");
    next("/v1/segment/strict?count=10");
    let month = next("/v1/segment/strict-monthly?count=10");

    let held = |api: Api| tags(api, "consistency=stale");
    let on_follower = held(api);
    let listed = ["coupons", "daily", "plain", "rooms", "strict", "strict-monthly"];
    assert_eq!(names(&on_follower), listed);
    let [coupons, daily, plain, rooms, strict, monthly] = on_follower.as_slice() else { panic!() };
    for (tag, period) in [(coupons, Value::Null), (daily, json!(today)), (plain, Value::Null)] {
        let buffer = &tag["buffer"];
        assert_eq!((&tag["held_by"], &buffer["period"]), (&Value::Null, &period), "{tag}");
        assert_eq!((&buffer["next_id"], &buffer["handed_out"]), (&json!("11"), &json!("10")));
    }
    for tag in [rooms, strict, monthly] {
        assert_eq!((&tag["held_by"], &tag["buffer"]), (&json!(leader), &Value::Null), "{tag}");
    }

    let on_leader = held(led);
    for (at, period) in [(4, Value::Null), (5, json!(month))] {
        let (tag, buffer) = (&on_leader[at], &on_leader[at]["buffer"]);
        assert_eq!((&tag["held_by"], &buffer["period"]), (&json!(leader), &period), "{tag}");
        let start = buffer["current"]["start"].as_str().unwrap().parse::<u64>().unwrap();
        assert_eq!((start, &buffer["next_id"]), (1, &json!("11")), "{tag}");
        assert_eq!((&buffer["handed_out"], &buffer["waiting"]), (&json!("10"), &json!(0)));
    }
    assert!(on_leader[..4].iter().all(|tag| tag["buffer"].is_null()), "{on_leader:?}");

    // The follower holds three by itself. The leader holds the two strict ones, and the sequence with its keys.
    assert_eq!((loaded(api), loaded(led)), (3, 3));
    let in_use = |api: Api| {
        let mut tags = tags(api, "sort=need&consistency=stale");
        tags.sort_by_key(|tag| tag["tag"].to_string());
        names(&tags).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(in_use(api), ["coupons", "daily", "plain"]);
    assert_eq!(in_use(led), ["strict", "strict-monthly"]);
    let page = led.get("/cache");
    for shown in ["<td>strict</td><td>true</td>", "<td>strict-monthly</td><td>true</td>"] {
        assert!(page.text().contains(shown), "{}", page.text());
    }

    led.patch("/v1/tags/strict", &json!({ "frozen": true })).ok();
    eventually("the frozen tag to be left out", secs(5), || {
        (in_use(led) == ["strict-monthly"]).then_some(())
    });
    assert_eq!(led.delete("/v1/tags/strict-monthly").status, 204);
    eventually("the deleted tag to be dropped", secs(5), || (loaded(led) == 2).then_some(()));
}
