//! Who makes an admin change.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::ACTOR_CHARS_MAX;
use crate::tag::exceeds;

/// The name that an admin change is recorded under: 1 to [`ACTOR_CHARS_MAX`] characters, none of them a
/// control character.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Actor(Box<str>);

impl Actor {
    /// Takes `name` for an actor; `None` when it is empty, too long or holds a control character.
    pub fn parse(name: &str) -> Option<Self> {
        let fits = !name.is_empty() && !exceeds(name, ACTOR_CHARS_MAX);
        (fits && !name.chars().any(char::is_control)).then(|| Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Actor {
    /// The actor without a proven name: `anonymous`.
    fn default() -> Self {
        Self("anonymous".into())
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for Actor {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::parse(&name).ok_or("an actor is empty, too long, or has control characters")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_bounded_wherever_it_comes_from() {
        let longest = "订".repeat(ACTOR_CHARS_MAX);
        assert_eq!(Actor::parse(&longest).unwrap().as_str(), longest);
        for unfit in ["", "a\nb", &format!("{longest}x")] {
            assert_eq!(Actor::parse(unfit), None, "{unfit:?}");
            assert!(Actor::try_from(unfit.to_owned()).is_err(), "{unfit:?}");
        }
        assert_eq!(Actor::parse("anonymous"), Some(Actor::default()));
    }
}
