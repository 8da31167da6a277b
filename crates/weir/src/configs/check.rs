//! `weir check`: all errors of a config at once.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use weir_config::{CheckedConfig, Colour, ConfigAdvice};

use crate::diagnostics;
use crate::error::{CommandError, UNUSABLE};
use crate::features;
use crate::foreign::LossArguments;
use crate::help_text::with_exit_codes;
use crate::output::{self, counted};

const EXAMPLES: &str = "\
Examples:
  weir check weir.toml
  weir check --format short weir.toml
  weir check /etc/nginx/nginx.conf
  weir check --print weir.toml > effective.toml";

const EXIT_CODES: &str = "\
Exit codes:
  0  the config is valid, possibly with warnings
  2  there are errors, or the file cannot be read";

/// Check a config and report all errors at once.
///
/// Each error comes with file, line and column, the text in question, and a help text. A sound config may get advice. Nothing is started, and no
/// address is bound.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct CheckArguments {
    /// The config: a `weir.toml`, `nginx.conf`, `haproxy.cfg`, `Caddyfile` or `traefik.yml`.
    file: PathBuf,
    /// The format of the report.
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    format: CheckFormat,
    /// Print the effective config: files joined, every default included, secrets left out, variables as they are written. The report then goes to
    /// standard error.
    #[arg(long)]
    print: bool,
    /// With `--print`: also secrets, and variables with their values. The output is a config that can be used.
    #[arg(long, requires = "print")]
    with_secrets: bool,
    #[command(flatten)]
    loss: LossArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CheckFormat {
    /// Text: the source lines with the errors underlined.
    Text,
    /// JSON: an array of objects, empty when there is nothing to report.
    Json,
    /// For editors: one line per error.
    Short,
}

pub(crate) fn run(arguments: &CheckArguments) -> Result<ExitCode, CommandError> {
    let checked = features::check(arguments.loss.load(&arguments.file));
    let name = arguments.file.display().to_string();
    if arguments.print {
        output::note(
            report(&checked, &name, arguments.format, output::colour_of(&std::io::stderr())).trim_end(),
        );
        match &checked.config {
            Some(_) if arguments.with_secrets => output::print(&checked.print())?,
            Some(config) => output::print(&config.dump.to_string())?,
            None => {}
        }
    } else {
        let colour = output::colour_of(&std::io::stdout());
        output::print(&report(&checked, &name, arguments.format, colour))?;
    }
    Ok(if checked.config.is_some() { ExitCode::SUCCESS } else { ExitCode::from(UNUSABLE) })
}

fn report(checked: &CheckedConfig, name: &str, format: CheckFormat, colour: Colour) -> String {
    let diagnostics = &checked.diagnostics;
    let mut report = match format {
        CheckFormat::Json => return diagnostics.to_json() + "\n",
        _ if diagnostics.is_empty() => String::new(),
        CheckFormat::Text => diagnostics::render(diagnostics, colour) + "\n",
        CheckFormat::Short => format!("{diagnostics}\n"),
    };
    if let Some(config) = &checked.config {
        for ConfigAdvice { message, help } in weir_config::advice(config) {
            report.push_str(&format!("advice: {message}\n  help: {help}\n"));
        }
        let listeners = counted(config.listeners.len(), "listener");
        let upstreams = counted(config.upstreams.len(), "upstream");
        report.push_str(&format!("{name}: ok ({listeners}, {upstreams})\n"));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "listener.web = { address = \":0\", upstream = \"app\" }\nupstream.app.servers = [\"10.0.0.1:80\"]\n";

    fn reported(text: &str, format: CheckFormat) -> String {
        report(&CheckedConfig::parse(text, "weir.toml"), "weir.toml", format, Colour::Never)
    }

    #[test]
    fn a_valid_config_is_summarised_in_one_line() {
        let two = format!("{GOOD}listener.b = {{ address = \"unix:/run/b\", upstream = \"app\" }}\n");
        for format in [CheckFormat::Text, CheckFormat::Short] {
            assert_eq!(reported(GOOD, format), "weir.toml: ok (1 listener, 1 upstream)\n");
            assert_eq!(reported(&two, format), "weir.toml: ok (2 listeners, 1 upstream)\n");
        }
        assert_eq!(reported(GOOD, CheckFormat::Json), "[]\n");
    }

    #[test]
    fn a_warning_does_not_spoil_it() {
        let unused = format!("{GOOD}upstream.spare.servers = [\"10.0.0.2:80\"]\n");
        let short = reported(&unused, CheckFormat::Short);
        let lines: Vec<&str> = short.lines().collect();
        let [warning, ok] = lines[..] else { panic!("{short}") };
        assert!(warning.starts_with("weir.toml:3:") && warning.contains(": warning: "), "{warning}");
        assert_eq!(ok, "weir.toml: ok (1 listener, 2 upstreams)");
        assert!(
            reported(&unused, CheckFormat::Text)
                .ends_with("1 warning\nweir.toml: ok (1 listener, 2 upstreams)\n")
        );
    }

    #[test]
    fn advice_stands_apart_from_diagnostics() {
        let few = format!("{GOOD}upstream.app.max_requests = 2\n");
        for format in [CheckFormat::Text, CheckFormat::Short] {
            let text = reported(&few, format);
            let lines: Vec<&str> = text.lines().collect();
            let [advice, help, ok] = lines[..] else { panic!("{text}") };
            assert!(
                advice.starts_with("advice: a server of the upstream `app` takes 2 requests at a time"),
                "{text}"
            );
            assert!(help.starts_with("  help: set `buffer_requests = {}`"), "{text}");
            assert_eq!(ok, "weir.toml: ok (1 listener, 1 upstream)");
        }
        assert_eq!(reported(&few, CheckFormat::Json), "[]\n", "programs get diagnostics and nothing else");
    }

    #[test]
    fn diagnostics_are_all_there_in_every_format() {
        let bad = GOOD.replace("address", "adress").replace("10.0.0.1:80", "10.0.0.1");
        let text = reported(&bad, CheckFormat::Text);
        assert!(text.contains("adress") && text.contains("10.0.0.1") && !text.contains(": ok ("), "{text}");
        let short = reported(&bad, CheckFormat::Short);
        assert!(
            short.lines().count() >= 2 && short.lines().all(|line| line.contains(": error: ")),
            "{short}"
        );
        let json: serde_json::Value = serde_json::from_str(&reported(&bad, CheckFormat::Json)).unwrap();
        assert_eq!(json.as_array().map(Vec::len), Some(short.lines().count()));
    }
}
