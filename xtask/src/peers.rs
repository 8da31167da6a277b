//! `cargo xtask peers`: current releases of the balancers that the lab compares Weir with, under `target/peers/root`.
//!
//! They are Debian unstable's packages with the libraries that those need, unpacked beside the system and not installed in it; the
//! lab takes them before the system's own. The mirror is the one that apt uses on this machine. Must not start anything but `-v`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// What is unpacked: the products of the lab that Debian has, and the program that makes them find their libraries.
const PACKAGES: &str = "nginx,libnginx-mod-stream,haproxy,apache2,caddy,patchelf";

/// The programs in those packages, each with the flag that makes it tell its version.
const PROGRAMS: [(&str, &str); 4] = [
    ("usr/sbin/nginx", "-v"),
    ("usr/sbin/haproxy", "-v"),
    ("usr/sbin/apache2", "-v"),
    ("usr/bin/caddy", "version"),
];

/// Where apt has its list of mirrors: files of either form.
const APT_FOLDER: &str = "/etc/apt";

#[derive(Args)]
pub(crate) struct PeersArguments {
    /// Mirror of Debian; by default the one in apt's list of sources
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// Suite of Debian
    #[arg(long, default_value = "unstable")]
    suite: String,
}

pub(crate) fn run(workspace: &Workspace, arguments: &PeersArguments) -> anyhow::Result<()> {
    let mirror = match &arguments.mirror {
        Some(mirror) => mirror.clone(),
        None => {
            mirror().context("apt's list of sources names no mirror of Debian: give one with --mirror URL")?
        }
    };
    let folder = workspace.target().join("peers");
    let (root, unfinished) = (folder.join("root"), folder.join("unfinished"));
    remove(&unfinished)?;
    fs::create_dir_all(&unfinished)?;
    unpack(workspace, &arguments.suite, &mirror, &unfinished)?;
    let libraries = libraries_of(&unfinished)?;
    let libraries = libraries.strip_prefix(&unfinished).expect("it was found there");
    for (program, _) in PROGRAMS {
        bind(workspace, &unfinished, libraries, program, &root)?;
    }
    // What is there is replaced as a whole, so that no run of the lab meets half of it.
    remove(&root)?;
    fs::rename(&unfinished, &root)?;
    for (program, flag) in PROGRAMS {
        ProgramRun::new(workspace, root.join(program)).arg(flag).run()?;
    }
    println!("The lab takes these from now on; `weir-lab ... --installed` takes the system's.");
    Ok(())
}

/// By way of an archive: what mmdebstrap unpacks itself belongs to other users where it is not started by root.
fn unpack(workspace: &Workspace, suite: &str, mirror: &str, into: &Path) -> anyhow::Result<()> {
    let archive = into.with_extension("tar");
    ProgramRun::new(workspace, "mmdebstrap")
        .args(["--quiet", "--variant=extract", "--components=main"])
        // The mirror may be a snapshot, whose signature says that it is out of date.
        .args(["--aptopt=Acquire::Check-Valid-Until \"false\"", &format!("--include={PACKAGES}")])
        .arg(suite)
        .arg(&archive)
        .arg(mirror)
        .run()
        .context("mmdebstrap is a package of Debian: apt-get install mmdebstrap, or cargo xtask setup")?;
    let unpacked = ProgramRun::new(workspace, "tar").args(["--extract", "--exclude=./dev", "--file"]);
    let unpacked = unpacked.arg(&archive).arg("--directory").arg(into).run();
    fs::remove_file(&archive).ok();
    unpacked
}

/// Makes `program` start with the loader and the libraries beside it, which are newer than those of the system, once it is in `root`.
/// By its own path, so that it can start itself again as HAProxy does on a reload.
fn bind(
    workspace: &Workspace,
    here: &Path,
    libraries: &Path,
    program: &str,
    root: &Path,
) -> anyhow::Result<()> {
    let loader = loader_in(&here.join(libraries))?;
    let name = loader.file_name().expect("a file has a name");
    ProgramRun::new(workspace, &loader)
        .arg("--library-path")
        .arg(here.join(libraries))
        .arg(here.join("usr/bin/patchelf"))
        .arg("--set-interpreter")
        .arg(root.join(libraries).join(name))
        // Not the runpath: modules that are loaded later have to find theirs by that of the program.
        .args(["--force-rpath", "--set-rpath"])
        .arg(root.join(libraries))
        .arg(here.join(program))
        .run()
}

