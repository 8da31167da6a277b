//! Spelling of code, comments and documents; words of the trade are listed in `_typos.toml`.

use crate::process::ProgramRun;
use crate::tools;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    ProgramRun::new(workspace, tools::TYPOS.ready(workspace)?).run()
}
