//! The queries of a walk, one for each click, by the names under which a graph is asked. Decides no order of clicks.

use serde_json::{Value, json};

use super::graph::{Graph, ROWS_MAX};

/// The kind of page that a click shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Page {
    /// A person.
    Profile,
    /// The friends of a person.
    Friends,
    /// The posts of a person.
    Posts,
    /// The persons who replied to a post.
    Replies,
    /// Tags of a post.
    Tags,
    /// Posts with a tag.
    Tagged,
}

impl Page {
    #[cfg(test)]
    pub(super) const ALL: [Self; 6] =
        [Self::Profile, Self::Friends, Self::Posts, Self::Replies, Self::Tags, Self::Tagged];
}

/// The graph's names of its parts.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(super) person: String,
    pub(super) knows: String,
    pub(super) post: String,
    pub(super) posted: String,
    pub(super) replied: String,
    pub(super) tag: String,
    pub(super) tagged: String,
}

impl Names {
    /// The statement of a page as one application writes it. Each application names a column differently, so no two
    /// share a pattern or an answer. Each statement has the mark by which the proxy before Neo4j knows the benchmark.
    pub(crate) fn statement(&self, page: Page, application: usize) -> String {
        let text = self.text(page);
        if application == 0 { text } else { text.replace("benched", &format!("benched{application}")) }
    }

    fn text(&self, page: Page) -> String {
        let Self { person, knows, post, posted, replied, tag, tagged } = self;
        match page {
            Page::Profile => format!("MATCH (p:{person} {{id: $id}}) RETURN p.id AS id, p.name AS benched"),
            Page::Friends => format!(
                "MATCH (p:{person} {{id: $id}})-[k:{knows}]-(friend:{person}) RETURN friend.id AS id, friend.name AS benched ORDER BY k.since DESC, friend.id LIMIT {ROWS_MAX}"
            ),
            Page::Posts => format!(
                "MATCH (p:{person} {{id: $id}})-[:{posted}]->(post:{post}) RETURN post.id AS id, post.title AS benched ORDER BY id DESC LIMIT {ROWS_MAX}"
            ),
            Page::Replies => format!(
                "MATCH (post:{post} {{id: $id}})<-[r:{replied}]-(who:{person}) RETURN who.id AS id, who.name AS benched ORDER BY r.at LIMIT {ROWS_MAX}"
            ),
            Page::Tags => format!(
                "MATCH (post:{post} {{id: $id}})-[:{tagged}]->(tag:{tag}) RETURN tag.name AS benched ORDER BY benched LIMIT {ROWS_MAX}"
            ),
            Page::Tagged => format!(
                "MATCH (tag:{tag} {{name: $name}})<-[:{tagged}]-(post:{post}) RETURN post.id AS id, post.title AS benched ORDER BY id DESC LIMIT {ROWS_MAX}"
            ),
        }
    }
}

/// The parameters of a page about the thing at `place` of its list.
pub(crate) fn parameters(graph: &Graph, page: Page, place: usize) -> Value {
    match page {
        Page::Profile | Page::Friends | Page::Posts => json!({ "id": graph.persons[place].id }),
        Page::Replies | Page::Tags => json!({ "id": graph.posts[place].id }),
        Page::Tagged => json!({ "name": graph.tags[place].name }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::small;
    use super::*;
    use crate::delayed::MARK;

    #[test]
    fn every_page_is_a_query_of_its_own_that_the_proxy_knows() {
        let names = super::super::source::names();
        let texts = (0..3).flat_map(|application| Page::ALL.map(|page| names.statement(page, application)));
        let texts: std::collections::BTreeSet<String> = texts.collect();
        assert_eq!(texts.len(), 3 * Page::ALL.len());
        assert!(texts.iter().all(|text| text.contains(MARK)));
        assert_eq!(parameters(&small(), Page::Friends, 0), json!({"id": 8}));
        assert_eq!(parameters(&small(), Page::Tagged, 0), json!({"name": "bees"}));
    }
}
