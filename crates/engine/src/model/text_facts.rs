//! What the text of a statement alone decides, in one database: what it reads, what it may write, and the server's word on it. Each
//! fact is found out when somebody first asks for it. All queries of the text share it, so a miss does not parse what an earlier
//! one has parsed.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use hopcache_core::result::StatementKind;
use hopcache_core::tags::{Depends, NeedClasses, NeedsShape, TagId, Viewer};
use hopcache_cypher::anchor::{Anchor, AnchorForm, Name};
use hopcache_cypher::checks::calls::{may_be_in_batches, may_call_procedure};
use hopcache_cypher::checks::graphs::may_name_graph;
use hopcache_cypher::checks::rights::may_change_rights;
use hopcache_cypher::checks::writing::may_write;
use hopcache_cypher::shown_nodes::{ShownNode, shown_nodes};
use hopcache_cypher::tags::anchored::{AnchoredWrite, ReadShape};
use hopcache_cypher::tags::{Volatility, WriteEffects};
use hopcache_cypher::verdict::calls_known_functions;
use hopcache_learning::in_vain::ConsideredInVain;

use crate::model::origin_run::Parts;
use crate::model::shown_reads::ShownReads;
use crate::model::write_forms::{RunWrite, WriteForms};

/// Facts of one text in one database.
#[derive(Debug)]
pub struct TextFacts {
    text: Arc<str>,
    reads: OnceLock<TextReads>,
    reads_with_tokens: OnceLock<TextReads>,
    writes: OnceLock<TextWrites>,
    anchor: OnceLock<AnchorForm>,
    shown_nodes: OnceLock<Vec<ShownNode>>,
    word: KnownWord,
    in_vain: ConsideredInVain,
}

/// What answers to one text depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reads {
    /// A write that touches none of these cannot change it.
    pub(crate) tags: Arc<[TagId]>,
    /// The same, with the values by which it finds its nodes.
    pub(crate) needs: Arc<NeedsShape>,
    /// What its answers show; `None` if they show no nodes.
    pub(crate) shown: Option<Arc<ShownReads>>,
    /// Whether nothing but the graph decides it. Otherwise it is never proved.
    pub(crate) is_of_graph: bool,
}

impl Reads {
    /// Whether a new label, type or key ends it.
    pub(crate) fn has_tokens(&self) -> bool {
        self.tags.contains(&TagId::TOKENS)
    }
}

impl Hash for Reads {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The needs of two texts with the same tags are told apart by equality.
        self.tags.hash(state);
        self.is_of_graph.hash(state);
    }
}

/// What one answer depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerReads {
    /// What its text says.
    pub(crate) of_text: Arc<Reads>,
    /// The values by which it has found its nodes; `None`: by none.
    pub(crate) classes: Option<Arc<NeedClasses>>,
    /// Who has asked.
    pub(crate) viewer: Viewer,
}

impl AnswerReads {
    /// What ends it, as exactly as it is known, or by tags alone.
    pub(crate) fn depends(&self, compares_values: bool) -> Depends<'_> {
        if !compares_values {
            return Depends::OnTags(&self.of_text.tags);
        }
        static NONE: LazyLock<NeedClasses> = LazyLock::new(NeedClasses::default);
        let classes = self.classes.as_deref().unwrap_or(&NONE);
        Depends::OnNeeds(&self.of_text.needs, classes, self.viewer)
    }
}

/// What answers to a text depend on.
#[derive(Debug)]
struct TextReads {
    shape: Arc<ReadShape>,
    /// `None` if nothing is known of the text.
    volatility: Option<Volatility>,
    proved: Arc<Reads>,
    by_age: Arc<Reads>,
}

impl TextReads {
    /// Of a text that reads this. With `warns`, its answer has a warning of a label, type or key that is not there.
    fn of(shape: ReadShape, warns: bool) -> Self {
        let found = if warns { shape.tags().clone().with_tokens() } else { shape.tags().clone() };
        let tags: Arc<[TagId]> = found.ids().into();
        let more = |tag: &&TagId| shape.tags().ids().binary_search(tag).is_err();
        let more: Vec<TagId> = tags.iter().filter(more).copied().collect();
        let needs = Arc::new(shape.told(&more));
        let shape = Arc::new(shape);
        let shown = shape.shows_nodes().then(|| Arc::new(ShownReads::new(Arc::clone(&shape), &more)));
        let reads = |is_of_graph| {
            let (tags, needs, shown) = (Arc::clone(&tags), Arc::clone(&needs), shown.clone());
            Arc::new(Reads { tags, needs, shown, is_of_graph })
        };
        Self {
            volatility: (!found.is_anything()).then(|| found.volatility()),
            proved: reads(true),
            by_age: reads(false),
            shape,
        }
    }

