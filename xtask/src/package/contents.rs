//! The files of an installation, below a root: programs, manual pages, completions, unit, config, documents.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;

use super::manual;
use super::programs::{Programs, strip, write_manual_page};
use crate::workspace::Workspace;

/// Files of `packaging/`, and where an installation has them.
const FILES: &[(&str, &str)] = &[
    ("config/weir.toml", "etc/weir/weir.toml"),
    ("config/logrotate", "etc/logrotate.d/weir"),
    ("config/welcome.html", "usr/share/weir/welcome/index.html"),
    ("systemd/weir.service", "usr/lib/systemd/system/weir.service"),
    ("config/example-site.toml", "usr/share/doc/weir/examples/site.toml"),
    ("config/sysctl.conf", "usr/share/doc/weir/examples/sysctl.conf"),
];

/// Folders that are there even if nothing is in them.
const FOLDERS: &[&str] = &["etc/weir/conf.d"];

/// What an operator may change: kept over upgrades.
pub(super) const CONFIG_FILES: &[&str] = &["/etc/weir/weir.toml", "/etc/logrotate.d/weir"];

/// Puts Weir below `root`.
pub(super) fn stage_weir(workspace: &Workspace, programs: &Programs, root: &Path) -> anyhow::Result<()> {
    make_folder(&root.join("usr/bin"))?;
    strip(workspace, &programs.weir, programs.libc, &root.join("usr/bin/weir"))?;
    for (from, to) in FILES {
        copy(&workspace.root().join("packaging").join(from), &root.join(to))?;
    }
    for folder in FOLDERS {
        make_folder(&root.join(folder))?;
    }
    for (name, page) in programs.manual_pages(workspace)? {
        write_manual_page(workspace, &root.join("usr/share/man/man1"), &name, &page)?;
    }
    let reference = fs::read_to_string(workspace.root().join("docs/configuration.md"))?;
    let page = manual::page("weir.toml", 5, "the config of Weir", &reference);
    write_manual_page(workspace, &root.join("usr/share/man/man5"), "weir.toml.5", &page)?;
    stage_completions(workspace, &programs.weir, root)?;
    stage_documents(workspace, &root.join("usr/share/doc/weir"))
}

/// Puts the lab below `root`, and beside it the program that proves imports.
pub(super) fn stage_lab(workspace: &Workspace, programs: &Programs, root: &Path) -> anyhow::Result<()> {
    make_folder(&root.join("usr/bin"))?;
    strip(workspace, &programs.lab, programs.libc, &root.join("usr/bin/weir-lab"))?;
    let page = super::output_of(workspace, &programs.lab, &["man"])?;
    write_manual_page(workspace, &root.join("usr/share/man/man1"), "weir-lab.1", &page)?;
    strip(workspace, &programs.proof, programs.libc, &root.join("usr/bin/weir-proof"))?;
    let about = fs::read_to_string(workspace.root().join("docs/import-proof.md"))?;
    let page =
        manual::page("weir-proof", 1, "whether an imported config answers as the original does", &about);
    write_manual_page(workspace, &root.join("usr/share/man/man1"), "weir-proof.1", &page)?;
    stage_completions(workspace, &programs.lab, root)
}

fn stage_completions(workspace: &Workspace, program: &Path, root: &Path) -> anyhow::Result<()> {
    for (path, text) in Programs::completions(workspace, program)? {
        let file = root.join(path);
        make_folder(file.parent().context("it is in a folder")?)?;
        fs::write(file, text)?;
    }
    Ok(())
}

/// The pages of `docs/` and the single files of `examples/`.
fn stage_documents(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    for (from, to, extension) in [("docs", "", "md"), ("examples", "examples", "toml")] {
        for entry in fs::read_dir(workspace.root().join(from))? {
            let path = entry?.path();
            if path.is_file() && path.extension().is_some_and(|found| found == extension) {
                let name = path.file_name().context("a file has a name")?;
                copy(&path, &folder.join(to).join(name))?;
            }
        }
    }
    Ok(())
}

/// Copies a file, readable by all and writable by its owner; what can be run stays so.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    make_folder(to.parent().context("it is in a folder")?)?;
    let read = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    fs::write(to, read).with_context(|| format!("cannot write {}", to.display()))
}

pub(super) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Gives every file and folder below `root` the mode that installed ones have, whatever the mask of this process: 0755 for folders and
/// programs, 0644 for the rest.
pub(super) fn set_modes(root: &Path) -> anyhow::Result<()> {
    fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.is_dir() {
            set_modes(&path)?;
            continue;
        }
        let is_program = root.ends_with("bin");
        fs::set_permissions(&path, fs::Permissions::from_mode(if is_program { 0o755 } else { 0o644 }))?;
    }
    Ok(())
}
