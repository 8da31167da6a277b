//! Spelling of code, comments and documents; words of the trade are listed in `_typos.toml`.

use crate::process::Process;
use crate::tools;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    Process::new(workspace, tools::TYPOS.ready(workspace)?).run()
}
