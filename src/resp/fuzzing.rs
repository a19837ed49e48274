//! Entry points to the code that reads Redis clients' bytes, for `tests/fuzz` and `benches`.

use tokio::io::DuplexStream;

use super::call::Served;
use super::connection;
use super::parser::Parser;
use crate::access::Tokens;
use crate::connection::watchdog::Progress;
use crate::service::Services;

/// A command's arguments, and how many bytes it takes.
pub type Parsed = (Vec<Vec<u8>>, usize);

/// The command that `bytes` begin with; `None` when it has not come in whole.
///
/// # Errors
/// The error that the client gets, when the bytes cannot become a command.
pub fn command(bytes: &[u8]) -> Result<Option<Parsed>, String> {
    let mut parser = Parser::default();
    let parsed = parser.parse(bytes).map_err(|malformed| malformed.to_string())?;
    Ok(parsed.map(|(args, length)| (args.iter().map(<[u8]>::to_vec).collect(), length)))
}

/// Serves one connection to its end. With tokens, the connection has to show one.
pub async fn serve(stream: DuplexStream, services: &Services, tokens: Option<&Tokens>) {
    services.cluster.serve_redis_at(None, "a:2", 3);
    let (read, write) = tokio::io::split(stream);
    let (_node, drain) = crate::connection::drain::drain();
    let answers = services.answers.of(None);
    let served = Served { services, answers: &answers, tokens };
    connection::serve_stream(read, write, served, &Progress::default(), drain).await;
}
