//! Reads the panels of a Grafana dashboard: titles and queries. Rows and texts are left out.

use anyhow::{Context, bail};
use serde_json::Value;

/// A panel with queries.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) queries: Vec<String>,
}

/// All panels, in order. A panel that is no row and has no query is an error: it would show nothing.
pub(super) fn read(text: &str) -> anyhow::Result<Vec<Panel>> {
    let dashboard: Value = serde_json::from_str(text).context("the dashboard is no JSON")?;
    let panels = dashboard["panels"].as_array().context("the dashboard has no panels")?;
    let panels: Vec<Panel> =
        panels.iter().filter(|panel| panel["type"] != "row").map(panel).collect::<Result<_, _>>()?;
    for (place, each) in panels.iter().enumerate() {
        if panels[..place].iter().any(|other| other.title == each.title) {
            bail!("two panels are called {:?}", each.title);
        }
    }
    Ok(panels)
}

fn panel(value: &Value) -> anyhow::Result<Panel> {
    let title = value["title"].as_str().context("a panel without title")?.to_owned();
    let targets = value["targets"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    if targets.is_empty() {
        bail!("panel {title:?} has no query");
    }
    let query = |target: &Value| match target["expr"].as_str().unwrap_or_default() {
        "" => bail!("panel {title:?} has an empty query"),
        query => Ok(query.to_owned()),
    };
    let queries = targets.iter().map(query).collect::<Result<_, _>>()?;
    Ok(Panel { title, queries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provisioned_dashboard_has_panels_and_each_has_queries() {
        let panels = read(include_str!("../../../../cluster/grafana/dashboards/hopcache.json")).unwrap();
        assert!(panels.len() > 20, "{}", panels.len());
        assert!(panels.iter().all(|panel| !panel.queries.is_empty()));
    }

    #[test]
    fn a_panel_that_shows_nothing_or_takes_anothers_title_is_refused() {
        let of = |panels: &str| read(&format!("{{\"panels\": [{panels}]}}")).unwrap_err().to_string();
        assert_eq!(of("{\"title\": \"a\"}"), "panel \"a\" has no query");
        let panel = "{\"title\": \"a\", \"targets\": [{\"expr\": \"up\"}]}";
        assert_eq!(of(&format!("{panel}, {panel}")), "two panels are called \"a\"");
    }
}
