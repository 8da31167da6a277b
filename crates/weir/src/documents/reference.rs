//! `weir reference` and `weir schema`: the reference and the JSON Schema of the config, from weir-config.

use std::process::ExitCode;

use crate::error::CommandError;
use crate::output;

pub(crate) fn run_reference() -> Result<ExitCode, CommandError> {
    output::print(&weir_config::reference_markdown())?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run_schema() -> Result<ExitCode, CommandError> {
    output::print(&weir_config::json_schema())?;
    Ok(ExitCode::SUCCESS)
}
