use super::*;
use crate::access::{Role, Scope};
use crate::http::routes::{ROUTES, Route};

/// The roles that may do it, as a row of a table in Markdown.
fn cells(needs: Needs) -> String {
    let may = |role: Role| if role.is_enough_for(needs) { "yes" } else { "-" };
    let nobody = if needs == Needs::Nothing { "yes" } else { "-" };
    // What `backup` may do is said in one sentence.
    let [issue, read, _, admin] = Role::ALL.map(may);
    format!("{nobody} | {issue} | {read} | {admin}")
}

#[test]
fn the_document_shows_the_matrix() {
    let document = include_str!("../../../docs/security.md");
    let scope = |scope| match scope {
        Scope::NoTag => "-",
        Scope::TagOfPath | Scope::TagOfBody | Scope::TagOfParameter => "its tags",
        Scope::Everything => "no",
    };
    // Requests and commands with the same rights share a row.
    let mut rows: Vec<(String, [Vec<String>; 2])> = Vec::new();
    let mut add = |rights: String, column: usize, name: String| {
        let at = rows.iter().position(|(known, _)| *known == rights).unwrap_or_else(|| {
            rows.push((rights, [Vec::new(), Vec::new()]));
            rows.len() - 1
        });
        rows[at].1[column].push(name);
    };
    for Route { method, path, needs, scope: of, .. } in ROUTES {
        let name = if *method == "*" { format!("`{path}`") } else { format!("`{method} {path}`") };
        add(format!("{} | {}", cells(*needs), scope(*of)), 0, name);
    }
    for rule in COMMANDS.iter().filter(|rule| !["POST", "HOST:"].contains(&rule.name)) {
        let tags = if rule.tags == NamedTags::None { "-" } else { "its tags" };
        add(format!("{} | {tags}", cells(rule.needs)), 1, format!("`{}`", rule.name));
    }
    let cell = |names: &[String]| if names.is_empty() { "-".to_owned() } else { names.join(", ") };
    let rows: Vec<String> = rows
        .iter()
        .map(|(rights, [requests, commands])| {
            format!("| {} | {} | {rights} |", cell(requests), cell(commands))
        })
        .collect();
    let shown: Vec<&str> = document
        .lines()
        .filter(|line| line.ends_with('|') && line.matches(" | ").count() == 6)
        .filter(|line| line.contains("| `"))
        .collect();
    assert_eq!(shown, rows, "docs/security.md must have these rows:\n{}", rows.join("\n"));
}
