//! How the help of a command is put together, the same for all commands.

/// The text below the options in the long help.
pub(crate) fn with_exit_codes(examples: &str, exit_codes: &str) -> String {
    format!("{examples}\n\n{exit_codes}")
}
