//! A record that is written in pieces of bounded size, however large its values are.
//!
//! [`Renderer`] writes a value by recursion, in one go. This writes the same bytes from a stack of steps, and rests between two
//! pieces. It keeps places in the record and not its bytes: the caller gives the same bytes for each piece.
//!
//! As in a whole answer, a value of a type that the encoding does not have ends the record before that value. What is
//! written cannot be taken back, so the record is looked through before its first piece, also for what nests too deep.

use std::ops::Range;
use std::vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hopcache_packstream::{DEPTH_MAX, DecodeError, Reader, Token, tag};

use super::graph::{Names, Unbound, node_id, parts, text, unbound};
use super::map_order::{arrange, spread};
use super::value::Renderer;
use super::{Encoding, RenderError};
use crate::json;

/// Bytes of a text, or of raw bytes, that one step writes: JSON makes up to six bytes of one. A multiple of three, so that the
/// base64 of the parts is that of the whole.
const STEP_BYTES: usize = 12 << 10;
const _: () = assert!(STEP_BYTES.is_multiple_of(3));

/// The level of a record's values: it is in the list of records.
const VALUE_DEPTH: usize = 2;

/// A record that is being written.
#[derive(Debug)]
pub(super) struct LargeRecord {
    encoding: Encoding,
    /// What is still to be written. The last step is the next one.
    steps: Vec<Step>,
    /// Where the next token is.
    at: usize,
    /// The bytes of the record.
    pub(super) len: usize,
    /// The type of a value that the encoding does not have. The values before it are written.
    pub(super) refused: Option<String>,
}

#[derive(Debug)]
enum Step {
    /// JSON as it stands.
    Raw(&'static str),
    /// The next token is there.
    Goto(usize),
    /// The next value.
    Value { depth: usize },
    /// The next values of an array, each with its comma.
    Values { left: usize, is_first: bool, depth: usize },
    /// The next texts of an array, which have no type.
    Labels { left: usize, is_first: bool },
    /// The next value, which has to be the map of properties of this structure.
    Properties { of: u8, depth: usize },
    /// Members of an object, in the server's order.
    Members { left: vec::IntoIter<Member>, is_first: bool, depth: usize },
    /// A text with its quotes.
    String(Range<usize>),
    /// The inside of a text.
    Text(Range<usize>),
    /// The inside of base64.
    Base64(Range<usize>),
    /// The next relationship and node of a path.
    Hops(Hops),
}

/// A member of a map: the hash by which it is sorted, and where its key is.
#[derive(Debug)]
struct Member {
    hash: u32,
    at: u32,
}

/// The rest of a path.
#[derive(Debug)]
struct Hops {
    /// Where each node is.
    nodes: Vec<usize>,
    /// Where each relationship is.
    relationships: Vec<usize>,
    /// The node that was written last.
    here: usize,
    /// Where the next two indices are.
    at: usize,
    left: usize,
    depth: usize,
}

impl LargeRecord {
    /// Begins the first record of `records`.
    pub(super) fn begin(records: &[u8], encoding: Encoding) -> Result<Self, RenderError> {
        let mut reader = Reader::new(records);
        let Token::List(len) = reader.token()? else { return Err(RenderError::Record) };
        let at = place(records, &reader);
        let (mut left, mut refused) = (0, None);
        while left < len && refused.is_none() {
            refused = refused_in(&mut reader, encoding)?;
            left += usize::from(refused.is_none());
        }
        let len = place(records, &reader);
        let steps =
            vec![Step::Raw("]"), Step::Values { left, is_first: true, depth: VALUE_DEPTH }, Step::Raw("[")];
        Ok(Self { encoding, steps, at, len, refused })
    }

