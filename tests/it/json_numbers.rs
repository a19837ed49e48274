//! Ids above 2^53 - 1, which JavaScript rounds where they are bare numbers.

use serde_json::json;

use crate::harness::{Finished, mintleaf};

#[test]
fn a_node_quotes_or_refuses_large_ids_on_leafs_paths_if_it_is_asked_to() {
    for mode in ["allow", "quote", "refuse"] {
        let mut cluster = mintleaf().prepare(1, &["--json-numbers", mode]);
        cluster.start_all();
        let api = cluster.api(1);
        for (tag, shape) in [
            ("large", json!({ "start": "9007199254740991" })),
            ("strict", json!({ "start": "9007199254740991", "order": "strict" })),
            ("text", json!({ "format": "T-{id:020}" })),
        ] {
            let mut new = json!({ "tag": tag });
            new.as_object_mut().unwrap().extend(shape.as_object().unwrap().clone());
            api.post("/v1/tags", &new).ok();
        }
        assert_eq!(api.get("/api/segment/get/text").text(), "T-00000000000000000001", "{mode}");
        for tag in ["large", "strict"] {
            let path = format!("/api/segment/get/{tag}");
            assert_eq!(api.get(&path).text(), "9007199254740991", "a double holds it: {mode}");
            // The media type does not matter: a caller may read any as JSON.
            for accept in ["*/*", "application/json"] {
                let answer = api.get_as(&path, accept);
                match mode {
                    "allow" => assert!(answer.text().starts_with("900719925474099")),
                    "quote" => assert!(answer.text().starts_with("\"900719925474099")),
                    _ => {
                        let code = "json_number_too_large".to_owned();
                        assert_eq!(answer.problem(), (422, code));
                    }
                }
            }
            assert!(api.get(&format!("/v1/segment/{tag}")).ids()[0] > 9_007_199_254_740_991);
        }
        let snowflake = api.get("/api/snowflake/get/any");
        match mode {
            "allow" => assert!(snowflake.text().parse::<u64>().is_ok()),
            "quote" => {
                assert!(snowflake.text().starts_with('"') && snowflake.text().ends_with('"'));
            }
            _ => assert_eq!(snowflake.status, 422),
        }
    }
}

#[test]
fn a_tag_of_large_ids_is_named_in_a_warning() {
    let dev = mintleaf().dev();
    let run = |args: &[&str]| {
        Finished::of(mintleaf().command().args(["tag"]).args(args).args(["--url", &dev.url()]))
    };
    let warned = "exceed 2^53 - 1";
    assert!(!run(&["create", "small"]).stderr.contains(warned));
    let large = run(&["create", "large", "--start", "9007199254740993", "--json"]);
    assert!(large.stderr.contains(warned) && !large.stdout.contains(warned), "{large:?}");
    assert!(run(&["create", "wide", "--digits", "16"]).stderr.contains(warned));
    let raised = run(&["update", "small", "--max-id", "9007199254740993", "--force", "--yes"]);
    assert!(raised.stderr.contains(warned), "{raised:?}");
}
