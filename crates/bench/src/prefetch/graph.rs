//! The pages' data in memory, in the order in which the queries of [`pages`](super::pages) answer it. Walks are drawn
//! from this data, so they are the same in every arm. This module does not decide the walks.

use std::collections::{BTreeSet, HashMap, HashSet};

/// Rows of a list that one click shows: the limit of every query.
pub(super) const ROWS_MAX: usize = 10;

/// A graph as pairs, as it is loaded into Neo4j or read from a node.
#[derive(Debug, Clone, Default)]
pub(super) struct Edges {
    pub(super) persons: Vec<i64>,
    /// Person, person, since; undirected.
    pub(super) knows: Vec<(i64, i64, i64)>,
    /// Person, post.
    pub(super) posted: Vec<(i64, i64)>,
    /// A person, a post, and the value that replies are ordered by.
    pub(super) replied: Vec<(i64, i64, i64)>,
    /// Post, name of a tag.
    pub(super) tagged: Vec<(i64, String)>,
}

/// Lists hold places in the other vectors, at most [`ROWS_MAX`] of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Graph {
    /// Persons with the most friends first: the index is the rank of popularity.
    pub(super) persons: Vec<Person>,
    pub(super) posts: Vec<Post>,
    pub(super) tags: Vec<Tag>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) id: i64,
    /// The latest acquaintances first.
    pub(super) friends: Vec<usize>,
    /// The newest first.
    pub(super) posts: Vec<usize>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Post {
    pub(super) id: i64,
    /// The persons who replied, first reply first. The sample graph has likes instead.
    pub(super) repliers: Vec<usize>,
    /// By name.
    pub(super) tags: Vec<usize>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) name: String,
    /// The newest first.
    pub(super) posts: Vec<usize>,
}

impl Edges {
    /// Keeps only posts with tags: in LDBC's data the others are photos of albums, which have no replies. Removes data
    /// that no click can reach: posts beyond their author's list, and everything that belongs to them.
    pub(super) fn within_reach(mut self) -> Self {
        let texts: HashSet<i64> = self.tagged.iter().map(|(post, _)| *post).collect();
        self.posted.retain(|(_, post)| texts.contains(post));
        let mut by_author: HashMap<i64, Vec<i64>> = HashMap::new();
        self.posted.iter().for_each(|(author, post)| by_author.entry(*author).or_default().push(*post));
        let mut kept: HashSet<i64> = HashSet::new();
        for posts in by_author.values_mut() {
            posts.sort_unstable_by(|one, other| other.cmp(one));
            kept.extend(posts.iter().take(ROWS_MAX));
        }
        self.posted.retain(|(_, post)| kept.contains(post));
        self.tagged.retain(|(post, _)| kept.contains(post));
        self.replied.retain(|(_, post, _)| kept.contains(post));
        self.replied.sort_unstable_by_key(|(_, post, at)| (*post, *at));
        let mut rows: HashMap<i64, usize> = HashMap::new();
        self.replied.retain(|(_, post, _)| {
            let row = rows.entry(*post).or_default();
            *row += 1;
            *row <= ROWS_MAX
        });
        self
    }
}

impl Graph {
    pub(super) fn of(edges: &Edges) -> Self {
        let mut degrees: HashMap<i64, usize> = HashMap::new();
        edges.knows.iter().flat_map(|(one, other, _)| [one, other]).for_each(|person| {
            *degrees.entry(*person).or_default() += 1;
        });
        let mut ids = edges.persons.clone();
        ids.sort_unstable_by_key(|id| (std::cmp::Reverse(degrees.get(id).copied().unwrap_or(0)), *id));
        let mut graph = Self {
            persons: ids.iter().map(|id| Person { id: *id, ..Person::default() }).collect(),
            ..Self::default()
        };
        let persons: HashMap<i64, usize> = ids.into_iter().zip(0..).collect();
        graph.befriend(edges, &persons);
        let posts = graph.post(edges, &persons);
        graph.tag(edges, &posts);
        graph
    }

    fn befriend(&mut self, edges: &Edges, persons: &HashMap<i64, usize>) {
        let mut met: Vec<Vec<(i64, i64)>> = vec![Vec::new(); self.persons.len()];
        for (one, other, since) in &edges.knows {
            if let (Some(place), Some(beside)) = (persons.get(one), persons.get(other)) {
                met[*place].push((-since, *other));
                met[*beside].push((-since, *one));
            }
        }
        for (person, met) in self.persons.iter_mut().zip(&mut met) {
            met.sort_unstable();
            person.friends =
                met.iter().filter_map(|(_, id)| persons.get(id).copied()).take(ROWS_MAX).collect();
        }
    }

