//! The console's page, embedded in the program. Its sources are in `crates/admin/console`; nothing builds them.

use axum::body::Body;
use axum::extract::Path;
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::problem::Problem;

/// The page may load and ask only what this node serves. It has no inline script and no inline style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "image/svg+xml";
const STYLE: &str = "text/css; charset=utf-8";

/// A file of the page: its name under `/console/`, its type, its text.
type Asset = (&'static str, &'static str, &'static str);

macro_rules! assets {
    ($($name:literal: $kind:ident,)*) => {
        &[$(($name, $kind, include_str!(concat!("../../console/", $name)))),*]
    };
}

const INDEX: &str = include_str!("../../console/index.html");

const FILES: &[Asset] = assets! {
    "app.js": SCRIPT,
    "chart.js": SCRIPT,
    "dom.js": SCRIPT,
    "figures.js": SCRIPT,
    "format.js": SCRIPT,
    "stream.js": SCRIPT,
    "views/configuration.js": SCRIPT,
    "views/freshness.js": SCRIPT,
    "views/hot.js": SCRIPT,
    "views/inspector.js": SCRIPT,
    "views/overview.js": SCRIPT,
    "views/prefetch.js": SCRIPT,
    "views/ring.js": SCRIPT,
    "views/stampedes.js": SCRIPT,
    "vendor/uplot.js": SCRIPT,
    "vendor/uplot.css": STYLE,
    "icon.svg": ICON,
    "style.css": STYLE,
};

/// `GET /`.
pub(crate) async fn page() -> Response {
    of((HTML, INDEX))
}

/// `GET /console/…`.
pub(crate) async fn file(Path(file): Path<String>) -> Response {
    match FILES.iter().find(|(name, ..)| *name == file) {
        Some(&(_, kind, text)) => of((kind, text)),
        None => Problem::new(StatusCode::NOT_FOUND, "the console has no such file").into_response(),
    }
}

fn of((kind, text): (&'static str, &'static str)) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_TYPE, kind),
        // A node that was upgraded shows its own page.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 19: at most 400 KB compressed. The sum of the texts is an upper bound of that.
    #[test]
    fn the_page_is_small() {
        let bytes: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(bytes + INDEX.len() < 400_000, "{bytes}");
    }

    /// The policy forbids them, so the page would be broken; and nothing may come from another host.
    #[test]
    fn nothing_is_inline_or_of_another_host() {
        assert!(!INDEX.contains("<style") && !INDEX.contains(" style=") && !INDEX.contains(" onclick="));
        let mut scripts = INDEX.match_indices("<script").map(|(at, _)| &INDEX[at..]);
        assert!(scripts.clone().count() > 0);
        assert!(scripts.all(|script| script.split('>').next().unwrap().contains("src=\"/console/")));
        let own = FILES.iter().filter(|(name, ..)| !name.starts_with("vendor/"));
        for (name, _, text) in own.chain([&("index.html", HTML, INDEX)]) {
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "{name}");
            assert!(!text.contains("innerHTML"), "{name}: texts of clients could become markup");
        }
    }

    /// A file that is forgotten here is missing in the browser only.
    #[test]
    fn every_file_that_is_imported_is_served() {
        let served = |name: &str| FILES.iter().any(|(known, ..)| *known == name);
        for (name, _, text) in
            FILES.iter().filter(|(name, ..)| name.ends_with(".js") && !name.contains("vendor"))
        {
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            for import in text.lines().filter_map(|line| line.strip_prefix("import ")) {
                let path = import.rsplit('"').nth(1).unwrap();
                let target = match path.strip_prefix("../") {
                    Some(upper) => upper.to_owned(),
                    None if folder.is_empty() => path.trim_start_matches("./").to_owned(),
                    None => format!("{folder}/{}", path.trim_start_matches("./")),
                };
                assert!(served(&target), "{name}: {path}");
            }
        }
        let mut linked = INDEX.split("\"/console/").skip(1).map(|rest| rest.split('"').next().unwrap());
        assert!(linked.clone().count() > 2 && linked.all(served));
    }
}
