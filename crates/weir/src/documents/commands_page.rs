//! `docs/commands.md`: every command with its help, made from the definition of the command line.
//!
//! The test below fails when the page is stale; `UPDATE=1 cargo test -p weir --bin weir` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory as _};

use crate::command_line::CommandLine;

/// Columns of the help in the page.
const WIDTH: usize = 100;

const INTRODUCTION: &str = "\
# Commands

Made from the command line itself: what follows is what `weir COMMAND --help` prints.

";

const PACKAGES: &str = "\
## Completions and manual pages

Both are made from the same definition, so packages need not keep copies:

```sh
weir completions bash > /usr/share/bash-completion/completions/weir
weir man > /usr/share/man/man1/weir.1
for command in serve check import explain why plan ctl upgrade kubernetes ingress report top demo lab completions man; do
  weir man $command > /usr/share/man/man1/weir-$command.1
done
```

`weir reference` prints the reference of the config in Markdown, `weir schema` its JSON Schema. Both are for authors of
documents and editors, and are not listed in the help.
";

fn page() -> String {
    let mut root = CommandLine::command().term_width(WIDTH).disable_help_subcommand(true);
    root.build();
    let mut page = INTRODUCTION.to_owned();
    page.push_str("| command | what it does |\n|---|---|\n");
    let commands = || root.get_subcommands().filter(|command| !command.is_hide_set());
    for command in commands() {
        let name = command.get_name();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(page, "| [`weir {name}`](#weir-{name}) | {} |", about.trim_end_matches('.'))
            .expect("a string grows");
    }
    push_help(&mut page, "weir", &root);
    for command in commands() {
        push_help(&mut page, &format!("weir {}", command.get_name()), command);
    }
    page.push('\n');
    page.push_str(PACKAGES);
    page
}

fn push_help(page: &mut String, heading: &str, command: &Command) {
    let help = command.clone().term_width(WIDTH).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(page, "\n## {heading}\n\n```text\n{}\n```\n", lines.join("\n").trim()).expect("a string grows");
}

/// `UPDATE=1 cargo test -p weir --bin weir` writes the page anew.
#[test]
fn commands_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).expect("docs is writable");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/commands.md is stale: run `UPDATE=1 cargo test -p weir --bin weir`");
}

#[test]
fn commands_page_shows_every_command_with_its_exit_codes() {
    let page = page();
    for command in CommandLine::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let (_, section) =
            page.split_once(&format!("\n## weir {name}\n")).expect("every command has a section");
        let section = section.split("\n## ").next().unwrap_or_default();
        for part in [format!("Usage: weir {name}"), "Examples:\n".to_owned(), "Exit codes:\n".to_owned()] {
            assert!(section.contains(&part), "{part:?} is missing in:\n{section}");
        }
        assert!(PACKAGES.contains(&format!(" {name}")), "{name} has a manual page too");
    }
}
