//! The tokens of a node that requires them.

use std::sync::{Arc, LazyLock};

use mintleaf::access::{AuthFile, Tokens, hash_of, written_hash};

/// A token that may take ids of tags that begin with `o`.
pub const TOKEN: &str = "fuzz";

/// The tokens of the node that receives a client's input; `None` if the node requires none. Two bits of the
/// input's second byte decide, which the client's manners do not use.
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

/// Whether the token appears anywhere in the input.
pub fn shows_token(input: &[u8]) -> bool {
    input.windows(TOKEN.len()).any(|bytes| bytes == TOKEN.as_bytes())
}
