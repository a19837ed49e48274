//! Media types, and which of the types that a client accepts an answer has. The rules are those of Spring 4, which Leaf
//! runs on, including the odd ones: a type that is more specific comes before one of higher quality, `q=0` refuses
//! nothing, and one malformed range spoils the whole `Accept`.

use std::cmp::Ordering;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// Maximum number of media ranges of one request that count; the others are ignored.
const RANGES_MAX: usize = 31;

/// A media range, or a media type where it has no wildcard.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MediaType {
    /// In lower case, as is the subtype.
    kind: String,
    subtype: String,
    /// Its parameters except `q`, as they came.
    parameters: Vec<(String, String)>,
    quality: Option<f64>,
}

impl MediaType {
    /// The type without parameters.
    pub(super) fn new(kind: &str, subtype: &str) -> Self {
        let (kind, subtype) = (kind.to_ascii_lowercase(), subtype.to_ascii_lowercase());
        Self { kind, subtype, parameters: Vec::new(), quality: None }
    }

    /// Reads one media range; `None` when it is malformed.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = split_unquoted(text).map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        // Java's own client writes `*/*` as a lone star.
        let (kind, subtype) = if name == "*" { ("*", "*") } else { name.split_once('/')? };
        if !is_token(kind) || !is_token(subtype) || (kind == "*" && subtype != "*") {
            return None;
        }
        let mut read = Self::new(kind, subtype);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let is_sound = is_token(name) && (is_token(value) || is_quoted(value));
            if !is_sound {
                return None;
            }
            if name == "q" {
                let quality = value.trim_matches('"').parse::<f64>().ok()?;
                read.quality = Some(quality).filter(|quality| (0.0..=1.0).contains(quality));
                read.quality?;
            } else if name == "charset" && !is_charset(value.trim_matches('"')) {
                return None;
            } else {
                read.parameters.retain(|(earlier, _)| !earlier.eq_ignore_ascii_case(name));
                read.parameters.push((name.to_owned(), value.to_owned()));
            }
        }
        Some(read)
    }

    /// Whether it is this type, whatever its parameters.
    pub(super) fn is(&self, kind: &str, subtype: &str) -> bool {
        self.kind == kind && self.subtype == subtype
    }

    /// Whether it is a type of this kind.
    pub(super) fn is_of_kind(&self, kind: &str) -> bool {
        self.kind == kind
    }

    /// A parameter as it came, without its quotes.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(given, _)| given.eq_ignore_ascii_case(name))?;
        Some(found.1.trim_matches('"'))
    }

    /// The type as a header has it, with a charset: its own, if digits and ASCII are the same in that, or else UTF-8.
    pub(super) fn named(&self) -> String {
        const NAMES: [&str; 4] = ["UTF-8", "UTF8", "US-ASCII", "ISO-8859-1"];
        let own = self.parameter("charset").filter(|own| is_any(own, &NAMES));
        let charset = own.unwrap_or("UTF-8");
        let mut text = format!("{}/{}", self.kind, self.subtype);
        let others =
            self.parameters.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("charset"));
        for (name, value) in others {
            text += &format!("; {name}={value}");
        }
        text + ";charset=" + charset
    }

    fn has_wild_kind(&self) -> bool {
        self.kind == "*"
    }

    fn has_wild_subtype(&self) -> bool {
        self.subtype == "*" || self.subtype.starts_with("*+")
    }

    fn is_concrete(&self) -> bool {
        !self.has_wild_kind() && !self.has_wild_subtype()
    }

    fn fits(&self, other: &Self) -> bool {
        if self.has_wild_kind() || other.has_wild_kind() {
            return true;
        }
        let suffix = |media_type: &Self| -> Option<String> {
            media_type.subtype.rsplit_once('+').map(|(_, suffix)| suffix.to_owned())
        };
        let is_wild = self.has_wild_subtype() || other.has_wild_subtype();
        let wild = |media_type: &Self| media_type.subtype.starts_with("*+");
        self.kind == other.kind
            && (self.subtype == other.subtype
                || is_wild
                    && match (suffix(self), suffix(other)) {
                        (None, None) => true,
                        (Some(one), Some(two)) => one == two && (wild(self) || wild(other)),
                        _ => false,
                    })
    }

    fn quality(&self) -> f64 {
        self.quality.unwrap_or(1.0)
    }

    /// The order of two types by their wildcards, if these differ.
    fn by_wildcards(&self, other: &Self) -> Option<Ordering> {
        let wild_last = |one: bool, two: bool| (one != two).then(|| one.cmp(&two));
        wild_last(self.has_wild_kind(), other.has_wild_kind())
            .or_else(|| (self.kind != other.kind).then_some(Ordering::Equal))
            .or_else(|| wild_last(self.has_wild_subtype(), other.has_wild_subtype()))
            .or_else(|| (self.subtype != other.subtype).then_some(Ordering::Equal))
    }

    fn by_quality(&self, other: &Self) -> Ordering {
        other.quality().total_cmp(&self.quality())
    }

    fn by_parameters(&self, other: &Self) -> Ordering {
        let count =
            |media_type: &Self| media_type.parameters.len() + media_type.quality.iter().len();
        count(other).cmp(&count(self))
    }

    fn by_specificity(&self, other: &Self) -> Ordering {
        self.by_wildcards(other)
            .unwrap_or_else(|| self.by_quality(other).then_with(|| self.by_parameters(other)))
    }

    /// The order of choice. It is not a mathematical order: three types can form a cycle.
    fn by_choice(&self, other: &Self) -> Ordering {
        self.by_specificity(other)
            .then_with(|| self.by_quality(other))
            .then_with(|| self.by_wildcards(other).unwrap_or_else(|| self.by_parameters(other)))
    }
}

