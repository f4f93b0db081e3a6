//! The `ottla` binary: parsing and printing. What it does is in `ottla-stream`.

mod args;
mod cmd;
mod failure;
mod progress;
mod table;
mod tell;
mod totals;
mod usage;

use args::{Cli, Command};
use clap::{Parser, error::ErrorKind};
use failure::{Failure, exit};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let json = cli.common.json;
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(json);
            failure.code.into()
        }
    }
}

/// Help and the version are answers. A mistake is one sentence like any other, or JSON where the arguments ask for that.
fn refuse(error: &clap::Error) -> ExitCode {
    let nothing_asked = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if nothing_asked || !error.use_stderr() {
        // There is nobody else to tell when that fails.
        let _ = error.print();
        return if nothing_asked { exit::USAGE.into() } else { ExitCode::SUCCESS };
    }
    let failure = Failure::usage(args::sentence(error));
    failure.print(std::env::args_os().any(|argument| argument == "--json"));
    failure.code.into()
}

fn run(cli: &Cli) -> Result<(), Failure> {
    // One thread for everything; a read starts more when this one is busy.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed("RUNTIME", format!("the runtime can't be started: {error}")))?;
    let result = runtime.block_on(async {
        match &cli.command {
            Command::Demo(args) => cmd::demo::run(&cli.common, args).await,
            Command::Read(args) => cmd::read::run(&cli.common, args).await,
            Command::Run(args) => cmd::run::run(&cli.common, args).await,
            Command::Lag(args) => cmd::lag::run(&cli.common, args).await,
            Command::Offsets(args) => cmd::offsets::run(&cli.common, args).await,
            Command::Topics(args) => cmd::topics::run(&cli.common, args).await,
            Command::Dump(args) => cmd::dump::run(&cli.common, args),
            Command::Bench(args) => cmd::bench::run(&cli.common, args).await,
        }
    });
    // A name look-up that hangs in the system must not hold the exit up.
    runtime.shutdown_background();
    result
}