    /// Appends the next piece: it ends soon after `out` has `bytes_max` bytes. Returns whether the record is written.
    pub(super) fn write(
        &mut self,
        records: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, RenderError> {
        while out.len() < bytes_max {
            let Some(step) = self.steps.pop() else { return Ok(true) };
            self.step(records, step, &mut Renderer::new(out, self.encoding))?;
        }
        Ok(self.steps.is_empty())
    }

    fn step(&mut self, records: &[u8], step: Step, renderer: &mut Renderer<'_>) -> Result<(), RenderError> {
        match step {
            Step::Raw(text) => renderer.raw(text),
            Step::Goto(at) => self.at = at,
            Step::Value { depth } => return self.value(records, depth, renderer),
            Step::Values { left: 0, .. } | Step::Labels { left: 0, .. } => {}
            Step::Values { left, mut is_first, depth } => {
                renderer.comma(&mut is_first);
                self.then([Step::Value { depth }, Step::Values { left: left - 1, is_first, depth }]);
            }
            Step::Labels { left, mut is_first } => {
                renderer.comma(&mut is_first);
                let mut reader = self.reader(records)?;
                let label = range_of(records, text(&mut reader, tag::NODE)?.as_bytes());
                self.at = place(records, &reader);
                self.then([Step::String(label), Step::Labels { left: left - 1, is_first }]);
            }
            Step::Properties { of, depth } => {
                let mut reader = self.reader(records)?;
                let Token::Map(len) = reader.token()? else { return Err(RenderError::Structure(of)) };
                return self.map(records, (reader, len), depth, renderer);
            }
            Step::Members { left, is_first, depth } => {
                return self.member(records, (left, is_first), depth, renderer);
            }
            Step::String(range) => {
                renderer.raw("\"");
                self.then([Step::Text(range), Step::Raw("\"")]);
            }
            Step::Text(range) => return self.text(records, range, renderer),
            Step::Base64(range) => {
                let bytes = part(records, &range)?;
                let (now, later) = bytes.split_at(bytes.len().min(STEP_BYTES));
                renderer.raw(&STANDARD.encode(now));
                if !later.is_empty() {
                    self.then([Step::Base64(range.end - later.len()..range.end)]);
                }
            }
            Step::Hops(hops) => return self.hop(records, hops, renderer),
        }
        Ok(())
    }

    /// These steps come next, in this order.
    fn then<const N: usize>(&mut self, steps: [Step; N]) {
        self.steps.extend(steps.into_iter().rev());
    }

    fn close(&self) -> Step {
        Step::Raw(if self.encoding.is_typed() { "}" } else { "" })
    }

    fn reader<'a>(&self, records: &'a [u8]) -> Result<Reader<'a>, RenderError> {
        Ok(Reader::new(part(records, &(self.at..records.len()))?))
    }

