//! `ottla dump`: segments, raw batches and recorded messages as JSON lines. Files only; no broker is asked.

mod frames;
mod row;
mod segment;

use crate::{
    args::{Common, DumpArgs},
    failure::Failure,
    tell::warn,
};
use ottla_protocol::{
    ApiKey,
    json::{self, Direction},
};
use std::{
    fs::File,
    io::{StdoutLock, Write},
    path::Path,
};

/// The largest frame or batch: as on a connection, a length is a claim, and beyond this a lie.
const LENGTH_BYTES_MAX: usize = 256 << 20;
/// How much is read and written at a time.
const PIECE_BYTES: usize = 256 * 1024;

/// What the files hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    Batches { headers_only: bool },
    Frames { api_key: ApiKey, direction: Direction, version: Option<i16> },
}

pub(crate) fn run(common: &Common, args: &DumpArgs) -> Result<(), Failure> {
    let content = content(args)?;
    let mut output = Output::new(common.json);
    for path in &args.files {
        match File::open(path) {
            Ok(file) => dump(content, file, path, &mut output)?,
            Err(error) => output.fail("FILE_NOT_READ", format!("{}: {error}", path.display()))?,
        }
    }
    output.finish()
}

fn dump(content: Content, file: File, path: &Path, output: &mut Output) -> Result<(), Failure> {
    match content {
        Content::Batches { headers_only } => segment::dump(file, path, headers_only, output),
        Content::Frames { api_key, direction, version } => {
            frames::dump(file, path, api_key, direction, version, output)
        }
    }
}

/// Takes the flags together, before any file is opened.
fn content(args: &DumpArgs) -> Result<Content, Failure> {
    let Some(name) = &args.api else {
        if args.request || args.response || args.version.is_some() {
            return Err(Failure::usage("--request, --response and --version are for frames: --api says of which API"));
        }
        return Ok(Content::Batches { headers_only: args.headers_only });
    };
    if args.headers_only {
        return Err(Failure::usage("--headers-only is for record batches, --api for frames: give one of them"));
    }
    let direction = match (args.request, args.response) {
        (true, false) => Direction::Request,
        (false, true) => Direction::Response,
        _ => return Err(Failure::usage("--api needs either --request or --response")),
    };
    let known = |api_key: &ApiKey| json::API_KEYS.contains(api_key);
    let Some(api_key) = ApiKey::from_name(name).filter(known) else {
        let names: Vec<String> = json::API_KEYS.iter().map(ToString::to_string).collect();
        return Err(Failure::usage(format!("--api '{name}' can't be shown; those that can: {}", names.join(", "))));
    };
    if args.version.is_none() && direction == Direction::Response {
        return Err(Failure::usage("--response needs --version: a response doesn't say its own"));
    }
    let versions = json::versions(api_key, direction);
    if let (Some(version), Some(versions)) = (args.version, versions)
        && !versions.contains(version)
    {
        let (min, max) = (versions.min, versions.max);
        return Err(Failure::usage(format!("--version {version} of {api_key} is outside {min} to {max}")));
    }
    Ok(Content::Frames { api_key, direction, version: args.version })
}

/// Standard output, written in large pieces, and standard error in step with it.
struct Output {
    json: bool,
    stdout: StdoutLock<'static>,
    lines: Vec<u8>,
    failed: bool,
}

impl Output {
    fn new(json: bool) -> Self {
        Self { json, stdout: std::io::stdout().lock(), lines: Vec::new(), failed: false }
    }

    /// Appends a line, and writes out what has gathered when it is worth it.
    fn line(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> Result<(), Failure> {
        append(&mut self.lines);
        if self.lines.len() < PIECE_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let written = self.stdout.write_all(&self.lines).and_then(|()| self.stdout.flush());
        self.lines.clear();
        written.map_err(|error| Failure::failed("SINK_FAILED", format!("writing the output: {error}")))
    }

    /// Tells what could not be read, after what could before it. The other files are read all the same.
    fn fail(&mut self, condition: &'static str, message: String) -> Result<(), Failure> {
        self.flush()?;
        Failure::failed(condition, message).print(self.json);
        self.failed = true;
        Ok(())
    }

    /// Tells what is no failure.
    fn warn(&mut self, warning: String) -> Result<(), Failure> {
        self.flush()?;
        warn(self.json, warning);
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.flush()?;
        if self.failed { Err(Failure::told()) } else { Ok(()) }
    }
}
