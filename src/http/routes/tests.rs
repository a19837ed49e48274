use super::*;

#[test]
fn every_request_needs_the_role_of_what_it_does() {
    for (line, needs, first) in [
        ("GET /api/segment/get/orders", Needs::Issue, Some("orders")),
        ("HEAD /api/segment/get/orders", Needs::Issue, Some("orders")),
        ("POST /api/segment/get/orders", Needs::Issue, Some("orders")),
        ("DELETE /api/snowflake/get/x", Needs::Issue, Some("x")),
        ("GET /v1/segment/a%2Fb", Needs::Issue, Some("a%2Fb")),
        ("GET /v1/snowflake", Needs::Issue, None),
        ("POST /v1/snowflake", Needs::Issue, None),
        ("GET /v1/snowflake/17", Needs::AnyRole, Some("17")),
        ("POST /v1/snowflake/floor", Needs::Admin, None),
        ("GET /decodeSnowflakeId", Needs::AnyRole, None),
        ("POST /decodeSnowflakeId", Needs::AnyRole, None),
        ("GET /", Needs::Nothing, None),
        ("GET /console.js", Needs::Nothing, None),
        ("GET /v1/buffers", Needs::Read, None),
        ("GET /openapi", Needs::Nothing, None),
        ("HEAD /livez", Needs::Nothing, None),
        ("POST /readyz", Needs::Admin, None),
        ("GET /v1/tags", Needs::Read, None),
        ("HEAD /v1/tags/orders", Needs::Read, Some("orders")),
        ("GET /v1/backup", Needs::Backup, None),
        ("HEAD /v1/backup", Needs::Backup, None),
        ("OPTIONS /v1/tags", Needs::Read, None),
        ("OPTIONS /v1/cluster/nodes", Needs::Read, None),
        ("POST /v1/tags", Needs::Admin, None),
        ("PATCH /v1/tags/orders", Needs::Admin, Some("orders")),
        ("DELETE /v1/tags/orders", Needs::Admin, Some("orders")),
        ("POST /v1/import", Needs::Admin, None),
        ("POST /v1/cluster/nodes", Needs::Admin, None),
        ("DELETE /v1/cluster/nodes/3", Needs::Admin, Some("3")),
        ("POST /v1/cluster/leader", Needs::Admin, None),
        ("POST /v1/cluster/level", Needs::Admin, None),
        ("PUT /v1/segment", Needs::Admin, None),
        ("GET /v1/segment/", Needs::Read, None),
        ("GET /v1/segment/a/b", Needs::Read, None),
        ("GET /livez/", Needs::Read, None),
        ("GET /livezz", Needs::Read, None),
        ("GET //livez", Needs::Read, None),
        ("GET ", Needs::Read, None),
        ("POST //api/segment/get/orders", Needs::Admin, None),
        ("POST /v1/t%61gs", Needs::Admin, None),
        ("POST /nothing", Needs::Admin, None),
        ("BREW /livez", Needs::Admin, None),
        ("CONNECT ", Needs::Admin, None),
        ("* /v1/segment/orders", Needs::Issue, Some("orders")),
        ("get /livez", Needs::Admin, None),
    ] {
        let (method, path) = line.split_once(' ').unwrap();
        let demand = route(method, path);
        assert_eq!((demand.needs, demand.first), (needs, first), "{line}");
    }
}

#[test]
fn paths_with_two_names_are_told_from_those_with_one() {
    let pattern = "/v1/sequence/{tag}/{key}/last";
    assert_eq!(fit(pattern, "/v1/sequence/chat/room/last"), Some(Some("chat")));
    for path in ["/v1/sequence/chat/last", "/v1/sequence/chat/a/b/last", "/v1/sequence//a/last"] {
        assert_eq!(fit(pattern, path), None, "{path}");
    }
    assert_eq!(fit("/v1/sequence/{tag}/{key}", "/v1/sequence/chat/room"), Some(Some("chat")));
}

#[test]
fn no_two_rows_fit_one_request() {
    for row in ROUTES {
        let path = row.path.replace(['{', '}'], "");
        let fits = |other: &&Route| {
            (other.method == row.method || other.method == "*" || row.method == "*")
                && fit(other.path, &path).is_some()
        };
        assert_eq!(ROUTES.iter().filter(fits).count(), 1, "{} {}", row.method, row.path);
    }
}

#[test]
fn every_id_path_has_its_own_row() {
    for row in ROUTES.iter().filter(|row| row.handler.is_none()) {
        assert_eq!(of_ids(IdPath::of(row.path).unwrap()).path, row.path);
    }
}

#[test]
fn the_document_shows_every_route() {
    let document = include_str!("../../../docs/security.md");
    let scope = |scope| match scope {
        Scope::NoTag => "-",
        Scope::TagOfPath | Scope::TagOfBody | Scope::TagOfParameter => "its tags",
        Scope::Everything => "no",
    };
    // Requests with the same rights share a row.
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for Route { method, path, needs, scope: of, .. } in ROUTES {
        let name = if *method == "*" { format!("`{path}`") } else { format!("`{method} {path}`") };
        let rights = format!("{} | {}", needs.cells(), scope(*of));
        match rows.iter_mut().find(|(known, _)| *known == rights) {
            Some((_, names)) => names.push(name),
            None => rows.push((rights, vec![name])),
        }
    }
    let rows: Vec<String> = rows
        .iter()
        .map(|(rights, requests)| format!("| {} | {rights} |", requests.join(", ")))
        .collect();
    // The cell of the commands stands between the two; a test of `resp` compares it.
    let without_commands = |line: &str| {
        let (requests, rest) = line.split_once(" | ")?;
        let (_, rights) = rest.split_once(" | ")?;
        Some(format!("{requests} | {rights}"))
    };
    let shown: Vec<String> = document
        .lines()
        .filter(|line| line.ends_with('|') && line.matches(" | ").count() == 6)
        .filter(|line| line.contains("| `"))
        .filter_map(without_commands)
        .collect();
    assert_eq!(shown, rows, "docs/security.md must have these rows:\n{}", rows.join("\n"));
}
