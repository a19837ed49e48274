use super::*;
use crate::access::token::{hash_of, written_hash};

fn entry(name: &str, token: &str, rest: &str) -> String {
    let hash = written_hash(&hash_of(token.as_bytes()));
    format!("[[token]]\nname = \"{name}\"\nhash = \"{hash}\"\n{rest}\n")
}

#[track_caller]
fn refused(text: &str, line: usize, why: &str) {
    match AuthFile::parse(text) {
        Err(AuthFileError::Line { line: named, what }) => {
            assert!(named == line && what.contains(why), "line {named}: {what}\n{text}");
        }
        other => panic!("{other:?}\n{text}"),
    }
}

#[test]
fn a_file_lists_tokens_by_their_hash() {
    let text = entry("shop", "s", "role = \"issue\"\ntags = [\"pay*\", \"订单\", \"*\"]")
        + &entry("ops@a.b", "o", "role = \"admin\"");
    let file = AuthFile::parse(&format!("anonymous = \"read\"\n{text}")).unwrap();
    assert_eq!(file.anonymous, Some(Role::Read));
    let [shop, ops] = [b"s", b"o"].map(|token| Arc::clone(&file.by_hash[&hash_of(token)]));
    assert_eq!((shop.name.as_str(), shop.role), ("shop", Role::Issue));
    assert_eq!((ops.name.as_str(), ops.role, &ops.tags), ("ops@a.b", Role::Admin, &None));
    assert!(AuthFile::parse("anonymous = \"issue\"").unwrap().by_hash.is_empty());
}

#[test]
fn the_hash_is_the_sha_256_that_every_tool_computes() {
    // printf 'secret' | sha256sum
    let known = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    assert_eq!(written_hash(&hash_of(b"secret")), known);
    assert_eq!(read_hash(known), Some(hash_of(b"secret")));
}

#[test]
fn a_tag_is_reached_by_its_name_or_its_beginning() {
    let reaches = |globs: &[&str], tag: &str| {
        let tags = Some(checked_tags(globs).unwrap());
        Token { name: String::new(), role: Role::Issue, tags }.reaches(tag.as_bytes())
    };
    for (globs, tag, expected) in [
        (&["pay*"][..], "pay", true),
        (&["pay*"], "payments", true),
        (&["pay*"], "pa", false),
        (&["pay*"], "repay", false),
        (&["pay*"], "Payments", false),
        (&["pay"], "pay", true),
        (&["pay"], "payments", false),
        (&["pay"], "pa", false),
        (&["*"], "anything", true),
        (&["a", "b*"], "bc", true),
        (&["a", "b*"], "ab", false),
        (&["订*"], "订单", true),
    ] {
        assert_eq!(reaches(globs, tag), expected, "{globs:?} {tag}");
    }
}

#[test]
fn what_is_wrong_is_refused_with_its_line_and_without_its_value() {
    let good = entry("a", "a", "role = \"issue\"");
    let field = |rest: &str| entry("a", "a", rest);
    refused(&format!("{good}\nx = 1\n"), 6, "unknown key;");
    refused("\nnobody = 1\n", 2, "unknown key;");
    refused("anonymous = \"root\"\n", 1, "issue, read, backup or admin");
    refused("anonymous = \"backup\"\n", 1, "a backup needs a token");
    refused("anonymous = 1\n", 1, "must be a string");
    refused("token = \"abc\"\n", 1, "[[token]]");
    refused("token = [\"abc\"]\n", 1, "[[token]]");
    refused("[token]\nname = \"a\"\n", 1, "[[token]]");
    refused(&field("role = \"write\""), 4, "issue, read, backup or admin");
    refused(&field(""), 1, "no role");
    refused("[[token]]\nrole = \"read\"\nhash = \"x\"\n", 3, "64 lower-case hex digits");
    refused("[[token]]\nname = \"a\"\nrole = \"read\"\n", 1, "no hash");
    refused(&good.replace("name = \"a\"", ""), 1, "no name");
    refused(&good.replace("\"a\"", "\"a b\""), 2, "name must be");
    refused(&good.replace("\"a\"", "\"\""), 2, "name must be");
    refused(&good.replace("\"a\"", &format!("\"{}\"", "a".repeat(65))), 2, "name must be");
    refused(&format!("{good}{}", entry("a", "b", "role = \"read\"")), 5, "there already");
    refused(&format!("{good}{}", entry("b", "a", "role = \"read\"")), 5, "same hash as a");
    for tags in ["[]", "\"a\"", "[1]", "[\"\"]", "[\"a*b\"]", "[\"**\"]", "[\"*a\"]", "[\"a\\n\"]"]
    {
        refused(&field(&format!("role = \"issue\"\ntags = {tags}")), 5, "tags");
    }
    refused(&field(&format!("role = \"issue\"\ntags = [\"{}\"]", "a".repeat(130))), 5, "tags");
    refused("a = [", 1, "is not TOML");
    refused("anonymous = \"read\"\nanonymous = \"read\"\n", 2, "is not TOML");
    for text in ["", "# nothing\n"] {
        assert!(matches!(AuthFile::parse(text), Err(AuthFileError::Whole(_))), "{text}");
    }
    let many: String = (0..=TOKENS_MAX)
        .map(|n| entry(&format!("t{n}"), &n.to_string(), "role = \"read\""))
        .collect();
    refused(&many, 1, "more than 10000 tokens");
    let most = many.rsplit_once("[[token]]").unwrap().0;
    assert_eq!(AuthFile::parse(most).unwrap().by_hash.len(), TOKENS_MAX);
}

#[test]
fn a_hash_is_lower_case_and_whole() {
    let sound = written_hash(&hash_of(b"a"));
    assert!(read_hash(&sound).is_some());
    for wrong in [
        sound.to_uppercase(),
        sound.replace("sha256:", "SHA256:"),
        sound.to_uppercase().replace("SHA256", "sha256"),
        sound.replace("sha256:", ""),
        sound[..sound.len() - 1].to_owned(),
        format!("{sound}0"),
        format!("{sound}\n"),
        format!("sha512:{}", &sound[7..]),
        "a-token-by-mistake".to_owned(),
    ] {
        assert_eq!(read_hash(&wrong), None, "{wrong}");
        let text = format!("[[token]]\nname = \"a\"\nhash = {wrong:?}\nrole = \"read\"\n");
        let error = AuthFile::parse(&text).unwrap_err().to_string();
        assert!(error.starts_with("line 3: ") && !error.contains(&wrong), "{error}");
    }
}

#[test]
fn an_error_quotes_nothing_of_the_file() {
    for text in [
        "hash = my-token",
        "[[token]]\nhash = \"my-token",
        "my-token",
        "[[my-token",
        "my-token = 1",
        "my-token = 1\nmy-token = 1",
        "[[token]]\nmy-token = \"a\"",
        "[my-token]\n[my-token]",
    ] {
        let error = AuthFile::parse(text).unwrap_err().to_string();
        assert!(!error.contains("my-token"), "{error}");
    }
}
