//! Files of lines. They are read once in full, and again for the few lines that are cited.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::path::Path;

use thiserror::Error;

use crate::evidence::{Evidence, Line};
use crate::history::Record;
use crate::report::{Cited, Findings};

/// The longest line that a history may have.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Why a history could not be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The file itself.
    #[error("{file}: {error}")]
    File {
        /// The name as it was given.
        file: String,
        /// The error.
        error: io::Error,
    },
    /// One line of it.
    #[error("{file}:{line}: {what}")]
    Line {
        /// The name as it was given.
        file: String,
        /// Counted from 1.
        line: u64,
        /// The fault of the line.
        what: String,
    },
}

/// A history, in one file or several.
#[derive(Debug, Default)]
pub struct Input {
    files: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    name: String,
    file: File,
    /// The number of lines in the files before it.
    first: u64,
}

impl Input {
    /// Adds a file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn file(&mut self, path: &Path) -> Result<(), Unreadable> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => self.files.push(Source { name, file, first: 0 }),
            Err(error) => return Err(Unreadable::File { file: name, error }),
        }
        Ok(())
    }

    /// Adds the contents of a stream. They are stored in an unnamed temporary file, because cited lines are read again.
    ///
    /// # Errors
    /// When the stream cannot be read or stored.
    pub fn stream(&mut self, name: &str, mut stream: impl io::Read) -> Result<(), Unreadable> {
        let kept = tempfile::tempfile().and_then(|mut file| {
            io::copy(&mut stream, &mut file)?;
            Ok(file)
        });
        let name = name.to_owned();
        match kept {
            Ok(file) => self.files.push(Source { name, file, first: 0 }),
            Err(error) => return Err(Unreadable::File { file: name, error }),
        }
        Ok(())
    }

    /// Reads everything. Returns the number of lines.
    pub(crate) fn read(
        &mut self,
        evidence: &mut Evidence,
        findings: &mut Findings,
    ) -> Result<u64, Unreadable> {
        let mut lines = 0;
        for source in &mut self.files {
            source.first = lines;
            lines += source.each_line(|number, text| {
                if text.is_empty() {
                    return Ok(());
                }
                let line = Line::try_from(source.first + number - 1)
                    .map_err(|_| "too many lines".to_owned())?;
                evidence.add(Record::parse(text)?, line, findings)
            })?;
        }
        Ok(lines)
    }

    /// Returns the texts of some lines.
    pub(crate) fn cite(
        &self,
        wanted: impl IntoIterator<Item = Line>,
    ) -> Result<BTreeMap<Line, Cited>, Unreadable> {
        let mut cited: BTreeMap<Line, Cited> =
            wanted.into_iter().map(|line| (line, Cited::default())).collect();
        if cited.is_empty() {
            return Ok(cited);
        }
        for source in &self.files {
            source.each_line(|number, text| {
                let line = Line::try_from(source.first + number - 1).unwrap_or(Line::MAX);
                if let Some(cited) = cited.get_mut(&line) {
                    let text = String::from_utf8_lossy(text).into_owned();
                    *cited = Cited { file: source.name.clone(), line: number, text };
                }
                Ok(())
            })?;
        }
        Ok(cited)
    }
}

impl Source {
    /// Calls `take` with the number of each line, from 1, and its text without the line end. Returns the number
    /// of lines.
    fn each_line(
        &self,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), String>,
    ) -> Result<u64, Unreadable> {
        let failed = |error| Unreadable::File { file: self.name.clone(), error };
        let mut file = &self.file;
        file.rewind().map_err(failed)?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            let limit = LINE_BYTES_MAX as u64;
            let length = io::Read::take(&mut reader, limit).read_until(b'\n', &mut line);
            if length.map_err(failed)? == 0 {
                return Ok(number);
            }
            number += 1;
            let taken = match line.strip_suffix(b"\n") {
                None if line.len() == LINE_BYTES_MAX => Err("the line is too long".to_owned()),
                text => take(number, text.unwrap_or(&line).trim_ascii()),
            };
            taken.map_err(|what| Unreadable::Line {
                file: self.name.clone(),
                line: number,
                what,
            })?;
        }
    }
}
