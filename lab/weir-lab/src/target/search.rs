//! Installed programs: where each is, which version, and with which TLS library.
//!
//! Current releases that `cargo xtask peers` has unpacked beside the lab have precedence over installed ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use clap::Args;

use super::version;
use crate::installed::{self, Installed, by_go, on_path};
use crate::topology::product::{PRODUCTS, Product};

/// The products found, by name.
pub type Catalogue = BTreeMap<&'static str, Installed>;

/// Where products are looked for.
#[derive(Debug, Clone, Default)]
pub struct ProgramSearch {
    /// Programs that were named.
    pub given: Vec<(Product, PathBuf)>,
    /// The root of the file system with current releases, if it is to be used.
    pub peers: Option<PathBuf>,
}

impl ProgramSearch {
    /// The current releases, if they are there, then the PATH.
    pub fn usual() -> Self {
        Self { given: Vec::new(), peers: peers_beside_the_lab() }
    }
}

/// Where the programs of products are, on the command line.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Weir's executable; by default the one beside weir-lab.
    #[arg(long)]
    weir: Option<PathBuf>,
    /// nginx's executable; by default that of `cargo xtask peers`, or the one on the PATH.
    #[arg(long)]
    nginx: Option<PathBuf>,
    /// HAProxy's executable; by default that of `cargo xtask peers`, or the one on the PATH.
    #[arg(long)]
    haproxy: Option<PathBuf>,
    /// Executable of any product, such as `envoy=/opt/envoy/bin/envoy`; may be repeated.
    #[arg(long, value_name = "PRODUCT=PATH", value_parser = read_program)]
    target_path: Vec<(Product, PathBuf)>,
    /// Use what the system has installed, although `cargo xtask peers` has unpacked current releases.
    #[arg(long)]
    installed: bool,
}

impl SearchArgs {
    /// Where to look for products.
    pub(crate) fn search(&self) -> ProgramSearch {
        let given =
            [(Product::Weir, &self.weir), (Product::Nginx, &self.nginx), (Product::Haproxy, &self.haproxy)]
                .into_iter()
                .filter_map(|(product, path)| Some((product, path.clone()?)))
                .chain(self.target_path.iter().cloned())
                .collect();
        let ProgramSearch { peers, .. } = ProgramSearch::usual();
        ProgramSearch { given, peers: peers.filter(|_| !self.installed) }
    }
}

/// Finds the products: where `search` was given one, otherwise among the current releases, otherwise on the PATH; Weir beside the lab's
/// own executable.
///
/// # Errors
/// When a given path, or what is among the current releases, is no program that tells its version.
pub fn find_products(search: &ProgramSearch) -> anyhow::Result<Catalogue> {
    let mut found = Catalogue::new();
    for product in PRODUCTS.into_iter().filter(|product| product.is_program()) {
        let given = search.given.iter().find(|(of, _)| *of == product).map(|(_, path)| path.clone());
        if let Some(path) = &given {
            ensure!(path.is_file(), "{}: there is no such program", path.display());
        }
        let current = search.peers.as_deref().and_then(|root| in_root(root, product));
        let current = current.filter(|_| given.is_none());
        let found_itself = || match product {
            Product::Weir => beside_the_lab("weir"),
            _ => product.executables().iter().find_map(|name| on_path(name).or_else(|| by_go(name))),
        };
        let named = given.as_ref().or(current.as_ref());
        let Some(program) = named.cloned().or_else(found_itself) else { continue };
        let installed = look_at(product, &program);
        // Another version in its place would be another comparison than the one asked for.
        let hint =
            if current.is_some() { ": run `cargo xtask peers` again, or give --installed" } else { "" };
        ensure!(
            installed.is_some() || named.is_none(),
            "{} tells no version of {}{hint}",
            program.display(),
            product.name()
        );
        if let Some(installed) = installed {
            found.insert(product.name(), installed);
        }
    }
    Ok(found)
}

/// The current releases that `cargo xtask peers` has put beside the folder of the lab's own executable.
fn peers_beside_the_lab() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    // Executables of tests are one folder deeper.
    program.ancestors().skip(2).take(2).map(|folder| folder.join("peers/root")).find(|root| root.is_dir())
}

/// The program of `product` in the file system at `root`.
fn in_root(root: &Path, product: Product) -> Option<PathBuf> {
    let names = product.executables().iter();
    let mut files = names.flat_map(|name| ["usr/sbin", "usr/bin"].map(|folder| root.join(folder).join(name)));
    files.find(|file| file.is_file())
}

/// The root of the file system that `program` is in: the path before `usr/sbin`.
fn root_of(program: &Path) -> Option<&Path> {
    let folder = program.parent()?;
    let above = ["usr/sbin", "usr/bin"].iter().any(|end| folder.ends_with(end));
    above.then(|| folder.parent()?.parent()).flatten()
}

/// The version of `program`; nothing when it reports none.
fn look_at(product: Product, program: &Path) -> Option<Installed> {
    let mut said = installed::said(program, version::question(product))?;
    let is = version::version(product, &said)?;
    if product == Product::Caddy {
        said.push_str(&installed::said(program, "build-info").unwrap_or_default());
    }
    let mut installed = Installed {
        version: is,
        tls_library: version::tls_library(product, &said),
        has_http3: version::has_http3(product, &said),
        program: program.to_owned(),
        ..Installed::default()
    };
    match product {
        Product::Nginx => {
            let file = stream_module_of(&said).map(|file| below(root_of(program), &file));
            installed.stream_module = file.filter(|file| file.is_file());
        }
        Product::Apache => {
            installed.module_folder = module_folder(program);
            let module = installed.module_folder.as_ref().map(|folder| folder.join("mod_ssl.so"));
            installed.tls_library = module.and_then(|module| openssl_of(&module, root_of(program)));
        }
        _ => {}
    }
    Some(installed)
}