    /// As [`Renderer::value`].
    fn value(
        &mut self,
        records: &[u8],
        depth: usize,
        renderer: &mut Renderer<'_>,
    ) -> Result<(), RenderError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError::Depth.into());
        }
        let mut reader = self.reader(records)?;
        let token = reader.token()?;
        self.at = place(records, &reader);
        match token {
            Token::List(left) => {
                renderer.open("List");
                renderer.raw("[");
                let values = Step::Values { left, is_first: true, depth: depth + 1 };
                self.then([values, Step::Raw("]"), self.close()]);
            }
            Token::Map(len) => {
                renderer.open("Map");
                self.then([self.close()]);
                self.map(records, (reader, len), depth, renderer)?;
            }
            Token::Str(text) if text.len() > STEP_BYTES => {
                renderer.open("String");
                self.then([Step::String(range_of(records, text.as_bytes())), self.close()]);
            }
            Token::Bytes(bytes) if bytes.len() > STEP_BYTES => {
                renderer.open("Base64");
                renderer.raw("\"");
                self.then([Step::Base64(range_of(records, bytes)), Step::Raw("\""), self.close()]);
            }
            Token::Struct { tag: tag::NODE, len: 4 } => self.node(records, reader, depth, renderer)?,
            Token::Struct { tag: tag::RELATIONSHIP, len: 8 } => {
                self.relationship(records, reader, depth, renderer)?;
            }
            Token::Struct { tag: tag::PATH, len: 3 } => self.path(records, reader, depth, renderer)?,
            // The others are small. A vector has 4,096 coordinates at most.
            Token::Struct { tag, len } => {
                renderer.structure(&mut reader, tag, len, depth)?;
                self.at = place(records, &reader);
            }
            Token::Uuid(bytes) => renderer.uuid(bytes)?,
            scalar => {
                renderer.scalar(scalar);
                renderer.close();
            }
        }
        Ok(())
    }

    fn text(
        &mut self,
        records: &[u8],
        range: Range<usize>,
        renderer: &mut Renderer<'_>,
    ) -> Result<(), RenderError> {
        let bytes = part(records, &range)?;
        // A byte that goes on with a character has no place of its own.
        let goes_on = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
        let mut end = bytes.len().min(STEP_BYTES);
        while goes_on(end) {
            end -= 1;
        }
        let now = str::from_utf8(&bytes[..end]).map_err(|_| DecodeError::Utf8)?;
        json::content(renderer.out, now);
        if end < bytes.len() {
            self.then([Step::Text(range.start + end..range.end)]);
        }
        Ok(())
    }

    /// As [`Renderer::members`], of a map whose marker was read.
    fn map(
        &mut self,
        records: &[u8],
        (mut reader, len): (Reader<'_>, usize),
        depth: usize,
        renderer: &mut Renderer<'_>,
    ) -> Result<(), RenderError> {
        let mut members = Vec::new();
        for _ in 0..len {
            let at = u32::try_from(place(records, &reader)).map_err(|_| RenderError::Record)?;
            members.push(Member { hash: spread(reader.key()?), at });
            reader.skip()?;
        }
        arrange(&mut members, |member| member.hash);
        renderer.raw("{");
        let members = Step::Members { left: members.into_iter(), is_first: true, depth: depth + 1 };
        self.then([members, Step::Goto(place(records, &reader)), Step::Raw("}")]);
        Ok(())
    }

    fn member(
        &mut self,
        records: &[u8],
        (mut left, mut is_first): (vec::IntoIter<Member>, bool),
        depth: usize,
        renderer: &mut Renderer<'_>,
    ) -> Result<(), RenderError> {
        let Some(member) = left.next() else { return Ok(()) };
        self.at = usize::try_from(member.at).map_err(|_| RenderError::Record)?;
        let mut reader = self.reader(records)?;
        let key = range_of(records, reader.key()?.as_bytes());
        self.at = place(records, &reader);
        renderer.comma(&mut is_first);
        let others = Step::Members { left, is_first, depth };
        self.then([Step::String(key), Step::Raw(":"), Step::Value { depth }, others]);
        Ok(())
    }

    fn node(
        &mut self,
        records: &[u8],
        mut reader: Reader<'_>,
        depth: usize,
        renderer: &mut Renderer<'_>,
    ) -> Result<(), RenderError> {
        let broken = RenderError::Structure(tag::NODE);
        reader.skip()?;
        let mut labels = Reader::new(reader.skip()?);
        let Token::List(left) = labels.token()? else { return Err(broken) };
        let properties = range_of(records, reader.skip()?).start;
        let id = range_of(records, text(&mut reader, tag::NODE)?.as_bytes());
        let names = Names::of(self.encoding);
        renderer.open("Node");
        renderer.raw(names.id);
        self.then([
            Step::String(id),
            Step::Raw(names.labels),
            Step::Raw("["),
            Step::Goto(range_of(records, labels.rest()).start),
            Step::Labels { left, is_first: true },
            Step::Raw("]"),
            Step::Raw(names.properties),
            Step::Goto(properties),
            Step::Properties { of: tag::NODE, depth },
            Step::Raw("}"),
            self.close(),
            Step::Goto(place(records, &reader)),
        ]);
        Ok(())
    }

    fn relationship(
        &mut self,
        records: &[u8],
        mut reader: Reader<'_>,
        depth: usize,
        renderer: &mut Renderer<'_>,
    ) -> Result<(), RenderError> {
        for _ in 0..3 {
            reader.skip()?;
        }
        let kind = text(&mut reader, tag::RELATIONSHIP)?;
        let properties = reader.skip()?;
        let id = text(&mut reader, tag::RELATIONSHIP)?;
        let start = text(&mut reader, tag::RELATIONSHIP)?;
        let end = text(&mut reader, tag::RELATIONSHIP)?;
        self.then([Step::Goto(place(records, &reader))]);
        self.relationship_of(records, &Unbound { id, kind, properties }, (start, end), depth, renderer);
        Ok(())
    }

    fn relationship_of(
        &mut self,
        records: &[u8],
        unbound: &Unbound<'_>,
        (start, end): (&str, &str),
        depth: usize,
        renderer: &mut Renderer<'_>,
    ) {
        let string = |text: &str| Step::String(range_of(records, text.as_bytes()));
        let names = Names::of(self.encoding);
        renderer.open("Relationship");
        renderer.raw(names.id);
        self.then([
            string(unbound.id),
            Step::Raw(names.start),
            string(start),
            Step::Raw(names.end),
            string(end),
            Step::Raw(names.kind),
            string(unbound.kind),
            Step::Raw(names.properties),
            Step::Goto(range_of(records, unbound.properties).start),
            Step::Properties { of: tag::RELATIONSHIP, depth },
            Step::Raw("}"),
            self.close(),
        ]);
    }

    fn path(
        &mut self,
        records: &[u8],
        mut reader: Reader<'_>,
        depth: usize,
        renderer: &mut Renderer<'_>,
    ) -> Result<(), RenderError> {
        let broken = || RenderError::Structure(tag::PATH);
        let places =
            |parts: Vec<&[u8]>| parts.into_iter().map(|part| range_of(records, part).start).collect();
        let nodes: Vec<usize> = places(parts(&mut reader)?);
        let relationships = places(parts(&mut reader)?);
        let mut indices = Reader::new(reader.skip()?);
        let Token::List(len) = indices.token()? else { return Err(broken()) };
        let here = *nodes.first().ok_or_else(broken)?;
        if len % 2 != 0 {
            return Err(broken());
        }
        renderer.open("Path");
        renderer.raw("[");
        let at = range_of(records, indices.rest()).start;
        let depth = depth + 1;
        self.then([
            Step::Goto(here),
            Step::Value { depth },
            Step::Hops(Hops { nodes, relationships, here, at, left: len / 2, depth }),
            Step::Raw("]"),
            self.close(),
            Step::Goto(place(records, &reader)),
        ]);
        Ok(())
    }

    /// As [`Renderer::path`], one relationship and the node behind it.
    fn hop(&mut self, records: &[u8], hops: Hops, renderer: &mut Renderer<'_>) -> Result<(), RenderError> {
        let Hops { nodes, relationships, here, at, left, depth } = hops;
        let broken = || RenderError::Structure(tag::PATH);
        let Some(left) = left.checked_sub(1) else { return Ok(()) };
        let mut indices = Reader::new(part(records, &(at..records.len()))?);
        let (Token::Int(step), Token::Int(to)) = (indices.token()?, indices.token()?) else {
            return Err(broken());
        };
        let at = place(records, &indices);
        let index = usize::try_from(step.unsigned_abs()).ok().and_then(|from_one| from_one.checked_sub(1));
        let relationship = *index.and_then(|index| relationships.get(index)).ok_or_else(broken)?;
        let next = *usize::try_from(to).ok().and_then(|index| nodes.get(index)).ok_or_else(broken)?;
        let (from, onto) = if step > 0 { (here, next) } else { (next, here) };
        let from_place = |at: usize| part(records, &(at..records.len()));
        let ends = (node_id(from_place(from)?)?, node_id(from_place(onto)?)?);
        renderer.raw(",");
        self.then([
            Step::Raw(","),
            Step::Goto(next),
            Step::Value { depth },
            Step::Hops(Hops { nodes, relationships, here: next, at, left, depth }),
        ]);
        self.relationship_of(records, &unbound(from_place(relationship)?)?, ends, depth, renderer);
        Ok(())
    }
}