/// What the client accepts, best first: `*/*` where it does not say. `None` when that is malformed.
pub(super) fn accepted(headers: &HeaderMap) -> Option<Vec<MediaType>> {
    let mut ranges = Vec::new();
    for value in headers.get_all(ACCEPT) {
        let texts = value.to_str().ok()?.split(',').map(str::trim);
        for text in texts.filter(|text| !text.is_empty()).take(RANGES_MAX - ranges.len()) {
            ranges.push(MediaType::parse(text)?);
        }
    }
    if ranges.is_empty() {
        ranges.push(MediaType::new("*", "*"));
    }
    sort(&mut ranges);
    Some(ranges)
}

/// The type of an answer that can have these, best first; `None` when the client accepts none of them.
pub(super) fn chosen(accepted: &[MediaType], producible: &[MediaType]) -> Option<MediaType> {
    let mut fitting = Vec::new();
    for wanted in accepted {
        for produced in producible.iter().filter(|produced| wanted.fits(produced)) {
            let quality = wanted.quality.or(produced.quality);
            let produced = MediaType { quality, ..produced.clone() };
            let narrower = match wanted.by_specificity(&produced) {
                Ordering::Less | Ordering::Equal => wanted.clone(),
                Ordering::Greater => produced,
            };
            if !fitting.contains(&narrower) {
                fitting.push(narrower);
            }
        }
    }
    sort(&mut fitting);
    let plain =
        |media_type: &MediaType| media_type.parameters.is_empty() && media_type.quality.is_none();
    let first = fitting.into_iter().find(|fit| {
        fit.is_concrete() || (plain(fit) && (fit.is("*", "*") || fit.is("application", "*")))
    })?;
    let any = MediaType::new("application", "octet-stream");
    Some(if first.is_concrete() { MediaType { quality: None, ..first } } else { any })
}

/// Sorts as Java does up to 31 elements, which matters where types form a cycle: the run at the front of the list comes
/// first, then each other element by a binary search.
fn sort(types: &mut [MediaType]) {
    let descends = |types: &[MediaType], at: usize| types[at].by_choice(&types[at - 1]).is_lt();
    let mut sorted = types.len().min(2);
    if sorted == 2 {
        let falling = descends(types, 1);
        while sorted < types.len() && descends(types, sorted) == falling {
            sorted += 1;
        }
        if falling {
            types[..sorted].reverse();
        }
    }
    for at in sorted..types.len() {
        let (mut place, mut end) = (0, at);
        while place < end {
            let middle = (place + end) / 2;
            match types[at].by_choice(&types[middle]).is_lt() {
                true => end = middle,
                false => place = middle + 1,
            }
        }
        types[place..=at].rotate_right(1);
    }
}

/// The parts of a media range between semicolons that stand outside of quotes.
fn split_unquoted(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |character| {
        quoted ^= character == '"';
        character == ';' && !quoted
    })
}

/// Whether Java has a charset of this name or of one that begins like it.
fn is_charset(name: &str) -> bool {
    const BEGINNINGS: [&str; 16] = [
        "UTF",
        "ISO",
        "US-ASCII",
        "ASCII",
        "LATIN",
        "WINDOWS-",
        "CP",
        "IBM",
        "GB",
        "BIG5",
        "EUC-",
        "SHIFT_JIS",
        "JIS",
        "KOI8-",
        "TIS",
        "X-",
    ];
    BEGINNINGS
        .iter()
        .any(|begin| name.get(..begin.len()).is_some_and(|head| head.eq_ignore_ascii_case(begin)))
}

fn is_any(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn is_quoted(text: &str) -> bool {
    text.len() >= 2 && text.starts_with('"') && text.ends_with('"')
}

fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests;
