//! Bounds of proposals, log entries and replication messages, which hold before memory is taken for
//! them.

use std::fmt;
use std::marker::PhantomData;

use mintleaf_storage::codec::Blob;
use serde::Deserializer;
use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};

/// Commands of one log entry at most.
pub(crate) const COMMANDS_MAX: usize = 2048;
/// Bytes of one log entry at most; a record of the log engine holds little more.
pub(crate) const BATCH_BYTES_MAX: usize = 60 << 10;
/// Entries of one replication message at most.
pub(crate) const ENTRIES_MAX: usize = 1024;

/// The bytes of an entry that a command occupies, its length included.
pub(crate) fn bytes_of(command: &[u8]) -> usize {
    command.len() + 4
}

/// Deserializes the commands of an entry or a proposal, and refuses more of them than an entry holds.
pub(crate) fn commands<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Vec<u8>>, D::Error> {
    struct Commands;

    impl<'de> Visitor<'de> for Commands {
        type Value = Vec<Vec<u8>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the commands of one entry")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Self::Value, A::Error> {
            let (mut commands, mut bytes) = (Vec::new(), 0);
            while let Some(Blob(command)) = input.next_element()? {
                bytes += bytes_of(&command);
                if commands.len() == COMMANDS_MAX || bytes > BATCH_BYTES_MAX {
                    return Err(A::Error::custom("more commands than an entry holds"));
                }
                commands.push(command);
            }
            Ok(commands)
        }
    }

    input.deserialize_seq(Commands)
}

/// Deserializes the entries of a replication message, and refuses more than [`ENTRIES_MAX`].
pub(crate) fn entries<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    input: D,
) -> Result<Vec<T>, D::Error> {
    struct Entries<T>(PhantomData<T>);

    impl<'de, T: DeserializeOwned> Visitor<'de> for Entries<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the entries of one message")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = input.next_element()? {
                if entries.len() == ENTRIES_MAX {
                    return Err(A::Error::custom("more entries than a message holds"));
                }
                entries.push(entry);
            }
            Ok(entries)
        }
    }

    input.deserialize_seq(Entries(PhantomData))
}
