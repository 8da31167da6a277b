//! `cargo xtask instructions`: how many instructions of user code one exchange takes, and whether that has grown.
//!
//! Time on a shared machine varies by tens of percent, the number of instructions by less than one. So this is what
//! guards the data path against slow decay, while the lab measures time. It counts user code only: the kernel, nine
//! tenths of the time of an exchange, is no part of it.

mod program;
mod serve;
mod peers;
mod callgrind;
mod baseline;

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;

use self::baseline::Baseline;
use self::program::{Executables, PROGRAMS};
use crate::process::ProgramRun;
use crate::workspace::Workspace;

#[derive(Args, Default)]
pub(crate) struct InstructionsArguments {
    /// Take what is counted now as the new baseline
    #[arg(long)]
    record: bool,
    /// Judge nothing, but show which functions the instructions of one program are in
    #[arg(long, value_name = "PROGRAM", conflicts_with = "record", value_parser = program_names())]
    profile: Option<String>,
}

fn program_names() -> PossibleValuesParser {
    PossibleValuesParser::new(PROGRAMS.iter().map(|program| program.name))
}

pub(crate) fn run(workspace: &Workspace, arguments: &InstructionsArguments) -> anyhow::Result<()> {
    let compiler = ProgramRun::new(workspace, "rustc").arg("--version").read()?.trim().to_owned();
    let mut counted = BTreeMap::new();
    let executables = Executables::build(workspace)?;
    if let Some(program) = PROGRAMS.iter().find(|program| Some(program.name) == arguments.profile.as_deref())
    {
        return program.show_profile(workspace, &executables);
    }
    let baseline = if arguments.record { None } else { Some(Baseline::read(workspace)?) };
    for program in PROGRAMS {
        let is_enough = |count| baseline.as_ref().is_none_or(|baseline| baseline.allows(program.name, count));
        let count = program.instructions_per_exchange(workspace, &executables, is_enough);
        counted.insert(
            program.name.to_owned(),
            count.with_context(|| format!("cannot count {}", program.name))?,
        );
    }
    match baseline {
        Some(baseline) => judge(&baseline, &counted, &compiler),
        None => Baseline::new(compiler, counted).write(workspace),
    }
}

fn judge(baseline: &Baseline, counted: &BTreeMap<String, u64>, compiler: &str) -> anyhow::Result<()> {
    let mut refused = Vec::new();
    println!("{:<20} {:>9} {:>9}", "program", "baseline", "now");
    for (name, &now) in counted {
        let verdict = baseline.verdict(name, now);
        let before = baseline.count(name).map_or("none".to_owned(), |count| count.to_string());
        println!("{name:<20} {before:>9} {now:>9}  {verdict}");
        if !baseline.allows(name, now) {
            refused.push(name.as_str());
        }
    }
    let gone = baseline.names().find(|name| !counted.contains_key(*name));
    ensure!(gone.is_none(), "the baseline holds {}, which is no program any more", gone.unwrap_or_default());
    if !refused.is_empty() {
        let other =
            if baseline.compiler() == compiler { "" } else { "; note that the compiler is another one" };
        bail!(
            "not within the baseline ({}){other}: {}. See where they are with --profile PROGRAM; if the growth is worth \
             it, say why in the commit and record it: cargo xtask instructions --record",
            baseline.compiler(),
            refused.join(", "),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(entries: &[(&str, u64)]) -> BTreeMap<String, u64> {
        entries.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
    }

    #[test]
    fn growth_fails_and_names_the_program() {
        let baseline = Baseline::new("rustc 1".to_owned(), counts(&[("head", 1_000), ("body", 1_000)]));
        judge(&baseline, &counts(&[("head", 1_050), ("body", 500)]), "rustc 1").unwrap();
        let now = counts(&[("head", 1_051), ("body", 1_000)]);
        let error = judge(&baseline, &now, "rustc 1").unwrap_err().to_string();
        assert!(error.starts_with("not within the baseline (rustc 1): head. "), "{error}");
        let error = judge(&baseline, &now, "rustc 2").unwrap_err().to_string();
        assert!(error.contains("the compiler is another one"), "{error}");
    }

    #[test]
    fn baseline_and_programs_must_match() {
        let baseline = Baseline::new("rustc 1".to_owned(), counts(&[("head", 1_000)]));
        assert!(judge(&baseline, &counts(&[("head", 1_000), ("body", 1)]), "rustc 1").is_err());
        let error = judge(&baseline, &counts(&[]), "rustc 1").unwrap_err().to_string();
        assert_eq!(error, "the baseline holds head, which is no program any more");
    }
}
