//! `weir plan`: the changes of a reload, and their effect on live connections.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use weir_config::{
    ChangeKind, CheckedConfig, ConfigChange, ConfigDiff, ConfigPart, Effect, KeyChange, print_duration,
};

use crate::error::CommandError;
use crate::features;
use crate::foreign::{LossArguments, load_running};
use crate::help_text::with_exit_codes;
use crate::output::{self, counted};
use crate::running::admin_client::AdminArguments;

const EXAMPLES: &str = "\
Examples:
  weir plan new.toml --from weir.toml
  weir plan new.toml --from weir.toml --json
  weir plan new.toml --admin unix:/run/weir.sock";

const EXIT_CODES: &str = "\
Exit codes:
  0  there are no changes
  1  there are changes, or a running Weir cannot be reached: see standard error
  2  one of the configs has errors or cannot be read";

/// Exit code for configs that differ.
const DIFFERENT: u8 = 1;

/// Show the changes of a reload with another config, and their effect on live connections.
///
/// Effective configs are compared: files joined, variables replaced, defaults included. New parts are marked `+`, removed ones `-`, changed
/// ones `~`, each with its location and its effect on connections. Files of certificates and keys are compared by name. Secrets are compared, but not
/// shown; a running Weir does not show them, so that they are not compared with it. Nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct PlanArguments {
    /// The new config.
    file: PathBuf,
    /// The config in use. Without it, that of a running Weir.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["admin", "config"])]
    from: Option<PathBuf>,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    loss: LossArguments,
    #[command(flatten)]
    admin: AdminArguments,
}

pub(crate) fn run(arguments: &PlanArguments) -> Result<ExitCode, CommandError> {
    let after = usable(features::check(arguments.loss.load(&arguments.file)))?;
    let before = match &arguments.from {
        Some(file) => usable(load_running(file))?,
        None => running(&arguments.admin)?,
    };
    let difference = ConfigDiff::between(&before, &after);
    let text = if arguments.json { to_json(&difference) } else { to_text(&difference) };
    output::print(&text)?;
    Ok(if difference.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENT) })
}

fn usable(checked: CheckedConfig) -> Result<CheckedConfig, CommandError> {
    if checked.config.is_none() { Err(CommandError::Config(checked.diagnostics)) } else { Ok(checked) }
}

/// The config of a running Weir, as its file had it when it was read. Its secrets are left out, and not compared.
fn running(admin: &AdminArguments) -> Result<CheckedConfig, CommandError> {
    let answer = admin.client()?.get("/api/config")?;
    if answer.status != 200 {
        let what = format!("it does not return its config ({})", answer.status);
        return Err(CommandError::Failed { error: anyhow::anyhow!(what), help: None });
    }
    Ok(CheckedConfig::parse_shown(&answer.text(), "the config in use"))
}

fn to_text(difference: &ConfigDiff) -> String {
    let grace = print_duration(difference.grace);
    let mut text = String::new();
    for change in &difference.changes {
        push_change(&mut text, change, &grace);
    }
    push_sum(&mut text, difference);
    text
}

fn push_change(text: &mut String, change: &ConfigChange, grace: &str) {
    let sign = match change.kind {
        ChangeKind::Added(_) => '+',
        ChangeKind::Removed(_) => '-',
        ChangeKind::Changed(_) => '~',
    };
    let location = change.location.as_ref().map(|location| format!("  ({location})")).unwrap_or_default();
    let mut line = |line: String| {
        text.push_str(line.trim_end());
        text.push('\n');
    };
    line(format!("{sign} {}{location}", change.part));
    if let ChangeKind::Changed(keys) = &change.kind {
        for KeyChange { key, before, after, location, effect } in keys {
            let [before, after] = [before, after].map(|value| value.as_deref().unwrap_or("(not set)"));
            let location = location.as_ref().map(|location| format!("  ({location})")).unwrap_or_default();
            line(format!("    {key}: {before} -> {after}{location}"));
            line(format!("      {}", effect.sentence(grace)));
        }
    } else {
        for effect in change.effects() {
            line(format!("    {}", effect.sentence(grace)));
        }
    }
}

fn push_sum(text: &mut String, difference: &ConfigDiff) {
    if difference.is_empty() {
        text.push_str("nothing would change\n");
        return;
    }
    let mut counts = BTreeMap::new();
    for change in &difference.changes {
        *counts.entry(word(&change.kind)).or_insert(0_usize) += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let changes = counted(difference.changes.len(), "change");
    writeln!(text, "\n{changes}: {}", counts.join(", ")).expect("a string grows");
    let needs_restart = keys(difference, Effect::Restart);
    if !needs_restart.is_empty() {
        writeln!(text, "only after a restart: {}", needs_restart.join(", ")).expect("a string grows");
    }
}

/// The keys whose change has an effect, with the section before them.
fn keys(difference: &ConfigDiff, effect: Effect) -> Vec<String> {
    let in_change = |change: &ConfigChange| match &change.kind {
        ChangeKind::Changed(keys) => {
            let keys = keys.iter().filter(|key| key.effect == effect);
            keys.map(|key| format!("{}.{}", change.part.kind(), key.key)).collect()
        }
        _ => Vec::new(),
    };
    difference.changes.iter().flat_map(in_change).collect()
}

const fn word(what: &ChangeKind) -> &'static str {
    match what {
        ChangeKind::Added(_) => "added",
        ChangeKind::Removed(_) => "removed",
        ChangeKind::Changed(_) => "changed",
    }
}

