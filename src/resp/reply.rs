//! Replies into bytes, in version 2 or 3 of the protocol.

/// Writes replies behind each other.
pub(super) struct Reply<'a> {
    pub(super) out: &'a mut Vec<u8>,
    /// Whether it is version 3, which has maps and a separate null.
    pub(super) resp3: bool,
}

impl Reply<'_> {
    pub(super) fn ok(&mut self) {
        self.simple("OK");
    }

    /// `text` holds no line break.
    pub(super) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `text` begins with the code that clients look at; line breaks become spaces.
    pub(super) fn error(&mut self, text: &str) {
        let start = self.out.len() + 1;
        self.line(b'-', text.as_bytes());
        let end = self.out.len() - 2;
        for byte in self.out[start..end].iter_mut().filter(|byte| byte.is_ascii_control()) {
            *byte = b' ';
        }
    }

    #[inline]
    pub(super) fn integer(&mut self, number: u64) {
        self.line(b':', itoa::Buffer::new().format(number).as_bytes());
    }

    /// An integer that may be negative.
    pub(super) fn signed(&mut self, number: i64) {
        self.line(b':', itoa::Buffer::new().format(number).as_bytes());
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A number as text, for clients that cannot hold 63 bits.
    pub(super) fn digits(&mut self, number: u64) {
        self.bulk(itoa::Buffer::new().format(number).as_bytes());
    }

    pub(super) fn null(&mut self) {
        self.out.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Begins an array; its elements follow.
    pub(super) fn array(&mut self, length: usize) {
        self.length(b'*', length);
    }

    /// Begins a map; its keys and values follow in turn.
    pub(super) fn map(&mut self, length: usize) {
        match self.resp3 {
            true => self.length(b'%', length),
            false => self.length(b'*', 2 * length),
        }
    }

    fn length(&mut self, kind: u8, length: usize) {
        self.line(kind, itoa::Buffer::new().format(length).as_bytes());
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(resp3: bool, write: impl Fn(&mut Reply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Reply { out: &mut out, resp3 });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_kind_is_framed() {
        assert_eq!(written(false, |reply| reply.ok()), "+OK\r\n");
        assert_eq!(
            written(false, |reply| reply.integer(i64::MAX as u64)),
            ":9223372036854775807\r\n"
        );
        assert_eq!(written(false, |reply| reply.bulk(b"a\r\nb")), "$4\r\na\r\nb\r\n");
        assert_eq!(written(false, |reply| reply.digits(42)), "$2\r\n42\r\n");
        assert_eq!(written(false, |reply| reply.array(3)), "*3\r\n");
    }

    #[test]
    fn null_and_map_differ_by_version() {
        assert_eq!(written(false, |reply| reply.null()), "$-1\r\n");
        assert_eq!(written(true, |reply| reply.null()), "_\r\n");
        assert_eq!(written(false, |reply| reply.map(3)), "*6\r\n");
        assert_eq!(written(true, |reply| reply.map(3)), "%3\r\n");
    }

    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        assert_eq!(written(false, |reply| reply.error("ERR a\r\n+OK\r\nb")), "-ERR a  +OK  b\r\n");
    }
}
