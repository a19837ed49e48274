//! Which nodes the client commands ask, and how they print what these say.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use super::client::{BaseUrl, Client, ShownToken};
use super::failure::Failure;
use super::https::TlsArgs;

/// The node that is asked if the user names none.
const URL_DEFAULT: &str = "http://127.0.0.1:8080";

/// Longest begin of a token file that is read: any token has room in it.
const TOKEN_FILE_BYTES_MAX: u64 = 4_096;

/// Which nodes to ask, and how to print what they say.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub struct Connect {
    /// URL of a node; if several are given, the next is tried when one does not answer
    #[arg(long = "url", env = "MINTLEAF_URL", value_name = "URL", global = true)]
    #[arg(value_delimiter = ',', default_value = URL_DEFAULT, hide_env_values = true)]
    urls: Vec<BaseUrl>,
    /// Token to show to nodes with an auth file; prefer --token-file, because other users can see arguments
    #[arg(long, env = "MINTLEAF_TOKEN", value_name = "TOKEN", global = true)]
    #[arg(hide_env_values = true)]
    token: Option<ShownToken>,
    /// File with that token on its first line
    #[arg(long, env = "MINTLEAF_TOKEN_FILE", value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// The certificates to trust for https.
    #[command(flatten)]
    tls: TlsArgs,
    /// Print JSON
    #[arg(long, global = true, help_heading = None::<&'static str>)]
    json: bool,
}

impl Connect {
    /// The client of these nodes.
    ///
    /// # Errors
    /// When the token, or a file that https needs, cannot be used.
    pub(super) fn open(self) -> Result<Client, Failure> {
        let token = self.shown_token()?;
        Client::new(self.urls, token, &self.tls, self.json)
    }

    /// The token to show, if there is one.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn shown_token(&self) -> Result<Option<ShownToken>, Failure> {
        match (&self.token, &self.token_file) {
            (Some(_), Some(_)) => {
                let why = "--token and --token-file (or MINTLEAF_TOKEN and MINTLEAF_TOKEN_FILE) are both given: give one \
                           of them";
                Err(Failure::new(why).exiting(2))
            }
            (None, Some(file)) => token_in(file).map(Some),
            (token, None) => Ok(token.clone()),
        }
    }

    /// The same, without a token.
    pub(super) fn without_token(self) -> Self {
        Self { token: None, token_file: None, ..self }
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

/// The token on the first line of a file.
fn token_in(file: &Path) -> Result<ShownToken, Failure> {
    let of_file = |why: &dyn std::fmt::Display| {
        Failure::new(format!("--token-file {}: {why}", file.display()))
    };
    let mut text = String::new();
    let opened = File::open(file).map(|file| file.take(TOKEN_FILE_BYTES_MAX));
    opened.and_then(|mut file| file.read_to_string(&mut text)).map_err(|error| of_file(&error))?;
    let token = text.lines().next().unwrap_or_default().trim();
    token.parse().map_err(|why| of_file(&format!("the first line {why}")))
}
