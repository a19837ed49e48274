//! Parameters as servlets read them: of the query, and of the body of a form.

use axum::body::{Body, Bytes};
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;

use super::body;
use super::problem::Problem;
use super::query::form_unescape;

/// The parameters of one request.
pub(super) struct Parameters<'a> {
    query: Option<&'a str>,
    form: Bytes,
}

impl<'a> Parameters<'a> {
    /// Those of the query alone.
    pub(super) fn of_query(head: &'a Parts) -> Self {
        Self { query: head.uri.query(), form: Bytes::new() }
    }

    /// Reads those of a request. A body that is no form is read off.
    ///
    /// # Errors
    /// When the body is too long, comes too slowly, or breaks off.
    pub(super) async fn read(head: &'a Parts, body: Body) -> Result<Self, Problem> {
        let form = if is_form(head) {
            body::collected(body).await?
        } else {
            body::read_off(body).await;
            Bytes::new()
        };
        Ok(Self { form, ..Self::of_query(head) })
    }

    /// The parameter of this name: that of the query, or else that of the form.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        given(self.query, name).or_else(|| given(std::str::from_utf8(&self.form).ok(), name))
    }

    /// What they show in place of an `Authorization`: their `token`, if it is not empty.
    pub(super) fn bearer(&self) -> Option<Vec<u8>> {
        let token = self.text("token").filter(|token| !token.is_empty())?;
        Some(format!("Bearer {token}").into_bytes())
    }
}

/// Whether the body holds parameters too, by a method that lets it.
fn is_form(head: &Parts) -> bool {
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let name = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    name.eq_ignore_ascii_case("application/x-www-form-urlencoded")
        && [Method::POST, Method::PUT, Method::PATCH].contains(&head.method)
}

/// The parameter of this name. Repeated values are joined, and malformed ones are ignored.
fn given(query: Option<&str>, wanted: &str) -> Option<String> {
    let pairs = query.unwrap_or_default().split('&');
    let values: Vec<_> = pairs
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (form_unescape(name)? == wanted).then(|| form_unescape(value))?
        })
        .collect();
    (!values.is_empty()).then(|| values.join(","))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    #[test]
    fn a_parameter_is_read_as_servlets_read_it() {
        for (query, expected) in [
            ("snowflakeId=5", Some("5")),
            ("x=1&snowflakeId=%35&y", Some("5")),
            ("snowflakeId", Some("")),
            ("snowflakeId=1&snowflakeId=2", Some("1,2")),
            ("snowflakeId=%zz", None),
            ("snowflakeid=5", None),
            ("", None),
        ] {
            assert_eq!(given(Some(query), "snowflakeId").as_deref(), expected, "{query}");
        }
        assert_eq!(given(None, "snowflakeId"), None);
    }

    #[tokio::test]
    async fn a_form_gives_what_the_query_lacks() {
        for (method, expected) in [("POST", Some("2")), ("DELETE", None)] {
            let form = "application/x-www-form-urlencoded; charset=UTF-8";
            let request = Request::builder().method(method).uri("/?a=1");
            let request = request.header(CONTENT_TYPE, form).body(Body::from("a=9&b=2")).unwrap();
            let (head, body) = request.into_parts();
            let parameters = Parameters::read(&head, body).await.unwrap();
            assert_eq!(parameters.text("a").as_deref(), Some("1"));
            assert_eq!(parameters.text("b").as_deref(), expected, "{method}");
        }
    }
}
