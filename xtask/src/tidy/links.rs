//! Links of Markdown files: a relative link leads to a file, and its anchor to a heading of that file. Web addresses are not
//! checked.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::Finding;

/// The links of a file that lead nowhere.
pub(super) fn dead(file: &str, content: &str, root: &Path) -> Vec<Finding> {
    let read = |target: &Path| std::fs::read_to_string(root.join(target)).ok();
    dead_in(file, content, |target| root.join(target).exists(), read)
}

fn dead_in(
    file: &str,
    content: &str,
    exists: impl Fn(&Path) -> bool,
    read: impl Fn(&Path) -> Option<String>,
) -> Vec<Finding> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    for (at, line) in prose(content) {
        for link in line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            if path.contains(':') {
                continue;
            }
            let target = if path.is_empty() { PathBuf::from(file) } else { normal(&folder.join(path)) };
            if !path.is_empty() && !exists(&target) {
                let advice = format!("`{path}` does not exist: correct the link or add the file");
                findings.push(Finding::new(file, at, "dead-link", advice));
                continue;
            }
            let is_page = target.extension().is_some_and(|extension| extension == "md");
            if is_page && !anchor.is_empty() {
                let page = if path.is_empty() { Some(content.to_owned()) } else { read(&target) };
                if !page.is_some_and(|page| anchors(&page).contains_key(anchor)) {
                    let advice =
                        format!("no heading of {} is `#{anchor}`: correct the link", target.display());
                    findings.push(Finding::new(file, at, "dead-anchor", advice));
                }
            }
        }
    }
    findings
}

/// The lines outside code blocks, with their numbers from 1.
fn prose(content: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    content.lines().enumerate().filter_map(move |(at, line)| {
        in_code ^= line.trim_start().starts_with("```");
        (!in_code).then_some((at + 1, line))
    })
}

/// The anchors of a page's headings, as GitHub and mdBook make them: lower case, spaces to hyphens, no punctuation; a
/// heading that stands there before gets a number. The values count the headings of one text.
fn anchors(page: &str) -> BTreeMap<String, usize> {
    let mut anchors = BTreeMap::new();
    for (_, line) in prose(page) {
        let Some(heading) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim()) else {
            continue;
        };
        let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        let text: String = heading.chars().filter(is_kept).collect();
        let slug = text.to_lowercase().replace(' ', "-");
        let before = anchors.get(&slug).copied().unwrap_or(0);
        anchors.insert(slug.clone(), before + 1);
        if before > 0 {
            anchors.insert(format!("{slug}-{before}"), 1);
        }
    }
    anchors
}

/// Resolves `..` by text, so a path through a missing folder works too.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(content: &str) -> Vec<String> {
        let exists = |path: &Path| path == Path::new("README.md");
        let read =
            |_: &Path| Some("# The `top`, here\n```sh\n# no heading\n```\n## Two\n## Two\n".to_owned());
        dead_in("docs/A.md", content, exists, read).into_iter().map(|finding| finding.advice).collect()
    }

    #[test]
    fn a_link_to_nowhere_is_caught() {
        let found = advice("[a](../README.md) [b](gone.md) [c](https://example.org/#d)\n");
        assert_eq!(found, ["`gone.md` does not exist: correct the link or add the file"]);
    }

    #[test]
    fn an_anchor_without_a_heading_is_caught() {
        let good = "# Self\n[a](../README.md#the-top-here) [b](../README.md#two-1) [c](#self)\n";
        assert!(advice(good).is_empty(), "{:?}", advice(good));
        let found = advice("# Self\n[a](../README.md#no-heading) [b](#other)\n");
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
