//! Clicks of sessions, drawn from the graph alone: the same seed gives the same clicks at the same times, for any
//! answers. Decides which session opens which page when. Does not decide how the page is asked for.
//!
//! A session has `clicks` clicks and begins with a jump. With probability `follow`, a further click follows from pages
//! that the session has seen. Otherwise it jumps to the profile of a person, drawn by popularity (Zipf over persons by
//! their number of friends). The targets of a follow:
//!
//! | from | to |
//! |---|---|
//! | profile that was jumped to | its friends with probability `usual`, else its posts |
//! | profile that was chosen from a list | its posts with probability `usual`, else its friends |
//! | friends | the profile of one of them |
//! | posts of a person or with a tag | the replies to one of them 60 %, its tags 40 % |
//! | replies | the profile of one of the persons 70 %, the post's tags 30 % |
//! | tags | the posts with one of them |
//!
//! Where a list is empty, the click follows from the page before it, as behind a browser's back button.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;

use super::graph::Graph;
use super::pages::Page;
use crate::figures::micros;
use crate::load::arrivals;
use hopcache_testbed::dice::{Dice, Zipf};

/// The row of a list that is clicked: shares of all clicks by rank, in percent, in AOL's published search log of 2006
/// (Pass, Chowdhury, Torgeson, InfoScale 2006), over the rows that exist.
const CLICKS_BY_RANK: [f64; 10] = [42.13, 11.90, 8.50, 6.06, 4.92, 4.05, 3.41, 3.01, 2.85, 2.99];
/// Of 100 follows from a post, this many open the replies.
const REPLIES: usize = 60;
/// Of 100 follows from replies, those to a person.
const REPLIER: usize = 70;

/// How clicks are drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traffic {
    /// Clicks per second in the mean, of all sessions.
    pub(super) rate: f64,
    pub(super) span: Duration,
    /// Of one session.
    pub(super) clicks: usize,
    /// Mean of the exponential pause between two clicks of a session.
    pub(super) think: Duration,
    /// Share of clicks that follow from an earlier result.
    pub(super) follow: f64,
    /// Share of follows from a profile that do the usual.
    pub(super) usual: f64,
    /// Exponent of the popularity of persons.
    pub(super) exponent: f64,
    pub(super) seed: u64,
}

/// One click.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Click {
    pub(crate) at_us: u64,
    pub(crate) session: usize,
    /// The node of a click: clicks of one session go to the nodes in turn.
    pub(crate) turn: usize,
    pub(crate) page: Page,
    /// Index of the page's subject in the graph's list.
    pub(crate) place: usize,
    /// Whether it follows from something that the session saw.
    pub(crate) is_follow: bool,
}

/// Where a session is.
#[derive(Debug, Clone, Copy)]
struct SessionPlace {
    page: Page,
    place: usize,
    is_jump: bool,
}

/// Clicks of sessions that walk, by time.
pub(super) fn walks(graph: &Graph, traffic: &Traffic) -> Vec<Click> {
    let zipf = Zipf::new(graph.persons.len(), traffic.exponent);
    sessions(traffic, |dice, clicks| {
        let mut seen: Vec<SessionPlace> = Vec::with_capacity(clicks);
        for _ in 0..clicks {
            let wants_follow = dice.unit() <= traffic.follow;
            let followed = wants_follow
                .then(|| seen.iter().rev().find_map(|from| follow(graph, *from, traffic.usual, dice)))
                .flatten();
            seen.push(followed.unwrap_or_else(|| SessionPlace {
                page: Page::Profile,
                place: zipf.draw(dice),
                is_jump: true,
            }));
        }
        seen
    })
}

/// Walks of so many sessions with so many clicks each, session by session, without pauses.
pub(crate) fn whole_sessions(
    graph: &Graph,
    (sessions, clicks): (usize, usize),
    seed: u64,
) -> anyhow::Result<Vec<Vec<Click>>> {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let traffic = Traffic {
        // Twice the sessions that are needed begin within the span, and each is whole: its clicks have no pauses.
        rate: 2.0 * (sessions * clicks) as f64 / 100.0,
        span: Duration::from_secs(100),
        clicks,
        think: Duration::ZERO,
        follow: 0.7,
        usual: 0.9,
        exponent: 0.99,
        seed,
    };
    let mut whole: BTreeMap<usize, Vec<Click>> = BTreeMap::new();
    for click in walks(graph, &traffic).into_iter().filter(|click| click.session < sessions) {
        whole.entry(click.session).or_default().push(click);
    }
    ensure!(whole.len() == sessions, "{} sessions", whole.len());
    Ok(whole.into_values().collect())
}

