//! The built-in graph: people, their friends, posts and likes. It is always the same graph, because it depends only
//! on this file and `prng.rs`.
//!
//! ```text
//! (:Person {id, name, city, age?, joined})   2,000; age is missing for every 17th
//! (:Post   {id, title, length})              3,000
//! (:Tag    {name})                              40
//! (:Person)-[:KNOWS {since}]->(:Person)      5,994; at most one for a pair, in either direction
//! (:Person)-[:POSTED]->(:Post)               3,000; one for each post
//! (:Person)-[:LIKES]->(:Post)                about 9,000; at most one for a pair
//! (:Post)-[:TAGGED]->(:Tag)                  one or two for each post
//! ```
//!
//! KNOWS grows by preferential attachment (Barabási and Albert, 1999; three for each newcomer), so a few people know
//! hundreds of others. Ada Abel, person 0, is one of them. Indexed: `Person.id`, `Person.name`, `Person.city`,
//! `Post.id`, `Tag.name`.

use crate::prng::SplitMix64;

const PERSONS: usize = 2_000;
const POSTS: usize = 3_000;
const LIKES_TRIED: usize = 9_000;
/// Relationships of each newcomer.
const ATTACHED: usize = 3;
const SEED: u64 = 0x686F_7063_6163_6865;

/// Given names and family names. Their product is `PERSONS`, so every name belongs to one person.
const GIVEN: [&str; 50] = [
    "Ada", "Björn", "Chloé", "Dmitri", "Elif", "Farid", "Grace", "Hana", "Ivan", "Jun", "Kaya", "Lars",
    "Mei", "Noor", "Olu", "Priya", "Quinn", "Rosa", "Sven", "Tala", "Uma", "Viktor", "Wanda", "Ximena",
    "Yusuf", "Zoë", "Amir", "Bea", "Carlos", "Dora", "Emil", "Freya", "Gus", "Hugo", "Ines", "Jana", "Kofi",
    "Lea", "Marek", "Nia", "Otto", "Petra", "Rafa", "Selma", "Tomás", "Ulla", "Vera", "Willem", "Yara",
    "Zeno",
];
const FAMILY: [&str; 40] = [
    "Abel", "Berg", "Costa", "Dahl", "Engel", "Fisk", "Gallo", "Haas", "Ito", "Jansen", "Kim", "Lund",
    "Moreau", "Novak", "Okafor", "Patel", "Quist", "Rossi", "Silva", "Tanaka", "Ueda", "Vogel", "Weiss",
    "Xu", "Yilmaz", "Zhang", "Adler", "Blom", "Cruz", "Diaz", "Ek", "Falk", "Greco", "Holm", "Iqbal", "Juhl",
    "Krogh", "Lopez", "Marin", "Nagy",
];
const CITIES: [&str; 12] =
    ["Oslo", "Lyon", "Porto", "Kyoto", "Lima", "Accra", "Pune", "Graz", "Malmö", "Turin", "Quito", "Busan"];
const TOPICS: [&str; 40] = [
    "rust",
    "graphs",
    "caching",
    "chess",
    "baking",
    "sailing",
    "jazz",
    "running",
    "maps",
    "cinema",
    "tea",
    "bees",
    "trains",
    "knots",
    "poetry",
    "astronomy",
    "pottery",
    "birds",
    "judo",
    "soil",
    "bridges",
    "fonts",
    "rivers",
    "origami",
    "opera",
    "kites",
    "cheese",
    "fungi",
    "clocks",
    "weaving",
    "radio",
    "volcanoes",
    "puzzles",
    "gardens",
    "ice",
    "bicycles",
    "dolls",
    "spices",
    "whales",
    "zines",
];

/// One person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// 0, 1, 2, …
    pub id: i64,
    /// Given and family name; unique.
    pub name: String,
    /// One of twelve.
    pub city: &'static str,
    /// In years; missing for every 17th.
    pub age: Option<i64>,
    /// Year, month, day.
    pub joined: (i32, u32, u32),
}

/// One post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// 0, 1, 2, …
    pub id: i64,
    /// Not unique.
    pub title: String,
    /// In characters.
    pub length: i64,
}

