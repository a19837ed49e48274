//! Lists in the `--config` file: in the form of flags, or of TOML.

use serde::Deserialize;
use serde::de::Deserializer;

/// A list as flags have it, a text with commas; or as TOML has it.
pub(super) fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry {
        Text(String),
        Number(u64),
    }
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text, or a list of texts")]
    enum List {
        Text(String),
        Entries(Vec<Entry>),
    }
    let text = |entry: Entry| match entry {
        Entry::Text(text) => text,
        Entry::Number(number) => number.to_string(),
    };
    Ok(Some(match List::deserialize(from)? {
        List::Text(text) => text,
        List::Entries(entries) => entries.into_iter().map(text).collect::<Vec<_>>().join(","),
    }))
}

/// One worker id, or a list of them.
pub(super) fn worker_ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u16>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a worker id, or a list of them")]
    enum Ids {
        One(u16),
        Many(Vec<u16>),
    }
    Ok(match Ids::deserialize(from)? {
        Ids::One(id) => vec![id],
        Ids::Many(ids) => ids,
    })
}
