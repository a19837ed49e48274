//! The page in the two formats that Prometheus reads. They differ in what counters are called in the lines about them,
//! and in the last line.

use std::collections::HashSet;

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0.0, for a scraper that asks for it.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus, for all others.
    Text,
}

impl Exposition {
    /// The format for a client with this `Accept` header.
    pub(crate) fn accepted(accept: Option<&str>) -> Self {
        match accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// The media type of a page.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// A page, written as OpenMetrics without its last line, in this format.
    pub(super) fn of(self, page: String) -> String {
        match self {
            Self::OpenMetrics => page + "# EOF\n",
            Self::Text => as_text(&page),
        }
    }
}

/// The text format has the suffix of counters in the lines about them, too.
fn as_text(page: &str) -> String {
    let counters: HashSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(page.len() + 1024);
    for line in page.lines() {
        if let Some((about, rest)) = line.strip_prefix("# ").and_then(|line| line.split_once(' '))
            && let Some((name, rest)) = rest.split_once(' ')
            && counters.contains(name)
        {
            text.extend(["# ", about, " ", name, "_total ", rest, "\n"]);
        } else {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_their_suffix_in_the_lines_about_them() {
        let page = "# HELP a_ids Ids.\n# TYPE a_ids counter\na_ids_total{mode=\"x\"} 5\n\
                    # HELP a_term Term.\n# TYPE a_term gauge\na_term 7\n";
        let text = "# HELP a_ids_total Ids.\n# TYPE a_ids_total counter\na_ids_total{mode=\"x\"} 5\n\
                    # HELP a_term Term.\n# TYPE a_term gauge\na_term 7\n";
        assert_eq!(Exposition::Text.of(page.to_owned()), text);
        assert_eq!(Exposition::OpenMetrics.of(page.to_owned()), format!("{page}# EOF\n"));
    }

    #[test]
    fn open_metrics_are_for_those_who_ask() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
        assert_eq!(Exposition::accepted(Some(prometheus)), Exposition::OpenMetrics);
        assert_eq!(Exposition::accepted(Some("*/*")), Exposition::Text);
        assert_eq!(Exposition::accepted(None), Exposition::Text);
    }
}