/// The whole graph in plain Rust, for loading it and for checking answers against it. Pairs are
/// indices into the lists, from → to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// `:Person`.
    pub persons: Vec<Person>,
    /// `:Post`.
    pub posts: Vec<Post>,
    /// `:Tag`, by name.
    pub tags: Vec<&'static str>,
    /// `(:Person)-[:KNOWS]->(:Person)`, and its `since`, a year.
    pub knows: Vec<(usize, usize, i64)>,
    /// `(:Person)-[:POSTED]->(:Post)`.
    pub posted: Vec<(usize, usize)>,
    /// `(:Person)-[:LIKES]->(:Post)`.
    pub likes: Vec<(usize, usize)>,
    /// `(:Post)-[:TAGGED]->(:Tag)`.
    pub tagged: Vec<(usize, usize)>,
}

impl Sample {
    /// Generates the graph.
    #[must_use]
    pub fn generate() -> Self {
        let mut dice = SplitMix64::new(SEED);
        let persons = (0..PERSONS).map(|id| person(id, &mut dice)).collect();
        let knows = knows(&mut dice);
        let posts = (0..POSTS).map(|id| post(id, &mut dice)).collect();
        // Well-known people also post and like more: authors are drawn from the ends of KNOWS.
        let someone = |dice: &mut SplitMix64| knows[dice.below(knows.len())].1;
        let posted = (0..POSTS).map(|post| (someone(&mut dice), post)).collect();
        let mut likes: Vec<(usize, usize)> =
            (0..LIKES_TRIED).map(|_| (someone(&mut dice), skewed(&mut dice, POSTS))).collect();
        likes.sort_unstable();
        likes.dedup();
        let tagged = (0..POSTS).flat_map(|post| tags_of(post, &mut dice)).collect();
        Self { persons, posts, tags: TOPICS.to_vec(), knows, posted, likes, tagged }
    }
}

fn person(id: usize, dice: &mut SplitMix64) -> Person {
    let name = format!("{} {}", GIVEN[id % GIVEN.len()], FAMILY[(id / GIVEN.len()) % FAMILY.len()]);
    let age = 18 + whole(dice.below(60));
    let joined = (2015 + small(dice.below(10)), 1 + ordinal(dice.below(12)), 1 + ordinal(dice.below(28)));
    let age = if id % 17 == 16 { None } else { Some(age) };
    Person { id: whole(id), name, city: CITIES[skewed(dice, CITIES.len())], age, joined }
}

fn post(id: usize, dice: &mut SplitMix64) -> Post {
    let title = format!("{} and {}", TOPICS[dice.below(TOPICS.len())], TOPICS[dice.below(TOPICS.len())]);
    Post { id: whole(id), title, length: 40 + whole(dice.below(2_000)) }
}

/// Each newcomer meets three others. The chance of a person grows with the number of people that the person knows
/// already.
fn knows(dice: &mut SplitMix64) -> Vec<(usize, usize, i64)> {
    let mut pairs = Vec::new();
    let mut ends: Vec<usize> = Vec::new();
    for newcomer in 1..PERSONS {
        let mut met: Vec<usize> = Vec::new();
        while met.len() < ATTACHED.min(newcomer) {
            let other = if ends.is_empty() { 0 } else { ends[dice.below(ends.len())] };
            // Every eighth is a stranger, so that a small crowd of newcomers can always be filled.
            let other = if dice.below(8) == 0 { dice.below(newcomer) } else { other };
            // And every 24th is the best-known person of all.
            let other = if dice.below(24) == 0 { 0 } else { other };
            if !met.contains(&other) {
                met.push(other);
            }
        }
        for other in met {
            pairs.push((newcomer, other, 2015 + whole(dice.below(11))));
            ends.extend([newcomer, other]);
        }
    }
    pairs
}

fn tags_of(post: usize, dice: &mut SplitMix64) -> Vec<(usize, usize)> {
    let first = skewed(dice, TOPICS.len());
    let second = skewed(dice, TOPICS.len());
    if first == second { vec![(post, first)] } else { vec![(post, first), (post, second)] }
}

/// Low indices more often than high ones.
fn skewed(dice: &mut SplitMix64, bound: usize) -> usize {
    dice.below(bound).min(dice.below(bound))
}

fn whole(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

fn small(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

fn ordinal(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
