//! A real Chromium without a window, driven through a pipe by the DevTools protocol: one page, its values and its errors.
//!
//! Nothing is waited for by time: the page is asked again and again, as any other process is.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser takes its time to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running Chromium with one page; dropping it ends the process.
pub(crate) struct Browser {
    process: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    reading: Option<JoinHandle<()>>,
    session: String,
    last_id: u64,
    complaints: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts it on an empty page.
    pub(crate) fn start() -> Browser {
        let profile = TempDir::new().expect("the system has a folder for temporary files");
        // The protocol is spoken on the descriptors 3 and 4; the shell puts them there.
        let command = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
             --disable-background-networking --disable-component-update --disable-sync --disable-extensions \
             --remote-debugging-pipe --user-data-dir=\"$0\" about:blank 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";
        let mut process = Command::new("sh")
            .args(["-c", command])
            .arg(profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("every system has a shell");
        let input = process.stdin.take().expect("stdin is piped");
        let output = process.stdout.take().expect("stdout is piped");
        let (sender, messages) = channel();
        let reading = std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { break };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let reading = Some(reading);
        let session = String::new();
        let (last_id, complaints) = (0, Vec::new());
        let mut browser =
            Browser { process, input, messages, reading, session, last_id, complaints, _profile: profile };
        browser.take_page();
        browser
    }

    fn take_page(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", &attach);
        self.session = attached["sessionId"].as_str().expect("a session has an id").to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
    }

    /// Sends a command and waits for its result.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("chromium, which the README's test command installs, runs");
        loop {
            let answer = self.messages.recv_timeout(PATIENCE);
            let answer = answer.unwrap_or_else(|_| panic!("chromium does not answer {method}"));
            if answer["id"] == self.last_id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    /// Records the errors of a page.
    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let is_bad = match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => true,
            "Runtime.consoleAPICalled" => params["type"] == "error" || params["type"] == "warning",
            "Log.entryAdded" => params["entry"]["level"] == "error" || params["entry"]["level"] == "warning",
            _ => false,
        };
        if is_bad {
            self.complaints.push(params.to_string());
        }
    }

    /// Goes to an address.
    pub(crate) fn go(&mut self, url: &str) {
        let went = self.call("Page.navigate", &json!({ "url": url }));
        assert!(went["errorText"].is_null(), "{url}: {went}");
    }

    /// Makes the window so many pixels wide, light or dark.
    pub(crate) fn resize(&mut self, width: u32, is_dark: bool) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let scheme = if is_dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &media);
    }

    /// Switches the scripts of pages on or off.
    pub(crate) fn run_scripts(&mut self, run: bool) {
        self.call("Emulation.setScriptExecutionDisabled", &json!({ "value": !run }));
    }

    /// The value of an expression on the page; `null` also when it fails there.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let evaluate = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        self.call("Runtime.evaluate", &evaluate)["result"]["value"].clone()
    }

    /// The text of the first element that matches.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.evaluate(&format!("document.querySelector({})?.textContent", json!(selector)));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Presses a key where the focus is.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "ArrowUp" => (38, ""),
            "ArrowDown" => (40, ""),
            "Tab" => (9, ""),
            _ => panic!("a key that the test knows: {key}"),
        };
        let event = |kind: &str| json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
        self.call("Input.dispatchKeyEvent", &event("keyDown"));
        self.call("Input.dispatchKeyEvent", &event("keyUp"));
    }

    /// The errors of the page since the last call.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        while let Ok(event) = self.messages.try_recv() {
            self.note(&event);
        }
        std::mem::take(&mut self.complaints)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(reading) = self.reading.take() {
            let _ended = reading.join();
        }
    }
}
