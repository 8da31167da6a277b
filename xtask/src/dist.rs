//! The programs as packages hold them and as everything measures them: profile `dist`, no path of the builder.
//!
//! One build serves packages, instruction counts and the lab, so that what is measured is what is installed.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::lab;
use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// The C library that programs are linked with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Libc {
    /// For Debian, whose packages share one, and for measurements.
    Gnu,
    /// Static, for what has to run anywhere.
    Musl,
}

/// Searches of Zstandard for levels from 10, which the config does not have; libzstd takes the next quicker one where its tables name one of these.
const UNUSED_C: &str = " -DZSTD_EXCLUDE_BTLAZY2_BLOCK_COMPRESSOR -DZSTD_EXCLUDE_BTOPT_BLOCK_COMPRESSOR \
                        -DZSTD_EXCLUDE_BTULTRA_BLOCK_COMPRESSOR";

/// Where the programs of this processor are built, and how.
pub(crate) struct DistBuild<'a> {
    workspace: &'a Workspace,
    target: PathBuf,
    libc: Libc,
    triple: String,
}

/// Where the programs are, with their symbols. The lab finds the other one beside it.
pub(crate) struct DistPrograms {
    pub(crate) weir: PathBuf,
    pub(crate) lab: PathBuf,
    pub(crate) proof: PathBuf,
}

impl Libc {
    /// As in the name of a target.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gnu => "gnu",
            Self::Musl => "musl",
        }
    }

    /// The arguments of `cargo build` for the features of the program. The clients of Kubernetes and of xDS are
    /// for pods and meshes, whose image has the static program.
    fn features(self) -> &'static [&'static str] {
        match self {
            Self::Gnu => &["--features", "weir/geoip,weir/http3,weir/profiler,weir/top,weir/traces"],
            Self::Musl => &["--all-features"],
        }
    }
}

impl<'a> DistBuild<'a> {
    /// The build below `target` with `libc`: each in a folder of its own, so that both can run at the same time.
    pub(crate) fn new(workspace: &'a Workspace, target: &'a Path, libc: Libc) -> anyhow::Result<Self> {
        let host = host_of(workspace)?;
        let architecture = host.split('-').next().unwrap_or(&host);
        let triple = format!("{architecture}-unknown-linux-{}", libc.name());
        if libc == Libc::Musl {
            require_musl(workspace, &triple)?;
        }
        let target = match libc {
            Libc::Gnu => target.to_owned(),
            Libc::Musl => target.join("musl"),
        };
        Ok(Self { workspace, target, libc, triple })
    }

    /// What is measured on this machine.
    pub(crate) fn measured(workspace: &'a Workspace) -> anyhow::Result<Self> {
        Self::new(workspace, workspace.target(), Libc::Gnu)
    }

    /// Builds the programs, each in its own workspace and side by side: the lab takes the Weir beside it.
    pub(crate) fn programs(&self) -> anyhow::Result<DistPrograms> {
        let (weir, lab) = self.measured_programs()?;
        // On its own: beside Weir, it would give dependencies other features.
        self.build(&["--package", "weir-proof"])?;
        Ok(DistPrograms { weir, lab, proof: self.folder().join("weir-proof") })
    }

    /// Builds Weir and the lab: what measurements need.
    pub(crate) fn measured_programs(&self) -> anyhow::Result<(PathBuf, PathBuf)> {
        let weir = self.weir()?;
        self.build(&["--manifest-path", lab::MANIFEST, "--package", "weir-lab"])?;
        Ok((weir, self.folder().join("weir-lab")))
    }

    /// Builds Weir alone: the same program as with the lab.
    pub(crate) fn weir(&self) -> anyhow::Result<PathBuf> {
        self.build(&[&["--package", "weir"], self.libc.features()].concat())?;
        Ok(self.folder().join("weir"))
    }

    /// Builds an example of a package of the balancer's workspace, and returns where it is.
    pub(crate) fn example(&self, package: &str, example: &str) -> anyhow::Result<PathBuf> {
        self.build(&["--package", package, "--example", example])?;
        Ok(self.folder().join("examples").join(example))
    }

    fn folder(&self) -> PathBuf {
        self.target.join(&self.triple).join("dist")
    }

    fn build(&self, what: &[&str]) -> anyhow::Result<()> {
        let variable = self.triple.replace('-', "_");
        let mut cargo = ProgramRun::cargo(self.workspace)
            .args(["build", "--profile", "dist", "--locked"])
            .args(what)
            .args(["--target", &self.triple, "--target-dir"])
            .arg(&self.target)
            .env("RUSTFLAGS", self.flags())
            .env(&format!("CFLAGS_{variable}"), self.remapped("-ffile-prefix-map=") + UNUSED_C)
            // C libraries may contain the time of their build; compilers take this one.
            .env("SOURCE_DATE_EPOCH", "0")
            .env("CARGO_INCREMENTAL", "0");
        if self.libc == Libc::Musl {
            cargo = cargo.env(&format!("CC_{variable}"), "musl-gcc");
        }
        cargo.run()
    }

    /// With glibc, relocations are packed, which takes 2.36: Debian 12. It makes the program a 25th smaller, and its start quicker. The linker that Rust
    /// brings for this processor puts functions of the same code together.
    fn flags(&self) -> String {
        let packed = match self.libc {
            Libc::Gnu => " -C link-arg=-Wl,-z,pack-relative-relocs",
            Libc::Musl => "",
        };
        let folded = match self.libc == Libc::Gnu && self.triple.starts_with("x86_64") {
            true => " -C link-arg=-Wl,--icf=all",
            false => "",
        };
        self.remapped("--remap-path-prefix=") + packed + folded
    }

    /// The folders of this machine that would be in the programs otherwise, each with the name that replaces it.
    fn remapped(&self, flag: &str) -> String {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
        // The last one that fits is taken.
        let folders =
            [(self.workspace.root(), "weir"), (self.target.as_path(), "target"), (cargo.as_path(), "cargo")];
        folders.map(|(from, to)| format!("{flag}{}=/{to}", from.display())).join(" ")
    }
}

/// Builds the programs for both C libraries at the same time: optimising a whole program takes minutes of one processor, and the other would
/// have nothing to do.
pub(crate) fn run_both(workspace: &Workspace) -> anyhow::Result<()> {
    let gnu = DistBuild::measured(workspace)?;
    let musl = DistBuild::new(workspace, workspace.target(), Libc::Musl)?;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| musl.programs());
        let built = gnu.programs();
        other.join().expect("a build does not panic").and(built)
    })?;
    Ok(())
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
