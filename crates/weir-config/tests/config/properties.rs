//! Whatever is written, reading it ends with a configuration or with mistakes that can be shown.

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_oneof, proptest};
use weir_config::{CheckedConfig, Colour};

use crate::diagnostics::cases;
use crate::examples;

/// Reads a text and renders the result in every way there is.
fn read_and_show(text: &str) {
    let checked =
        CheckedConfig::parse_alone(text, "weir.toml", &|name| (name.len() % 2 == 0).then(|| name.to_owned()));
    let errors = checked.diagnostics.errors().count();
    assert_eq!(checked.config.is_some(), errors == 0, "{text}\n{}", checked.diagnostics);
    checked.diagnostics.render(Colour::Never);
    checked.diagnostics.render(Colour::Always);
    checked.diagnostics.to_json();
    assert_eq!(checked.diagnostics.to_string().lines().count(), checked.diagnostics.len(), "{text}");
    if checked.config.is_some() {
        let again = CheckedConfig::parse_alone(&checked.print(), "weir.toml", &|_| None);
        assert!(again.config.is_some(), "{text}\n{}\n{}", checked.print(), again.diagnostics);
    }
}

/// Texts that are a configuration or nearly one.
fn seeds() -> Vec<String> {
    examples().into_iter().chain(cases()).map(|(_, text)| text).collect()
}

fn near_config() -> impl Strategy<Value = String> {
    let seeds = seeds();
    let words: Vec<String> = seeds
        .iter()
        .flat_map(|text| text.split([' ', '\n']))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    let word = prop_oneof![prop::sample::select(words), "[\\PC\n]{0,4}", Just("${X}".to_owned())];
    (prop::sample::select(seeds), prop::collection::vec((any::<prop::sample::Index>(), word), 1..6)).prop_map(
        |(text, edits)| {
            let mut words: Vec<String> = text.split_inclusive([' ', '\n', '"']).map(str::to_owned).collect();
            if words.is_empty() {
                words.push(String::new());
            }
            for (index, word) in edits {
                let index = index.index(words.len());
                words[index] = word;
            }
            words.concat()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_is_read_without_panic(text in any::<String>()) {
        read_and_show(&text);
    }

    #[test]
    fn arbitrary_values_are_read_without_panic(value in "[\\PC\n]{0,20}", key in prop::sample::select(vec![
        "listener.web.address", "listener.web.timeouts.idle", "listener.web.limits.body_size", "access_log.format",
        "listener.web.trusted_proxies", "process.workers", "upstream.a.hash_key", "upstream.a.servers",
    ])) {
        let quoted = toml::Value::String(value.clone()).to_string();
        read_and_show(&format!("{key} = {value}\n"));
        read_and_show(&format!("{key} = {quoted}\n"));
        read_and_show(&format!("{key} = [{quoted}]\n"));
    }

    #[test]
    fn edited_configurations_are_read_without_panic(text in near_config()) {
        read_and_show(&text);
    }

    #[test]
    fn arbitrary_bytes_of_examples_are_read_without_panic(
        text in prop::sample::select(seeds()), cut in any::<prop::sample::Index>(), insert in any::<char>(),
    ) {
        let at = cut.index(text.len() + 1);
        let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (before, after) = text.split_at(at);
        read_and_show(before);
        read_and_show(&format!("{before}{insert}{after}"));
        prop_assert!(text.starts_with(before));
    }
}