/// Keys are only added, never renamed.
fn to_json(difference: &ConfigDiff) -> String {
    let grace = print_duration(difference.grace);
    let changes: Vec<Value> = difference.changes.iter().map(|change| change_json(change, &grace)).collect();
    let object = json!({
        "changes": changes,
        "reload_grace": grace,
        "needs_restart": keys(difference, Effect::Restart),
    });
    format!("{object:#}\n")
}

fn change_json(change: &ConfigChange, grace: &str) -> Value {
    let location = change.location.as_ref().map(ToString::to_string);
    let mut object =
        json!({ "part": change.part.kind(), "change": word(&change.kind), "location": location });
    match &change.part {
        ConfigPart::Listener(name)
        | ConfigPart::Upstream(name)
        | ConfigPart::Limit(name)
        | ConfigPart::Store(name)
        | ConfigPart::Cache(name)
        | ConfigPart::RoutesFrom(name)
        | ConfigPart::Map(name)
        | ConfigPart::List(name) => object["name"] = json!(name),
        ConfigPart::Route(owner, name) => (object["listener"], object["name"]) = (json!(owner), json!(name)),
        ConfigPart::Server(owner, name) => (object["upstream"], object["name"]) = (json!(owner), json!(name)),
        _ => {}
    }
    match &change.kind {
        ChangeKind::Added(effect) | ChangeKind::Removed(effect) => {
            object["effect"] = json!(effect.name());
            object["sentence"] = json!(effect.sentence(grace));
        }
        ChangeKind::Changed(keys) => object["keys"] = keys.iter().map(|key| key_json(key, grace)).collect(),
    }
    object
}

fn key_json(key: &KeyChange, grace: &str) -> Value {
    json!({
        "key": key.key,
        "before": key.before,
        "after": key.after,
        "location": key.location.as_ref().map(ToString::to_string),
        "effect": key.effect.name(),
        "sentence": key.effect.sentence(grace),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "\
[listener.web]
address = \":8080\"
upstream = \"app\"

[upstream.app]
servers = [\"10.0.0.1:80\", \"10.0.0.2:80\"]
";

    fn difference(new: &str) -> ConfigDiff {
        ConfigDiff::between(&CheckedConfig::parse(OLD, "old.toml"), &CheckedConfig::parse(new, "new.toml"))
    }

    #[test]
    fn nothing_is_said_in_a_word() {
        let same = difference(OLD);
        assert_eq!(to_text(&same), "nothing would change\n");
        let json: Value = serde_json::from_str(&to_json(&same)).unwrap();
        assert_eq!(json["changes"], json!([]));
    }

    #[test]
    fn each_change_has_its_place_and_what_it_does() {
        let new = OLD.replace("\"10.0.0.2:80\"", "{ address = \"10.0.0.3:80\", weight = 5 }")
            + "timeouts.response = \"5s\"\n\n[process]\nworkers = 3\nreload_grace = \"1m\"\n";
        let text = to_text(&difference(&new));
        assert_eq!(
            text,
            r#"~ process  (new.toml:9:1)
    workers: "auto" -> 3  (new.toml:10:1)
      takes effect after a restart
    reload_grace: "5m" -> "1m"  (new.toml:11:1)
      applies at once; no connection ends
~ upstream `app`  (new.toml:5:1)
    timeouts.response: "1m" -> "5s"  (new.toml:7:10)
      requests in progress complete unchanged; applies from the next request on
+ upstream `app`, server `10.0.0.3:80`  (new.toml:6:27)
    is used at once; no connection ends
- upstream `app`, server `10.0.0.2:80`  (old.toml:6:27)
    gets no new requests; those on it complete within their own limits, tunnels end within 1m

4 changes: 1 added, 2 changed, 1 removed
only after a restart: process.workers
"#
        );
        let json: Value = serde_json::from_str(&to_json(&difference(&new))).unwrap();
        assert_eq!(json["needs_restart"], json!(["process.workers"]));
        assert_eq!(json["changes"][1]["keys"][0]["effect"], "next-request");
        assert_eq!(json["changes"][3]["upstream"], "app");
        assert_eq!(json["changes"][3]["effect"], "drains");
    }
}
