//! The Helm chart: `helm lint`, and for each file of values under `ci/` what the chart renders, compared with the schemas of
//! Kubernetes. The chart has to refuse wrong values.
//!
//! helm comes as a Go module, built once into `target/tools`. The schemas are in the Python package kubernetes-validate.
//! Nothing here talks to a Kubernetes cluster.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::finish;
use crate::services::install;
use crate::tools::{Package, Tool};

const CHART: &str = "cluster/helm/hopcache";
const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.22.0";
const VALIDATOR: Tool =
    Tool { program: "kubernetes-validate", package: Package::Pip("kubernetes-validate==1.37.0") };
/// The oldest version that the chart says it runs on (`kubeVersion` in Chart.yaml), and a new one.
const KUBERNETES: [&str; 2] = ["1.30", "1.37"];
/// The Prometheus operator's own kind: no schema of Kubernetes has it.
const FOREIGN_KIND: &str = "ServiceMonitor";
/// Values that the chart must refuse, and a word of its message.
const WRONG: [(&[&str], &str); 6] = [
    (&[], "origin.uri"),
    (&["origin.uri=http://neo4j"], "/origin/uri"),
    (&["origin.uri=bolt://neo4j:7687"], "store.uri"),
    (&["origin.uri=bolt://neo4j:7687", "store.uri=redis://user:secret@redis:6379"], "/store/uri"),
    (&["replica=3"], "replica"),
    (
        &["origin.uri=bolt://neo4j:7687", "store.uri=redis://redis:6379", "settings.node\\.drain=5s"],
        "node.drain",
    ),
];

pub(crate) fn run(root: &Path) -> Result<()> {
    let helm = helm(root)?;
    let chart = root.join(CHART);
    let mut files: Vec<PathBuf> = std::fs::read_dir(chart.join("ci"))
        .context("the chart has no folder ci")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    ensure!(!files.is_empty(), "the chart has no values to try");
    let folder = root.join("target/helm");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for values in &files {
        let mut lint = Command::new(&helm);
        finish(
            lint.args(["lint", "--strict", "--quiet"]).arg(&chart).arg("--values").arg(values),
            "helm lint",
        )?;
        for kubernetes in KUBERNETES {
            let manifests = render(&helm, &chart, kubernetes, values, &folder)?;
            validate(root, kubernetes, &manifests)?;
        }
    }
    refuses_wrong_values(&helm, &chart)
}

fn render(helm: &Path, chart: &Path, kubernetes: &str, values: &Path, folder: &Path) -> Result<PathBuf> {
    let mut template = Command::new(helm);
    template
        .args(["template", "try"])
        .arg(chart)
        .args(["--kube-version", kubernetes, "--values"])
        .arg(values);
    let output = template.output().context("could not start helm")?;
    let name = values.file_name().unwrap_or_default();
    ensure!(output.status.success(), "{name:?}: {}", String::from_utf8_lossy(&output.stderr));
    let manifests = folder.join(name);
    std::fs::write(&manifests, output.stdout).context("cannot write what helm rendered")?;
    Ok(manifests)
}

/// Every manifest has to fit its schema.
fn validate(root: &Path, kubernetes: &str, manifests: &Path) -> Result<()> {
    let mut command = VALIDATOR.command(root)?;
    let output = command.args(["--kubernetes-version", kubernetes, "--strict"]).arg(manifests).output();
    let output = output.context("could not start kubernetes-validate")?;
    let report = [output.stdout, output.stderr].concat();
    let report = String::from_utf8_lossy(&report).into_owned();
    let text = std::fs::read_to_string(manifests).context("cannot read what helm rendered")?;
    let (passed, expected) = (count(&report, " passed for resource "), kinds(&text));
    let name = manifests.file_name().unwrap_or_default();
    ensure!(
        output.status.success() && passed == expected,
        "{name:?}: {passed} of {expected} manifests fit the schemas of Kubernetes {kubernetes}:\n{report}"
    );
    println!("{name:?}: {passed} manifests fit the schemas of Kubernetes {kubernetes}");
    Ok(())
}

fn count(report: &str, words: &str) -> usize {
    report.lines().filter(|line| line.contains(words)).count()
}

/// Number of manifests that a schema of Kubernetes exists for.
fn kinds(manifests: &str) -> usize {
    let kinds = manifests.lines().filter_map(|line| line.strip_prefix("kind: "));
    kinds.filter(|kind| *kind != FOREIGN_KIND).count()
}

fn refuses_wrong_values(helm: &Path, chart: &Path) -> Result<()> {
    for (values, word) in WRONG {
        let mut template = Command::new(helm);
        template.args(["template", "try"]).arg(chart).args(["--kube-version", KUBERNETES[0]]);
        template.args(values.iter().flat_map(|value| ["--set", value]));
        let output = template.output().context("could not start helm")?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            !output.status.success() && error.contains(word),
            "the chart has to refuse {values:?} and to name {word}, but says: {error}"
        );
    }
    println!("wrong values: {} of {} refused", WRONG.len(), WRONG.len());
    Ok(())
}

/// The helm on the path, else the one in `target/tools`.
fn helm(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/tools/bin");
    let built = folder.join("helm");
    if install::on_path("helm") || built.exists() {
        return Ok(if built.exists() { built } else { PathBuf::from("helm") });
    }
    install::missing(&[install::GO])?;
    println!("{HELM} is not installed: building it into target/tools (once)");
    finish(Command::new("go").env("GOBIN", &folder).args(["install", HELM]), "go install helm")?;
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_counted_without_those_of_the_operator() {
        let manifests =
            "kind: Service\nspec:\n  kind: inner\n---\nkind: ServiceMonitor\n---\nkind: StatefulSet\n";
        assert_eq!(kinds(manifests), 2);
    }
}
