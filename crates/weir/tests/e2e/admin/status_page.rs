//! The status page in a real browser: live without being loaded anew, for every screen, and by keyboard.

use serde_json::{Value, json};

use crate::harness::browser::Browser;
use crate::harness::{Client, Origin, Weir, eventually, temporary_folder};

/// Two servers `one` and `two` behind the listener `web`, and an upstream without a listening server.
fn config(origins: &[Origin], admin: &str) -> String {
    format!(
        "admin.address = \"127.0.0.1:0\"\n{admin}\n[listener.web]\naddress = \"127.0.0.1:0\"\n\
         route = [{{ path = \"/gone/\", upstream = \"gone\" }}, {{ upstream = \"app\" }}]\n\
         [upstream.app]\nservers = [{}, {}]\n[upstream.gone]\nservers = [\"127.0.0.1:1\"]\n",
        origins[0].named("one"),
        origins[1].named("two"),
    )
}

/// Waits until the page has had its first figures.
fn open(browser: &mut Browser, url: &str) {
    browser.go(url);
    eventually("the page is live", || browser.text("#live-text") == "live");
}

/// Whether the dialog is open that asks what is meant.
fn is_open(browser: &mut Browser) -> bool {
    browser.evaluate("document.getElementById('change').open") == json!(true)
}

const REQUESTS: &str = "[data-at='listeners.0'] [data-v=requests]";

#[test]
fn figures_change_without_loading_the_page_anew() {
    let origins = [Origin::serving("answer"), Origin::serving("answer")];
    let weir = Weir::start(&config(&origins, ""));
    let mut browser = Browser::start();
    open(&mut browser, &format!("http://{}/", weir.address("admin")));
    browser.evaluate("window.isStillHere = true");
    assert_eq!(browser.text(REQUESTS), "0");
    for _ in 0..12 {
        assert_eq!(Client::get(weir.web(), "/").status, 200);
    }
    assert_eq!(Client::get(weir.web(), "/gone/").status, 502);
    eventually("the requests are shown", || browser.text(REQUESTS) == "13");
    // Which of the two is asked depends on whether the last answer is counted as over by then.
    eventually("what the servers had adds up", || {
        let mut attempts = |server| {
            let of_server = format!("[data-at='upstreams.0.servers.{server}'] [data-v=attempts]");
            browser.text(&of_server).parse::<u64>().unwrap_or_default()
        };
        let shares = [attempts(0), attempts(1)];
        shares.iter().sum::<u64>() == 12 && !shares.contains(&0)
    });
    eventually("the failure is shown and leads to its explanation", || {
        browser
            .evaluate("document.querySelector('[data-at=\"listeners.0\"] .reasons a')?.getAttribute('href')")
            == "/failures/connect-refused"
    });
    eventually("there are graphs", || {
        browser.evaluate(
            "!document.querySelector('.graphs').hidden \
             && document.querySelector('[data-graph=rate] .rate').getAttribute('d').length > 10",
        ) == json!(true)
    });
    // A reload of the config brings a server, and with it new markup.
    let more = config(&origins, "")
        .replace("[upstream.gone]\nservers = [", "[upstream.gone]\nservers = [\"127.0.0.1:2\", ");
    weir.reload(&more);
    eventually("the new server is shown", || {
        browser.evaluate("document.querySelectorAll('[data-at^=\"upstreams.1.servers.\"]').length")
            == json!(2)
    });
    assert_eq!(browser.evaluate("window.isStillHere"), json!(true));
    assert_eq!(
        browser.evaluate("document.querySelectorAll('button[data-server]').length"),
        json!(0),
        "nothing may be changed"
    );
    for _ in 0..5 {
        assert_eq!(Client::get(weir.web(), "/gone/").status, 502);
    }
    let rows = "[...document.querySelectorAll('#failures tbody tr')].map(row => Number(row.querySelector('[data-label=Count]').textContent))";
    eventually("failures of one kind are one row", || {
        let counts = browser.evaluate(rows);
        let counts: Vec<u64> = counts.as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        counts.iter().sum::<u64>() == 6 && counts.len() < 5
    });
    let report = "document.querySelector('#failures tbody a[href^=\"/why/\"]')?.href";
    eventually("the failure is among the last ones", || browser.evaluate(report).is_string());
    assert_eq!(browser.complaints(), [""; 0]);
    let report = browser.evaluate(report);
    browser.go(report.as_str().expect("it was just there"));
    eventually("its record is shown", || browser.text("#why h2") == "GET /gone/ for example.test");
    let record = browser.text("#why");
    assert!(record.contains("connect-refused") && record.contains("0 running, chosen"), "{record}");
    assert!(!record.contains("undefined"), "{record}");
    assert_eq!(browser.complaints(), [""; 0]);
    browser.go(&format!("http://{}/failures/connect-refused", weir.address("admin")));
    eventually("the explanation is there", || browser.text("h2") == "Advice");
    drop(weir);
}

