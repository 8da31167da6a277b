//! The report as a browser shows it: Chromium, wide and as narrow as a phone, light and dark.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_lab::load::Second;
use weir_lab::report::{folder, html};

/// The page's own measurements, put into the document where the test finds them.
const PROBE: &str = "<script>addEventListener('load', () => {
  const style = getComputedStyle(document.body);
  const bright = colour => colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) > 384;
  const facts = {
    overflows: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    light: bright(style.backgroundColor) && !bright(style.color),
    dark: !bright(style.backgroundColor) && bright(style.color),
    rows: document.querySelectorAll('tbody tr').length,
    plots: [...document.querySelectorAll('svg')].filter(plot => plot.getBoundingClientRect().height > 100).length,
    axes: getComputedStyle(document.querySelector('svg text')).fill === style.color,
    verdicts: [...document.querySelectorAll('.verdicts li')].map(item => item.className).join(),
    reached: [...document.querySelectorAll('.wide')].every(box => {
      box.scrollLeft = 1e6;
      const [edge, cells, named] = [box.getBoundingClientRect(), box.querySelectorAll('thead th'), box.querySelector('tbody th')];
      const last = cells[cells.length - 1].getBoundingClientRect().right;
      const reached = last <= Math.min(edge.right, innerWidth) + 1 && named.getBoundingClientRect().left >= edge.left - 1;
      box.scrollLeft = 0;
      return reached;
    }),
    outside: performance.getEntriesByType('resource').length,
  };
  document.body.dataset.facts = Object.entries(facts).map(([name, value]) => name + '=' + value).join(' ');
});</script>";

/// The page's measurements in a window of this width.
fn facts(page: &Path, width: u32, is_dark: bool) -> String {
    let profile = tempfile::tempdir().unwrap();
    let out = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)))
        .arg(format!("--window-size={width},900"))
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap_or_else(|error| panic!("chromium, which the README's test command installs: {error}"));
    let dom = String::from_utf8_lossy(&out.stdout);
    let facts = dom.split("data-facts=\"").nth(1).and_then(|rest| rest.split('"').next());
    facts.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&out.stderr))).to_owned()
}

#[test]
fn a_browser_shows_all_of_it_on_any_screen() {
    let run = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../runs/2026-11-24-current-peers/l7-keepalive");
    let page = html::page(&folder::load(&run).unwrap()).unwrap();
    assert!(!page.contains("<script"), "the page works without scripts");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, page.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    for (width, is_dark) in [(1280, false), (1280, true), (390, false), (390, true)] {
        let expected = format!(
            "overflows=false light={} dark={is_dark} rows=6 plots=2 axes=true verdicts=met reached=true outside=0",
            !is_dark
        );
        assert_eq!(facts(&file, width, is_dark), expected, "{width} pixels, dark: {is_dark}");
    }
}

/// Parts that only newer runs have: single requests, the shares of servers, and seconds.
#[test]
fn a_browser_shows_the_course_of_a_round() {
    let run = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../runs/2026-11-21-queue-single-slot");
    let mut run = folder::load(&run).unwrap();
    let before = html::page(&run).unwrap().matches("<figure>").count();
    for measurement in &mut run.measurements {
        measurement.responses = (1..200).map(|number| 20_000 + number * 100).collect();
        measurement.shares = vec![500, 480, 520];
        measurement.seconds = vec![Second { requests: 150, errors: 0, p50: 9e4, p99: 1.2e5 }; 10];
    }
    let page = html::page(&run).unwrap();
    // Of each of three cases: requests, shares, answers per second, P99 per second.
    assert_eq!(page.matches("<figure>").count(), before + 12);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, page.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    for (width, is_dark) in [(1280, false), (390, true)] {
        let facts = facts(&file, width, is_dark);
        let shown = format!("plots={} axes=true", before + 12);
        assert!(facts.starts_with("overflows=false ") && facts.contains(&shown), "{width}: {facts}");
    }
}

/// A run that others made is data, not markup.
#[test]
fn the_text_of_a_run_is_escaped() {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../runs/2026-11-24-current-peers/l7-keepalive");
    let mut run = folder::load(&path).unwrap();
    run.notes.push("<img src=x onerror=alert(1)>".to_owned());
    run.scenario.question = "</title><script>alert(1)</script>".to_owned();
    let page = html::page(&run).unwrap();
    assert!(!page.contains("<img src=x") && !page.contains("<script>alert"), "{page}");
}
