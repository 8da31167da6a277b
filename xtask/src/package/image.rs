//! The container image: the static program and its config, nothing else, as a layout of the OCI image specification 1.1 in one archive.
//!
//! Needs no daemon. `skopeo copy oci-archive:FILE docker-daemon:weir:VERSION`, `podman load` and `docker load` of newer releases take it;
//! `packaging/image/Containerfile` builds the same image where a builder is at hand.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::contents::{copy, make_folder, set_modes};
use super::programs::{Programs, strip};
use super::release::Release;
use super::{archive, remove};
use crate::workspace::Workspace;

/// Neither root nor a user of the machine: the one that other images without a system use, too.
const USER: &str = "65532:65532";

const CONFIG: &str = "/etc/weir/weir.toml";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

pub(super) fn make(
    workspace: &Workspace,
    release: &Release,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<PathBuf> {
    let (root, layout) = (folder.join("image.root"), folder.join("image"));
    remove(&root)?;
    remove(&layout)?;
    stage(workspace, programs, &root)?;
    let blobs = Blobs { workspace, folder: layout.join("blobs/sha256") };
    make_folder(&blobs.folder)?;

    let archive = folder.join("layer.tar");
    archive::pack(workspace, release, &root, &archive)?;
    let uncompressed = archive::sha256(workspace, &archive)?;
    archive::compress(workspace, &archive)?;
    let layer = blobs.take(&folder.join("layer.tar.gz"), "application/vnd.oci.image.layer.v1.tar+gzip")?;
    let created = release.time(workspace, "+%Y-%m-%dT%H:%M:%SZ")?;
    let config =
        blobs.write(&config(release, &created, &uncompressed), "application/vnd.oci.image.config.v1+json")?;
    let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
    let mut manifest = blobs.write(&manifest, MANIFEST)?;
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    manifest["platform"] = json!({ "architecture": architecture(release), "os": "linux" });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest],
    });
    write(&layout.join("index.json"), &index)?;
    write(&layout.join("oci-layout"), &json!({ "imageLayoutVersion": "1.0.0" }))?;

    set_modes(&layout)?;
    let file = folder.join(format!("weir-{}-{}.oci.tar", release.version, architecture(release)));
    archive::pack(workspace, release, &layout, &file)?;
    remove(&root)?;
    remove(&layout)?;
    Ok(file)
}

/// What the image holds.
fn stage(workspace: &Workspace, programs: &Programs, root: &Path) -> anyhow::Result<()> {
    make_folder(&root.join("usr/bin"))?;
    strip(workspace, &programs.weir, programs.libc, &root.join("usr/bin/weir"))?;
    let packaging = workspace.root().join("packaging");
    copy(&packaging.join("image/weir.toml"), &root.join(CONFIG.trim_start_matches('/')))?;
    copy(&packaging.join("config/welcome.html"), &root.join("usr/share/weir/welcome/index.html"))?;
    copy(&packaging.join("image/passwd"), &root.join("etc/passwd"))?;
    set_modes(root)
}

/// How the image is run (OCI image configuration). `Healthcheck` is Docker's and podman's.
fn config(release: &Release, created: &str, uncompressed: &str) -> Value {
    json!({
        "created": created,
        "architecture": architecture(release),
        "os": "linux",
        "config": {
            "User": USER,
            "ExposedPorts": { "8080/tcp": {} },
            "Entrypoint": ["/usr/bin/weir"],
            "Cmd": ["serve", CONFIG],
            "Env": ["PATH=/usr/bin"],
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/weir", "ctl", "ready", "--config", CONFIG],
                "Interval": 10_000_000_000_u64,
                "Timeout": 3_000_000_000_u64,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "Weir",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.source": release.homepage,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{uncompressed}")] },
        "history": [{ "created": created, "created_by": "cargo xtask package" }],
    })
}

/// As Go, and so the specification, calls it.
fn architecture(release: &Release) -> &str {
    match release.architecture.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The files of a layout, each named by its sum.
struct Blobs<'a> {
    workspace: &'a Workspace,
    folder: PathBuf,
}

impl Blobs<'_> {
    /// Moves a file among them; returns its descriptor.
    fn take(&self, file: &Path, media_type: &str) -> anyhow::Result<Value> {
        let sum = archive::sha256(self.workspace, file)?;
        let bytes = fs::metadata(file)?.len();
        let to = self.folder.join(&sum);
        fs::rename(file, &to)
            .with_context(|| format!("cannot move {} to {}", file.display(), to.display()))?;
        Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{sum}"), "size": bytes }))
    }

    fn write(&self, value: &Value, media_type: &str) -> anyhow::Result<Value> {
        let file = self.folder.join("new");
        write(&file, value)?;
        self.take(&file, media_type)
    }
}

fn write(file: &Path, value: &Value) -> anyhow::Result<()> {
    fs::write(file, value.to_string()).with_context(|| format!("cannot write {}", file.display()))
}