#[test]
fn a_log_that_cannot_be_written_is_told() {
    let origins = [Origin::serving("answer"), Origin::serving("answer")];
    let log = "[listener.web]\naccess_log = { format = \"common\", output = \"file:/dev/full\" }\n";
    let weir = Weir::start(&config(&origins, "").replace("[listener.web]\n", log));
    let mut browser = Browser::start();
    open(&mut browser, &format!("http://{}/", weir.address("admin")));
    let told = "document.querySelector('#logs p:not([hidden])')?.textContent ?? ''";
    assert_eq!(browser.evaluate(told), "");
    eventually("the loss is told", || {
        assert_eq!(Client::get(weir.web(), "/").status, 200);
        browser
            .evaluate(told)
            .as_str()
            .is_some_and(|text| text.starts_with("Lines of an access log were lost"))
    });
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn the_page_fits_every_screen_and_needs_no_script() {
    let origins = [Origin::serving("answer"), Origin::serving("answer")];
    let weir = Weir::start(&config(&origins, "admin.changes = true"));
    Client::get(weir.web(), "/gone/");
    let mut browser = Browser::start();
    let url = format!("http://{}/", weir.address("admin"));
    open(&mut browser, &url);
    for (width, is_dark) in [(1280, false), (1280, true), (390, false), (390, true), (320, true)] {
        browser.resize(width, is_dark);
        let facts = browser.evaluate(
            "(() => {
                const style = getComputedStyle(document.body);
                const bright = colour => colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) > 384;
                return {
                    overflows: document.documentElement.scrollWidth > document.documentElement.clientWidth,
                    dark: bright(style.color) && !bright(style.backgroundColor),
                    small: [...document.querySelectorAll('main *')].filter(one => parseFloat(getComputedStyle(one).fontSize) < 11).length,
                };
            })()",
        );
        assert_eq!(facts, json!({ "overflows": false, "dark": is_dark, "small": 0 }), "{width} pixels");
    }
    // Headings in order, every control and picture with a name, no id twice.
    let faults = browser.evaluate(
        "(() => {
            const faults = [];
            const levels = [...document.querySelectorAll('h1, h2, h3')].map(one => Number(one.tagName[1]));
            levels.reduce((before, level) => { if (level > before + 1) faults.push('heading ' + level); return level; }, 0);
            for (const one of document.querySelectorAll('button, a, summary')) if (!one.textContent.trim()) faults.push(one.outerHTML);
            for (const one of document.querySelectorAll('[role=img]')) if (!one.getAttribute('aria-label')) faults.push(one.outerHTML);
            for (const one of document.querySelectorAll('th')) if (!one.scope) faults.push(one.outerHTML);
            const ids = [...document.querySelectorAll('[id]')].map(one => one.id);
            if (new Set(ids).size < ids.length) faults.push('an id is there twice');
            return faults;
        })()",
    );
    assert_eq!(faults, json!([]));
    assert_eq!(browser.complaints(), [""; 0]);
    browser.run_scripts(false);
    browser.go(&url);
    eventually("the page is there without scripts", || {
        Client::get_by_address(weir.address("admin"), "/").text().contains("one")
            && browser.text("[data-at='upstreams.0.servers.0'] .part") == "one"
    });
}