    fn with(&self, params: &[u8], viewer: Viewer) -> AnswerReads {
        let is_of_graph = self.volatility.is_some_and(|volatility| !volatility.is_volatile(params));
        let of_text = if is_of_graph { &self.proved } else { &self.by_age };
        let classes = self.shape.told_classes(params).map(Arc::new);
        AnswerReads { of_text: Arc::clone(of_text), classes, viewer }
    }
}

/// What a text may write.
#[derive(Debug)]
struct TextWrites {
    may_write: bool,
    may_name_graph: bool,
    changes_rights: bool,
    may_call: bool,
    calls_known_functions: bool,
    may_be_in_batches: bool,
    /// `None` if parameters decide it.
    effects: Option<WriteEffects>,
    forms: WriteForms,
}

impl TextFacts {
    /// No fact is known yet.
    #[must_use]
    pub fn of(text: Arc<str>) -> Self {
        Self {
            text,
            reads: OnceLock::new(),
            reads_with_tokens: OnceLock::new(),
            writes: OnceLock::new(),
            anchor: OnceLock::new(),
            shown_nodes: OnceLock::new(),
            word: KnownWord::default(),
            in_vain: ConsideredInVain::default(),
        }
    }

    /// What an answer depends on, with these parameters (one PackStream map).
    pub(crate) fn reads(&self, params: &[u8], viewer: Viewer) -> AnswerReads {
        self.reads.get_or_init(|| TextReads::of(ReadShape::of(&self.text), false)).with(params, viewer)
    }

    /// What answers depend on, in the words of Cypher, each with the numbers of its marks.
    pub(crate) fn needs_in_words(&self) -> Vec<(Vec<TagId>, String)> {
        self.reads.get_or_init(|| TextReads::of(ReadShape::of(&self.text), false)).shape.needs_in_words()
    }

    /// What ends answers, in the words of Cypher.
    pub(crate) fn ends_in_words(&self) -> Vec<String> {
        self.reads.get_or_init(|| TextReads::of(ReadShape::of(&self.text), false)).shape.ends_in_words()
    }

    /// What an answer with a warning of an unknown label, type or key depends on: on each that may be new as well.
    pub(crate) fn reads_with_tokens(&self, params: &[u8], viewer: Viewer) -> AnswerReads {
        let find = || TextReads::of(ReadShape::of(&self.text), true);
        self.reads_with_tokens.get_or_init(find).with(params, viewer)
    }

    /// Whether it may write at all.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.writes().may_write
    }

    /// Whether it may name a graph by itself (`USE`).
    #[must_use]
    pub fn may_name_graph(&self) -> bool {
        self.writes().may_name_graph
    }

    /// Whether it may change users or rights.
    #[must_use]
    pub fn changes_rights(&self) -> bool {
        self.writes().changes_rights
    }

    /// Whether it may call a procedure that is not known to read only.
    #[must_use]
    pub fn may_call_procedure(&self) -> bool {
        self.writes().may_call
    }

    /// Whether each function that it calls is on a list: another one may do something outside of the graph.
    pub(crate) fn calls_known_functions(&self) -> bool {
        self.writes().calls_known_functions
    }

    /// Whether parts of it may be committed before its end.
    #[must_use]
    pub fn parts(&self, params: &[u8]) -> Parts {
        let writes = self.writes();
        if writes.may_call {
            return Parts::Called {
                statement: Arc::clone(&self.text),
                params: Bytes::copy_from_slice(params),
            };
        }
        if writes.may_be_in_batches { Parts::Batches } else { Parts::None }
    }

    /// What it may change, with these parameters (one PackStream map), which say by which values it finds what it changes. The text is read
    /// again only for parameters of another form, or if they name labels, types or keys.
    #[must_use]
    pub fn write(&self, params: &[u8]) -> RunWrite {
        match &self.writes().effects {
            Some(effects) => self.writes().forms.write(effects, &self.text, params),
            None => AnchoredWrite::of(&self.text, params).into(),
        }
    }

    /// The graph node that a read with these parameters (one PackStream map) starts from.
    pub(crate) fn anchor(&self, params: &[u8]) -> Option<Anchor> {
        self.anchor_form().with(params)
    }

    /// The label and the key by which a read finds the graph node that it starts from, and the parameter with the value of the key.
    pub(crate) fn anchor_parameter(&self) -> Option<(&Name, &Name, &str)> {
        self.anchor_form().parameter()
    }

    fn anchor_form(&self) -> &AnchorForm {
        self.anchor.get_or_init(|| AnchorForm::of(&self.text))
    }

    /// The nodes that an answer names.
    pub(crate) fn shown_nodes(&self) -> &[ShownNode] {
        self.shown_nodes.get_or_init(|| shown_nodes(&self.text))
    }

    fn writes(&self) -> &TextWrites {
        let text = &*self.text;
        self.writes.get_or_init(|| TextWrites {
            may_write: may_write(text),
            may_name_graph: may_name_graph(text),
            changes_rights: may_change_rights(text),
            may_call: may_call_procedure(text),
            calls_known_functions: calls_known_functions(text),
            may_be_in_batches: may_be_in_batches(text),
            effects: WriteEffects::of_text(text),
            forms: WriteForms::default(),
        })
    }

    /// The server's word.
    pub(crate) const fn word(&self) -> &KnownWord {
        &self.word
    }

    /// Whether anything follows its answers.
    pub(crate) const fn in_vain(&self) -> &ConsideredInVain {
        &self.in_vain
    }
}

