//! Patterns that select the files of a fault.

/// Whether a pattern matches a path. `*` stands for any characters, including slashes. A pattern without a
/// slash is compared only with the last component of the path.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let subject = if pattern.contains('/') { path } else { name };
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| subject.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_names_or_paths() {
        for (pattern, path, expected) in [
            ("db", "data/log/db", true),
            ("db", "data/log/db2", false),
            ("tail-*", "data/tail-a", true),
            ("tail-*", "data/log/db", false),
            ("data/log/*", "data/log/db", true),
            ("*/current", "data/snapshot/current", true),
            ("log/*", "data/log/db", false),
            ("*", "data/identity", true),
            ("a*b*a", "aba", true),
            ("a*ba", "a-b", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} on {path}");
        }
    }
}
