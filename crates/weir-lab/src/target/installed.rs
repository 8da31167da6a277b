//! What is installed: where each program is, which version, and with which TLS library.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use super::{PRODUCTS, Product, version};

/// A program that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// Where it is.
    pub program: PathBuf,
    /// What it says about its version.
    pub version: String,
    /// The TLS library it runs with, as far as it can be found out.
    pub tls_library: Option<String>,
    /// The file of nginx's stream module, where that is not part of the program.
    pub stream_module: Option<PathBuf>,
    /// The folder of Apache's modules.
    pub module_folder: Option<PathBuf>,
}

/// The products found, by name.
pub type Catalogue = BTreeMap<&'static str, Installed>;

/// Finds the products: where `given` says, otherwise on the PATH; Weir beside the lab's own executable.
///
/// # Errors
/// When a given path is no program that tells its version.
pub fn find_products(given: &[(Product, PathBuf)]) -> anyhow::Result<Catalogue> {
    let mut found = Catalogue::new();
    for product in PRODUCTS.into_iter().filter(|product| product.is_program()) {
        let path = given.iter().find(|(of, _)| *of == product).map(|(_, path)| path.clone());
        if let Some(path) = &path {
            ensure!(path.is_file(), "{}: there is no such program", path.display());
        }
        let found_itself = || match product {
            Product::Weir => beside_the_lab("weir"),
            _ => product.executables().iter().find_map(|name| on_path(name).or_else(|| by_go(name))),
        };
        let Some(program) = path.clone().or_else(found_itself) else { continue };
        let installed = look_at(product, &program);
        if path.is_some() {
            installed
                .as_ref()
                .with_context(|| format!("{} tells no version of {}", program.display(), product.name()))?;
        }
        if let Some(installed) = installed {
            found.insert(product.name(), installed);
        }
    }
    Ok(found)
}

/// What `program` is; nothing when it tells no version.
fn look_at(product: Product, program: &Path) -> Option<Installed> {
    let mut said = said(program, version::question(product))?;
    let is = version::version(product, &said)?;
    if product == Product::Caddy {
        said.push_str(&self::said(program, "build-info").unwrap_or_default());
    }
    let mut installed = Installed {
        version: is,
        tls_library: version::tls_library(product, &said),
        program: program.to_owned(),
        ..Installed::default()
    };
    match product {
        Product::Nginx => installed.stream_module = stream_module_of(&said).filter(|file| file.is_file()),
        Product::Apache => {
            installed.module_folder = module_folder(program);
            let module = installed.module_folder.as_ref().map(|folder| folder.join("mod_ssl.so"));
            installed.tls_library = module.and_then(|module| openssl_of(&module));
        }
        _ => {}
    }
    Some(installed)
}

/// All that a program says when asked with `flag`, on whichever stream.
fn said(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Finds a load tool on the PATH.
pub fn find_tool(name: &str) -> Option<Installed> {
    let program = on_path(name).or_else(|| by_go(name))?;
    let version = match name {
        // Built by `go install`, it has none to tell.
        "vegeta" => vegeta_version(&said(&program, "-version")?),
        // It has none, and would print its options.
        "hey" => "hey, which does not tell its version".to_owned(),
        "ab" => version::first_with_digit(&said(&program, "-V")?)?,
        _ => version::first_with_digit(&said(&program, "--version")?)?,
    };
    Some(Installed { program, version, ..Installed::default() })
}

/// Where `go install` puts programs, which is not on the PATH by itself.
fn by_go(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("HOME")?).join("go/bin").join(name);
    path.is_file().then_some(path)
}

/// What vegeta says about itself.
fn vegeta_version(said: &str) -> String {
    let field = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim()).filter(|value| !value.is_empty())
    };
    match (field("Version:"), field("Runtime:")) {
        (Some(version), _) => format!("vegeta {version}"),
        (None, runtime) => {
            format!("vegeta, which does not tell its version ({})", runtime.unwrap_or("built with Go"))
        }
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

/// The file of the stream module, by what nginx says about how it was built; `None` where it is built in, or not there at all.
fn stream_module_of(said: &str) -> Option<PathBuf> {
    let mut words = said.split_whitespace();
    let folder = words.clone().find_map(|word| word.strip_prefix("--modules-path="))?;
    words.any(|word| word == "--with-stream=dynamic").then(|| Path::new(folder).join("ngx_stream_module.so"))
}

/// Where distributions and Apache itself put its modules, from the folder above that of the program.
const MODULE_FOLDERS: [&str; 5] =
    ["lib/apache2/modules", "lib64/httpd/modules", "lib/httpd/modules", "lib64/apache2", "modules"];

/// The folder of Apache's modules.
fn module_folder(program: &Path) -> Option<PathBuf> {
    let program = program.canonicalize().ok()?;
    let above = program.parent()?.parent()?;
    MODULE_FOLDERS
        .iter()
        .map(|folder| above.join(folder))
        .find(|folder| folder.join("mod_proxy.so").is_file())
}

/// The version of OpenSSL that `module` is loaded with.
fn openssl_of(module: &Path) -> Option<String> {
    let output = Command::new("ldd").arg(module).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let library = said.lines().find_map(|line| {
        let (name, path) = line.split_once(" => ")?;
        name.trim().starts_with("libcrypto").then(|| path.split_whitespace().next())?
    })?;
    version::openssl_in(&std::fs::read(library).ok()?)
}

#[cfg(test)]
mod tests {
    use super::{stream_module_of, vegeta_version};
    use std::path::Path;

    #[test]
    fn vegeta_says_what_built_it_where_it_does_not_know_its_version() {
        let said = "Version: \nCommit: \nRuntime: go1.26.8 linux/amd64\nDate: \n";
        assert_eq!(vegeta_version(said), "vegeta, which does not tell its version (go1.26.8 linux/amd64)");
        assert_eq!(vegeta_version("Version: v12.11.1\nCommit: 1\n"), "vegeta v12.11.1");
    }

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
