//! What is done to many tags at once.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{ask, assert_fails, json_of, printed};
use crate::harness::{Dev, Finished, mintleaf};

fn tag(dev: &Dev, name: &str) -> Value {
    json_of(&ask(dev, &["tag", "get", name, "--json"]))
}

#[test]
fn all_tags_are_frozen_at_once_and_thawed_by_their_prefix() {
    let dev = mintleaf().dev();
    for n in 0..40 {
        assert_eq!(ask(&dev, &["tag", "create", &format!("pay-{n}")]).code, Some(0));
    }
    assert_eq!(ask(&dev, &["tag", "create", "orders", "--frozen", "true"]).code, Some(0));
    assert_fails(&ask(&dev, &["next", "orders"]), 1, "frozen");
    assert_eq!(printed(&ask(&dev, &["tag", "freeze", "--all"])), "changed: 40, unchanged: 1\n");
    assert_fails(&ask(&dev, &["next", "pay-7"]), 1, "frozen");
    let thawed =
        json_of(&ask(&dev, &["tag", "update", "--prefix", "pay-1", "--frozen", "false", "--json"]));
    assert_eq!(thawed["changed"].as_array().unwrap().len(), 11, "{thawed}");
    assert_eq!(printed(&ask(&dev, &["next", "pay-1"])), "1\n");
    assert_fails(&ask(&dev, &["next", "pay-2"]), 1, "frozen");

    let limited = ["tag", "update", "--prefix", "", "--rate-limit", "50", "--step", "7"];
    assert_eq!(printed(&ask(&dev, &limited)), "changed: 41, unchanged: 0\n");
    for name in ["orders", "pay-39"] {
        let tag = tag(&dev, name);
        assert_eq!((&tag["rate_limit"], &tag["step"]), (&json!(50), &json!(7)), "{name}");
    }
    assert_eq!(printed(&ask(&dev, &["tag", "freeze", "pay-1", "--json"])), {
        format!("{:#}\n", tag(&dev, "pay-1"))
    });
    for args in [
        &["tag", "update", "--prefix", "pay", "--max-id", "5"][..],
        &["tag", "update", "orders", "--prefix", "pay", "--step", "5"],
        &["tag", "freeze"],
        &["tag", "freeze", "orders", "--all"],
        &["tag", "freeze", "orders", "--prefix", "pay"],
        &["tag", "freeze", "--all", "--prefix", "pay"],
        &["export", "--leaf", "--json"],
    ] {
        assert_eq!(ask(&dev, args).code, Some(2), "{args:?}");
    }
    assert_fails(&ask(&dev, &["tag", "update", "--prefix", "no", "--step", "5"]), 1, "no tag");
}

#[test]
fn each_tag_that_could_not_be_changed_has_a_line() {
    let dev = mintleaf().dev();
    for name in ["a", "b"] {
        assert_eq!(ask(&dev, &["tag", "create", name]).code, Some(0));
    }
    let refused = ask(&dev, &["tag", "update", "--prefix", "", "--step", "0"]);
    assert_eq!((refused.code, &*refused.stdout), (Some(1), "changed: 0, unchanged: 0\n"));
    for says in ["error: a: step must", "error: b: step must", "not changed: 2\n"] {
        assert!(refused.stderr.contains(says), "{refused:?}");
    }
}

#[test]
fn tags_of_one_prefix_are_frozen_and_exported_without_the_others() {
    let dev = mintleaf().dev();
    for name in ["pay", "pay-a", "pa", "shop"] {
        assert_eq!(ask(&dev, &["tag", "create", name]).code, Some(0));
    }
    let export = ["export", "--leaf", "--prefix", "pay"];
    let early = ask(&dev, &export);
    assert!(early.stderr.contains("not frozen: 2"), "{early:?}");
    assert!(early.stderr.ends_with("mintleaf tag freeze --prefix pay\n"), "{early:?}");
    let frozen = ask(&dev, &["tag", "freeze", "--prefix", "pay"]);
    assert_eq!(printed(&frozen), "changed: 2, unchanged: 0\n");
    assert_eq!(tag(&dev, "shop")["frozen"], false);
    let exported = ask(&dev, &export);
    let rows: Vec<&str> = printed(&exported).lines().skip(1).collect();
    assert_eq!(rows.len(), 2, "{exported:?}");
    assert!(rows[0].contains("('pay',") && rows[1].contains("('pay-a',"), "{exported:?}");
    assert_fails(&ask(&dev, &["export", "--leaf", "--prefix", "no"]), 1, "no tag begins with no");
    assert_fails(&ask(&dev, &["tag", "freeze", "--prefix", "no"]), 1, "no tag begins with no");
}

#[test]
fn what_export_prints_is_imported_as_the_same_marks() {
    let dev = mintleaf().dev();
    for (name, start) in [("orders", "7"), ("订单", "70"), (r"it's \ ", "700"), ("\"x`", "7000")]
    {
        let create = ["tag", "create", name.trim(), "--start", start, "--description", "a\\'b"];
        assert_eq!(ask(&dev, &create).code, Some(0), "{name}");
    }
    assert_eq!(ask(&dev, &["tag", "create", "chat", "--kind", "sequence"]).code, Some(0));
    assert_eq!(ask(&dev, &["next", "orders"]).code, Some(0));
    let early = ask(&dev, &["export", "--leaf"]);
    assert_eq!(early.code, Some(0), "{early:?}");
    assert!(early.stderr.contains("not frozen: 4"), "{early:?}");
    assert_eq!(ask(&dev, &["tag", "freeze", "--all"]).code, Some(0));
    let exported = ask(&dev, &["export", "--leaf", "leaf_alloc_frozen"]);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    let left_out = "warning: chat is left out: it is of a kind that Leaf does not have\n";
    assert_eq!(exported.stderr, left_out);
    let mark = tag(&dev, "orders")["max_id"].as_str().unwrap().to_owned();
    let row = format!(
        "INTO `leaf_alloc_frozen` (`biz_tag`, `max_id`, `step`, `description`) VALUES ('orders', {mark}, "
    );
    assert!(exported.stdout.contains(&row), "{exported:?}");

    let imported = |dev: &Dev, dry_run: &[&str]| {
        let mut command = mintleaf().command();
        command.args(["import", "-", "--json", "--url", &dev.url()]).args(dry_run);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        process.stdin.take().unwrap().write_all(exported.stdout.as_bytes()).unwrap();
        json_of(&Finished::from(process.wait_with_output().unwrap()))
    };
    assert_eq!(imported(&dev, &["--dry-run"])["unchanged"], 4);
    let other = mintleaf().dev();
    assert_eq!(imported(&other, &[])["created"], 4);
    for name in ["orders", "订单", r"it's \", "\"x`"] {
        let [here, there] = [&dev, &other].map(|dev| tag(dev, name));
        for field in ["max_id", "step", "description"] {
            assert_eq!(here[field], there[field], "{name}");
        }
    }
}
