//! The command line: the list of commands. The arguments and the work of a command are in its own module.
//!
//! `docs/commands.md`, the man pages and the completions are made from this.

use clap::Parser;

use crate::companions::lab::LabArguments;
use crate::configs::check::CheckArguments;
use crate::configs::explain::ExplainArguments;
use crate::configs::import::ImportArguments;
use crate::configs::plan::PlanArguments;
use crate::demo::DemoArguments;
use crate::documents::completions::CompletionsArguments;
use crate::documents::manual::ManArguments;
use crate::features::long_version;
use crate::help_text::with_exit_codes;
use crate::kubernetes::controller::ClusterArguments;
use crate::kubernetes::ingress::IngressArguments;
use crate::running::ctl::CtlArguments;
use crate::running::report::ReportArguments;
use crate::running::top::TopArguments;
use crate::running::upgrade::UpgradeArguments;
use crate::running::why::WhyArguments;
use crate::serve::ServeArguments;

const EXAMPLES: &str = "\
Examples:
  weir demo
  weir serve weir.toml
  weir serve --listen :8080 --to 10.0.0.1:80 --to 10.0.0.2:80
  weir check weir.toml
  weir import /etc/nginx/nginx.conf > weir.toml
  weir explain weir.toml http://example.com/api/users";

/// What the codes mean is the same for all commands; each module says when it gives which.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something failed while it ran
  2  the config or the command line cannot be used";

/// A fast, fair load balancer and reverse proxy that explains itself.
#[derive(Debug, Parser)]
#[command(name = "weir", version, long_version = long_version(), arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Serve(Box<ServeArguments>),
    Check(CheckArguments),
    Import(ImportArguments),
    Explain(ExplainArguments),
    Why(WhyArguments),
    Plan(PlanArguments),
    Ctl(CtlArguments),
    Upgrade(UpgradeArguments),
    Kubernetes(ClusterArguments),
    Ingress(IngressArguments),
    Report(ReportArguments),
    Top(TopArguments),
    Demo(DemoArguments),
    Lab(LabArguments),
    Completions(CompletionsArguments),
    Man(ManArguments),
    /// Print the reference of the config as Markdown: what docs/configuration.md holds.
    #[command(hide = true)]
    Reference,
    /// Print the JSON Schema of the config, for editors.
    #[command(hide = true)]
    Schema,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Words as a shell splits them; single quotes are the only ones in the examples.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        for (index, part) in line.split('\'').enumerate() {
            let last = words.last_mut().expect("there is always a word");
            if index % 2 == 1 {
                last.push_str(part);
                continue;
            }
            let mut pieces = part.split(' ');
            last.push_str(pieces.next().unwrap_or_default());
            words.extend(pieces.map(str::to_owned));
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn the_definition_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples_that_it_understands() {
        let root = CommandLine::command();
        let commands = root.get_subcommands().filter(|command| !command.is_hide_set());
        for command in commands.chain([&root]) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> =
                help.lines().map(str::trim).filter(|line| line.starts_with("weir ")).collect();
            assert!(!examples.is_empty(), "{} has no examples", command.get_name());
            for example in examples {
                let typed = example.split(" > ").next().unwrap_or_default();
                if let Err(error) = CommandLine::try_parse_from(words(typed)) {
                    panic!("{example}\n{error}");
                }
            }
            let long_help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            assert!(long_help.contains(&help) && long_help.contains("Exit codes:\n  0  "), "{long_help}");
        }
    }

    #[test]
    fn a_config_and_addresses_exclude_each_other() {
        for (typed, understood) in [
            ("weir serve weir.toml", true),
            ("weir serve --to 10.0.0.1:80", true),
            ("weir serve", false),
            ("weir serve --listen :80", false),
            ("weir serve weir.toml --to 10.0.0.1:80", false),
            ("weir serve weir.toml --listen :80", false),
        ] {
            assert_eq!(CommandLine::try_parse_from(typed.split(' ')).is_ok(), understood, "{typed}");
        }
    }
}
