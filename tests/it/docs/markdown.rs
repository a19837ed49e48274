//! Just as much of Markdown as the documents use.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A document and its parts.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) path: PathBuf,
    /// Fenced blocks, in order.
    pub(super) blocks: Vec<Block>,
    /// Anchors of the headings.
    pub(super) anchors: Vec<String>,
    /// Text of code within lines.
    pub(super) code: Vec<String>,
    /// Texts and targets of links and images.
    pub(super) links: Vec<(String, String)>,
}

/// A fenced block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) language: String,
    /// The program that it needs and that is not there, as it says itself.
    pub(super) needs: Option<String>,
    /// Nodes that are lost for good before its first command, as the text around it says.
    pub(super) lost: Vec<u64>,
    /// Nodes that are asked to stop before its first command, as the text around it says.
    pub(super) stopped: Vec<u64>,
    /// How long its commands may take.
    pub(super) within: Option<Duration>,
    pub(super) text: String,
}

impl Block {
    pub(super) fn is_shell(&self) -> bool {
        self.language == "sh"
    }

    /// Its commands, each with the answer that the comments behind it show, if that is JSON. Lines that end with a
    /// backslash are one command with the next, and so is a loop.
    pub(super) fn commands(&self) -> Vec<(String, Option<String>)> {
        let mut commands: Vec<(String, Option<String>)> = Vec::new();
        let mut pending = String::new();
        let (mut in_loop, mut in_answer) = (false, false);
        for line in self.text.lines() {
            let line = line.trim();
            if let Some(comment) = line.strip_prefix('#') {
                in_answer |= comment.trim_start().starts_with('{');
                if let Some((_, answer)) = commands.last_mut().filter(|_| in_answer) {
                    answer.get_or_insert_default().push_str(comment);
                }
                continue;
            }
            in_answer = false;
            in_loop |= line.starts_with("while ") || line.starts_with("for ");
            pending.push_str(line.trim_end_matches('\\'));
            in_loop &= !line.starts_with("done");
            if in_loop {
                pending.push('\n');
            } else if !line.ends_with('\\') && !pending.is_empty() {
                commands.push((std::mem::take(&mut pending), None));
            }
        }
        commands
    }
}

impl Document {
    pub(super) fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap();
        Self::parse(path, &text)
    }

    fn parse(path: PathBuf, text: &str) -> Self {
        let (mut blocks, mut anchors) = (Vec::new(), Vec::<String>::new());
        let mut prose = String::new();
        let mut open: Option<Block> = None;
        for line in text.lines() {
            if let Some(info) = line.trim_start().strip_prefix("```") {
                match open.take() {
                    Some(block) => blocks.push(block),
                    None => open = Some(opened(info)),
                }
            } else if let Some(block) = &mut open {
                block.text.push_str(line);
                block.text.push('\n');
            } else {
                if line.starts_with('#') {
                    let anchor = anchor(line.trim_start_matches('#').trim());
                    let again = anchors.iter().filter(|known| **known == anchor).count();
                    anchors.push(if again == 0 { anchor } else { format!("{anchor}-{again}") });
                }
                prose.push_str(line);
                prose.push('\n');
            }
        }
        assert!(open.is_none(), "{}: a block has no end", path.display());
        let code =
            prose.split('`').skip(1).step_by(2).map(|code| code.replace('\n', " ")).collect();
        Self { path, blocks, anchors, code, links: links(&prose) }
    }

    /// The path as `git` prints it.
    pub(super) fn name(&self) -> String {
        self.path.strip_prefix(super::root()).unwrap_or(&self.path).display().to_string()
    }
}

fn opened(info: &str) -> Block {
    let mut words = info.split_whitespace();
    let language = words.next().unwrap_or_default().to_owned();
    let mut block = Block { language, ..Block::default() };
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let nodes = || value.split(',').map(|id| id.parse().unwrap()).collect();
        match name {
            "needs" => block.needs = Some(value.to_owned()),
            "lost" => block.lost = nodes(),
            "stopped" => block.stopped = nodes(),
            "within" => block.within = Some(Duration::from_secs(value.parse().unwrap())),
            _ => panic!("nobody knows {word} of a block"),
        }
    }
    block
}

/// The anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
    heading
        .chars()
        .filter(kept)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect::<String>()
        .to_lowercase()
}

/// Every `[text](target)`.
fn links(prose: &str) -> Vec<(String, String)> {
    let mut links = Vec::new();
    let mut parts = prose.split("](").peekable();
    while let Some(before) = parts.next() {
        let Some(after) = parts.peek() else { break };
        let text = before.rsplit('[').next().unwrap_or_default();
        let target = after.split(')').next().unwrap_or_default();
        links.push((text.to_owned(), target.to_owned()));
    }
    links
}

#[test]
fn a_document_is_taken_apart() {
    let text = "\
# The first `thing`: of 2
See [a `b`](c.md#d), `mintleaf next` and ![e](f.svg).
```sh needs=x
# Only then:
curl a \\
    -d '{}'
# {\"b\":
#  1}
while read -r a; do
  echo
done < b
export A=b
```
";
    let document = Document::parse(PathBuf::from("x.md"), text);
    assert_eq!(document.anchors, ["the-first-thing-of-2"]);
    assert_eq!(document.code, ["thing", "b", "mintleaf next"]);
    let links = [("a `b`", "c.md#d"), ("e", "f.svg")];
    assert_eq!(document.links, links.map(|(text, target)| (text.to_owned(), target.to_owned())));
    let block = &document.blocks[0];
    assert!(block.is_shell() && block.needs.as_deref() == Some("x"));
    let commands = block.commands();
    assert_eq!(commands[0], ("curl a -d '{}'".to_owned(), Some(" {\"b\":  1}".to_owned())));
    assert_eq!(commands[1].0, "while read -r a; do\necho\ndone < b");
    assert_eq!(commands[2].0, "export A=b");
}
