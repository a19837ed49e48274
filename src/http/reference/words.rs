//! Values of the description as texts.

use serde_json::Value;

use crate::http::pages::escape;

/// The text that a value is, or none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What a list holds, or nothing.
pub(super) fn members(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The fields of an object, or none.
pub(super) fn fields(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// A text of the description as HTML: what stands between backticks is code.
pub(super) fn prose(value: &Value) -> String {
    let escaped = escape(text(value));
    let parts = escaped.split('`').enumerate();
    parts
        .map(
            |(at, part)| if at % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() },
        )
        .collect()
}
