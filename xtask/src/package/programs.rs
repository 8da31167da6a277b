//! The programs in packages: built as `dist`, stripped, without a path of the builder.
//!
//! With glibc for Debian, whose packages share one; with musl, static, for what has to run anywhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use super::{PROGRAM_BYTES_MAX, archive, output_of};
use crate::process::ProgramRun;
use crate::workspace::{DIST_BUILD, Workspace};

/// The C library that programs are linked with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Libc {
    Gnu,
    Musl,
}

/// The programs, as built: with their symbols.
pub(super) struct Programs {
    pub(super) weir: PathBuf,
    pub(super) lab: PathBuf,
    pub(super) libc: Libc,
}

impl Libc {
    /// As in the name of a target.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gnu => "gnu",
            Self::Musl => "musl",
        }
    }
}

/// Builds both programs for this processor below `target`.
pub(super) fn build(workspace: &Workspace, target: &Path, libc: Libc) -> anyhow::Result<Programs> {
    let host = host_of(workspace)?;
    let architecture = host.split('-').next().unwrap_or(&host);
    let triple = format!("{architecture}-unknown-linux-{}", libc.name());
    if libc == Libc::Musl {
        require_musl(workspace, &triple)?;
    }
    let variable = triple.replace('-', "_");
    let mut cargo = ProgramRun::cargo(workspace)
        .args(DIST_BUILD)
        .args(["--locked", "--package", "weir", "--package", "weir-lab", "--target", &triple, "--target-dir"])
        .arg(target)
        .env("RUSTFLAGS", remapped_paths(workspace, target).join(" "))
        .env(&format!("CFLAGS_{variable}"), remapped_paths_of_c(workspace, target).join(" "))
        .env("CARGO_INCREMENTAL", "0");
    if libc == Libc::Musl {
        cargo = cargo.env(&format!("CC_{variable}"), "musl-gcc");
    }
    cargo.run()?;
    let folder = target.join(&triple).join("dist");
    Ok(Programs { weir: folder.join("weir"), lab: folder.join("weir-lab"), libc })
}

/// The folders of this machine that would be in the programs otherwise, each with the name that replaces it.
fn folders(workspace: &Workspace, target: &Path) -> Vec<(PathBuf, &'static str)> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    // The last one that fits is taken.
    vec![(workspace.root().to_owned(), "weir"), (target.to_owned(), "target"), (cargo, "cargo")]
}

fn remapped_paths(workspace: &Workspace, target: &Path) -> Vec<String> {
    let folders = folders(workspace, target);
    folders.iter().map(|(from, to)| format!("--remap-path-prefix={}=/{to}", from.display())).collect()
}

fn remapped_paths_of_c(workspace: &Workspace, target: &Path) -> Vec<String> {
    let folders = folders(workspace, target);
    folders.iter().map(|(from, to)| format!("-ffile-prefix-map={}=/{to}", from.display())).collect()
}

fn host_of(workspace: &Workspace) -> anyhow::Result<String> {
    let printed = ProgramRun::new(workspace, "rustc").arg("-vV").read()?;
    printed
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc names no host")
}

/// The standard library of Rust for musl, and a C compiler for it.
fn require_musl(workspace: &Workspace, triple: &str) -> anyhow::Result<()> {
    let root = ProgramRun::new(workspace, "rustc").args(["--print", "sysroot"]).read()?;
    let standard_library = Path::new(root.trim_end()).join("lib/rustlib").join(triple);
    if !standard_library.exists() {
        ProgramRun::new(workspace, "rustup").args(["target", "add", triple]).run().with_context(|| {
            format!("the standard library for {triple} is missing: rustup target add {triple}")
        })?;
    }
    match ProgramRun::new(workspace, "musl-gcc").arg("-dumpversion").read() {
        Ok(_) => Ok(()),
        Err(error) => {
            bail!("{error:#}: on Debian it is in the package musl-tools, which cargo xtask setup installs")
        }
    }
}

/// Copies a program without its symbols to `to`. The size of `weir` is bounded.
pub(super) fn strip(workspace: &Workspace, program: &Path, to: &Path) -> anyhow::Result<()> {
    ProgramRun::new(workspace, "strip")
        .args(["--strip-all", "--remove-section=.comment", "-o"])
        .arg(to)
        .arg(program)
        .run()?;
    let bytes = fs::metadata(to)?.len();
    let is_bounded = program.file_name().is_some_and(|name| name == "weir");
    ensure!(
        !is_bounded || bytes <= PROGRAM_BYTES_MAX,
        "{} has {bytes} bytes: more than {PROGRAM_BYTES_MAX}",
        program.display()
    );
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
