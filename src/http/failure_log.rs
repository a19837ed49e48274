//! The log lines of requests that failed by the node's fault, not by their sender's: a few in each second.

use std::sync::Arc;

use axum::http::Method;
use parking_lot::Mutex;

use super::problem::Problem;

/// Lines in one second at most; the first line of a later second counts what was left out.
const LINES_PER_SECOND: u64 = 10;
/// Characters of a path that a line shows at most.
const PATH_CHARACTERS_MAX: usize = 200;

/// The lines of one node; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct FailureLog(Arc<Mutex<Written>>);

/// What was written in one second.
#[derive(Debug, Default)]
struct Written {
    second: u64,
    lines: u64,
    left_out: u64,
}

impl FailureLog {
    /// Writes the line of a request that failed at `now_s`, if there is room for it.
    pub(super) fn note(
        &self,
        problem: &Problem,
        method: &Method,
        path: &str,
        request_id: Option<&str>,
        now_s: u64,
    ) {
        let Some(left_out) = self.0.lock().take_line(now_s) else { return };
        let path: String = path.chars().take(PATH_CHARACTERS_MAX).collect();
        let (status, code) = (problem.status().as_u16(), problem.code());
        let method = method.as_str();
        if left_out > 0 {
            tracing::warn!(left_out, "lines of failed requests were left out");
        }
        tracing::warn!(
            request_id,
            method,
            path,
            status,
            code,
            "a request failed: {}",
            problem.detail()
        );
    }
}

impl Written {
    /// Whether there is room for one more line, and how many were left out before it.
    fn take_line(&mut self, now_s: u64) -> Option<u64> {
        if self.second != now_s {
            (self.second, self.lines) = (now_s, 0);
        }
        if self.lines == LINES_PER_SECOND {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_failures_leaves_ten_lines_a_second_and_their_count() {
        let mut written = Written::default();
        let mut lines =
            |second| (0..25).filter_map(|_| written.take_line(second)).collect::<Vec<_>>();
        assert_eq!(lines(7), [0; 10]);
        assert_eq!(lines(8)[..2], [15, 0]);
    }
}
