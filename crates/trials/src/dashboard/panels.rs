//! Panels of a Grafana dashboard: titles, units and queries. Rows and texts are none.

use anyhow::{Context, bail};
use serde_json::Value;

/// A panel with queries.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    /// Grafana's word for it, such as `reqps`.
    pub(super) unit: String,
    pub(super) targets: Vec<Target>,
}

/// One query of a panel.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) query: String,
    /// With `{{label}}` for labels.
    pub(super) legend: String,
}

/// All panels, in order. A panel that is neither a row nor has a query is an error: it would show nothing.
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
    let target = |target: &Value| {
        let text = |name: &str| target[name].as_str().unwrap_or_default().to_owned();
        match text("expr") {
            query if query.is_empty() => bail!("panel {title:?} has an empty query"),
            query => Ok(Target { query, legend: text("legendFormat") }),
        }
    };
    let targets = targets.iter().map(target).collect::<Result<_, _>>()?;
    let unit = value["fieldConfig"]["defaults"]["unit"].as_str().unwrap_or("short").to_owned();
    Ok(Panel { title, unit, targets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provisioned_dashboard_has_panels_and_each_has_queries() {
        let panels = read(include_str!("../../../../cluster/grafana/dashboards/hopcache.json")).unwrap();
        assert!(panels.len() > 20, "{}", panels.len());
        assert!(panels.iter().all(|panel| !panel.targets.is_empty()));
    }

    #[test]
    fn a_panel_that_shows_nothing_or_takes_anothers_title_is_refused() {
        let of = |panels: &str| read(&format!("{{\"panels\": [{panels}]}}")).unwrap_err().to_string();
        assert_eq!(of("{\"title\": \"a\"}"), "panel \"a\" has no query");
        let panel = "{\"title\": \"a\", \"targets\": [{\"expr\": \"up\"}]}";
        assert_eq!(of(&format!("{panel}, {panel}")), "two panels are called \"a\"");
    }
}
