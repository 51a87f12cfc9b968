//! Issue 19, must show 2: every view shows data of a real cluster, is usable by keyboard and by assistive technology,
//! fits 400 and 1,600 px, and shows a killed node within two seconds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::browser::Browser;
use super::traffic::{CROWD, Traffic};
use crate::support::cluster::{Cluster, Plan};
use crate::support::pace::Slowness;
use crate::support::{say, until};

const SHOWN_MAX: Duration = Duration::from_secs(15);
const LOADED_MAX: Duration = Duration::from_secs(1);
const KILLED_SEEN_MAX: Duration = Duration::from_secs(2);
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// Each view, and words that it shows only with data of the cluster.
const VIEWS: [(&str, &[&str]); 8] = [
    ("overview", &["node-a", "node-b", "node-c", "Everything works as it should.", "runs for", " ms"]),
    ("ring", &["node-a", "node-b", "node-c", "All nodes that answer have one ring", "yes"]),
    ("hot", &["{id: $}", "RETURN p.name AS name", "not cached: it writes"]),
    ("inspector", &["Statement", "Explain"]),
    ("stampedes", &["AS stampede", "node-"]),
    ("prefetch", &["This node knows", "RETURN f.id AS friend"]),
    ("freshness", &["neo4j", "Written up to transaction", "Touched"]),
    ("configuration", &["freshness.", "prefetch.enabled", "default"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_view_shows_the_cluster_and_a_killed_node() {
    let mut cluster = Cluster::of(Plan { freshness: "", ..Plan::default() }).await;
    let traffic = Arc::new(Traffic::new());
    traffic.people(&cluster).await;
    traffic.crowd(&cluster).await;
    traffic.run(&cluster).await;
    let slowness = Slowness::of(&cluster.clients()).await;
    let flow = tokio::spawn(Arc::clone(&traffic).flow(cluster.clients()));
    let browser = Browser::start().await;
    let url = format!("http://{}/", cluster.nodes[0].addrs.admin);
    browser.looks(1_600, "light").await;
    browser.open(&url).await;
    browser.shows("#state", &["3 nodes"], slowness.bound(SHOWN_MAX)).await;
    let loaded = browser.value("performance.getEntriesByType('navigation')[0].loadEventEnd").await;
    let loaded = Duration::from_secs_f64(loaded.as_f64().unwrap() / 1_000.0);
    assert!(loaded <= slowness.bound(LOADED_MAX), "loaded after {loaded:?} ({slowness:?})");
    say(&format!("the page is loaded after {} ms", loaded.as_millis()));
    for (view, words) in VIEWS {
        traffic.run(&cluster).await;
        browser.open(&format!("{url}#/{view}")).await;
        let took = browser.shows("#view", words, slowness.bound(SHOWN_MAX)).await;
        say(&format!("{view} shows the cluster after {} ms", took.as_millis()));
        if view == "overview" {
            charts_have_points(&browser).await;
        }
        if view == "inspector" {
            inspect(&browser, &traffic, slowness).await;
        }
        assert_names(&browser, view).await;
        assert_fits_and_keep(&browser, view).await;
    }
    assert!(!flow.is_finished(), "the flow of requests has ended");
    flow.abort();
    assert_keyboard(&browser, &url, slowness).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    let followers = browser_of_stampedes(&browser, &url, slowness).await;
    assert!(followers.contains(&(CROWD - 1).to_string()), "{followers}");

    browser.open(&format!("{url}#/ring")).await;
    browser.shows("#state", &["3 nodes"], slowness.bound(SHOWN_MAX)).await;
    cluster.nodes[2].kill();
    let seen = browser.shows("#state", &["no answer: node-c"], slowness.bound(KILLED_SEEN_MAX)).await;
    let in_ring = browser.shows("#view .log", &["node-c"], slowness.bound(KILLED_SEEN_MAX)).await;
    say(&format!(
        "a killed node is seen after {} ms, {} ms later as a change",
        seen.as_millis(),
        in_ring.as_millis()
    ));
    browser.shows("#view tbody", &["down"], slowness.bound(SHOWN_MAX)).await;
    keep(&browser, "killed").await;
    browser.open(&format!("{url}#/overview")).await;
    let said = [
        "node-a, members, since ",
        " UTC: node-c did not say goodbye",
        "Keys of these members go to the next",
    ];
    browser.shows("#view .health", &said, slowness.bound(Duration::from_secs(10))).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// Lines over time begin when the page is opened. Pictures get longer ones.
async fn charts_have_points(browser: &Browser) {
    let points_min = if pictures().is_some() { 25 } else { 3 };
    until("the charts have points", Duration::from_secs(60), async || {
        let points = browser.value("Number(document.querySelector('.plot').dataset.points)").await;
        points.as_u64().is_some_and(|points| points >= points_min)
    })
    .await;
}

/// A query that is pasted is explained, in a sentence.
async fn inspect(browser: &Browser, traffic: &Traffic, slowness: Slowness) {
    browser.types("#statement", &traffic.hot).await;
    browser.value("document.querySelector('#parameters').select()").await;
    browser.types("#parameters", &json!({"id": 2}).to_string()).await;
    browser.types("#principal", "neo4j").await;
    browser.types("form.ask button", ENTER).await;
    browser.shows("#view", &["Cached", "node-", "fresh", "normal form"], slowness.bound(SHOWN_MAX)).await;
}

async fn browser_of_stampedes(browser: &Browser, url: &str, slowness: Slowness) -> String {
    browser.open(&format!("{url}#/stampedes")).await;
    browser.shows("#view", &["AS stampede"], slowness.bound(SHOWN_MAX)).await;
    browser.text("#view tbody").await
}

/// Everything that can be operated has a name.
async fn assert_names(browser: &Browser, view: &str) {
    let operable =
        "a, button:not([hidden]), #view input, #view textarea, #view [tabindex], #view svg[role=img], nav";
    let elements = browser.elements(operable).await;
    assert!(elements.len() > 10, "{view}");
    let mut named = 0;
    for element in elements {
        // The page replaces rows as figures come.
        let Some(name) = browser.name(&element).await else { continue };
        assert!(
            !name.trim().is_empty() || !browser.is_shown(&element).await,
            "{view}: an element has no name"
        );
        named += 1;
    }
    assert!(named > 10, "{view}: {named}");
    let headings = browser.value("document.querySelectorAll('#view h1').length").await;
    assert_eq!(headings, json!(1), "{view}");
}

/// No view is wider than its window.
async fn assert_fits_and_keep(browser: &Browser, view: &str) {
    for width in [1_600, 400] {
        for scheme in ["light", "dark"] {
            browser.looks(width, scheme).await;
            let wide = browser.value("document.documentElement.scrollWidth").await.as_u64().unwrap();
            assert!(wide <= u64::from(width), "{view}: {wide} px in a window of {width} px");
            let dark = browser.value("getComputedStyle(document.body).backgroundColor").await;
            assert_eq!(dark == json!("rgb(16, 22, 28)"), scheme == "dark", "{view}: {dark}");
            keep(browser, &format!("{view}-{scheme}-{width}")).await;
        }
    }
    browser.looks(1_600, "light").await;
}

/// Tab reaches the link to the content first, and Enter operates the button of the theme.
async fn assert_keyboard(browser: &Browser, url: &str, slowness: Slowness) {
    // Another view of the same page would keep the focus within it.
    browser.open("about:blank").await;
    browser.open(url).await;
    browser.shows("#state", &["3 nodes"], slowness.bound(SHOWN_MAX)).await;
    browser.presses(TAB).await;
    assert_eq!(browser.value("document.activeElement.innerText").await, json!("Skip to the content"));
    browser.value("document.querySelector('#theme').focus()").await;
    for theme in ["light", "dark", "system"] {
        browser.presses(ENTER).await;
        browser.shows("#theme", &[theme], slowness.bound(SHOWN_MAX)).await;
    }
}

/// Where pictures are kept, if anybody wants them.
fn pictures() -> Option<PathBuf> {
    std::env::var_os("HOPCACHE_TEST_PICTURES").map(PathBuf::from)
}

async fn keep(browser: &Browser, name: &str) {
    let Some(folder) = pictures() else { return };
    std::fs::create_dir_all(&folder).unwrap();
    browser.picture(&folder.join(format!("{name}.png"))).await;
}
