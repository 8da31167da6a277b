//! `cargo xtask package`: what people install, under `target/package`: Debian packages, a static tarball, a container image, a bill of materials.
//!
//! Everything that goes into them is in `packaging/` or is printed by the programs themselves. The same commit gives the same bytes: times
//! are those of the commit, paths of the builder are not in the programs, and archives are sorted.

mod trial;
mod debian;
mod tarball;
mod image;
mod bill_of_materials;
mod contents;
mod manual;
mod programs;
mod archive;
mod release;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};

use self::release::Release;
use crate::dist::Libc;
use crate::process::ProgramRun;
use crate::recorded;
use crate::workspace::Workspace;

#[derive(Args)]
pub(crate) struct PackageArguments {
    /// Make these alone
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<PackageKind>,
    /// Build everything a second time, in a folder of its own and from nothing, and fail where a byte differs
    #[arg(long)]
    twice: bool,
    /// Install the Debian package in a fresh system in a container, and use it there
    #[arg(long = "try")]
    is_tried: bool,
    /// Record that everything has passed as it is, so that `ci` leaves it out until that changes
    #[arg(long, requires = "is_tried", conflicts_with = "only")]
    record: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PackageKind {
    /// Packages for Debian and its descendants
    Deb,
    /// An archive with a program that needs no library of the system
    Tarball,
    /// An image for containers, as an OCI layout
    Image,
    /// The components of the program, in CycloneDX
    Sbom,
}

/// The largest program that a Debian package may hold: it had 22.1 million bytes before it read configs of other products (decision 276) and 24.3
/// before it spoke HTTP/3 (decision 325), and is to have 16. A dependency that doubles it is to be seen.
const PROGRAM_BYTES_MAX: u64 = 26_400_000;

/// The largest static program: it brings its C library, relocations that are not packed, and the client of Kubernetes.
const STATIC_PROGRAM_BYTES_MAX: u64 = 36_000_000;

/// What `cargo xtask ci` runs.
impl PackageArguments {
    pub(crate) fn of_ci() -> Self {
        Self { only: Vec::new(), twice: false, is_tried: true, record: false }
    }
}

pub(crate) fn run(workspace: &Workspace, arguments: &PackageArguments) -> anyhow::Result<()> {
    let release = Release::of(workspace)?;
    let folder = workspace.target().join("package");
    let made = make_all(workspace, &release, arguments, workspace.target(), &folder)?;
    if arguments.twice {
        let again = workspace.target().join("package-again");
        remove(&again)?;
        let second = make_all(workspace, &release, arguments, &again.join("build"), &again.join("package"))?;
        compare(&made, &second)?;
        remove(&again)?;
    }
    write_sums(workspace, &folder, &made)?;
    let package = made.iter().find(|file| is_package_of(file, "weir"));
    match package.filter(|_| arguments.is_tried) {
        Some(package) => trial::run(workspace, package)?,
        None => return Ok(()),
    }
    if arguments.record { recorded::PACKAGES.record(workspace) } else { Ok(()) }
}

/// Whether `file` is the Debian package of that name.
fn is_package_of(file: &Path, name: &str) -> bool {
    let file_name = file.file_name().unwrap_or_default().to_string_lossy();
    file_name
        .strip_suffix(".deb")
        .and_then(|rest| rest.split_once('_'))
        .is_some_and(|(found, _)| found == name)
}

/// Makes what is wanted in `folder`, with programs built in `target`, and returns the files.
fn make_all(
    workspace: &Workspace,
    release: &Release,
    arguments: &PackageArguments,
    target: &Path,
    folder: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let is_wanted = |kind| arguments.only.is_empty() || arguments.only.contains(&kind);
    remove(folder)?;
    fs::create_dir_all(folder)?;
    let mut made = Vec::new();
    if is_wanted(PackageKind::Sbom) {
        made.push(bill_of_materials::make(workspace, release, folder)?);
    }
    if is_wanted(PackageKind::Deb) {
        let programs = programs::build(workspace, target, Libc::Gnu)?;
        made.extend(debian::make(workspace, release, &programs, folder)?);
    }
    if is_wanted(PackageKind::Tarball) || is_wanted(PackageKind::Image) {
        let programs = programs::build(workspace, target, Libc::Musl)?;
        if is_wanted(PackageKind::Tarball) {
            made.push(tarball::make(workspace, release, &programs, folder)?);
        }
        if is_wanted(PackageKind::Image) {
            made.push(image::make(workspace, release, &programs, folder)?);
        }
    }
    Ok(made)
}

/// Both builds must have given the same bytes.
fn compare(first: &[PathBuf], second: &[PathBuf]) -> anyhow::Result<()> {
    ensure!(first.len() == second.len(), "the second build made {} files, not {}", second.len(), first.len());
    for (one, other) in first.iter().zip(second) {
        let is_same = fs::read(one)? == fs::read(other)?;
        ensure!(is_same, "{} and {} differ: the build is not reproducible", one.display(), other.display());
    }
    println!("Built twice, and all {} files are the same.", first.len());
    Ok(())
}

/// `SHA256SUMS`, and the list of what was made on standard output.
fn write_sums(workspace: &Workspace, folder: &Path, made: &[PathBuf]) -> anyhow::Result<()> {
    let mut sums = String::new();
    for file in made {
        let name = file.file_name().context("it is a file")?.to_string_lossy();
        sums.push_str(&format!("{}  {name}\n", archive::sha256(workspace, file)?));
        println!("{:>10} bytes  {}", fs::metadata(file)?.len(), file.display());
    }
    fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(())
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// Runs a program and returns what it prints.
fn output_of(workspace: &Workspace, program: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    ProgramRun::new(workspace, program).args(arguments).read()
}