/// So many requests of so many sessions, each session's next one in turn.
pub(crate) fn session_trace(
    graph: &Graph,
    (requests, sessions): (usize, usize),
    seed: u64,
) -> anyhow::Result<Vec<Click>> {
    let whole = whole_sessions(graph, (sessions, requests.div_ceil(sessions)), seed)?;
    let mut order: Vec<(usize, Click)> =
        whole.into_iter().flat_map(|clicks| clicks.into_iter().enumerate()).collect();
    order.sort_by_key(|(number, click)| (*number, click.session));
    order.truncate(requests);
    Ok(order.into_iter().map(|(_, click)| click).collect())
}

/// Sessions arrive at their rate. Each draws its clicks and pauses from its own dice.
fn sessions(traffic: &Traffic, mut draw: impl FnMut(&mut Dice, usize) -> Vec<SessionPlace>) -> Vec<Click> {
    let mut dice = Dice::new(traffic.seed);
    let mut clicks = Vec::new();
    #[expect(clippy::cast_precision_loss, reason = "a few")]
    let rate = traffic.rate / traffic.clicks.max(1) as f64;
    for (session, at_us) in arrivals(rate, traffic.span, &mut dice).into_iter().enumerate() {
        let mut own = Dice::new(traffic.seed ^ (session as u64 + 1).wrapping_mul(0xA076_1D64_78BD_642F));
        let (mut at_us, first) = (at_us, own.below(usize::MAX));
        for (number, seen) in draw(&mut own, traffic.clicks).into_iter().enumerate() {
            let SessionPlace { page, place, is_jump } = seen;
            let turn = first.wrapping_add(number);
            clicks.push(Click { at_us, session, turn, page, place, is_follow: !is_jump });
            at_us += micros(traffic.think.mul_f64(own.exponential()));
        }
    }
    clicks.retain(|click| click.at_us < micros(traffic.span));
    clicks.sort_by_key(|click| click.at_us);
    clicks
}

/// The page of the next click, if there is something to click at.
fn follow(graph: &Graph, from: SessionPlace, usual: f64, dice: &mut Dice) -> Option<SessionPlace> {
    let of_post = |post: usize, dice: &mut Dice| {
        let page = if dice.below(100) < REPLIES { Page::Replies } else { Page::Tags };
        (page, post)
    };
    let place = from.place;
    let (page, place) = match from.page {
        Page::Profile => {
            let is_usual = dice.unit() <= usual;
            (if is_usual == from.is_jump { Page::Friends } else { Page::Posts }, place)
        }
        Page::Friends => (Page::Profile, chosen(&graph.persons[place].friends, dice)?),
        Page::Posts => of_post(chosen(&graph.persons[place].posts, dice)?, dice),
        Page::Tagged => of_post(chosen(&graph.tags[place].posts, dice)?, dice),
        Page::Replies if dice.below(100) < REPLIER => {
            (Page::Profile, chosen(&graph.posts[place].repliers, dice)?)
        }
        Page::Replies => (Page::Tags, place),
        Page::Tags => (Page::Tagged, chosen(&graph.posts[place].tags, dice)?),
    };
    Some(SessionPlace { page, place, is_jump: false })
}