/// The type of the first value within the next one that the encoding does not have. The reader is behind the next value if there
/// is none. An error, if a value is on a deeper level than [`LargeRecord::value`] writes.
fn refused_in(reader: &mut Reader<'_>, encoding: Encoding) -> Result<Option<String>, RenderError> {
    let refuses = encoding.refuses_unsupported();
    // What is open around the next value: how many values are left there, and their level. The parts of a structure, such as the map of
    // a node, are on its own level.
    let mut open = vec![(1_usize, VALUE_DEPTH)];
    while let Some((left, depth)) = open.last_mut() {
        let Some(others) = left.checked_sub(1) else {
            open.pop();
            continue;
        };
        *left = others;
        let depth = *depth;
        if depth > DEPTH_MAX {
            return Err(DecodeError::Depth.into());
        }
        match reader.token()? {
            Token::List(len) => open.push((len, depth + 1)),
            Token::Map(len) => open.push((len.saturating_mul(2), depth + 1)),
            Token::Uuid(_) if refuses && !encoding.has_uuids() => return Ok(Some("UUID".to_owned())),
            Token::Struct { tag: tag::VECTOR, len: 2 } if refuses && !encoding.has_vectors() => {
                return Ok(Some("VECTOR".to_owned()));
            }
            Token::Struct { tag: tag::UNSUPPORTED, len: 4 } if refuses => {
                return text(reader, tag::UNSUPPORTED).map(|name| Some(name.to_owned()));
            }
            Token::Struct { len, .. } => open.push((len, depth)),
            _ => {}
        }
    }
    Ok(None)
}

/// Where a reader of the end of `records` is.
fn place(records: &[u8], reader: &Reader<'_>) -> usize {
    records.len() - reader.rest().len()
}

/// Where a part of `records` is.
fn range_of(records: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(records.as_ptr().addr());
    start..start + part.len()
}

fn part<'a>(records: &'a [u8], range: &Range<usize>) -> Result<&'a [u8], RenderError> {
    records.get(range.clone()).ok_or(RenderError::PackStream(DecodeError::Truncated))
}
