//! Doors to what Redis clients send, for `tests/fuzz`.

use tokio::io::DuplexStream;
use tokio::sync::watch;

use super::connection;
use super::parser::Parser;
use crate::service::IdService;

/// A command's arguments, and how many bytes it takes.
pub type Parsed = (Vec<Vec<u8>>, usize);

/// The command that `bytes` begin with; `None` when it is not all there, an error when it never
/// will be.
///
/// # Errors
/// What the client is told.
pub fn command(bytes: &[u8]) -> Result<Option<Parsed>, String> {
    let mut parser = Parser::default();
    let parsed = parser.parse(bytes).map_err(|malformed| malformed.to_string())?;
    Ok(parsed.map(|(args, length)| (args.iter().map(<[u8]>::to_vec).collect(), length)))
}

/// Serves one connection to its end.
pub async fn serve(stream: DuplexStream, service: &IdService) {
    let (read, write) = tokio::io::split(stream);
    let stop = watch::Sender::new(());
    connection::converse(read, write, service, stop.subscribe()).await;
}
