//! A run: measures row after row, and prints the table.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use crate::Result;
use crate::catalog::{self, Need, Row};
use crate::conditions::Conditions;
use crate::load::{Load, Outcome};
use crate::machine::{self, Machine};
use crate::options::Options;
use crate::report::{Line, Report};
use crate::rows::builds;
use crate::rows::tags::ManyTags;

/// Everything needed to measure a row.
pub(crate) struct Bench {
    pub(crate) options: Options,
    pub(crate) machine: Machine,
    /// The directory of this run.
    dir: PathBuf,
    /// A node with many tags, which several rows share.
    many_tags: RefCell<Option<Rc<ManyTags>>>,
}

/// Measures the rows that the options select, and prints the table. Returns true when no row failed.
///
/// # Errors
/// When nothing can be measured at all.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let catalog = if options.against.is_some() { builds::ROWS } else { catalog::ROWS };
    let rows = catalog::selected(catalog, &options.only)?;
    if options.list {
        rows.iter().for_each(|row| println!("{:<12} {}", row.id, row.work));
        return Ok(true);
    }
    let machine = Machine::look()?;
    fs::create_dir_all(&options.dir)?;
    let mut options = options.clone();
    options.dir = options.dir.canonicalize()?;
    let conditions = Conditions::look(&options, &machine)?;
    eprintln!("{conditions}");
    let dir = options.dir.join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let bench = Bench { options, machine, dir, many_tags: RefCell::default() };
    let mut report = Report::new(conditions);
    for row in rows {
        let line = bench.measure(row);
        eprintln!("{line}");
        report.add(line);
    }
    bench.many_tags.take();
    print!("{report}");
    if let Some(file) = &bench.options.out {
        fs::write(file, report.to_string())?;
    }
    fs::remove_dir_all(&bench.dir)?;
    Ok(report.is_whole())
}

impl Bench {
    fn measure(&self, row: &'static Row) -> Line {
        if !row.needs.contains(&Need::ManyTags) {
            self.many_tags.take();
        }
        let lacks = row.needs.iter().find_map(|need| self.lacks(*need));
        if let Some(lacks) = lacks {
            return Line::skipped(row, lacks);
        }
        eprintln!("{}: {} …", row.id, row.work);
        match (row.measure)(self) {
            Ok(finding) => Line::measured(row, finding),
            Err(error) => Line::failed(row, error.to_string()),
        }
    }

    fn lacks(&self, need: Need) -> Option<String> {
        match need {
            Need::TwoCores if !self.machine.two_cores => Some("there is one core only".to_owned()),
            Need::Program(name) if machine::find(name).is_none() => {
                Some(format!("{name} is missing"))
            }
            _ => None,
        }
    }

    /// A command on the core of the measured servers.
    pub(crate) fn server(&self, program: &str) -> Command {
        self.server_at(&machine::find(program).unwrap_or_else(|| program.into()))
    }

    /// The same, by the program's path.
    pub(crate) fn server_at(&self, program: &Path) -> Command {
        self.machine.server(program)
    }

    /// A command that runs the generator, on the generator's core.
    pub(crate) fn generator(&self, load: &Load) -> Result<Command> {
        let this = std::env::current_exe()?;
        let mut command = self.machine.generator(&this);
        command.arg("load").args(load.words());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Loads a server once.
    ///
    /// # Errors
    /// When the load breaks off, or a request was answered with an error.
    pub(crate) fn load(&self, load: &Load) -> Result<Outcome> {
        outcome(&self.generator(load)?.output()?)
    }

    /// Makes an empty directory for a server.
    pub(crate) fn fresh_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// The node with many tags, which the first caller makes.
    pub(crate) fn many_tags(&self) -> Result<Rc<ManyTags>> {
        let mut many_tags = self.many_tags.borrow_mut();
        if let Some(there) = &*many_tags {
            return Ok(Rc::clone(there));
        }
        let made = Rc::new(ManyTags::make(self)?);
        Ok(Rc::clone(many_tags.insert(made)))
    }
}

/// Reads the output of a generator.
///
/// # Errors
/// When it failed, or a request was answered with an error.
pub(crate) fn outcome(output: &std::process::Output) -> Result<Outcome> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(if said.is_empty() { output.status.to_string() } else { said }.into());
    }
    let outcome: Outcome = serde_json::from_slice(&output.stdout)?;
    match &outcome.first_error {
        Some(error) => Err(format!("{} errors, the first: {error}", outcome.errors).into()),
        None => Ok(outcome),
    }
}