/// A copy of the server's word on a text, beside the classifier's words, which other spellings share.
///
/// A word of before the latest distrust is none:
///   a request reads the word "read" · a run reports a change, and the word becomes another · the request notes "read" here, with the
///   number of distrusts that it had seen before it read the word. That is no longer the number.
#[derive(Debug, Default)]
pub(crate) struct KnownWord(AtomicU64);

impl KnownWord {
    /// The word, if nothing was distrusted since it was noted.
    pub(crate) fn get(&self, distrusts: u32) -> Option<StatementKind> {
        let packed = self.0.load(Ordering::Relaxed);
        if packed >> KIND_BITS != u64::from(distrusts) {
            return None;
        }
        match packed & KIND_MASK {
            1 => Some(StatementKind::Read),
            2 => Some(StatementKind::ReadWrite),
            3 => Some(StatementKind::Write),
            4 => Some(StatementKind::Schema),
            _ => None,
        }
    }

    /// Notes a word that was read when the classifier had distrusted so often.
    pub(crate) fn note(&self, distrusts: u32, kind: StatementKind) {
        let kind = match kind {
            StatementKind::Read => 1,
            StatementKind::ReadWrite => 2,
            StatementKind::Write => 3,
            StatementKind::Schema => 4,
        };
        self.0.store(u64::from(distrusts) << KIND_BITS | kind, Ordering::Relaxed);
    }
}

/// The low bits of a [`KnownWord`] are its kind; zero: none.
const KIND_BITS: u32 = 8;
const KIND_MASK: u64 = (1 << KIND_BITS) - 1;

#[cfg(test)]
mod tests {
    use hopcache_cypher::tags::ReadTags;

    use super::*;

    const NOTHING: [u8; 1] = [0xa0];

    /// Each fact equals what the text gives when it is read for one run.
    #[test]
    fn the_facts_are_those_of_each_run() {
        let name = [&[0xa1, 0x81, b'p', 0xa1, 0x84][..], b"name", &[1]].concat();
        for text in [
            "MATCH (n:A) RETURN n.x",
            "MATCH (n:A) WHERE n.day = date($p) RETURN n",
            "CREATE (n:A) SET n += $p",
            "CREATE (:A {x: $p})",
            "MATCH (n:A) CALL { WITH n SET n.x = 1 } IN TRANSACTIONS",
            "CALL some.procedure($p)",
            "USE other CREATE (n)",
            "SHOW USERS",
            "no Cypher",
        ] {
            let facts = TextFacts::of(text.into());
            for params in [&NOTHING[..], &name, &NOTHING] {
                let write = AnchoredWrite::of(text, params);
                let found = facts.write(params);
                assert_eq!((found.effects(), found.told()), (write.effects(), write.told()), "{text}");
                assert_eq!(facts.parts(params), Parts::of(text, params), "{text}");
                let found = ReadTags::of(text);
                let is_of_graph = !found.is_anything() && !found.is_volatile(params);
                assert_eq!(&*facts.reads(params, Viewer::default()).of_text.tags, found.ids(), "{text}");
                assert_eq!(facts.reads(params, Viewer::default()).of_text.is_of_graph, is_of_graph, "{text}");
                let found = found.with_tokens();
                assert_eq!(
                    &*facts.reads_with_tokens(params, Viewer::default()).of_text.tags,
                    found.ids(),
                    "{text}"
                );
            }
            assert_eq!(
                (facts.may_write(), facts.may_name_graph(), facts.changes_rights()),
                (may_write(text), may_name_graph(text), may_change_rights(text)),
                "{text}"
            );
        }
    }

    /// The schedule at [`KnownWord`].
    #[test]
    fn a_word_of_before_a_distrust_is_none() {
        let word = KnownWord::default();
        assert_eq!(word.get(0), None);
        word.note(0, StatementKind::Read);
        assert_eq!((word.get(0), word.get(1)), (Some(StatementKind::Read), None));
        word.note(1, StatementKind::ReadWrite);
        assert_eq!((word.get(0), word.get(1)), (None, Some(StatementKind::ReadWrite)));
    }
}
