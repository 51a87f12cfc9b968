//! Expressions: operands with operators between them, and what stands behind an operand (`.key`, `[index]`, `:Label`).

use crate::lexer::TokenKind;
use crate::lexer::cursor::TokenCursor;

use super::{Parsed, Parser, Unread};
use crate::tags::tree::{Carrier, Expr, Read, Shape};

impl Parser<'_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.nested(|parser| {
            let mut whole = parser.signed_operand()?;
            while parser.operator()? {
                let operand = parser.signed_operand()?;
                whole.absorb(operand);
                whole.shape = Shape::Other;
            }
            Ok(whole)
        })
    }

    /// `NOT`, `-` and `+` before an operand.
    fn signed_operand(&mut self) -> Parsed<Expr> {
        let mut is_signed = false;
        while self.skip('-') || self.skip('+') || self.skip_word("NOT") {
            is_signed = true;
        }
        let mut operand = self.operand_with_tail()?;
        if is_signed {
            operand.shape = Shape::Other;
        }
        Ok(operand)
    }

    /// Skips an operator with two operands, if one is next.
    pub(super) fn operator(&mut self) -> Parsed<bool> {
        if self.is_any_word(&["AND", "OR", "XOR", "IN", "CONTAINS"]) {
            self.at += 1;
            return Ok(true);
        }
        if self.is_any_word(&["STARTS", "ENDS"]) {
            self.at += 1;
            return self.expect_word("WITH").map(|()| true);
        }
        let signs = ["<>", "<=", ">=", "=~", "!=", "||", "<", ">", "=", "+", "-", "*", "/", "%", "^"];
        let found = signs.iter().find(|sign| self.are(sign));
        // `+=` is no operator.
        if found.is_some_and(|sign| *sign == "+") && self.is_at(1, '=') {
            return Err(Unread::Syntax);
        }
        self.at += found.map_or(0, |sign| sign.len());
        Ok(found.is_some())
    }

    /// An operand and what stands behind it.
    fn operand_with_tail(&mut self) -> Parsed<Expr> {
        let mut operand = self.operand()?;
        loop {
            if self.is('.') {
                self.at += 1;
                let key = self.name()?;
                self.read_key(&mut operand, key)?;
            } else if self.is('[') {
                self.index(&mut operand)?;
            } else if self.is(':') && !self.is_at(1, ':') {
                self.at += 1;
                let labels = self.labels_of_expression()?;
                operand.reads.push(Read::Labels(labels));
                operand.carried.clear();
            } else if self.are("::") {
                self.at += 2;
                self.type_predicate(&mut operand)?;
            } else if self.is_word("IS") {
                self.is_predicate(&mut operand)?;
            } else {
                return Ok(operand);
            }
            operand.shape = Shape::Other;
        }
    }

    /// `operand.key`: the property of an element, or an entry of a map.
    pub(super) fn read_key(&mut self, operand: &mut Expr, key: String) -> Parsed<()> {
        self.copy(operand.carried.len())?;
        operand.reads.push(Read::Key(operand.carried.clone(), key));
        operand.carried = inside(std::mem::take(&mut operand.carried));
        Ok(())
    }

    /// `operand[index]` and `operand[from..to]`.
    fn index(&mut self, operand: &mut Expr) -> Parsed<()> {
        self.expect('[')?;
        let index = if self.is_slice() { Expr::default() } else { self.expr()? };
        let is_slice = self.is_slice();
        if is_slice {
            self.at += 1;
            if !self.is(']') {
                let to = self.expr()?;
                operand.absorb_reads(to);
            }
        }
        self.expect(']')?;
        self.copy(operand.carried.len())?;
        match &index.shape {
            // An element of a list.
            _ if is_slice => {}
            Shape::Number => {}
            Shape::Text(key) => {
                operand.reads.push(Read::Key(operand.carried.clone(), key.clone()));
                operand.carried = inside(std::mem::take(&mut operand.carried));
            }
            _ => operand.reads.push(Read::AnyKey(operand.carried.clone())),
        }
        operand.absorb_reads(index);
        Ok(())
    }

    fn is_slice(&self) -> bool {
        self.kind(0) == Some(TokenKind::DotDot)
    }

    /// `IS [NOT] NULL`, `IS [NOT] [NFC] NORMALIZED`, `IS [NOT] TYPED type`, `IS [NOT] :: type`, `IS Label`.
    pub(super) fn is_predicate(&mut self, operand: &mut Expr) -> Parsed<()> {
        self.expect_word("IS")?;
        let is_not = self.skip_word("NOT");
        let form = usize::from(self.is_any_word(&["NFC", "NFD", "NFKC", "NFKD"]));
        if self.is_word_at(form, "NORMALIZED") {
            self.at += form + 1;
        } else if self.are("::") || self.is_word("TYPED") {
            self.at += if self.is(':') { 2 } else { 1 };
            return self.type_predicate(operand);
        } else if is_not || self.is_word("NULL") {
            self.expect_word("NULL")?;
        } else {
            self.labels_of_expression()?;
            self.is_vague = true;
        }
        operand.carried.clear();
        Ok(())
    }

    /// `{key: value, …}`: the keys and the values.
    pub(super) fn map_entries(&mut self) -> Parsed<(Vec<String>, Vec<Expr>)> {
        self.expect('{')?;
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        while !self.is('}') {
            keys.push(self.name()?);
            self.expect(':')?;
            values.push(self.expr()?);
            if !self.skip(',') {
                break;
            }
        }
        self.expect('}')?;
        Ok((keys, values))
    }

    /// A map literal.
    pub(super) fn map(&mut self) -> Parsed<Expr> {
        let (keys, values) = self.map_entries()?;
        let mut map = Expr { shape: Shape::Map(keys), ..Expr::default() };
        for value in values {
            let carried = map.absorb_reads(value);
            self.hold_in_map(&mut map, carried)?;
        }
        Ok(map)
    }

    /// `carried` are values of a map in `expr`.
    pub(super) fn hold_in_map(&mut self, expr: &mut Expr, carried: Vec<Carrier>) -> Parsed<()> {
        self.copy(carried.len())?;
        expr.in_maps.extend(carried.iter().cloned());
        expr.carried.extend(carried);
        Ok(())
    }
}

/// What a property of these elements, or an entry of these maps, may hold. A property holds no element.
pub(super) fn inside(carried: Vec<Carrier>) -> Vec<Carrier> {
    let deeper = |carrier| match carrier {
        Carrier::Name(name) | Carrier::Inside(name) => Some(Carrier::Inside(name)),
        Carrier::Node | Carrier::Relationship => None,
    };
    carried.into_iter().filter_map(deeper).collect()
}
