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
    /// The file of nginx's stream module, where that is not part of the program.
    pub stream_module: Option<PathBuf>,
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
            let stream_module = (product == Product::Nginx).then(|| stream_module(&program)).flatten();
            found.insert(product.name(), Installed { program, version, stream_module });
        }
    }
    Ok(found)
}

/// Finds a load tool on the PATH.
pub fn find_tool(name: &str) -> Option<Installed> {
    let flag = if name == "ab" { "-V" } else { "--version" };
    let program = on_path(name)?;
    let version = version(&program, flag)?;
    Some(Installed { program, version, stream_module: None })
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

/// The file of the stream module of the nginx at `program`; `None` where it is built in, or not there at all.
fn stream_module(program: &Path) -> Option<PathBuf> {
    let output = Command::new(program).arg("-V").output().ok()?;
    let file = stream_module_of(&String::from_utf8_lossy(&output.stderr))?;
    file.is_file().then_some(file)
}

/// The same by what nginx says about how it was built.
fn stream_module_of(said: &str) -> Option<PathBuf> {
    let mut words = said.split_whitespace();
    let folder = words.clone().find_map(|word| word.strip_prefix("--modules-path="))?;
    words.any(|word| word == "--with-stream=dynamic").then(|| Path::new(folder).join("ngx_stream_module.so"))
}

/// The first line a program says about its version, on whichever stream.
fn version(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|line| line.chars().any(|letter| letter.is_ascii_digit()))?;
    Some(line.chars().take(80).collect())
}

#[cfg(test)]
mod tests {
    use super::stream_module_of;
    use std::path::Path;

    #[test]
    fn a_module_is_loaded_where_it_is_not_built_in() {
        let said =
            "configure arguments: --prefix=/a --modules-path=/usr/lib/nginx/modules --with-stream=dynamic";
        let file = Path::new("/usr/lib/nginx/modules/ngx_stream_module.so");
        assert_eq!(stream_module_of(said).as_deref(), Some(file));
        for said in ["--modules-path=/m --with-stream", "--with-stream=dynamic", ""] {
            assert_eq!(stream_module_of(said), None, "{said}");
        }
    }
}
