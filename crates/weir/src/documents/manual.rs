//! `weir man`: the manual pages, made from the definition of the command line.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_mangen::Man;

use crate::error::CommandError;
use crate::help_text::with_exit_codes;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  weir man > /usr/share/man/man1/weir.1
  weir man serve > /usr/share/man/man1/weir-serve.1";

const EXIT_CODES: &str = "\
Exit codes:
  0  printed
  2  the command line cannot be used";

/// Print a manual page: of the program, or of one of its commands.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct ManArguments {
    /// The command.
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

/// Prints the manual page of the command line `root`, or of one of its commands.
pub(crate) fn run(arguments: &ManArguments, root: Command) -> Result<ExitCode, CommandError> {
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let command = match &arguments.command {
        None => &root,
        Some(name) => find(&root, name)?,
    };
    output::print(&page(&root, command)?)?;
    Ok(ExitCode::SUCCESS)
}

fn find<'a>(root: &'a Command, name: &str) -> Result<&'a Command, CommandError> {
    let commands = || root.get_subcommands().filter(|command| !command.is_hide_set());
    commands().find(|command| command.get_name() == name).ok_or_else(|| {
        let names: Vec<&str> = commands().map(Command::get_name).collect();
        let help = Some(format!("the commands are {}", names.join(", ")));
        CommandError::Usage { what: format!("there is no command `{name}`"), help }
    })
}

/// The page of a command in roff. What stands below the options is laid out here, line by line: clap_mangen would fill
/// the lines of the examples into paragraphs.
fn page(root: &Command, command: &Command) -> Result<String, CommandError> {
    let version = root.get_version().unwrap_or_default();
    let man = Man::new(command.clone()).source(format!("weir {version}")).manual("Weir");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut page = String::from_utf8(page)?;
    let below = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    for section in below.split("\n\n") {
        let mut lines = section.lines();
        let heading = lines.next().unwrap_or_default().trim_end_matches(':');
        page.push_str(&format!(".SH {}\n.nf\n", heading.to_uppercase()));
        for line in lines {
            page.push_str(&verbatim(line.trim_start()));
            page.push('\n');
        }
        page.push_str(".fi\n");
    }
    Ok(page)
}

/// A line of roff that shows as `text`: no escapes, no request, and a minus that can be copied.
fn verbatim(text: &str) -> String {
    format!("\\&{}", text.replace('\\', "\\e").replace('-', "\\-"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::command_line::CommandLine;

    fn page_of(name: Option<&str>) -> String {
        let mut root = CommandLine::command().disable_help_subcommand(true);
        root.build();
        let command = name.map_or(&root, |name| find(&root, name).unwrap());
        page(&root, command).unwrap()
    }

    #[test]
    fn every_command_has_its_page() {
        let root = page_of(None);
        assert!(root.contains(".TH weir 1"), "{root}");
        for command in CommandLine::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let page = page_of(Some(name));
            assert!(page.contains(&format!(".TH weir-{name} 1")), "{page}");
            for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT CODES"] {
                assert!(page.contains(&format!("\n.SH {heading}\n")), "{heading} is missing in:\n{page}");
            }
            assert!(root.contains(&format!("weir\\-{name}(1)")), "{root}");
        }
    }

    #[test]
    fn examples_keep_their_lines_and_characters() {
        let page = page_of(Some("serve"));
        assert!(page.contains("\n\\&weir serve weir.toml\n\\&weir serve \\-\\-listen :8080 "), "{page}");
        assert_eq!(verbatim(r".a\b-c"), r"\&.a\eb\-c");
    }

    #[test]
    fn an_unknown_command_is_told_with_those_there_are() {
        let root = CommandLine::command();
        let Err(CommandError::Usage { what, help }) = find(&root, "sevre") else {
            panic!("there is no such command")
        };
        assert_eq!(what, "there is no command `sevre`");
        assert!(help.is_some_and(|help| help.contains("serve, check, import, explain")));
    }
}