#[test]
fn a_server_is_drained_by_keyboard() {
    let origins = [Origin::serving("answer"), Origin::serving("answer")];
    let weir = Weir::start(&config(&origins, "admin.changes = true"));
    let mut browser = Browser::start();
    open(&mut browser, &format!("http://{}/", weir.address("admin")));
    let mode = || {
        let table = Client::get_by_address(weir.address("admin"), "/servers").text();
        let row = table.lines().find(|line| line.contains("\tone\t")).expect("the server is listed");
        row.split('\t').nth(2).expect("a mode").to_owned()
    };
    browser.evaluate("document.querySelector('button[data-server=one]').focus()");
    browser.press("Enter");
    assert!(is_open(&mut browser), "it asks first");
    assert_eq!(browser.text("#change-server"), "one of app");
    browser.press("Escape");
    assert!(!is_open(&mut browser));
    assert_eq!(mode(), "serving", "nothing was confirmed");
    browser.press("Enter");
    browser.press("ArrowDown");
    browser.press("Enter");
    eventually("the server drains", || mode() == "draining");
    eventually("the page says so", || browser.text("[data-at='upstreams.0.servers.0'] .state") == "draining");
    assert!(!is_open(&mut browser));
    assert_eq!(browser.complaints(), [""; 0]);
    drop(weir);
    eventually("the page says that Weir does not answer", || {
        browser.text("#live-text") == "Weir does not answer"
            && browser.evaluate("document.getElementById('live').className") == "off"
    });
}

#[test]
fn a_weight_is_changed_by_keyboard_and_holds_until_a_reload() {
    let origins = [Origin::serving("answer"), Origin::serving("answer")];
    let config = config(&origins, "admin.changes = true");
    let weir = Weir::start(&config);
    let mut browser = Browser::start();
    open(&mut browser, &format!("http://{}/", weir.address("admin")));
    browser.evaluate("window.isStillHere = true");
    let weight = "[data-at='upstreams.0.servers.0'] [data-v=weight]";
    assert_eq!(browser.text(weight), "1");
    let ask = |browser: &mut Browser, server: &str| {
        browser.evaluate(&format!("document.querySelector('button[data-server=\"{server}\"]').focus()"));
        browser.press("Enter");
        assert!(is_open(browser), "it asks first");
        browser.press("Tab");
        assert_eq!(browser.evaluate("document.activeElement.name"), "weight");
        assert_eq!(browser.evaluate("document.activeElement.value"), "1");
    };
    ask(&mut browser, "one");
    browser.press("ArrowUp");
    browser.press("Escape");
    assert!(!is_open(&mut browser));
    ask(&mut browser, "one");
    assert_eq!(browser.text(weight), "1", "nothing was confirmed");
    browser.press("ArrowUp");
    browser.press("ArrowUp");
    browser.press("Enter");
    eventually("the page shows the weight", || browser.text(weight) == "3");
    eventually("the dialog is done", || !is_open(&mut browser));
    assert_eq!(browser.text("[data-at='upstreams.0.servers.1'] [data-v=weight]"), "1");
    assert_eq!(browser.text("[data-at='upstreams.0.servers.0'] .state"), "up", "the mode was not touched");
    assert_eq!(browser.complaints(), [""; 0]);
    // The dialog shows the error of the answer, and nothing is changed.
    ask(&mut browser, "two");
    browser.evaluate(
        "{ const { mode, deadline, weight } = document.querySelector('#change form').elements;
        mode.value = 'draining'; deadline.value = 'soon'; weight.value = 9; }",
    );
    browser.press("Enter");
    eventually("the dialog shows the error", || browser.text("#change-said").contains("`deadline`"));
    assert!(is_open(&mut browser));
    let two = || weir.admin_json("/api/overview")["upstreams"][0]["servers"][1].clone();
    assert_eq!([&two()["mode"], &two()["weight"]], [&json!("serving"), &json!(1)]);
    browser.evaluate("document.querySelector('#change form').elements.deadline.value = '10m'");
    browser.press("Enter");
    eventually("both are changed", || [&two()["mode"], &two()["weight"]] == [&json!("draining"), &json!(9)]);
    eventually("the page shows it", || {
        !is_open(&mut browser) && browser.text("[data-at='upstreams.0.servers.1'] .state") == "draining"
    });
    // A weight alone leaves the deadline of a drain alone.
    browser.evaluate("document.querySelector('button[data-server=two]').click()");
    browser.evaluate("document.querySelector('#change form').elements.weight.value = 5");
    browser.press("Enter");
    eventually("the weight is changed", || two()["weight"] == 5);
    assert_eq!(two()["mode"], "draining");
    assert!(two()["deadline_in_ms"].is_number(), "{}", two());
    weir.reload(&config);
    eventually("the weight of the file is in use again", || browser.text(weight) == "1");
    assert_eq!(browser.evaluate("window.isStillHere"), json!(true));
}

