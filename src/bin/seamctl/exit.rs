//! How the program ends: 0, 1 for a failed operation, 2 for bad usage or input.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use seam::causes::with_causes;
use seam::client::ClientError;

/// What the statuses mean, below the help.
pub(crate) const STATUSES: &str = "Exit status: 0 if all is well; 1 if the operation failed, or what was \
    checked does not hold; 2 for bad usage or input, such as a FILE that cannot be read or an --out that cannot \
    be written. A signal ends a command as usual.";

/// An error and the exit status that it means.
pub(crate) struct Failure {
    status: u8,
    error: anyhow::Error,
}

impl Failure {
    /// Bad usage or input.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { status: 2, error: error.into() }
    }

    /// A failed operation.
    pub(crate) fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self { status: 1, error: error.into() }
    }

    pub(crate) fn report(self) -> ExitCode {
        eprintln!("seamctl: {}", with_causes(self.error.as_ref()));
        ExitCode::from(self.status)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::BadUrl { .. } => Self::usage(error),
            ClientError::Refused { problem, .. } if problem.status == 400 => Self::usage(error),
            ClientError::Unreachable { .. } => Self::failed(
                anyhow::Error::from(error).context("is the agent running? Name it with --agent URL or SEAM_AGENT"),
            ),
            _ => Self::failed(error),
        }
    }
}

/// Writes to standard output. A reader that has seen enough ends the program quietly.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::failed(anyhow::anyhow!("standard output: {error}"))),
    }
}

/// Writes `value` as JSON, one line.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string(value).map_err(Failure::failed)?;
    text.push('\n');
    print(&text)
}
