//! Debian packages: `weir` and `weir-lab`. Made by dpkg-deb, judged by lintian where it is installed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::contents::{CONFIG_FILES, make_folder, set_modes, stage_lab, stage_weir};
use super::programs::Programs;
use super::release::{MAINTAINER, Release};
use super::{archive, remove};
use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// Scripts that dpkg runs around the installation of `weir`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Makes both packages in `folder`.
pub(super) fn make(
    workspace: &Workspace,
    release: &Release,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let architecture = ProgramRun::new(workspace, "dpkg").arg("--print-architecture").read()?;
    let package = DebianBuild { workspace, release, architecture: architecture.trim().to_owned(), folder };
    let weir = package.make("weir", "control", &programs.weir, |root| {
        stage_weir(workspace, programs, root)?;
        package.add_scripts(root)
    })?;
    let lab = package
        .make("weir-lab", "control.lab", &programs.lab, |root| stage_lab(workspace, programs, root))?;
    for file in [&weir, &lab] {
        judge(workspace, file)?;
    }
    Ok(vec![weir, lab])
}

struct DebianBuild<'a> {
    workspace: &'a Workspace,
    release: &'a Release,
    architecture: String,
    folder: &'a Path,
}

impl DebianBuild<'_> {
    /// The package `name`, with the files that `stage` puts below the root that it is given.
    fn make(
        &self,
        name: &str,
        control: &str,
        program: &Path,
        stage: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<PathBuf> {
        let root = self.folder.join(format!("{name}.root"));
        remove(&root)?;
        make_folder(&root.join("DEBIAN"))?;
        stage(&root)?;
        self.add_copyright_and_changelog(name, &root.join("usr/share/doc").join(name))?;
        set_modes(&root)?;
        allow_scripts(&root.join("DEBIAN"))?;
        let installed = installed_kib(&root)?;
        self.write_control(name, control, program, &root, installed)?;
        let file = self.folder.join(format!("{name}_{}_{}.deb", self.release.version, self.architecture));
        ProgramRun::new(self.workspace, "dpkg-deb")
            .env("SOURCE_DATE_EPOCH", self.release.epoch.to_string())
            .args(["--root-owner-group", "--uniform-compression", "-Zxz", "--build"])
            .arg(&root)
            .arg(&file)
            .run()?;
        remove(&root)?;
        Ok(file)
    }

    /// `control` and the sums of all files.
    fn write_control(
        &self,
        name: &str,
        template: &str,
        program: &Path,
        root: &Path,
        installed: u64,
    ) -> anyhow::Result<()> {
        let sums = ProgramRun::new(self.workspace, "sh")
            .args(["-c", "cd \"$0\" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum"]);
        fs::write(root.join("DEBIAN/md5sums"), sums.arg(root).read()?)?;
        let text = fs::read_to_string(self.workspace.root().join("packaging/debian").join(template))?;
        let depends = self.libraries_of(name, program)?;
        let text = [
            ("{version}", self.release.version.as_str()),
            ("{architecture}", &self.architecture),
            ("{maintainer}", MAINTAINER),
            ("{installed_size}", &installed.to_string()),
            ("{depends}", &depends),
            ("{homepage}", &self.release.homepage),
        ]
        .iter()
        .fold(text, |text, (name, value)| text.replace(name, value));
        fs::write(root.join("DEBIAN/control"), text)?;
        Ok(())
    }

    /// The packages with the libraries that a program needs, as Debian itself finds them.
    fn libraries_of(&self, name: &str, program: &Path) -> anyhow::Result<String> {
        let folder = self.folder.join("shlibdeps");
        make_folder(&folder.join("debian"))?;
        fs::write(
            folder.join("debian/control"),
            format!("Source: {name}\n\nPackage: {name}\nArchitecture: any\n"),
        )?;
        let script = "cd \"$0\" && dpkg-shlibdeps -O -e\"$1\" 2>&1";
        let printed =
            ProgramRun::new(self.workspace, "sh").args(["-c", script]).arg(&folder).arg(program).read()?;
        remove(&folder)?;
        let depends = printed.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
        depends.map(str::to_owned).with_context(|| format!("dpkg-shlibdeps found nothing: {printed}"))
    }

    /// What dpkg runs, and what it does not overwrite.
    fn add_scripts(&self, root: &Path) -> anyhow::Result<()> {
        for script in SCRIPTS {
            let to = root.join("DEBIAN").join(script);
            fs::copy(self.workspace.root().join("packaging/debian").join(script), to)?;
        }
        fs::write(
            root.join("DEBIAN/conffiles"),
            CONFIG_FILES.iter().map(|file| format!("{file}\n")).collect::<String>(),
        )?;
        Ok(())
    }

    fn add_copyright_and_changelog(&self, name: &str, documents: &Path) -> anyhow::Result<()> {
        make_folder(documents)?;
        let mit = fs::read_to_string(self.workspace.root().join("LICENSE-MIT"))?;
        // In this form an empty line is a dot, and each line begins with a space.
        let terms = mit
            .lines()
            .skip(2)
            .map(|line| if line.is_empty() { " .".to_owned() } else { format!(" {line}") });
        let text = fs::read_to_string(self.workspace.root().join("packaging/debian/copyright"))?;
        let text = text.replace("{homepage}", &self.release.homepage);
        let text = text.replace("{mit}", &terms.collect::<Vec<_>>().join("\n"));
        fs::write(documents.join("copyright"), text)?;
        let changelog = format!(
            "{name} ({version}) unstable; urgency=medium\n\n  * Weir {version}. What is new is in /usr/share/doc/weir/CHANGELOG.md.\n\n \
             -- {MAINTAINER}  {time}\n",
            version = self.release.version,
            time = self.release.time(self.workspace, "+%a, %d %b %Y %H:%M:%S +0000")?,
        );
        let file = documents.join("changelog");
        fs::write(&file, changelog)?;
        archive::compress(self.workspace, &file)
    }
}

/// dpkg starts them.
fn allow_scripts(folder: &Path) -> anyhow::Result<()> {
    for script in SCRIPTS.map(|script| folder.join(script)).iter().filter(|script| script.exists()) {
        fs::set_permissions(script, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// The sizes of all files, each rounded up to one KiB, as policy 5.6.20 counts them.
fn installed_kib(folder: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        sum += 1;
        if path.is_dir() {
            sum += installed_kib(&path)?;
        } else {
            sum += fs::metadata(&path)?.len() / 1024;
        }
    }
    Ok(sum)
}

/// Lintian must find nothing.
fn judge(workspace: &Workspace, file: &Path) -> anyhow::Result<()> {
    if ProgramRun::new(workspace, "lintian").arg("--version").read().is_err() {
        println!("{} is not judged: lintian is not installed", file.display());
        return Ok(());
    }
    ProgramRun::new(workspace, "lintian").args(["--fail-on", "error,warning"]).arg(file).run()
}
