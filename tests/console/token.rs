//! A node with a token: the page asks for it, and shows nothing without it.

use std::time::Duration;

use super::browser::Browser;
use crate::support::http;
use crate::support::process::{Addrs, NodeProcess};
use crate::support::turn::Turn;

const TOKEN: &str = "a token of thirty-two characters!";
const WAIT_MAX: Duration = Duration::from_secs(60);
const ENTER: &str = "\u{e007}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_asks_for_the_token_and_keeps_it_for_the_tab() {
    let _turn = Turn::take().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    let config = format!("admin_token_file = \"{}\"\n[store]\nuri = \"memory:\"\n", file.display());
    let mut node = NodeProcess::new(dir.path(), "guarded", Addrs::free(1)[0], &config);
    node.start();
    let addr = node.addrs.admin;
    let is_ready =
        async || http::ask(addr, &http::get("/readyz")).await.is_ok_and(|reply| reply.status == 200);
    crate::support::until("the node is ready", WAIT_MAX, is_ready).await;
    assert_refusals(addr).await;

    let browser = Browser::start().await;
    browser.looks(400, "light").await;
    browser.open(&format!("http://{addr}/")).await;
    browser.shows("#login", &["This node needs a token"], WAIT_MAX).await;
    assert!(!browser.text("#main").await.contains("Requests"), "something is shown");
    browser.types("#token", &format!("a wrong token{ENTER}")).await;
    browser.shows("#refused", &["refused the token"], WAIT_MAX).await;
    browser.types("#token", &format!("{TOKEN}{ENTER}")).await;
    browser.shows("#state", &["1 node, all well"], WAIT_MAX).await;
    browser.open(&format!("http://{addr}/#/configuration")).await;
    browser.shows("#view", &["node.admin_token_file"], WAIT_MAX).await;
    let shown = browser.value("document.body.innerText + document.cookie + location.href").await;
    assert!(!shown.as_str().unwrap().contains(TOKEN), "the token is shown");
    browser.types("#forget", ENTER).await;
    browser.shows("#login", &["This node needs a token"], WAIT_MAX).await;
}

/// The page itself is for everybody; nothing that it shows is. A page of another host may not even ask.
async fn assert_refusals(addr: std::net::SocketAddr) {
    let page = http::ask(addr, &http::get("/")).await.unwrap();
    assert_eq!(page.status, 200, "{page}");
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    for path in ["/admin/v1/events", "/admin/v1/config", "/admin/v1/successors", "/metrics"] {
        assert_eq!(http::ask(addr, &http::get(path)).await.unwrap().status, 401, "{path}");
    }
    assert_eq!(http::ask(addr, &http::get("/console/../secret")).await.unwrap().status, 404);
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    let question = "{\"statement\": \"RETURN 1\"}";
    for (path, origin, status) in [
        ("/admin/v1/explain", "http://t", 200),
        ("/admin/v1/explain", "http://evil.example", 403),
        ("/admin/v1/explain", "null", 403),
        ("/admin/v1/purge", "http://t", 403),
        ("/admin/v1/drain", "http://t", 403),
    ] {
        let headers = format!("{token}origin: {origin}\r\n");
        let reply = http::ask(addr, &http::post(path, &headers, question)).await.unwrap();
        assert_eq!(reply.status, status, "{path} {origin}: {reply}");
    }
}
