//! Requests on their way to endpoints, and whole answers back.
//!
//! | file | what it is |
//! | --- | --- |
//! | `address` | the addresses of endpoints |
//! | `http` | connections over HTTP/1.1, and the ones that are kept |
//! | `tls` | whom a client trusts, and what it proves itself by |
//! | `named_certificates` | nodes whose own certificate a user has named |

pub(crate) mod address;
pub(crate) mod http;
mod named_certificates;
pub(crate) mod tls;

use std::future::Future;
use std::pin::Pin;

use crate::answer::Answer;
use crate::request::Request;

/// An attempt under way: a whole answer, or why there is none. Dropping it gives the answer up for good.
pub(crate) type Attempt<'a> = Pin<Box<dyn Future<Output = Result<Answer, String>> + Send + 'a>>;

/// What carries requests. The one that ships is [`http::Http`]; tests have a script.
pub(crate) trait Transport: Send + Sync {
    /// How many endpoints there are.
    fn endpoints(&self) -> usize;

    /// Sends one request to one endpoint.
    fn ask<'a>(&'a self, endpoint: usize, request: &'a Request) -> Attempt<'a>;
}
