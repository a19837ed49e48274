//! Sends requests to endpoints and returns complete answers.
//!
//! | file | what it is |
//! | --- | --- |
//! | `address` | the addresses of endpoints |
//! | `http` | connections over HTTP/1.1, and the ones that are kept |
//! | `tls` | the CAs that a client trusts, and the certificate that it presents |
//! | `named_certificates` | nodes whose own certificate the user has listed |

pub(crate) mod address;
pub(crate) mod http;
mod named_certificates;
pub(crate) mod tls;

use std::future::Future;
use std::pin::Pin;

use crate::answer::Answer;
use crate::request::Request;

/// An attempt under way. It yields a complete answer, or the reason why there is none. Dropping it abandons the answer.
pub(crate) type Attempt<'a> = Pin<Box<dyn Future<Output = Result<Answer, String>> + Send + 'a>>;

/// Sends requests. The product has [`http::Http`]; tests have a script.
pub(crate) trait Transport: Send + Sync {
    /// How many endpoints there are.
    fn endpoints(&self) -> usize;

    /// The address of an endpoint, for people.
    fn address(&self, endpoint: usize) -> String;

    /// Sends one request to one endpoint.
    fn ask<'a>(&'a self, endpoint: usize, request: &'a Request) -> Attempt<'a>;
}
