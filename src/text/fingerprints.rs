//! Fingerprints of keys between nodes, for people.

/// The beginnings of fingerprints: enough to see which node still has the old secret.
pub(crate) fn brief<'a>(fingerprints: impl Iterator<Item = &'a str>) -> String {
    let shown: Vec<&str> = fingerprints.map(|it| it.get(..8).unwrap_or(it)).collect();
    shown.join(",")
}
