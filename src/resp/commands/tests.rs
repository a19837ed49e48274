use super::*;

#[test]
fn the_document_shows_every_command() {
    let document = include_str!("../../../docs/security.md");
    // Commands with the same rights share a row.
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for command in &COMMANDS[..COMMANDS.len() - UNLISTED] {
        let tags = if command.tags == NoTag { "-" } else { "its tags" };
        let rights = format!("{} | {tags} |", command.needs.cells());
        let name = format!("`{}`", command.name);
        match rows.iter_mut().find(|(known, _)| *known == rights) {
            Some((_, names)) => names.push(name),
            None => rows.push((rights, vec![name])),
        }
    }
    let mut rows: Vec<String> =
        rows.iter().map(|(rights, names)| format!("{} | {rights}", names.join(", "))).collect();
    rows.sort();
    // The requests stand before them; a test of `http` compares those.
    let mut shown: Vec<&str> = document
        .lines()
        .filter(|line| line.ends_with('|') && line.matches(" | ").count() == 6)
        .filter_map(|line| line.split_once(" | "))
        .map(|(_requests, commands)| commands)
        .filter(|commands| commands.starts_with('`'))
        .collect();
    shown.sort_unstable();
    assert_eq!(shown, rows, "docs/security.md must have these cells:\n{}", rows.join("\n"));
}
