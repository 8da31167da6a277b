//! Programs of the operating system that the checks start, and how they get onto a Debian machine.
//!
//! The one list of them, each with its reason: what is not here is not needed. Installs only as root on Debian; anywhere
//! else it says what is missing. Must not start a service: Debian does so on installation by default.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// A Debian package, the program in it that is started or the file, by its whole path, that one loads, and why.
struct DebianPackage {
    name: &'static str,
    program: &'static str,
    reason: &'static str,
}

const PACKAGES: &[DebianPackage] = &[
    DebianPackage {
        name: "varnish",
        program: "varnishtest",
        reason: "step `tests`: plays the scripts in conformance/",
    },
    DebianPackage {
        name: "openssl",
        program: "openssl",
        reason: "step `tests`: a TLS client that shares no code with Weir",
    },
    DebianPackage { name: "curl", program: "curl", reason: "step `tests`: a client that people use" },
    DebianPackage {
        name: "knot",
        program: "knotd",
        reason: "step `tests`: a name server that takes dynamic updates",
    },
    DebianPackage {
        name: "etcd-server",
        program: "etcd",
        reason: "step `tests`: a source of servers that is followed",
    },
    DebianPackage {
        name: "haproxy",
        program: "haproxy",
        reason: "steps `tests`, `lab` and `bench`: a peer in the lab",
    },
    DebianPackage {
        name: "nginx",
        program: "nginx",
        reason: "steps `tests`, `lab` and `bench`: a peer in the lab",
    },
    DebianPackage {
        name: "apache2",
        program: "apache2",
        reason: "steps `lab` and `bench`: a target of the lab",
    },
    DebianPackage {
        name: "caddy",
        program: "caddy",
        reason: "steps `tests`, `lab` and `bench`: a peer in the lab",
    },
    DebianPackage {
        name: "libnginx-mod-stream",
        program: "/usr/lib/nginx/modules/ngx_stream_module.so",
        reason: "step `tests`: nginx as a sender of the PROXY protocol",
    },
    // Their programs have versions in their names: the list of their files says that they are there.
    DebianPackage {
        name: "php-fpm",
        program: "/var/lib/dpkg/info/php-fpm.list",
        reason: "step `tests`: PHP behind FastCGI",
    },
    DebianPackage {
        name: "php-mysql",
        program: "/var/lib/dpkg/info/php-mysql.list",
        reason: "step `tests`: WordPress and its database",
    },
    DebianPackage {
        name: "mariadb-server",
        program: "mariadbd",
        reason: "step `tests`: the database of WordPress",
    },
    DebianPackage {
        name: "wordpress",
        program: "/usr/share/wordpress/wp-load.php",
        reason: "step `tests`: the site of examples/wordpress",
    },
    DebianPackage {
        name: "wordpress-theme-twentytwentythree",
        program: "/usr/share/wordpress/wp-content/themes/twentytwentythree/style.css",
        reason: "step `tests`: how that site looks",
    },
    DebianPackage {
        name: "chromium",
        program: "chromium",
        reason: "steps `tests` and `lab`: the status page and the report in a browser",
    },
    DebianPackage {
        name: "prometheus",
        program: "promtool",
        reason: "step `tests`: judges the metrics, and scrapes them",
    },
    DebianPackage {
        name: "hatop",
        program: "hatop",
        reason: "step `tests`: a monitor of HAProxy at the runtime socket",
    },
    DebianPackage { name: "tmux", program: "tmux", reason: "step `tests`: the terminal that hatop runs in" },
    DebianPackage {
        name: "python3-django",
        program: "/usr/lib/python3/dist-packages/django/__init__.py",
        reason: "step `tests`: examples/django",
    },
    DebianPackage { name: "gunicorn", program: "gunicorn", reason: "step `tests`: examples/django" },
    DebianPackage { name: "nodejs", program: "node", reason: "step `tests`: examples/node" },
    DebianPackage {
        name: "postgresql",
        program: "pg_ctlcluster",
        reason: "step `tests`: examples/postgresql, whose programs are in /usr/lib/postgresql",
    },
    DebianPackage { name: "keepalived", program: "keepalived", reason: "step `tests`: a pair of nodes" },
    DebianPackage { name: "bird2", program: "bird", reason: "step `tests`: anycast by BGP" },
    DebianPackage { name: "iproute2", program: "ip", reason: "step `tests`: network namespaces" },
    DebianPackage {
        name: "nftables",
        program: "nft",
        reason: "steps `tests` and `kubernetes`: rules of a pair, addresses of Services",
    },
    DebianPackage { name: "redis-server", program: "redis-server", reason: "step `tests`: examples/redis" },
    DebianPackage {
        name: "redis-tools",
        program: "redis-cli",
        reason: "step `tests`: the client of examples/redis",
    },
    DebianPackage {
        name: "mariadb-server-core",
        program: "mariadbd",
        reason: "step `tests`: examples/mariadb",
    },
    DebianPackage {
        name: "mariadb-client-core",
        program: "mariadb",
        reason: "step `tests`: the client of examples/mariadb",
    },
    DebianPackage {
        name: "mmdebstrap",
        program: "mmdebstrap",
        reason: "step `package`: makes a fresh system; command `peers`: unpacks current releases of the lab's peers",
    },
    DebianPackage {
        name: "apache2-utils",
        program: "ab",
        reason: "step `bench`: a load generator of the lab",
    },
    DebianPackage { name: "siege", program: "siege", reason: "step `bench`: a load generator of the lab" },
    DebianPackage {
        name: "nghttp2-client",
        program: "h2load",
        reason: "step `bench`: a load generator of the lab",
    },
    DebianPackage {
        name: "nghttp2-server",
        program: "nghttpd",
        reason: "step `bench`: a server of HTTP/2 behind the targets of the lab",
    },
    DebianPackage { name: "wrk", program: "wrk", reason: "step `bench`: a load generator of the lab" },
    DebianPackage {
        name: "musl-tools",
        program: "musl-gcc",
        reason: "step `package`: programs that need no library of the system",
    },
    DebianPackage { name: "lintian", program: "lintian", reason: "step `package`: judges the packages" },
    DebianPackage {
        name: "systemd-container",
        program: "systemd-nspawn",
        reason: "step `package`: installs and uses the package in a fresh system",
    },
    DebianPackage {
        name: "dpkg-dev",
        program: "dpkg-shlibdeps",
        reason: "step `package`: finds the libraries of programs",
    },
    DebianPackage { name: "g++", program: "c++", reason: "`cargo xtask fuzz`: libFuzzer is C++" },
    DebianPackage {
        name: "valgrind",
        program: "valgrind",
        reason: "step `instructions`: counts instructions",
    },
];

