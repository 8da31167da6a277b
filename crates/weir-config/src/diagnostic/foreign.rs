//! Files that were written for other products, or in other formats than TOML: each of their lines is an error, and none says so.

/// Lines of a text that are looked at for its format.
const FOREIGN_LINES_MAX: usize = 64;

/// What a text that is not TOML looks like: the name of the format.
pub(super) fn foreign_format(text: &str) -> Option<&'static str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first_word = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    for line in lines.take(FOREIGN_LINES_MAX).filter(|line| !line.contains('=')) {
        let word = first_word(line);
        let is_of = |words: &[&str]| words.contains(&word.as_str());
        if line.ends_with('{') && is_of(&["http", "server", "events", "location", "stream", "upstream"])
            || line.ends_with(';')
                && is_of(&["worker_processes", "user", "pid", "include", "listen", "server_name"])
        {
            return Some("nginx");
        }
        if is_of(&["global", "defaults"]) && line == word
            || is_of(&["frontend", "backend", "listen"]) && line.split_whitespace().count() >= 2
        {
            return Some("HAProxy");
        }
        if line.starts_with("<VirtualHost") || line.starts_with("<IfModule") || word == "LoadModule" {
            return Some("Apache httpd");
        }
        if line.ends_with('{') && !line.starts_with(['{', '[', '"'])
            || is_of(&["reverse_proxy", "file_server"])
        {
            return Some("Caddy");
        }
        if is_of(&["static_resources:", "entryPoints:", "providers:", "apiVersion:", "admin:"]) {
            return Some("YAML");
        }
        if line.starts_with('{') {
            return Some("JSON");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_of_other_products_are_named() {
        for (text, name) in [
            (
                "# main\nuser www-data;\nworker_processes auto;\nhttp {\n server {\n  listen 80;\n }\n}\n",
                "nginx",
            ),
            ("global\n    daemon\n\nfrontend web\n    bind :80\n", "HAProxy"),
            ("<VirtualHost *:80>\n  ServerName a.test\n</VirtualHost>\n", "Apache httpd"),
            ("example.com {\n\treverse_proxy localhost:9000\n}\n", "Caddy"),
            ("static_resources:\n  listeners: []\n", "YAML"),
            ("{ \"listener\": {} }", "JSON"),
        ] {
            assert_eq!(foreign_format(text), Some(name));
        }
        // A mistake in TOML is told as one.
        for text in ["[listener.web]\naddress = 1;\n", "[listener.web\naddress = 1", "a = {\n  b = 1;\n}"] {
            assert_eq!(foreign_format(text), None, "{text}");
        }
    }
}
