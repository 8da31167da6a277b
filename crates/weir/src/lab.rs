//! `weir lab`: hands the rest of the command line to the lab, a program of its own that measures Weir from outside.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

use crate::error::CommandError;
use crate::help_text::with_exit_codes;

const EXAMPLES: &str = "\
Examples:
  weir lab list
  weir lab run l7-keepalive --short
  weir lab plan --rate 25000 --clients 5000 --body 1k";

const EXIT_CODES: &str = "\
Exit codes:
  0  the lab succeeded
  1  the lab is missing, or it failed
  2  the command line cannot be used";

/// The lab's program.
const PROGRAM: &str = "weir-lab";

/// Compare Weir with other balancers on this machine: the same as `weir-lab`.
///
/// The program is searched next to `weir`, then on the PATH. `weir lab --help` prints its help.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES), disable_help_flag = true)]
pub(crate) struct LabArguments {
    /// The arguments of the lab.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes the lab; comes back only when there is none.
pub(crate) fn run(arguments: &LabArguments) -> Result<ExitCode, CommandError> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(std::env::split_paths(&path));
    let Some(program) = find(folders) else {
        return Err(CommandError::Failed {
            error: anyhow::anyhow!("there is no {PROGRAM}, neither beside weir nor on the PATH"),
            help: Some(format!(
                "it is built from Weir's sources: cargo build --profile dist --manifest-path lab/Cargo.toml \
                 --target-dir target -p {PROGRAM}"
            )),
        });
    };
    let error = Command::new(&program).args(&arguments.arguments).exec();
    Err(anyhow::Error::new(error).context(format!("cannot run {}", program.display())).into())
}

/// The first of these folders that has the lab.
fn find(mut folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let program = |folder: PathBuf| Some(folder.join(PROGRAM)).filter(|path| Path::is_file(path));
    folders.find_map(program)
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn the_lab_beside_weir_comes_before_the_one_on_the_path() {
        let (beside, path) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = || [&beside, &path].map(|folder| folder.path().to_owned()).into_iter();
        assert_eq!(find(folders()), None);
        std::fs::write(path.path().join("weir-lab"), "").unwrap();
        assert_eq!(find(folders()), Some(path.path().join("weir-lab")));
        std::fs::write(beside.path().join("weir-lab"), "").unwrap();
        assert_eq!(find(folders()), Some(beside.path().join("weir-lab")));
    }
}