/// Twelve upstreams `u0` to `u11` with servers `a0`, `b0` to `a11`, `b11`; `u7` has a third one where nothing listens.
fn twelve(origins: &[Origin]) -> String {
    let mut config = "admin.address = \"127.0.0.1:0\"\nadmin.changes = true\n[listener.web]\naddress = \"127.0.0.1:0\"\nroute = [".to_owned();
    for number in 0..12 {
        config.push_str(&format!("{{ path = \"/{number}/\", upstream = \"u{number}\" }}, "));
    }
    config.push_str("]\n");
    for number in 0..12 {
        let names = [format!("a{number}"), format!("b{number}")];
        let [a, b] = [0, 1].map(|index| origins[index].named(&names[index]));
        let broken = if number == 7 { ", { name = \"gone\", address = \"127.0.0.1:1\" }" } else { "" };
        let health = if number == 7 { "health = { interval = \"100ms\", fall = 1 }\n" } else { "" };
        config.push_str(&format!("[upstream.u{number}]\nservers = [{a}, {b}{broken}]\n{health}"));
    }
    config
}

#[test]
fn many_upstreams_are_lines_that_are_searched_and_changed_together() {
    let origins = [Origin::serving("answer"), Origin::serving("answer")];
    let weir = Weir::start(&twelve(&origins));
    let mut browser = Browser::start();
    browser.resize(1280, false);
    open(&mut browser, &format!("http://{}/", weir.address("admin")));
    let shown = "[...document.querySelectorAll('details.upstream')].filter(one => !one.hidden).map(one => one.dataset.name).join(' ')";
    eventually("the one with a problem comes first", || {
        browser.evaluate(shown).as_str().is_some_and(|names| names.starts_with("u7 u0 u1 "))
            && browser.text("details.upstream .state") == "degraded"
            && browser.text("details.upstream .usable") == "2 of 3 usable"
    });
    let heights =
        "[...document.querySelectorAll('details.upstream')].every(one => !one.open && one.offsetHeight < 48)";
    assert_eq!(browser.evaluate(heights), json!(true), "each takes a line");
    browser.resize(390, false);
    let phone = "document.getElementById('upstream-list').offsetHeight / 12";
    assert!(browser.evaluate(phone).as_f64().is_some_and(|height| height < 120.0), "ten take two screens");
    browser.resize(1280, false);
    browser.evaluate("document.querySelector('details.upstream .usable').click()");
    let rows = "[...document.querySelectorAll('details.upstream[open] tbody tr')].filter(one => one.offsetParent).map(one => one.querySelector('.part').textContent).join(' ')";
    assert_eq!(browser.evaluate(rows), "gone", "it leads to the one that is not usable");
    browser.evaluate("document.querySelector('details[open] button.all').click()");
    assert_eq!(browser.evaluate(rows), "gone a7 b7");
    // A search finds servers too, and what it finds is changed together.
    let find = |browser: &mut Browser, text: &str| {
        browser.evaluate(&format!(
            "{{ const search = document.getElementById('search'); search.value = '{text}'; search.dispatchEvent(new Event('input')); }}"
        ));
    };
    find(&mut browser, "b1");
    assert_eq!(browser.evaluate(shown), "u1 u10 u11");
    browser.evaluate("document.getElementById('select-found').click()");
    assert_eq!(browser.text("#selection-count"), "3 servers");
    browser.evaluate("document.getElementById('selection-change').click()");
    assert!(is_open(&mut browser), "it asks first");
    assert_eq!(browser.text("#change-server"), "3 servers");
    browser.evaluate("document.querySelector('#change [value=draining]').click()");
    assert_eq!(browser.evaluate("document.getElementById('change-warning').hidden"), json!(true));
    browser.press("Enter");
    let draining = || {
        let table = Client::get_by_address(weir.address("admin"), "/servers").text();
        let rows = table.lines().filter(|line| line.contains("\tdraining\t"));
        rows.filter_map(|line| line.split('\t').nth(1).map(str::to_owned)).collect::<Vec<_>>().join(" ")
    };
    eventually("all three drain", || draining() == "b1 b10 b11");
    eventually("the dialog is done", || !is_open(&mut browser));
    assert_eq!(browser.evaluate("document.getElementById('selection').hidden"), json!(true));
    find(&mut browser, "");
    browser.evaluate(
        "{ const filter = document.getElementById('filter'); filter.value = 'out'; filter.dispatchEvent(new Event('change')); }",
    );
    eventually("those that are out are found", || browser.evaluate(shown) == "u1 u10 u11");
    // Taking the last server of an upstream requires a confirmation.
    find(&mut browser, "a10");
    browser.evaluate("document.getElementById('select-found').click(); document.getElementById('selection-change').click()");
    browser.evaluate("document.querySelector('#change [value=maintenance]').click()");
    assert_eq!(browser.text("#change-warning"), "No usable server would be left to u10.");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[cfg(feature = "profiler")]
#[test]
fn profiles_are_for_the_own_page_where_changes_are_allowed() {
    let origins = [Origin::serving("answer"), Origin::serving("answer")];
    let weir = Weir::start(&config(&origins, "admin.changes = true"));
    let page = format!("http://{}/", weir.address("admin"));
    let mut browser = Browser::start();
    open(&mut browser, &page);
    // In this tab, where the test can see it.
    browser.evaluate("document.querySelector('.profiles').target = '_self'");
    browser.evaluate("document.querySelector('.profiles [formaction=\"/api/profile/memory\"]').focus()");
    browser.press("Enter");
    let answered = |browser: &mut Browser| {
        browser.evaluate(
            "document.readyState === 'complete' && location.pathname === '/api/profile/memory' \
             && performance.getEntriesByType('navigation')[0].responseStatus",
        )
    };
    eventually("the page's button leads to the profile", || answered(&mut browser) == json!(200));
    assert!(browser.text("body").contains("resident_bytes"), "{}", browser.text("body"));
    // `localhost` is another site than `127.0.0.1`.
    browser.go(&format!("http://localhost:{}/", origins[0].address().port()));
    eventually("the page of another site is there", || browser.text("body") == "answer");
    browser.evaluate(&format!(
        "const form = document.createElement('form'); form.method = 'post'; form.action = '{page}api/profile/memory'; \
         document.body.append(form); form.submit()"
    ));
    eventually("its form is refused", || answered(&mut browser) == json!(403));
    let metrics = Client::get_by_address(weir.address("admin"), "/metrics").text();
    assert!(metrics.contains("weir_admin_refusals_total{reason=\"cross-site\"} 1\n"), "{metrics}");
    open(&mut browser, &page);
    weir.reload(&config(&origins, ""));
    eventually("without changes there are no buttons and no dialog", || {
        browser.evaluate("document.querySelector('.profiles')").is_null()
            && browser.evaluate("document.getElementById('live-text')?.textContent") == "live"
            && browser.evaluate("document.getElementById('change')").is_null()
    });
}

#[test]
fn a_browser_comes_in_by_a_password() {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("password"), "correct horse").expect("the folder takes a file");
    let origins = [Origin::serving("answer"), Origin::serving("answer")];
    let admin = "admin.changes = true\nadmin.user = \"ops\"\nadmin.password_file = \"password\"";
    let weir = Weir::start_in(folder, &config(&origins, admin));
    let mut browser = Browser::start();
    open(&mut browser, &format!("http://ops:correct%20horse@{}/", weir.address("admin")));
    assert_eq!(browser.text("[data-at='upstreams.0.servers.0'] .part"), "one");
    assert_eq!(browser.complaints(), [""; 0]);
}
