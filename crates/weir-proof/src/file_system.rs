//! A copy of the file system for one proof: an overlay over the root and over each disk that is mounted below it, whose upper layers are in memory.
//! What is written stays in them, and they are gone with the process.
//!
//! `/run`, `/dev`, `/proc` and `/sys` are of the proof's own, so neither sockets nor devices nor settings of the running system are in reach.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use rustix::process::pivot_root;

/// Where the program of Weir is in the copy.
const WEIR: &str = "/run/weir-proof/weir";

/// How much may be written in all; a proof takes some megabytes.
const LAYERS: &str = "size=512m,mode=0755";

/// File systems that may be the lower layer of an overlay, and do not wait for another machine.
const DISKS: [&str; 14] = [
    "bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "squashfs", "tmpfs",
    "vfat", "xfs", "zfs",
];

/// What is below these is not in the copy: it is of the proof's own, or of containers.
const LEFT_OUT: [&str; 9] = [
    "/dev",
    "/proc",
    "/run",
    "/snap",
    "/sys",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/kubelet",
    "/var/lib/lxcfs",
];

/// Devices that programs need.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Settings of the kernel, which are for all of the machine.
const SETTINGS: [&str; 2] = ["sys", "sysrq-trigger"];

/// Enters a copy of the file system, in which the program of Weir is at the path that is returned, and `sockets` are not.
///
/// # Errors
/// The copy cannot be made, or is not what it should be: nothing was written or started then.
pub(crate) fn enter_copy(weir: &Path, sockets: &[String]) -> anyhow::Result<PathBuf> {
    run("mount", &["--make-rprivate", "/"])?;
    let disks = disks(&fs::read_to_string("/proc/self/mountinfo")?);
    // Mounted over in this namespace alone, so that no folder is left behind, and on one that no copy has.
    let layers = Path::new("/sys");
    run("mount", &["-t", "tmpfs", "-o", LAYERS, "proof", text(layers)])?;
    let root = layers.join("root");
    fs::create_dir(&root)?;
    overlay(Path::new("/"), &root, &layers.join("0")).context("an overlay over the root cannot be made")?;
    for (number, disk) in disks.iter().enumerate() {
        let there = root.join(disk.strip_prefix("/").unwrap_or(disk));
        // A link would lead out of the copy.
        let is_itself = there.canonicalize().is_ok_and(|path| path == there);
        if !is_itself || overlay(disk, &there, &layers.join((number + 1).to_string())).is_err() {
            eprintln!("note: {} is not in the copy of the file system", disk.display());
        }
    }
    mount_own(&root)?;
    let there = root.join(WEIR.trim_start_matches('/'));
    fs::create_dir(there.parent().unwrap_or(&root))?;
    fs::write(&there, "")?;
    run("mount", &["--bind", text(weir), text(&there)])?;
    run("mount", &["-o", "remount,bind,ro", text(&there)])?;
    leave_old(&root)?;
    for socket in sockets {
        let is_socket = fs::symlink_metadata(socket).is_ok_and(|about| about.file_type().is_socket());
        if is_socket {
            fs::remove_file(socket).with_context(|| format!("{socket} stays in the copy"))?;
        }
    }
    Ok(PathBuf::from(WEIR))
}

/// The places of mounted disks, parents before what is mounted below them.
fn disks(table: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = table.lines().filter_map(disk).collect();
    found.sort();
    found.dedup();
    found
}

