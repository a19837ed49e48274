//! Bounds of proposals, log entries and replication messages. They are enforced before memory is taken.

use std::fmt;
use std::marker::PhantomData;

use mintleaf_codec::Blob;
use serde::Deserializer;
use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};

/// Maximum length of a member's address in bytes: the longest host name, a colon and a port. The membership is one
/// log entry that holds all addresses.
pub const ADDRESS_BYTES_MAX: usize = 253 + 6;
/// Maximum number of digits of a port.
const PORT_DIGITS_MAX: usize = 5;
/// Maximum number of commands in one log entry.
pub(crate) const COMMANDS_MAX: usize = 2048;
/// Maximum size of one log entry in bytes; a record of the log engine holds little more.
pub(crate) const BATCH_BYTES_MAX: usize = 60 << 10;
/// Maximum number of entries in one replication message.
pub(crate) const ENTRIES_MAX: usize = 1024;

/// Refuses an address that the membership must not hold.
pub(crate) fn check_address(address: &str) -> Result<(), String> {
    let port = address.rsplit_once(':').map_or("", |(_, port)| port);
    if address.len() <= ADDRESS_BYTES_MAX && port.len() <= PORT_DIGITS_MAX {
        return Ok(());
    }
    Err(format!(
        "an address has {ADDRESS_BYTES_MAX} bytes at most, and its port {PORT_DIGITS_MAX} digits"
    ))
}

/// The bytes that a command occupies in an entry, including its length field.
pub(crate) fn bytes_of(command: &[u8]) -> usize {
    command.len() + 4
}

/// Deserializes the commands of an entry or a proposal, and refuses more than an entry holds.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_bounded_and_so_is_its_port() {
        let longest = format!("{}:65535", "a".repeat(253));
        for sound in ["", "a:1", "[::1]:00080", &longest] {
            assert_eq!(check_address(sound), Ok(()), "{sound}");
        }
        for wrong in ["a:000080", &format!("a{longest}"), &"a".repeat(260)] {
            assert!(check_address(wrong).is_err(), "{wrong}");
        }
    }
}
