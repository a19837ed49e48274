//! Tokens of a node that asks for them.

use std::sync::{Arc, LazyLock};

use mintleaf::access::{AuthFile, Tokens, hash_of, written_hash};

/// A token that may take ids of tags that begin with `o`.
pub const TOKEN: &str = "fuzz";

/// The tokens of the node that a client's input is sent to; `None` where it asks for none. The second byte of the
/// input says which, by bits that its manners leave.
pub fn tokens(input: &[u8]) -> Option<Arc<Tokens>> {
    static TOKENS: LazyLock<Arc<Tokens>> = LazyLock::new(|| {
        let hash = written_hash(&hash_of(TOKEN.as_bytes()));
        let lines = format!(
            "[[token]]\nname = \"f\"\nhash = \"{hash}\"\nrole = \"issue\"\ntags = [\"o*\"]\n"
        );
        Arc::new(Tokens::new(AuthFile::parse(&lines).expect("it is an auth file")))
    });
    (input.get(1)? & 0xC0 == 0x40).then(|| Arc::clone(&TOKENS))
}

/// Whether the input shows the token anywhere.
pub fn shows_token(input: &[u8]) -> bool {
    input.windows(TOKEN.len()).any(|bytes| bytes == TOKEN.as_bytes())
}