/// The place that a line of `mountinfo` names, if the copy is to have it.
fn disk(line: &str) -> Option<PathBuf> {
    let place = line.split(' ').nth(4)?;
    let kind = line.split(" - ").nth(1)?.split(' ').next()?;
    let is_left_out = LEFT_OUT.iter().any(|folder| {
        place.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    // Options of mounts have these as separators, and `mountinfo` escapes.
    let is_plain = !place.contains([',', ':', '\\']);
    let is_disk =
        DISKS.contains(&kind) && place != "/" && !is_left_out && is_plain && Path::new(place).is_dir();
    is_disk.then(|| PathBuf::from(place))
}

/// Mounts at `there` what is at `lower`, with a layer for what is written.
fn overlay(lower: &Path, there: &Path, layer: &Path) -> anyhow::Result<()> {
    let (upper, work) = (layer.join("upper"), layer.join("work"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    // Owner and mode of the folder itself are those of the upper one.
    let about = fs::metadata(lower)?;
    chown(&upper, Some(about.uid()), Some(about.gid()))?;
    fs::set_permissions(&upper, about.permissions())?;
    let layers =
        format!("nodev,nosuid,lowerdir={},upperdir={},workdir={}", text(lower), text(&upper), text(&work));
    run("mount", &["-t", "overlay", "proof", "-o", &layers, text(there)])
}

/// What the copy has of its own: processes, devices, sockets, settings of the kernel for reading.
fn mount_own(root: &Path) -> anyhow::Result<()> {
    let at = |folder: &str| root.join(folder);
    let proc = at("proc");
    run("mount", &["-t", "proc", "-o", "nosuid,nodev,noexec", "proof", text(&proc)])?;
    for name in SETTINGS.iter().map(|name| proc.join(name)).filter(|path| path.exists()) {
        run("mount", &["--bind", text(&name), text(&name)])?;
        run("mount", &["-o", "remount,bind,ro", text(&name)])?;
    }
    // It tells of processors; who cannot have it goes without.
    let _ = run("mount", &["-t", "sysfs", "-o", "ro,nosuid,nodev,noexec", "proof", text(&at("sys"))]);
    run("mount", &["-t", "tmpfs", "-o", "size=64m,mode=0755,nosuid,nodev", "proof", text(&at("run"))])?;
    run("mount", &["-t", "tmpfs", "-o", "size=64m,mode=0755,nosuid", "proof", text(&at("dev"))])?;
    for device in DEVICES {
        let there = at("dev").join(device);
        fs::write(&there, "")?;
        run("mount", &["--bind", &format!("/dev/{device}"), text(&there)])?;
    }
    for folder in ["dev/shm", "run/lock"] {
        fs::create_dir(at(folder))?;
    }
    Ok(())
}

/// Makes the copy the root of all processes here, and takes the file system of the machine out of their reach.
fn leave_old(root: &Path) -> anyhow::Result<()> {
    let old = "run/weir-proof/machine";
    std::env::set_current_dir(root)?;
    fs::create_dir(old)?;
    pivot_root(".", old).context("the copy cannot become the root")?;
    std::env::set_current_dir("/")?;
    let old = format!("/{old}");
    run("umount", &["--lazy", &old])?;
    fs::remove_dir(&old)?;
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let is_copy = table.lines().any(|line| line.contains(" / / ") && line.contains(" - overlay proof "));
    ensure!(is_copy, "the root is no copy of the file system: nothing was started");
    let setting = fs::OpenOptions::new().write(true).open("/proc/sys/kernel/core_uses_pid");
    ensure!(setting.is_err(), "settings of the kernel are in reach: nothing was started");
    Ok(())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Runs a program to its end.
pub(crate) fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {}", arguments.join(" "), said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::disk;

    #[test]
    fn disks_are_copied_and_what_the_system_runs_on_is_not() {
        let line =
            |place: &str, kind: &str| disk(&format!("36 35 98:0 / {place} rw master:1 - {kind} /dev/sda rw"));
        assert!(line("/tmp", "ext4").is_some());
        assert!(line("/usr", "xfs").is_some());
        for (place, kind) in [
            ("/", "ext4"),
            ("/tmp", "nfs4"),
            ("/run", "tmpfs"),
            ("/dev/shm", "tmpfs"),
            ("/proc", "proc"),
            ("/tmp/no-such-folder", "ext4"),
            ("/etc/hosts", "ext4"),
        ] {
            assert_eq!(line(place, kind), None, "{place} {kind}");
        }
    }
}
