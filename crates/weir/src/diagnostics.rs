//! The diagnostics of a config as text: underlined in their lines, or one sentence if the file cannot be read.

use std::fs;
use std::io;
use std::path::Path;

use weir_config::{Colour, Diagnostic, DiagnosticKind, Diagnostics};

/// The text for people, without a final line end.
pub(crate) fn render(diagnostics: &Diagnostics, colour: Colour) -> String {
    let mut all = diagnostics.iter();
    match (all.next(), all.next()) {
        (Some(only), None) if only.kind == DiagnosticKind::Unreadable => {
            unreadable(only, &diagnostics.location(only).file)
        }
        _ => diagnostics.render(colour) + &foreign_help(diagnostics),
    }
}

/// What to say of a whole file that was written for another product, behind the errors of its lines.
fn foreign_help(diagnostics: &Diagnostics) -> String {
    let Some(format) = diagnostics.foreign_format() else { return String::new() };
    let what = match format {
        "YAML" | "JSON" => format!("the file is {format}"),
        product => format!("the file looks like a config of {product}"),
    };
    format!(
        "\nhelp: {what}, and that of Weir is TOML: `[listener.web]` with an `address` and an `upstream`, `[upstream.app]` with `servers`. \
         `weir reference` has beside each key its name in nginx, HAProxy, Envoy, Traefik and others"
    )
}

/// There is no line to show, so the place is the file; its state says what to do.
fn unreadable(diagnostic: &Diagnostic, file: &str) -> String {
    let help = match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match std::env::current_dir() {
            Ok(folder) if Path::new(file).is_relative() => {
                format!("there is no such file in {}", folder.display())
            }
            _ => "there is no such file: is the path complete?".to_owned(),
        },
        Ok(metadata) if metadata.is_dir() => "this is a folder: name the file in it".to_owned(),
        Ok(_) if fs::File::open(file).is_ok() => "a config is text in UTF-8".to_owned(),
        _ => "this user may not read it: allow it, or run as a user that may".to_owned(),
    };
    format!("error: {file}: {}\nhelp: {help}", diagnostic.message)
}

#[cfg(test)]
mod tests {
    use weir_config::CheckedConfig;

    use super::*;

    fn rendered(path: &Path) -> String {
        render(&CheckedConfig::load(path).diagnostics, Colour::Never)
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told_in_words() {
        let missing = rendered(Path::new("/nowhere/weir.toml"));
        assert!(missing.starts_with("error: /nowhere/weir.toml: the file cannot be read: "), "{missing}");
        assert!(missing.ends_with("\nhelp: there is no such file: is the path complete?"), "{missing}");
        let here = std::env::current_dir().unwrap();
        let relative = rendered(Path::new("nowhere.toml"));
        assert!(
            relative.ends_with(&format!("\nhelp: there is no such file in {}", here.display())),
            "{relative}"
        );
        assert!(rendered(&here).ends_with("\nhelp: this is a folder: name the file in it"));
        let program = rendered(&std::env::current_exe().unwrap());
        assert!(program.ends_with("\nhelp: a config is text in UTF-8"), "{program}");
    }

    #[test]
    fn diagnostics_in_a_text_are_shown_in_their_lines() {
        let diagnostics = CheckedConfig::parse("listener = 1\n", "weir.toml").diagnostics;
        assert_eq!(render(&diagnostics, Colour::Never), diagnostics.render(Colour::Never));
    }

    #[test]
    fn a_config_of_another_product_is_named() {
        let text = "user www-data;\nhttp {\n  server {\n    listen 80;\n  }\n}\n";
        let told = render(&CheckedConfig::parse(text, "nginx.conf").diagnostics, Colour::Never);
        assert!(
            told.contains("\nhelp: the file looks like a config of nginx, and that of Weir is TOML"),
            "{told}"
        );
        let told = render(&CheckedConfig::parse("[listener.web", "weir.toml").diagnostics, Colour::Never);
        assert!(!told.contains("looks like"), "{told}");
    }
}
