//! Where the workspace is and what cargo knows about it.
//!
//! Found once, at the start of every command. Read only: nothing here builds or writes.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cargo_metadata::{Metadata, MetadataCommand};

/// The checkout that `cargo xtask` was started in.
pub(crate) struct Workspace {
    /// Packages and the resolved dependency graph.
    pub(crate) metadata: Metadata,
}

impl Workspace {
    /// Asks cargo, starting from the package that this program was built from.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let metadata = MetadataCommand::new()
            .manifest_path(manifest)
            .exec()
            .context("`cargo metadata` failed: is the checkout complete?")?;
        Ok(Self { metadata })
    }

    /// The folder that holds the workspace's `Cargo.toml`.
    pub(crate) fn root(&self) -> &Path {
        self.metadata.workspace_root.as_std_path()
    }

    /// Where cargo builds: `target/` unless `CARGO_TARGET_DIR` says otherwise.
    pub(crate) fn target(&self) -> &Path {
        self.metadata.target_directory.as_std_path()
    }

    /// The programs that `setup` installs, apart from those of the machine.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target().join("tools")
    }
}