/// The folder with the libraries of the one architecture.
fn libraries_of(root: &Path) -> anyhow::Result<PathBuf> {
    let folder = root.join("usr/lib");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut folders = entries.flatten().map(|entry| entry.path());
    folders.find(|folder| loader_in(folder).is_ok()).context("there is no loader among what was unpacked")
}

/// The dynamic loader: `ld-linux-x86-64.so.2` and its like.
fn loader_in(folder: &Path) -> anyhow::Result<PathBuf> {
    let is_loader = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("ld-linux") && name.contains(".so.")
    };
    let mut files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    files.find(is_loader).with_context(|| format!("no dynamic loader in {}", folder.display()))
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    ensure!(!folder.exists(), "{} is still there", folder.display());
    Ok(())
}

/// The mirror of Debian that apt uses on this machine.
pub(crate) fn mirror() -> Option<String> {
    mirror_of(Path::new(APT_FOLDER))
}

/// The first mirror of Debian in apt's list of sources.
fn mirror_of(apt: &Path) -> Option<String> {
    let mut files: Vec<PathBuf> = fs::read_dir(apt.join("sources.list.d"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files.push(apt.join("sources.list"));
    files.iter().find_map(|file| mirror_in(&fs::read_to_string(file).ok()?))
}

/// The first mirror in a list: `URIs:` of the newer form, the word behind `deb` and its options of the older one. Mirrors of
/// Debian have its name as the last part of their path; there is none of unstable among those of security updates.
fn mirror_in(list: &str) -> Option<String> {
    let lines = list.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let uris = lines.flat_map(|line| match line.split_once(char::is_whitespace) {
        Some(("URIs:", rest)) => rest.split_whitespace().collect::<Vec<_>>(),
        Some(("deb", rest)) => {
            let rest = rest.trim_start();
            let rest =
                if rest.starts_with('[') { rest.split_once(']').map_or("", |(_, rest)| rest) } else { rest };
            rest.split_whitespace().take(1).collect()
        }
        _ => Vec::new(),
    });
    uris.into_iter().find(|uri| uri.trim_end_matches('/').ends_with("/debian")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_one_of_apt() {
        let newer = "Types: deb\n# URIs: http://old.example/debian\nURIs: http://a.example/debian-security http://b.example/debian/\n";
        assert_eq!(mirror_in(newer).as_deref(), Some("http://b.example/debian/"));
        let older = "# deb http://c.example/debian x main\ndeb-src http://s.example/debian x main\n\
                     deb [arch=amd64 signed-by=/k] http://d.example/debian bookworm main\n";
        assert_eq!(mirror_in(older).as_deref(), Some("http://d.example/debian"));
        for list in
            ["", "URIs: http://a.example/ubuntu\n", "deb https://a.example/tool stable main\n", "deb\n"]
        {
            assert_eq!(mirror_in(list), None, "{list}");
        }
    }

    #[test]
    fn all_lists_of_apt_are_read() {
        let apt = tempfile::tempdir().unwrap();
        assert_eq!(mirror_of(apt.path()), None);
        fs::write(apt.path().join("sources.list"), "deb http://last.example/debian x main\n").unwrap();
        assert_eq!(mirror_of(apt.path()).as_deref(), Some("http://last.example/debian"));
        fs::create_dir(apt.path().join("sources.list.d")).unwrap();
        fs::write(apt.path().join("sources.list.d/a.list"), "deb http://tool.example/apt x main\n").unwrap();
        fs::write(apt.path().join("sources.list.d/b.sources"), "URIs: http://first.example/debian\n")
            .unwrap();
        assert_eq!(mirror_of(apt.path()).as_deref(), Some("http://first.example/debian"));
    }

    #[test]
    fn libraries_are_where_the_loader_is() {
        let root = tempfile::tempdir().unwrap();
        let libraries = root.path().join("usr/lib/aarch64-linux-gnu");
        fs::create_dir_all(root.path().join("usr/lib/apache2")).unwrap();
        fs::create_dir_all(&libraries).unwrap();
        assert!(libraries_of(root.path()).is_err());
        fs::write(libraries.join("ld-linux-aarch64.so.1"), "").unwrap();
        assert_eq!(libraries_of(root.path()).unwrap(), libraries);
    }
}
