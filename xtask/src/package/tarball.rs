//! The tarball: static programs that need no library of the system, with everything else of an installation, below one folder.

use std::path::{Path, PathBuf};

use super::contents::{copy, set_modes, stage_lab, stage_weir};
use super::programs::Programs;
use super::release::Release;
use super::{archive, remove};
use crate::workspace::Workspace;

/// Beside the files of the installation.
const TEXTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

pub(super) fn make(
    workspace: &Workspace,
    release: &Release,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<PathBuf> {
    let name = format!("weir-{}-{}", release.version, release.target(programs.libc.name()));
    let root = folder.join("tarball");
    remove(&root)?;
    let inside = root.join(&name);
    stage_weir(workspace, programs, &inside)?;
    stage_lab(workspace, programs, &inside)?;
    for text in TEXTS {
        copy(&workspace.root().join(text), &inside.join(text))?;
    }
    set_modes(&root)?;
    let file = folder.join(format!("{name}.tar"));
    archive::pack(workspace, release, &root, &file)?;
    archive::compress(workspace, &file)?;
    remove(&root)?;
    Ok(file.with_extension("tar.gz"))
}