/// Debian keeps daemons here, and the PATH of an ordinary user lacks it.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Asked by Debian's package scripts before they start a service; exit status 101 forbids it.
const SERVICE_POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs what is missing, or says what to install.
pub(crate) fn install(workspace: &Workspace) -> anyhow::Result<()> {
    let missing: Vec<&DebianPackage> =
        PACKAGES.iter().filter(|package| find(package.program).is_none()).collect();
    if missing.is_empty() {
        println!("All {} packages are there.", PACKAGES.len());
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() || find("apt-get").is_none() {
        bail!(advice(&missing));
    }
    let _policy = ServicePolicy::forbid(Path::new(SERVICE_POLICY))?;
    if let Err(error) = apt_get(workspace).arg("update").run() {
        // The lists that are there may do; if not, the installation says so.
        println!("{error:#}");
    }
    apt_get(workspace)
        .args(["install", "--yes", "--no-install-recommends"])
        .args(missing.iter().map(|package| package.name))
        .run()?;
    match PACKAGES.iter().find(|package| find(package.program).is_none()) {
        None => Ok(()),
        Some(package) => {
            bail!("package {} is installed, yet there is no `{}`", package.name, package.program)
        }
    }
}

fn apt_get(workspace: &Workspace) -> ProgramRun {
    ProgramRun::new(workspace, "apt-get").env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet")
}

/// Where a program is, as a shell and a daemon's start script would find it.
fn find(program: &str) -> Option<PathBuf> {
    find_in(std::env::var_os("PATH").as_deref(), program)
}

fn find_in(path: Option<&OsStr>, program: &str) -> Option<PathBuf> {
    if Path::new(program).is_absolute() {
        return Some(PathBuf::from(program)).filter(|file| file.is_file());
    }
    let folders = path.into_iter().flat_map(std::env::split_paths).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| {
        fs::metadata(file)
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    })
}

fn advice(missing: &[&DebianPackage]) -> String {
    let mut text =
        "programs are missing that cannot be installed from here (that takes root on Debian):\n".to_owned();
    for package in missing {
        text.push_str(&format!("  {:<12} {}\n", package.program, package.reason));
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    text.push_str(&format!("on Debian: sudo apt-get install --no-install-recommends {}", names.join(" ")));
    text
}

/// Forbids package scripts to start services for as long as it lives. Leaves a policy that is already there alone.
struct ServicePolicy {
    written: Option<PathBuf>,
}

impl ServicePolicy {
    fn forbid(file: &Path) -> anyhow::Result<Self> {
        match fs::OpenOptions::new().write(true).create_new(true).open(file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Self { written: None }),
            Err(error) => Err(error).with_context(|| format!("cannot write {}", file.display())),
            Ok(mut opened) => {
                let policy = Self { written: Some(file.to_owned()) };
                io::Write::write_all(&mut opened, b"#!/bin/sh\nexit 101\n")?;
                opened.set_permissions(fs::Permissions::from_mode(0o755))?;
                Ok(policy)
            }
        }
    }
}

impl Drop for ServicePolicy {
    fn drop(&mut self) {
        if let Some(file) = &self.written
            && let Err(error) = fs::remove_file(file)
        {
            eprintln!("cannot remove {}: {error}; services will not start until it is gone", file.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_path_and_among_the_daemons() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weir-test-program");
        fs::write(&file, "").unwrap();
        let path = folder.path().as_os_str();
        assert_eq!(find_in(Some(path), "weir-test-program"), None, "not executable");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_in(Some(path), "weir-test-program"), Some(file));
        assert_eq!(find_in(None, "weir-test-program"), None);
    }

    #[test]
    fn advice_names_program_reason_and_command() {
        let missing = ["apache2-utils", "valgrind"]
            .map(|name| PACKAGES.iter().find(|package| package.name == name).expect("it is on the list"));
        let text = advice(&missing);
        assert!(text.contains("\n  ab           step `bench`: "), "{text}");
        assert!(
            text.ends_with("sudo apt-get install --no-install-recommends apache2-utils valgrind"),
            "{text}"
        );
    }

    #[test]
    fn a_policy_lives_as_long_as_the_installation() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy-rc.d");
        let policy = ServicePolicy::forbid(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "#!/bin/sh\nexit 101\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o755);
        drop(policy);
        assert!(!file.exists());
    }

    #[test]
    fn a_policy_of_the_machine_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy-rc.d");
        fs::write(&file, "theirs").unwrap();
        drop(ServicePolicy::forbid(&file).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
    }
}
