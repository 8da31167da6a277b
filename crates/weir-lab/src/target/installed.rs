//! What is installed: where each program is and which version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use super::{PRODUCTS, Product};

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// Where it is.
    pub program: PathBuf,
    /// What it says about its version.
    pub version: String,
}

/// The products found, by name.
pub type Catalogue = BTreeMap<&'static str, Installed>;

/// Finds the products: where `given` says, otherwise on the PATH; Weir beside the lab's own executable.
///
/// # Errors
/// When a given path is no program that tells its version.
pub fn find_products(given: &[(Product, PathBuf)]) -> anyhow::Result<Catalogue> {
    let mut found = Catalogue::new();
    for product in PRODUCTS {
        if product == Product::Direct {
            continue;
        }
        let path = given.iter().find(|(of, _)| *of == product).map(|(_, path)| path.clone());
        let found_itself = || match product {
            Product::Weir => beside_the_lab("weir"),
            _ => on_path(product.name()),
        };
        if let Some(path) = &path {
            ensure!(path.is_file(), "{}: there is no such program", path.display());
        }
        let Some(program) = path.clone().or_else(found_itself) else { continue };
        let version = version(&program, version_flag(product));
        if path.is_some() {
            version.as_ref().with_context(|| format!("{} tells no version", program.display()))?;
        }
        if let Some(version) = version {
            found.insert(product.name(), Installed { program, version });
        }
    }
    Ok(found)
}

/// Finds a load tool on the PATH.
pub fn find_tool(name: &str) -> Option<Installed> {
    let flag = if name == "ab" { "-V" } else { "--version" };
    let program = on_path(name)?;
    let version = version(&program, flag)?;
    Some(Installed { program, version })
}

fn version_flag(product: Product) -> &'static str {
    match product {
        Product::Weir => "--version",
        Product::Direct | Product::Nginx | Product::Haproxy => "-v",
    }
}

fn beside_the_lab(name: &str) -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.join(name);
    path.is_file().then_some(path)
}

/// Looks a program up on the PATH and where system daemons are put.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The first line a program says about its version, on whichever stream.
fn version(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|line| line.chars().any(|letter| letter.is_ascii_digit()))?;
    Some(line.chars().take(80).collect())
}
