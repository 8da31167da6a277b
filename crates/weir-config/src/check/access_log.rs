//! The access log: a file that can be opened at the start.

use std::path::Path;

use rustix::fs::{Access, access};

use super::{Files, templates};
use crate::config::{AccessLog, AccessLogOutput};
use crate::key::Located;
use crate::mistake::{Finding, MistakeKind};

pub(super) fn check(text: &Located<AccessLog>, files: &Files<'_>, findings: &mut Vec<Finding>) {
    let Some(format) = &text.value.format else { return };
    let literals = format.to_string().replace('{', "");
    let hint =
        "the placeholders of the access log are written like `{client_address}`; the reference lists them";
    templates::warn(&literals, text.key_at("format"), hint, findings);
    let AccessLogOutput::File(path) = &text.value.output else { return };
    if !files.may_read {
        return;
    }
    files.note(folder_of(path));
    if let Some(finding) = doubt(path) {
        let what = format!("`{}`: {}", path.display(), finding.what);
        let hint = finding.hint;
        findings.push(Finding::new(finding.kind, text.key_at("output"), what).hint(hint));
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

struct Doubt {
    kind: MistakeKind,
    what: &'static str,
    hint: &'static str,
}

/// Why the file cannot be appended to. Whether it may be is asked for the user of this process, who may be another one than at the start.
fn doubt(path: &Path) -> Option<Doubt> {
    let folder = folder_of(path);
    let mistake = |what, hint| Some(Doubt { kind: MistakeKind::BadValue, what, hint });
    let asked = if path.exists() { path } else { folder };
    if !folder.is_dir() {
        return mistake(
            "the folder does not exist",
            "create it, or write another path: Weir creates the file only",
        );
    }
    if path.is_dir() {
        return mistake("this is a folder", "name a file in it");
    }
    match access(asked, Access::WRITE_OK) {
        Ok(()) => None,
        Err(_) => Some(Doubt {
            kind: MistakeKind::Doubtful,
            what: "this user may not write it",
            hint: "allow it to the user that Weir runs as; that may be another one than runs this",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_opened_is_told_before_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |path: &Path| doubt(path).map(|doubt| doubt.kind);
        assert_eq!(kind(&folder.path().join("access.log")), None);
        assert_eq!(kind(Path::new("access.log")), None);
        assert_eq!(kind(folder.path()), Some(MistakeKind::BadValue));
        assert_eq!(kind(&folder.path().join("missing/access.log")), Some(MistakeKind::BadValue));
        assert_eq!(kind(Path::new("/dev/null")), None);
        // A file system that no user may write to, not even root.
        assert_eq!(kind(Path::new("/proc/version")), (!is_root()).then_some(MistakeKind::Doubtful));
    }

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }
}
