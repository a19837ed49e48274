//! The answer to a client whose request hyper could not read.
//!
//! hyper answers such a request by itself, with a head alone, and ends the connection. The body that every other
//! refusal has is put behind that head before it is sent.

use axum::http::StatusCode;

use super::problem::Problem;

const STATUS_LINE: &[u8] = b"HTTP/1.1 ";
const HEAD_END: &[u8] = b"\r\n\r\n";
const NO_BODY: &[u8] = b"content-length: 0\r\n";

/// If the last head that hyper wrote is a refusal without a body, gives it the body of a problem. `unsent` is what the
/// client has not been sent.
pub(super) fn explain(unsent: &mut Vec<u8>) {
    let Some((head_at, refusal)) = last_refusal(unsent) else { return };
    let Some(length_at) = find(&unsent[head_at..], NO_BODY).map(|at| head_at + at) else { return };
    let body = refusal.json();
    let fields = format!(
        "content-type: application/problem+json\r\ncache-control: no-store\r\ncontent-length: {}\r\n",
        body.len()
    );
    unsent.splice(length_at..length_at + NO_BODY.len(), fields.into_bytes());
    unsent.extend_from_slice(body.as_bytes());
}

/// Where the last head begins, if it is a refusal that ends the bytes, and the problem that it stands for.
fn last_refusal(bytes: &[u8]) -> Option<(usize, Problem)> {
    let at = bytes.windows(STATUS_LINE.len()).rposition(|window| window == STATUS_LINE)?;
    let head = &bytes[at..];
    let is_alone = find(head, HEAD_END)? + HEAD_END.len() == head.len();
    let status = head.get(STATUS_LINE.len()..STATUS_LINE.len() + 3).filter(|_| is_alone)?;
    match StatusCode::from_bytes(status).ok()? {
        StatusCode::BAD_REQUEST => Some((at, Problem::unreadable())),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Some((at, Problem::head_too_large())),
        _ => None,
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n7";

    fn explained(unsent: &str) -> String {
        let mut bytes = unsent.as_bytes().to_vec();
        explain(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_refusal_of_hyper_is_given_a_body_and_the_answers_before_it_stay() {
        let head = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
                    content-length: 0\r\ndate: Sun, 22 Nov 2026 10:00:00 GMT\r\n\r\n";
        let explained = explained(&format!("{ANSWER}{head}"));
        let refusal = explained.strip_prefix(ANSWER).expect("the answer before it stays");
        let (head, body) = refusal.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())), "{head}");
        assert!(head.contains("\r\ncontent-type: application/problem+json\r\n"), "{head}");
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&problem["status"], &problem["code"]), (&431.into(), &"too_large".into()));
    }

    #[test]
    fn whatever_else_was_written_last_is_left_as_it_is() {
        let ours = "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}";
        let head_only = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let begun = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n";
        for unsent in ["", ANSWER, ours, head_only, begun] {
            assert_eq!(explained(unsent), unsent);
        }
    }
}