    /// Places of the posts by id.
    fn post(&mut self, edges: &Edges, persons: &HashMap<i64, usize>) -> HashMap<i64, usize> {
        let mut posted = edges.posted.clone();
        posted.sort_unstable_by_key(|(_, post)| std::cmp::Reverse(*post));
        let mut posts = HashMap::new();
        for (author, id) in posted {
            let Some(author) = persons.get(&author) else { continue };
            let place = *posts.entry(id).or_insert(self.posts.len());
            if place == self.posts.len() {
                self.posts.push(Post { id, ..Post::default() });
            }
            push(&mut self.persons[*author].posts, place);
        }
        let mut replied = edges.replied.clone();
        replied.sort_unstable_by_key(|(_, post, at)| (*post, *at));
        for (author, post, _) in replied {
            if let (Some(author), Some(post)) = (persons.get(&author), posts.get(&post)) {
                push(&mut self.posts[*post].repliers, *author);
            }
        }
        posts
    }

    fn tag(&mut self, edges: &Edges, posts: &HashMap<i64, usize>) {
        let names: BTreeSet<&str> = edges.tagged.iter().map(|(_, name)| name.as_str()).collect();
        let places: HashMap<&str, usize> = names.iter().copied().zip(0..).collect();
        self.tags = names.iter().map(|name| Tag { name: (*name).to_owned(), posts: Vec::new() }).collect();
        let mut tagged: Vec<(i64, usize)> = edges
            .tagged
            .iter()
            .filter_map(|(post, name)| Some((*post, *places.get(name.as_str())?)))
            .collect();
        // Posts from the newest on, a post's tags by name: places of tags are in the order of their names.
        tagged.sort_unstable_by_key(|(post, tag)| (std::cmp::Reverse(*post), *tag));
        for (post, tag) in tagged {
            if let Some(post) = posts.get(&post) {
                push(&mut self.posts[*post].tags, tag);
                push(&mut self.tags[tag].posts, *post);
            }
        }
    }
}

fn push(list: &mut Vec<usize>, place: usize) {
    if list.len() < ROWS_MAX {
        list.push(place);
    }
}

#[cfg(test)]
pub(super) fn small() -> Graph {
    Graph::of(&Edges {
        persons: vec![7, 8, 9],
        knows: vec![(8, 7, 2010), (9, 8, 2012)],
        posted: vec![(7, 70), (7, 71), (9, 90)],
        replied: vec![(9, 70, 2), (8, 70, 1)],
        tagged: vec![(70, "tea".to_owned()), (71, "bees".to_owned()), (71, "tea".to_owned())],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_the_order_of_the_queries() {
        let graph = small();
        let ids: Vec<i64> = graph.persons.iter().map(|person| person.id).collect();
        assert_eq!(ids, [8, 7, 9], "the person with the most friends is first");
        // Since 2012 before since 2010.
        assert_eq!(graph.persons[0].friends, [2, 1]);
        let posts: Vec<i64> = graph.persons[1].posts.iter().map(|post| graph.posts[*post].id).collect();
        assert_eq!(posts, [71, 70]);
        let replied = graph.posts.iter().find(|post| post.id == 70).unwrap();
        assert_eq!(replied.repliers, [0, 2]);
        let names: Vec<&str> = graph
            .posts
            .iter()
            .find(|post| post.id == 71)
            .unwrap()
            .tags
            .iter()
            .map(|tag| graph.tags[*tag].name.as_str())
            .collect();
        assert_eq!(names, ["bees", "tea"]);
        let tea = graph.tags.iter().find(|tag| tag.name == "tea").unwrap();
        assert_eq!(tea.posts.iter().map(|post| graph.posts[*post].id).collect::<Vec<_>>(), [71, 70]);
    }

    #[test]
    fn what_no_click_reaches_is_left_out() {
        let edges = Edges {
            persons: vec![1],
            posted: (0..30).map(|post| (1, post)).collect(),
            replied: (0..30).map(|at| (1, 29, 100 - at)).chain([(1, 3, 1)]).collect(),
            tagged: (0..30).map(|post| (post, if post < 5 { "bees" } else { "tea" }.to_owned())).collect(),
            ..Edges::default()
        };
        let kept = edges.clone().within_reach();
        assert_eq!(
            (kept.posted.len(), kept.replied.len(), kept.tagged.len()),
            (ROWS_MAX, ROWS_MAX, ROWS_MAX)
        );
        // Nothing that a walk sees changes, but the tag that only an unreachable post had.
        assert_eq!(Graph::of(&kept).persons, Graph::of(&edges).persons);
        let photos = Edges { tagged: Vec::new(), ..edges };
        assert_eq!(photos.within_reach().posted, []);
    }
}
