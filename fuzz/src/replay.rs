//! Inputs from files, without libFuzzer: the committed corpora as tests, and single files for the programs.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// Gives each file to `check`.
///
/// # Panics
/// When a file cannot be read, or `check` panics: the message names the file.
pub fn replay(check: fn(&[u8]), files: impl IntoIterator<Item = PathBuf>) {
    for file in files {
        let input = fs::read(&file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
        // What a panic leaves behind is not used: the first one ends the replay.
        let outcome = catch_unwind(AssertUnwindSafe(|| check(&input)));
        assert!(outcome.is_ok(), "{} shows a fault, see above", file.display());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The names in a folder of this package, without the ends that begin with a dot.
    fn names(folder: &str) -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    }

    fn seeds(target: &str) -> BTreeSet<PathBuf> {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::read_dir(&corpus).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// One test for each target, which replays its corpus, and the list of their names.
    macro_rules! corpora {
        ($($target:ident)+) => {
            const TESTED: &[&str] = &[$(stringify!($target)),+];

            mod corpus {
                $(
                    #[test]
                    fn $target() {
                        super::replay(crate::targets::$target::check, super::seeds(stringify!($target)));
                    }
                )+
            }
        };
    }

    corpora! {
        cache_directives
        cache_file
        chunked
        client_hello
        conditions
        dns_response
        fastcgi
        forwarded
        grpc
        h2_connection
        h2_head
        h3_frames
        h3_request_stream
        hpack
        import
        maps
        proxy_protocol
        qpack_decoder
        qpack_pair
        request_head
        resp
        response_head
        session_requests
        session_responses
    }

    #[test]
    fn every_target_has_a_program_a_test_and_seeds() {
        let tested: BTreeSet<String> = TESTED.iter().map(|&name| name.to_owned()).collect();
        let mut sources = names("src/targets");
        assert!(sources.remove("mod"));
        assert_eq!(sources, tested);
        assert_eq!(names("fuzz_targets"), tested);
        assert_eq!(names("corpus"), tested);
        for name in &tested {
            assert!(!seeds(name).is_empty(), "{name} has no seeds");
            let program = format!("[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n");
            assert!(
                include_str!("../Cargo.toml").contains(&program),
                "{name} has no program in the manifest"
            );
            let text = fs::read_to_string(format!("{}/fuzz_targets/{name}.rs", env!("CARGO_MANIFEST_DIR")));
            assert!(
                text.unwrap().contains(&format!("weir_fuzz::program!({name});")),
                "{name} runs another target"
            );
        }
    }

    #[test]
    #[should_panic(expected = "corpus/chunked/")]
    fn a_seed_that_shows_a_fault_is_named() {
        replay(|_| panic!("a fault"), seeds("chunked"));
    }
}