/// A row by [`CLICKS_BY_RANK`].
pub(crate) fn chosen(rows: &[usize], dice: &mut Dice) -> Option<usize> {
    let shares = &CLICKS_BY_RANK[..rows.len().min(CLICKS_BY_RANK.len())];
    let mut left = dice.unit() * shares.iter().sum::<f64>();
    let rank = shares.iter().position(|share| {
        left -= share;
        left <= 0.0
    });
    rows.get(rank.unwrap_or(shares.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::super::graph::{Edges, small};
    use super::*;

    fn traffic() -> Traffic {
        Traffic {
            rate: 200.0,
            span: Duration::from_secs(200),
            clicks: 24,
            think: Duration::from_secs(1),
            follow: 0.7,
            usual: 0.9,
            exponent: 0.99,
            seed: 3,
        }
    }

    /// Everybody knows ten and posted ten; each post has ten replies and tags: nothing is a dead end.
    fn dense() -> Graph {
        let ids = 0..200_i64;
        let pairs = || ids.clone().flat_map(|id| (1..=10).map(move |by| (id, (id * 7 + by) % 200, by)));
        Graph::of(&Edges {
            persons: ids.clone().collect(),
            knows: pairs().collect(),
            posted: ids.clone().flat_map(|id| (0..10).map(move |by| (id, 1_000 + id * 10 + by))).collect(),
            replied: pairs()
                .flat_map(|(id, who, by)| (0..10).map(move |post| (who, 1_000 + id * 10 + post, by)))
                .collect(),
            tagged: (1_000..3_000)
                .flat_map(|post| (0..3).map(move |by| (post, format!("{}", post % 97 + by))))
                .collect(),
        })
    }

    #[test]
    fn the_same_seed_gives_the_same_clicks() {
        let graph = dense();
        assert_eq!(walks(&graph, &traffic()), walks(&graph, &traffic()));
        assert_ne!(walks(&graph, &traffic()), walks(&graph, &Traffic { seed: 4, ..traffic() }));
    }

    #[test]
    fn rates_shares_pauses_and_turns_are_as_said() {
        let clicks = walks(&dense(), &traffic());
        // 40,000 are expected of sessions that are whole; those at the end are cut.
        assert!((34_000..42_000).contains(&clicks.len()), "{}", clicks.len());
        assert!(clicks.is_sorted_by_key(|click| click.at_us));
        let mut by_session: Vec<Vec<Click>> =
            vec![Vec::new(); clicks.iter().map(|click| click.session).max().unwrap() + 1];
        clicks.iter().for_each(|click| by_session[click.session].push(*click));
        let (mut follows, mut others, mut pause_us) = (0.0, 0.0, 0.0);
        for session in &by_session {
            assert!(session.len() <= 24);
            assert!(session.first().is_none_or(|first| !first.is_follow && first.page == Page::Profile));
            for pair in session.windows(2) {
                assert_eq!(pair[1].turn, pair[0].turn.wrapping_add(1), "round the nodes");
                pause_us += f64::from(u32::try_from(pair[1].at_us - pair[0].at_us).unwrap());
                *(if pair[1].is_follow { &mut follows } else { &mut others }) += 1.0;
            }
        }
        let share = follows / (follows + others);
        assert!((0.69..0.71).contains(&share), "{share}");
        let mean_s = pause_us / (follows + others) / 1e6;
        // Pauses that would end behind the span are not seen, so the mean is a little short.
        assert!((0.93..1.02).contains(&mean_s), "{mean_s}");
    }

    #[test]
    fn follows_lead_where_the_result_before_leads() {
        let graph = dense();
        let clicks = walks(&graph, &traffic());
        let mut last: Vec<Option<Click>> = vec![None; clicks.len()];
        let mut firsts = 0;
        let mut chosen = 0;
        for click in clicks {
            let before = last[click.session].replace(click);
            let Some(before) = before.filter(|_| click.is_follow) else { continue };
            match (before.page, click.page) {
                (Page::Profile, Page::Friends | Page::Posts) | (Page::Replies, Page::Tags) => {
                    assert_eq!(before.place, click.place);
                }
                (Page::Friends, Page::Profile) => {
                    let rank = graph.persons[before.place].friends.iter().position(|row| *row == click.place);
                    firsts += usize::from(rank == Some(0));
                    chosen += usize::from(rank.is_some());
                    assert!(rank.is_some());
                }
                (Page::Posts, Page::Replies | Page::Tags) => {
                    assert!(graph.persons[before.place].posts.contains(&click.place));
                }
                (Page::Tagged, Page::Replies | Page::Tags) => {
                    assert!(graph.tags[before.place].posts.contains(&click.place));
                }
                (Page::Replies, Page::Profile) => {
                    assert!(graph.posts[before.place].repliers.contains(&click.place));
                }
                (Page::Tags, Page::Tagged) => assert!(graph.posts[before.place].tags.contains(&click.place)),
                other => panic!("nothing leads so: {other:?}"),
            }
        }
        // 42.13 of the 89.82 % of clicks that go to the first ten ranks.
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let share = firsts as f64 / chosen as f64;
        assert!((0.44..0.50).contains(&share), "{share} of {chosen}");
    }

    #[test]
    fn a_dead_end_goes_back_and_a_graph_without_lists_jumps() {
        // Post 90 has no replies and no tags, so its reader goes back to its author.
        let clicks = walks(&small(), &Traffic { follow: 1.0, ..traffic() });
        let begun: std::collections::BTreeSet<usize> = clicks.iter().map(|click| click.session).collect();
        let jumps = clicks.iter().filter(|click| !click.is_follow).count();
        assert_eq!(jumps, begun.len(), "only first clicks jump");
    }
}
