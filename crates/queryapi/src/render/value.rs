//! One value of PackStream as JSON, plain or typed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hopcache_packstream::{DEPTH_MAX, DecodeError, Reader, Token, Vector, tag};

use super::{Encoding, RenderError, map_order, vectors};
use crate::{json, temporal, zone};

const DAY_NS: i64 = temporal::DAY_S * 1_000_000_000;

/// Appends values to a body.
pub(super) struct Renderer<'o> {
    pub(super) out: &'o mut Vec<u8>,
    pub(super) encoding: Encoding,
}

impl<'o> Renderer<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>, encoding: Encoding) -> Self {
        Self { out, encoding }
    }

    pub(super) fn comma(&mut self, first: &mut bool) {
        if !std::mem::take(first) {
            self.out.push(b',');
        }
    }

    pub(super) fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// `{"$type":"…","_value":` where values are typed.
    pub(super) fn open(&mut self, name: &str) {
        if self.encoding.is_typed() {
            self.raw("{\"$type\":\"");
            self.raw(name);
            self.raw("\",\"_value\":");
        }
    }

    pub(super) fn close(&mut self) {
        if self.encoding.is_typed() {
            self.out.push(b'}');
        }
    }

    /// The next value of `reader`.
    pub(super) fn value(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(), RenderError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError::Depth.into());
        }
        match reader.token()? {
            Token::Struct { tag, len } => return self.structure(reader, tag, len, depth),
            Token::Uuid(bytes) => return self.uuid(bytes),
            Token::List(len) => {
                self.open("List");
                self.items(reader, len, depth)?;
            }
            Token::Map(len) => {
                self.open("Map");
                self.members(reader, len, depth)?;
            }
            scalar => self.scalar(scalar),
        }
        self.close();
        Ok(())
    }

    pub(super) fn scalar(&mut self, token: Token<'_>) {
        match token {
            Token::Bool(flag) => {
                self.open("Boolean");
                self.raw(if flag { "true" } else { "false" });
            }
            Token::Int(number) => {
                self.open("Integer");
                let quote = if self.encoding.is_typed() { "\"" } else { "" };
                self.number(quote, |out| json::int(out, number));
            }
            Token::Float(number) => {
                self.open("Float");
                // Text also in plain where JSON has no number for it.
                let quotes = self.encoding.is_typed() || !number.is_finite();
                self.number(if quotes { "\"" } else { "" }, |out| json::float(out, number));
            }
            Token::Bytes(bytes) => {
                self.open("Base64");
                self.out.push(b'"');
                self.raw(&STANDARD.encode(bytes));
                self.out.push(b'"');
            }
            Token::Str(text) => {
                self.open("String");
                json::string(self.out, text);
            }
            _ => {
                self.open("Null");
                self.raw("null");
            }
        }
    }

    /// Writes a number between two of `quote`.
    fn number(&mut self, quote: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.raw(quote);
        write(self.out);
        self.raw(quote);
    }

    /// A record of `len` values. Returns the type of a value that the encoding does not have; the values before it are
    /// written.
    pub(super) fn record(
        &mut self,
        reader: &mut Reader<'_>,
        len: usize,
    ) -> Result<Option<String>, RenderError> {
        self.out.push(b'[');
        let (mut first, mut refused) = (true, None);
        for _ in 0..len {
            let written = self.out.len();
            self.comma(&mut first);
            match self.value(reader, 2) {
                Ok(()) => {}
                Err(RenderError::Type(name)) => {
                    self.out.truncate(written);
                    refused = Some(name);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.out.push(b']');
        Ok(refused)
    }

    /// A JSON array of the next `len` values.
    pub(super) fn items(
        &mut self,
        reader: &mut Reader<'_>,
        len: usize,
        depth: usize,
    ) -> Result<(), RenderError> {
        self.out.push(b'[');
        let mut first = true;
        for _ in 0..len {
            self.comma(&mut first);
            self.value(reader, depth + 1)?;
        }
        self.out.push(b']');
        Ok(())
    }

    /// A JSON object of the next `len` pairs, in the server's order.
    pub(super) fn members(
        &mut self,
        reader: &mut Reader<'_>,
        len: usize,
        depth: usize,
    ) -> Result<(), RenderError> {
        self.out.push(b'{');
        if len == 1 {
            self.member(reader.key()?);
            self.value(reader, depth + 1)?;
        } else {
            let mut members = Vec::new();
            for _ in 0..len {
                let key = reader.key()?;
                members.push((map_order::spread(key), key, reader.skip()?));
            }
            map_order::arrange(&mut members, |(hash, _, _)| *hash);
            let mut first = true;
            for (_, key, packed) in members {
                self.comma(&mut first);
                self.member(key);
                self.value(&mut Reader::new(packed), depth + 1)?;
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    pub(super) fn member(&mut self, key: &str) {
        json::string(self.out, key);
        self.out.push(b':');
    }

    pub(super) fn structure(
        &mut self,
        reader: &mut Reader<'_>,
        signature: u8,
        len: usize,
        depth: usize,
    ) -> Result<(), RenderError> {
        let known = RenderError::Structure(signature);
        match (signature, len) {
            (tag::NODE, 4) => self.node(reader, depth),
            (tag::RELATIONSHIP, 8) => self.relationship(reader, depth),
            (tag::PATH, 3) => self.path(reader, depth),
            (tag::POINT_2D, 3) | (tag::POINT_3D, 4) => self.point(reader, len - 1),
            (tag::DATE, 1) => {
                let [day] = ints(reader, known)?;
                self.text("Date", |out| temporal::date(out, day));
                Ok(())
            }
            (tag::TIME, 2) => {
                let [nanos, offset_s] = ints(reader, known)?;
                self.text("Time", |out| {
                    time_of_day(out, nanos);
                    temporal::offset(out, offset_s);
                });
                Ok(())
            }
            (tag::LOCAL_TIME, 1) => {
                let [nanos] = ints(reader, known)?;
                self.text("LocalTime", |out| time_of_day(out, nanos));
                Ok(())
            }
            (tag::LOCAL_DATE_TIME, 2) => {
                let [local_s, nanos] = ints(reader, known)?;
                self.text("LocalDateTime", |out| temporal::date_time(out, local_s, nanos));
                Ok(())
            }
            (tag::DATE_TIME, 3) => {
                let [utc_s, nanos, offset_s] = ints(reader, known)?;
                self.offset_date_time(utc_s, nanos, offset_s);
                Ok(())
            }
            (tag::DATE_TIME_ZONE, 3) => self.zoned(reader),
            (tag::VECTOR, 2) => {
                let vector = Vector::read(reader)?.ok_or(known)?;
                self.vector(&vector)
            }
            (tag::UNSUPPORTED, 4) => {
                let Token::Str(name) = reader.token()? else { return Err(known) };
                for _ in 1..len {
                    reader.skip()?;
                }
                self.unsupported(name)
            }
            (tag::DURATION, 4) => {
                let [months, days, seconds, nanos] = ints(reader, known)?;
                self.text("Duration", |out| temporal::duration(out, months, days, seconds, nanos));
                Ok(())
            }
            _ => Err(known),
        }
    }

    /// Text that needs no escapes.
    fn text(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.open(name);
        self.out.push(b'"');
        write(self.out);
        self.out.push(b'"');
        self.close();
    }

    fn vector(&mut self, vector: &Vector<'_>) -> Result<(), RenderError> {
        if !self.encoding.has_vectors() {
            return self.unsupported("VECTOR");
        }
        self.open("Vector");
        if self.encoding.is_typed() {
            self.raw("{\"coordinatesType\":\"");
            self.raw(vectors::json_name(vector.of));
            self.raw("\",\"coordinates\":");
        }
        vectors::coordinates(self.out, vector, self.encoding.is_typed());
        if self.encoding.is_typed() {
            self.out.push(b'}');
        }
        self.close();
        Ok(())
    }

    pub(super) fn uuid(&mut self, bytes: [u8; 16]) -> Result<(), RenderError> {
        if !self.encoding.has_uuids() {
            return self.unsupported("UUID");
        }
        self.text("UUID", |out| vectors::uuid(out, bytes));
        Ok(())
    }

    /// A value of a type that the encoding does not have.
    fn unsupported(&mut self, name: &str) -> Result<(), RenderError> {
        if self.encoding.refuses_unsupported() {
            return Err(RenderError::Type(name.to_owned()));
        }
        self.open("Unsupported");
        json::string(self.out, &format!("Type \"{name}\" is not supported in the current MimeType."));
        self.close();
        Ok(())
    }

    fn offset_date_time(&mut self, utc_s: i64, nanos: i64, offset_s: i64) {
        self.text("OffsetDateTime", |out| {
            temporal::date_time(out, utc_s.saturating_add(offset_s), nanos);
            temporal::offset(out, offset_s);
        });
    }

    fn zoned(&mut self, reader: &mut Reader<'_>) -> Result<(), RenderError> {
        let [utc_s, nanos] = ints(reader, RenderError::Structure(tag::DATE_TIME_ZONE))?;
        let Token::Str(name) = reader.token()? else {
            return Err(RenderError::Structure(tag::DATE_TIME_ZONE));
        };
        let unknown = || RenderError::Zone(name.to_owned());
        let zone = zone::find(name).ok_or_else(unknown)?;
        let true_s = i64::from(zone.offset_s(utc_s).ok_or_else(unknown)?);
        if zone.is_fixed() {
            self.offset_date_time(utc_s, nanos, true_s);
            return Ok(());
        }
        let shown_s = i64::from(zone.shown_offset_s(utc_s).ok_or_else(unknown)?);
        let encoding = self.encoding;
        self.text("ZonedDateTime", |out| {
            temporal::date_time(out, utc_s.saturating_add(true_s), nanos);
            temporal::offset(out, shown_s);
            if encoding.is_typed() {
                out.push(b'[');
                json::content(out, name);
                out.push(b']');
            }
        });
        Ok(())
    }

    fn point(&mut self, reader: &mut Reader<'_>, dimensions: usize) -> Result<(), RenderError> {
        let known = RenderError::Structure(if dimensions == 2 { tag::POINT_2D } else { tag::POINT_3D });
        let [srid] = ints(reader, known.clone())?;
        self.open("Point");
        self.raw("\"SRID=");
        json::int(self.out, srid);
        self.raw(if dimensions == 2 { ";POINT (" } else { ";POINT Z (" });
        for axis in 0..dimensions {
            let Token::Float(coordinate) = reader.token()? else { return Err(known) };
            if axis > 0 {
                self.out.push(b' ');
            }
            json::float(self.out, coordinate);
        }
        self.raw(")\"");
        self.close();
        Ok(())
    }
}

fn ints<const N: usize>(reader: &mut Reader<'_>, known: RenderError) -> Result<[i64; N], RenderError> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        let Token::Int(value) = reader.token()? else { return Err(known) };
        *number = value;
    }
    Ok(numbers)
}

fn time_of_day(out: &mut Vec<u8>, nanos: i64) {
    let of_day = nanos.rem_euclid(DAY_NS);
    temporal::time(out, of_day / 1_000_000_000, of_day % 1_000_000_000);
}