fn beside_the_lab(name: &str) -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.join(name);
    path.is_file().then_some(path)
}

/// The file of the stream module, by what nginx says about how it was built; `None` where it is built in, or not there at all.
fn stream_module_of(said: &str) -> Option<PathBuf> {
    let mut words = said.split_whitespace();
    let folder = words.clone().find_map(|word| word.strip_prefix("--modules-path="))?;
    words.any(|word| word == "--with-stream=dynamic").then(|| Path::new(folder).join("ngx_stream_module.so"))
}

/// The absolute path `file` as it is called from outside the file system at `root`.
fn below(root: Option<&Path>, file: &Path) -> PathBuf {
    match (root, file.strip_prefix("/")) {
        (Some(root), Ok(inside)) => root.join(inside),
        _ => file.to_owned(),
    }
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

/// The version of OpenSSL that `module` is loaded with: the one in the file system at `root`, if that is not the system's own.
fn openssl_of(module: &Path, root: Option<&Path>) -> Option<String> {
    let library = match root.filter(|root| *root != Path::new("/")) {
        Some(root) => crypto_library_in(root)?,
        None => crypto_library_of(module)?,
    };
    version::openssl_in(&std::fs::read(library).ok()?)
}

fn crypto_library_in(root: &Path) -> Option<PathBuf> {
    let folders = std::fs::read_dir(root.join("usr/lib")).ok()?.flatten();
    folders.map(|folder| folder.path().join("libcrypto.so.3")).find(|file| file.is_file())
}

fn crypto_library_of(module: &Path) -> Option<PathBuf> {
    let output = Command::new("ldd").arg(module).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.lines().find_map(|line| {
        let (name, path) = line.split_once(" => ")?;
        name.trim().starts_with("libcrypto").then(|| path.split_whitespace().next().map(PathBuf::from))?
    })
}

/// A product and its executable.
fn read_program(text: &str) -> Result<(Product, PathBuf), String> {
    let (name, path) =
        text.split_once('=').ok_or("a product and its path, such as envoy=/opt/envoy/bin/envoy")?;
    let product = PRODUCTS.into_iter().find(|product| product.is_program() && product.name() == name);
    product.map(|product| (product, PathBuf::from(path))).ok_or_else(|| {
        let names = PRODUCTS.iter().filter(|product| product.is_program()).map(|product| product.name());
        format!("no product `{name}`; there are {}", names.collect::<Vec<_>>().join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::{Product, ProgramSearch, below, find_products, read_program, root_of, stream_module_of};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};

    /// A file system with an nginx that says `said`.
    fn root_with_nginx(said: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("usr/sbin");
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("nginx");
        std::fs::write(&program, format!("#!/bin/sh\necho '{said}'\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        root
    }

    #[test]
    fn current_releases_go_before_installed_ones_and_given_ones_before_both() {
        let current = root_with_nginx("nginx version: nginx/77.1.0\nbuilt with OpenSSL 9.9.9 1 Jan 2030");
        let given = root_with_nginx("nginx version: nginx/78.0.0");
        let peers = Some(current.path().to_owned());
        let nginx = |search: &ProgramSearch| find_products(search).unwrap().remove("nginx");
        let found = nginx(&ProgramSearch { given: Vec::new(), peers: peers.clone() }).unwrap();
        assert!(found.version.contains("77.1.0"), "{found:?}");
        assert_eq!(found.tls_library.as_deref(), Some("OpenSSL 9.9.9 1 Jan 2030"));
        assert_eq!(found.program, current.path().join("usr/sbin/nginx"));
        let named = vec![(Product::Nginx, given.path().join("usr/sbin/nginx"))];
        let found = nginx(&ProgramSearch { given: named, peers }).unwrap();
        assert!(found.version.contains("78.0.0"), "{found:?}");
        let installed = nginx(&ProgramSearch::default());
        assert!(installed.is_none_or(|nginx| !nginx.version.contains("77.1.0")));
    }

    #[test]
    fn a_current_release_that_does_not_run_is_not_replaced_in_silence() {
        let root = root_with_nginx("error while loading shared libraries");
        let error = find_products(&ProgramSearch { given: Vec::new(), peers: Some(root.path().to_owned()) });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("cargo xtask peers") && error.contains("--installed"), "{error}");
    }

    #[test]
    fn modules_are_looked_for_in_the_file_system_of_their_program() {
        let module = Path::new("/usr/lib/nginx/modules/ngx_stream_module.so");
        let of = |program: &str| below(root_of(Path::new(program)), module);
        assert_eq!(of("/usr/sbin/nginx"), module);
        assert_eq!(of("/opt/nginx/sbin/nginx"), module);
        let inside = PathBuf::from("/peers/root/usr/lib/nginx/modules/ngx_stream_module.so");
        assert_eq!(of("/peers/root/usr/sbin/nginx"), inside);
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

    #[test]
    fn a_program_is_a_product_and_a_path() {
        assert_eq!(read_program("envoy=/opt/a=b"), Ok((Product::Envoy, "/opt/a=b".into())));
        for (wrong, says) in [("envoy", "a product and its path"), ("direct=/x", "no product `direct`")] {
            assert!(read_program(wrong).is_err_and(|error| error.contains(says)), "{wrong}");
        }
    }
}
