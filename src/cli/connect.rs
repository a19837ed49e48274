//! Which nodes the client commands ask, and how they print what these say.

use clap::Args;

use super::client::{BaseUrl, Client, ShownToken};
use super::failure::Failure;
use super::https::TlsArgs;

/// The node that is asked if the user names none.
const URL_DEFAULT: &str = "http://127.0.0.1:8080";

/// Which nodes to ask, and how to print what they say.
#[derive(Args, Clone, Debug)]
pub struct Connect {
    /// URL of a node; if several are given, the next is tried when one does not answer
    #[arg(long = "url", env = "MINTLEAF_URL", value_name = "URL", global = true)]
    #[arg(value_delimiter = ',', default_value = URL_DEFAULT, hide_env_values = true)]
    urls: Vec<BaseUrl>,
    /// Token to show to nodes with an auth file; prefer MINTLEAF_TOKEN, because other users can see arguments
    #[arg(long, env = "MINTLEAF_TOKEN", value_name = "TOKEN", global = true)]
    #[arg(hide_env_values = true)]
    token: Option<ShownToken>,
    /// Whom to believe behind https.
    #[command(flatten)]
    tls: TlsArgs,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

impl Connect {
    /// The client, and whether to print JSON.
    ///
    /// # Errors
    /// When a file that https needs cannot be used.
    pub(super) fn open(self) -> Result<(Client, bool), Failure> {
        Ok((Client::new(self.urls, self.token, &self.tls)?, self.json))
    }

    /// The same, but if no node other than the default is named, the one at `own` is asked.
    pub(super) fn or_at(mut self, own: BaseUrl) -> Self {
        if matches!(self.urls.as_slice(), [url] if url.to_string() == URL_DEFAULT) {
            self.urls = vec![own];
        }
        self
    }

    /// Whether to print JSON.
    pub(super) fn json(&self) -> bool {
        self.json
    }

    /// How many URLs were given.
    #[cfg(test)]
    pub(super) fn url_count(&self) -> usize {
        self.urls.len()
    }
}
