//! Chromium without a screen, which shows a page and answers questions about it, through the pipe of its developer tools.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flash_tests::{PATIENCE, need};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Browser {
    chromium: Child,
    requests: File,
    answers: File,
    received: Vec<u8>,
    number: u64,
    session: Value,
    _folder: TempDir,
}

impl Browser {
    /// Opens a page.
    pub(crate) fn open(url: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = |name: &str| {
            let path = folder.path().join(name);
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
                .expect("a FIFO");
            path
        };
        let (requests, answers) = (fifo("requests"), fifo("answers"));
        // Chromium reads its descriptor 3, and writes to 4.
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$0\" \"$@\" 3<\"$REQUESTS\" 4>\"$ANSWERS\""]);
        shell.env("REQUESTS", &requests).env("ANSWERS", &answers);
        shell.arg(need("chromium", "chromium"));
        shell.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--remote-debugging-pipe",
        ]);
        shell.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        shell.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
        let chromium = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a shell");
        let requests = File::options().write(true).open(requests).expect("chromium reads");
        let answers = File::open(answers).expect("chromium writes");
        let (received, session) = (Vec::new(), Value::Null);
        let mut browser = Self { chromium, requests, answers, received, number: 0, session, _folder: folder };
        let target = browser.call("Target.createTarget", json!({ "url": url }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].clone();
        browser
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let result =
            self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let give_up = Instant::now() + PATIENCE;
        while self.value(expression) != true {
            let text = self.value("document.body.innerText");
            assert!(Instant::now() < give_up, "waited in vain for {expression}: {text}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// How wide the page is on a screen of this width.
    pub(crate) fn width_on(&mut self, width: u64) -> Value {
        let screen = json!({ "width": width, "height": 700, "deviceScaleFactor": 1, "mobile": true });
        self.call("Emulation.setDeviceMetricsOverride", screen);
        self.value("document.documentElement.scrollWidth")
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut request = json!({ "id": self.number, "method": method, "params": params });
        if self.session.is_string() {
            request["sessionId"] = self.session.clone();
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).expect("chromium listens");
        loop {
            let answer = self.receive();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The next message, which may be an event.
    fn receive(&mut self) -> Value {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == 0) {
                let message: Vec<u8> = self.received.drain(..=end).collect();
                return serde_json::from_slice(&message[..end]).expect("it is JSON");
            }
            let mut bytes = [0; 1 << 16];
            let count = self.answers.read(&mut bytes).expect("chromium answers");
            assert_ne!(count, 0, "chromium has ended");
            self.received.extend_from_slice(&bytes[..count]);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.chromium.kill();
        let _ = self.chromium.wait();
    }
}
