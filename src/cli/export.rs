//! `mintleaf export --leaf`: the marks of all tags, as SQL for the table of a Leaf that goes on from them.

use std::fmt::Write;

use clap::Args;
use mintleaf_core::limits::ID_MAX;
use serde_json::Value;

use super::client::Client;
use super::failure::Failure;
use super::output::{cell, complain, print_as_it_is, warn};
use super::table::word;
use super::tag::many;

/// For which system.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Print SQL for this table of Leaf: each tag's row is inserted, or its max_id is raised
    #[arg(long, value_name = "TABLE", required = true, num_args = 0..=1)]
    #[arg(default_missing_value = "leaf_alloc", value_parser = table, conflicts_with = "json")]
    leaf: String,
    /// Only tags whose names begin with this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    prefix: String,
}

/// A table's name that needs no escape within backquotes.
fn table(text: &str) -> Result<String, &'static str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_$".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("must be a table's name, of letters, digits, _ and $"),
    }
}

pub(super) async fn run(args: &ExportArgs, client: &Client) -> Result<(), Failure> {
    let tags = many::listed(client, &args.prefix).await?;
    let mut sql = "SET NAMES utf8mb4;\n".to_owned();
    let (mut unfit, mut thawed) = (0, 0_usize);
    for tag in &tags {
        let name = cell(tag, "tag");
        if let Some(why) = foreign(tag) {
            warn(&format!("{name} is left out: {why}"));
            continue;
        }
        match statement(&args.leaf, tag) {
            Ok(statement) => {
                sql += &statement;
                thawed += usize::from(tag["frozen"] != true);
            }
            Err(why) => {
                complain(&Failure::new(format!("{name}: {why}")));
                unfit += 1;
            }
        }
    }
    if thawed > 0 {
        warn(&format!(
            "tags that are not frozen: {thawed}. Nodes go on to give their ids above these marks, and Leaf would repeat \
             them: first mintleaf tag freeze {}",
            if args.prefix.is_empty() {
                "--all".to_owned()
            } else {
                format!("--prefix {}", word(&args.prefix))
            }
        ));
    }
    print_as_it_is(&sql)?;
    match unfit {
        0 => Ok(()),
        unfit => Err(Failure::new(format!("tags that Leaf cannot go on with: {unfit}"))),
    }
}

/// Why Leaf cannot have a tag at all. Such a tag was made here, so Leaf's table has no row of it.
fn foreign(tag: &Value) -> Option<&'static str> {
    if tag["kind"].as_str().is_some_and(|kind| kind != "segment") {
        return Some("it is of a kind that Leaf does not have");
    }
    if !tag["period"].is_null() {
        return Some("its ids begin again with each period");
    }
    (!tag["digits"].is_null()).then_some("its ids are hidden, and follow no mark")
}

/// The statement that has Leaf's table hold the mark of a tag, or why there is none.
fn statement(table: &str, tag: &Value) -> Result<String, &'static str> {
    let text = |field: &str| literal(tag[field].as_str().unwrap_or_default());
    let max_id = tag["max_id"].as_str().and_then(|mark| mark.parse::<u64>().ok());
    let step = tag["step"].as_u64().unwrap_or_default();
    let max_id = max_id.ok_or("it has no mark")?;
    if max_id.checked_add(step).is_none_or(|next| next > ID_MAX) {
        return Err("it has too few ids left for Leaf's columns");
    }
    Ok(format!(
        "INSERT INTO `{table}` (`biz_tag`, `max_id`, `step`, `description`) VALUES ({}, {max_id}, {step}, {}) \
         ON DUPLICATE KEY UPDATE `max_id` = GREATEST(`max_id`, {max_id});\n",
        text("tag"),
        text("description")
    ))
}

/// A text for MySQL and MariaDB in any mode. Whether a backslash escapes depends on the mode, so a text with one is
/// given by its bytes, and so is one with characters that a client might not pass on.
fn literal(text: &str) -> String {
    if !text.contains(|c: char| c == '\\' || c.is_control()) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut literal = "_utf8mb4 0x".to_owned();
    for byte in text.bytes() {
        // Writing to a `String` cannot fail.
        let _ = write!(literal, "{byte:02X}");
    }
    literal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaf_tables;
    use serde_json::json;

    #[test]
    fn what_is_printed_is_read_again_as_the_same_tags() {
        let names = ["orders", "it's", r"back\slash\'", "订单", "\"a`b\"", "a;b -- c", "tab\there"];
        let sql: String = names
            .iter()
            .zip(1_u64..)
            .map(|(name, max_id)| {
                let tag = json!({"tag": name, "max_id": max_id.to_string(), "step": 7, "description": format!("of {name}")});
                statement("leaf_alloc_frozen", &tag).unwrap()
            })
            .collect();
        let read = leaf_tables::read(format!("SET NAMES utf8mb4;\n{sql}").as_bytes()).unwrap();
        let faults: Vec<_> = read.faults.iter().map(|fault| fault.line).collect();
        // Names with control characters are of older clusters: they are not imported again.
        assert_eq!(faults, [8]);
        for ((row, name), max_id) in read.rows.iter().zip(names).zip(1_u64..) {
            assert_eq!((row.tag.as_str(), row.max_id, row.step), (name, max_id, 7));
            assert_eq!(row.description, format!("of {name}"));
        }
        assert_eq!(read.rows.len(), 6);
    }

    #[test]
    fn no_literal_depends_on_the_mode_of_the_server() {
        for (text, wanted) in [
            ("a", "'a'"),
            ("it's", "'it''s'"),
            ("a\"b", "'a\"b'"),
            (r"a\", "_utf8mb4 0x615C"),
            ("\0", "_utf8mb4 0x00"),
            ("é\n", "_utf8mb4 0xC3A90A"),
        ] {
            assert_eq!(literal(text), wanted);
        }
    }

    #[test]
    fn tags_that_leaf_cannot_go_on_with_get_no_statement() {
        let plain = json!({"tag": "a", "max_id": "5", "step": 1, "kind": "segment", "period": null, "digits": null});
        let with = |field: &str, value: Value| {
            let mut tag = plain.clone();
            tag[field] = value;
            tag
        };
        assert!(foreign(&plain).is_none() && statement("t", &plain).is_ok());
        for (field, value) in
            [("kind", json!("sequence")), ("period", json!("day")), ("digits", json!(12))]
        {
            assert!(foreign(&with(field, value)).is_some(), "{field}");
        }
        for mark in [json!(null), json!("9223372036854775807"), json!("9223372036854775808")] {
            assert!(statement("t", &with("max_id", mark)).is_err());
        }
    }
}
