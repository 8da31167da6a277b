//! The programs in packages, what they print for packages, and their symbols cut off.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::{PROGRAM_BYTES_MAX, STATIC_PROGRAM_BYTES_MAX, archive, output_of};
use crate::dist::{DistBuild, DistPrograms, Libc};
use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// The programs, as built: with their symbols.
pub(super) struct Programs {
    pub(super) weir: PathBuf,
    pub(super) lab: PathBuf,
    pub(super) proof: PathBuf,
    pub(super) libc: Libc,
}

/// Builds the programs for this processor below `target`.
pub(super) fn build(workspace: &Workspace, target: &Path, libc: Libc) -> anyhow::Result<Programs> {
    let DistPrograms { weir, lab, proof } = DistBuild::new(workspace, target, libc)?.programs()?;
    Ok(Programs { weir, lab, proof, libc })
}

/// Copies a program without its symbols to `to`. The size of `weir` is bounded, for each C library on its own.
pub(super) fn strip(workspace: &Workspace, program: &Path, libc: Libc, to: &Path) -> anyhow::Result<()> {
    ProgramRun::new(workspace, "strip")
        .args(["--strip-all", "--remove-section=.comment", "-o"])
        .arg(to)
        .arg(program)
        .run()?;
    let bytes = fs::metadata(to)?.len();
    let is_bounded = program.file_name().is_some_and(|name| name == "weir");
    let most = match libc {
        Libc::Gnu => PROGRAM_BYTES_MAX,
        Libc::Musl => STATIC_PROGRAM_BYTES_MAX,
    };
    ensure!(!is_bounded || bytes <= most, "{} has {bytes} bytes: more than {most}", program.display());
    Ok(())
}

impl Programs {
    /// Manual pages of section 1, by file name.
    pub(super) fn manual_pages(&self, workspace: &Workspace) -> anyhow::Result<Vec<(String, String)>> {
        let mut pages = vec![("weir.1".to_owned(), output_of(workspace, &self.weir, &["man"])?)];
        for command in commands_in(&pages[0].1) {
            pages.push((format!("weir-{command}.1"), output_of(workspace, &self.weir, &["man", &command])?));
        }
        Ok(pages)
    }

    /// Completions of a program: the path below the root of an installation, and the text.
    pub(super) fn completions(
        workspace: &Workspace,
        program: &Path,
    ) -> anyhow::Result<Vec<(String, String)>> {
        let name = program.file_name().context("a program has a name")?.to_string_lossy();
        let print = |shell| output_of(workspace, program, &["completions", shell]);
        Ok(vec![
            (format!("usr/share/bash-completion/completions/{name}"), print("bash")?),
            (format!("usr/share/zsh/vendor-completions/_{name}"), print("zsh")?),
            (format!("usr/share/fish/vendor_completions.d/{name}.fish"), print("fish")?),
        ])
    }
}

/// Writes a manual page, compressed.
pub(super) fn write_manual_page(
    workspace: &Workspace,
    folder: &Path,
    name: &str,
    page: &str,
) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let file = folder.join(name);
    fs::write(&file, page)?;
    archive::compress(workspace, &file)
}

/// The commands that the manual page of the program names.
fn commands_in(page: &str) -> Vec<String> {
    let names = page.lines().filter_map(|line| line.strip_prefix("weir\\-")?.strip_suffix("(1)"));
    names.map(|name| name.replace("\\-", "-")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_program_names_its_commands() {
        assert_eq!(commands_in("weir\\-serve(1)\nRun\n.TP\nweir\\-check(1)\n"), ["serve", "check"]);
    }
}
