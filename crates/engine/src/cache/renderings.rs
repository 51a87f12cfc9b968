//! The renderings of one copy made so far, by name. Which copies keep theirs, the memory decides by [`Renderings::cool`]: a
//! rendering that nobody asks for again can be made again, and until then its room serves another copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use hopcache_core::limits::RENDERINGS_MAX;

use crate::model::rendering::RenderingId;

/// Up to [`RENDERINGS_MAX`] renderings, each made once until they are dropped together. Reading takes no lock. Most copies have
/// none, and pay one word.
#[derive(Debug, Default)]
pub(super) struct Renderings(ArcSwapOption<Made>);

#[derive(Debug)]
struct Made {
    bodies: Box<[(RenderingId, Bytes)]>,
    /// Whether one was asked for again since the last [`Renderings::cool`].
    is_warm: AtomicBool,
}

impl Renderings {
    /// The rendering of this name, if it has been made.
    pub(super) fn get(&self, id: RenderingId) -> Option<Bytes> {
        let made = self.0.load();
        let made = made.as_deref()?;
        let body = made.find(id)?.clone();
        // Only the first look of a round writes, so that hits on several cores share the line.
        if !made.is_warm.load(Relaxed) {
            made.is_warm.store(true, Relaxed);
        }
        Some(body)
    }

    /// Whether the rendering of this name has been made.
    pub(super) fn has(&self, id: RenderingId) -> bool {
        self.0.load().as_deref().is_some_and(|made| made.find(id).is_some())
    }

    /// Keeps a rendering and returns the kept one: if two threads make the same, the first.
    ///
    /// Two threads render different forms: both find none · A puts its list in · B's exchange fails, and it adds its own to A's.
    pub(super) fn keep(&self, id: RenderingId, body: Bytes) -> Bytes {
        self.0.rcu(|made| {
            let bodies = made.as_deref().map_or(&[][..], |made| &made.bodies);
            let has_room = bodies.len() < RENDERINGS_MAX && !bodies.iter().any(|(of, _)| *of == id);
            let new = has_room.then(|| (id, body.clone()));
            let is_warm = made.as_deref().is_some_and(|made| made.is_warm.load(Relaxed));
            let bodies = bodies.iter().cloned().chain(new).collect();
            Some(Arc::new(Made { bodies, is_warm: AtomicBool::new(is_warm) }))
        });
        let kept = self.0.load().as_deref().and_then(|made| made.find(id).cloned());
        kept.unwrap_or(body)
    }

    /// Drops all of them, unless one was asked for since the last call. Returns whether it dropped some.
    pub(super) fn cool(&self) -> bool {
        let is_cold = self.0.load().as_deref().is_some_and(|made| !made.is_warm.swap(false, Relaxed));
        is_cold && self.0.swap(None).is_some()
    }

    /// Bytes of each one that has been made, by `of_body`, summed.
    pub(super) fn weight_bytes(&self, of_body: impl Fn(usize) -> usize) -> usize {
        self.0.load().iter().flat_map(|made| &made.bodies).map(|(_, body)| of_body(body.len())).sum()
    }
}

impl Made {
    fn find(&self, id: RenderingId) -> Option<&Bytes> {
        self.bodies.iter().find(|(of, _)| *of == id).map(|(_, body)| body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rendering_is_kept_once_and_no_more_than_there_are_places() {
        let renderings = Renderings::default();
        let body = |id: u8| Bytes::from(vec![id]);
        for id in 0..6 {
            assert_eq!(renderings.get(RenderingId(id)), None);
            assert_eq!(renderings.keep(RenderingId(id), body(id)), body(id));
        }
        assert_eq!(renderings.keep(RenderingId(1), body(99)), body(1), "the first one is kept");
        assert_eq!(renderings.weight_bytes(|len| len), RENDERINGS_MAX);
        assert_eq!(renderings.get(RenderingId(5)), None, "no place");
    }

    #[test]
    fn renderings_that_nobody_asks_for_again_are_dropped() {
        let renderings = Renderings::default();
        renderings.keep(RenderingId(1), Bytes::from_static(b"1"));
        assert!(renderings.has(RenderingId(1)), "a look that is no answer does not warm");
        assert!(renderings.cool() && !renderings.has(RenderingId(1)));
        assert!(!renderings.cool(), "there is none");
        renderings.keep(RenderingId(1), Bytes::from_static(b"1"));
        renderings.get(RenderingId(1));
        assert!(!renderings.cool(), "it was asked for");
        assert!(renderings.cool(), "and then no more");
    }

    #[test]
    fn two_threads_that_render_different_forms_keep_both() {
        let renderings = Renderings::default();
        std::thread::scope(|scope| {
            for id in 0..4_u8 {
                let renderings = &renderings;
                scope.spawn(move || renderings.keep(RenderingId(id), Bytes::from(vec![id])));
            }
        });
        assert!((0..4).all(|id| renderings.get(RenderingId(id)) == Some(Bytes::from(vec![id]))));
    }
}
