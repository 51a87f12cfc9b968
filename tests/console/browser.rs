//! A headless Chromium, driven by chromedriver: WebDriver (W3C) is JSON over HTTP, so it needs no library.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};

use crate::support::http::{self, Reply};
use crate::support::process::free_ports;
use crate::support::until;

/// The console's tests run one after another, and a busy machine starts a browser slowly.
const START_MAX: Duration = Duration::from_secs(60);
/// The name under which WebDriver returns an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// One page of one browser. Both end with it.
pub struct Browser {
    driver: Child,
    addr: SocketAddr,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub async fn start() -> Self {
        let port = free_ports(1)[0];
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver (Debian: chromium-driver)");
        let profile = tempfile::tempdir().unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let mut browser = Self { driver, addr, session: String::new(), _profile: profile };
        until("chromedriver listens", START_MAX, async || http::connect(addr).await.is_ok()).await;
        let folder = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--no-proxy-server",
            "--hide-scrollbars",
            &folder,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let made = browser.order("POST", "/session", &wanted).await;
        browser.session = made["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    /// The size of the page, and the colours that its user prefers.
    pub async fn looks(&self, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 1_000, "deviceScaleFactor": 1, "mobile": false});
        self.cdp("Emulation.setDeviceMetricsOverride", &size).await;
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.cdp("Emulation.setEmulatedMedia", &media).await;
    }

    pub async fn open(&self, url: &str) {
        self.of_session("POST", "/url", &json!({ "url": url })).await;
    }

    /// The value of a JavaScript expression.
    pub async fn value(&self, expression: &str) -> Value {
        let script = json!({"script": format!("return {expression};"), "args": []});
        self.of_session("POST", "/execute/sync", &script).await
    }

    pub async fn text(&self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector('{selector}')?.innerText ?? ''")).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the text of an element holds all of these.
    pub async fn shows(&self, selector: &str, words: &[&str], within: Duration) -> Duration {
        let begun = Instant::now();
        let what = format!("{selector} shows {words:?}");
        let is_there = async || {
            let text = self.text(selector).await;
            words.iter().all(|word| text.contains(word))
        };
        until(&what, within, is_there).await;
        begun.elapsed()
    }

    /// The elements of a selector.
    pub async fn elements(&self, selector: &str) -> Vec<String> {
        let found =
            self.of_session("POST", "/elements", &json!({"using": "css selector", "value": selector})).await;
        let ids = found.as_array().unwrap().iter();
        ids.map(|element| element[ELEMENT].as_str().unwrap().to_owned()).collect()
    }

    /// The name of an element for assistive technology; `None` if the page has replaced the element since.
    pub async fn name(&self, element: &str) -> Option<String> {
        let label = self.of_element(element, "computedlabel").await?;
        Some(label.as_str().unwrap_or_default().to_owned())
    }

    pub async fn is_shown(&self, element: &str) -> bool {
        self.of_element(element, "displayed").await == Some(json!(true))
    }

    async fn of_element(&self, element: &str, fact: &str) -> Option<Value> {
        let path = format!("/session/{}/element/{element}/{fact}", self.session);
        let reply = self.ask("GET", &path, &Value::Null).await;
        if reply.status == 404 {
            return None;
        }
        assert_eq!(reply.status, 200, "{path}: {reply}");
        Some(reply.json()["value"].clone())
    }

    /// Types into the element of a selector, or presses keys there.
    pub async fn types(&self, selector: &str, text: &str) {
        let element = self.elements(selector).await.first().cloned().expect(selector);
        self.of_session("POST", &format!("/element/{element}/value"), &json!({ "text": text })).await;
    }

    /// Presses keys where the focus is.
    pub async fn presses(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            [
                json!({"type": "keyDown", "value": key.to_string()}),
                json!({"type": "keyUp", "value": key.to_string()}),
            ]
        });
        let actions =
            json!({"actions": [{"type": "key", "id": "keys", "actions": strokes.collect::<Vec<_>>()}]});
        self.of_session("POST", "/actions", &actions).await;
    }

    /// What the browser complained about since the last call: errors of scripts, refused files, broken policies.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.of_session("POST", "/se/log", &json!({"type": "browser"})).await;
        let lines =
            log.as_array().unwrap().iter().filter(|line| line["level"] != "INFO" && line["level"] != "DEBUG");
        lines.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Keeps a picture of the whole page.
    pub async fn picture(&self, path: &Path) {
        let height = self.value("document.documentElement.scrollHeight").await.as_u64().unwrap().min(2_400);
        let width = self.value("innerWidth").await;
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
        let wanted = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let taken = self.cdp("Page.captureScreenshot", &wanted).await;
        let bytes = base64::engine::general_purpose::STANDARD.decode(taken["data"].as_str().unwrap());
        std::fs::write(path, bytes.unwrap()).unwrap();
    }

    async fn cdp(&self, command: &str, parameters: &Value) -> Value {
        let order = json!({"cmd": command, "params": parameters});
        self.of_session("POST", "/goog/cdp/execute", &order).await
    }

    async fn of_session(&self, method: &str, path: &str, body: &Value) -> Value {
        self.order(method, &format!("/session/{}{path}", self.session), body).await
    }

    async fn order(&self, method: &str, path: &str, body: &Value) -> Value {
        let reply = self.ask(method, path, body).await;
        assert_eq!(reply.status, 200, "{method} {path}: {reply}");
        reply.json()["value"].clone()
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        http::ask(self.addr, request.as_bytes()).await.unwrap()
    }
}

impl Drop for Browser {
    /// chromedriver ends its browser when the session is deleted, not when it is killed.
    fn drop(&mut self) {
        let request = format!(
            "DELETE /session/{} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
            self.session
        );
        if let Ok(mut stream) = std::net::TcpStream::connect(self.addr) {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let _ = std::io::Write::write_all(&mut stream, request.as_bytes());
            let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
