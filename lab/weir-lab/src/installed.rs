//! Installed programs: their paths and versions.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

/// A program that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// Where it is.
    pub program: PathBuf,
    /// Its version.
    pub version: String,
    /// The TLS library it runs with, if it can be determined.
    pub tls_library: Option<String>,
    /// The file of nginx's stream module, where that is not part of the program.
    pub stream_module: Option<PathBuf>,
    /// The folder of Apache's modules.
    pub module_folder: Option<PathBuf>,
    /// It can speak HTTP/3 with clients.
    #[serde(default)]
    pub has_http3: bool,
}

/// All that a program says when asked with `flag`, on whichever stream.
pub(crate) fn said(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Finds a load tool on the PATH.
pub fn find_tool(name: &str) -> Option<Installed> {
    let program = on_path(name).or_else(|| by_go(name))?;
    let version = match name {
        // Built by `go install`, it has none to tell.
        "vegeta" => vegeta_version(&said(&program, "-version")?),
        // As well, but Go has written it into the program.
        _ if name.starts_with("grpc-benchmark/") => grpc_version(&std::fs::read(&program).ok()?)?,
        "ab" => first_with_digit(&said(&program, "-V")?)?,
        _ => first_with_digit(&said(&program, "--version")?)?,
    };
    Some(Installed { program, version, ..Installed::default() })
}

/// Finds an `h2load` that speaks HTTP/3, which that of few distributions does: under a name of its own, which may be a script, or
/// under its usual one.
pub fn find_http3_h2load() -> Option<Installed> {
    let usual =
        || on_path("h2load").filter(|program| std::fs::read(program).is_ok_and(|bytes| has_ngtcp2(&bytes)));
    let program = on_path("h2load-http3").or_else(usual)?;
    let version = first_with_digit(&said(&program, "--version")?)?;
    Some(Installed { program, version: format!("{version}, with HTTP/3"), ..Installed::default() })
}

/// Whether a program uses the QUIC of nghttp2.
fn has_ngtcp2(program: &[u8]) -> bool {
    memchr::memmem::find(program, b"ngtcp2_conn_").is_some()
}

/// Where `go install` puts programs, which is not on the PATH by itself.
pub(crate) fn by_go(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("HOME")?).join("go/bin").join(name);
    path.is_file().then_some(path)
}

/// The version of vegeta.
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

/// The version of the module that a program of grpc-go was built of.
fn grpc_version(program: &[u8]) -> Option<String> {
    let mark = b"mod\tgoogle.golang.org/grpc\t";
    let from = memchr::memmem::find(program, mark)? + mark.len();
    let end = from + memchr::memchr(b'\t', &program[from..])?;
    Some(format!("grpc-go {}", String::from_utf8_lossy(&program[from..end])))
}

/// Looks a program up on the PATH and where system daemons are put.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The first line that may hold a version.
pub(crate) fn first_with_digit(said: &str) -> Option<String> {
    let line = said.lines().map(str::trim).find(|line| line.chars().any(|letter| letter.is_ascii_digit()))?;
    Some(line.chars().take(80).collect())
}

#[cfg(test)]
mod tests {
    use super::{grpc_version, has_ngtcp2, vegeta_version};

    #[test]
    fn vegeta_says_what_built_it_where_it_does_not_know_its_version() {
        let said = "Version: \nCommit: \nRuntime: go1.26.8 linux/amd64\nDate: \n";
        assert_eq!(vegeta_version(said), "vegeta, which does not tell its version (go1.26.8 linux/amd64)");
        assert_eq!(vegeta_version("Version: v12.11.1\nCommit: 1\n"), "vegeta v12.11.1");
    }

    #[test]
    fn a_tool_that_speaks_http3_needs_its_quic() {
        assert!(
            has_ngtcp2(b"\x7fELF\0ngtcp2_conn_writev_stream\0")
                && !has_ngtcp2(b"\x7fELF\0nghttp2_session_send\0")
        );
    }

    #[test]
    fn programs_of_grpc_go_have_the_version_of_their_module() {
        let program =
            b"\0path\tx\nmod\tgoogle.golang.org/grpc\tv1.85.0\th1:abc=\ndep\tgolang.org/x/net\tv0.1.0";
        assert_eq!(grpc_version(program).as_deref(), Some("grpc-go v1.85.0"));
        assert_eq!(grpc_version(b"\x7fELF"), None);
    }
}
