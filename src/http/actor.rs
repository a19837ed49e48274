//! Who sends a request.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::service::Actor;

/// The sender of a request, under the name that it has proved.
pub(super) struct Sender(pub(super) Actor);

impl<S: Sync> FromRequestParts<S> for Sender {
    type Rejection = Infallible;

    /// Whoever let the request in may have left the name in its extensions. Without one it is anonymous.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.remove::<Actor>().unwrap_or_default()))
    }
}
