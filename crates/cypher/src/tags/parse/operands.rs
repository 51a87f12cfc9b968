//! Operands of expressions: literals, variables, parameters, map projections, `CASE`, subqueries, patterns.

use crate::lexer::TokenKind;
use crate::lexer::cursor::TokenCursor;
use crate::verdict::may_follow_variable;

use super::{Parsed, Parser, Unread};
use crate::tags::tree::{Carrier, Expr, Match, Query, Read, Shape};

/// Keywords. Neo4j allows variables with these names; whether a text means the variable or the keyword takes more
/// knowledge of its grammar than this parser has. So its meaning is unknown. In backticks they are variables.
const NO_VARIABLES: [&str; 40] = [
    "ALL", "AND", "ANY", "AS", "ASC", "BY", "CALL", "CASE", "CONTAINS", "CREATE", "DELETE", "DESC", "DETACH",
    "DISTINCT", "ELSE", "END", "ENDS", "FOREACH", "IN", "IS", "LIMIT", "MATCH", "MERGE", "NOT", "OFFSET",
    "OPTIONAL", "OR", "ORDER", "REMOVE", "RETURN", "SET", "SKIP", "STARTS", "THEN", "UNION", "UNWIND",
    "WHEN", "WHERE", "WITH", "XOR",
];

impl Parser<'_> {
    /// An operand, without what stands behind it.
    pub(super) fn operand(&mut self) -> Parsed<Expr> {
        match self.kind(0).ok_or(Unread::Syntax)? {
            TokenKind::Number | TokenKind::Text => Ok(self.literal()),
            TokenKind::Punct('$') => {
                let shape = Shape::Parameter(self.parameter()?);
                Ok(Expr { shape, ..Expr::default() })
            }
            TokenKind::Punct('(') if self.begins_path() => self.pattern(),
            TokenKind::Punct('(') => self.parenthesised(),
            TokenKind::Punct('[') => {
                self.within_brackets(|parser| parser.nested(Self::list_or_comprehension))
            }
            TokenKind::Punct('{') => self.within_brackets(|parser| parser.nested(Self::map)),
            TokenKind::Word => self.word(),
            TokenKind::QuotedWord => self.variable_or_call(),
            _ => Err(Unread::Syntax),
        }
    }

    fn literal(&mut self) -> Expr {
        let source = self.source(0);
        let is_number = self.kind(0) == Some(TokenKind::Number);
        let is_integer = source.bytes().all(|byte| byte.is_ascii_digit());
        self.at += 1;
        let shape = match source.get(1..source.len().saturating_sub(1)) {
            _ if is_number => {
                if is_integer {
                    Shape::Number
                } else {
                    Shape::Other
                }
            }
            Some(inside) if !inside.contains('\\') => Shape::Text(inside.to_owned()),
            _ => Shape::Other,
        };
        Expr { shape, ..Expr::default() }
    }

    fn parenthesised(&mut self) -> Parsed<Expr> {
        self.expect('(')?;
        let inside = self.within_brackets(Self::expr)?;
        self.expect(')')?;
        Ok(inside)
    }

    /// A pattern as a value: a predicate, or in old statements a list of paths.
    fn pattern(&mut self) -> Parsed<Expr> {
        let path = self.path_in_expression()?;
        let names = self.names_of(&path)?;
        let carried = names.into_iter().map(Carrier::Name).collect();
        let matched = Match { paths: vec![path], condition: None };
        Ok(Expr { carried, patterns: vec![matched], ..Expr::default() })
    }

    /// An operand that begins with an unquoted word.
    fn word(&mut self) -> Parsed<Expr> {
        if self.is_word("CASE") && self.begins_case() {
            return self.nested(Self::case);
        }
        if self.is_at(1, '{') && self.is_any_word(&["EXISTS", "COUNT", "COLLECT"]) {
            return self.subquery();
        }
        if self.is_shortest() {
            let path = self.shortest()?;
            let matched = Match { paths: vec![path], condition: None };
            return Ok(Expr {
                patterns: vec![matched],
                carried: vec![Carrier::Node, Carrier::Relationship],
                ..Expr::default()
            });
        }
        let is_list_predicate = self.is_any_word(&["ALL", "ANY", "NONE", "SINGLE"]);
        if is_list_predicate && self.is_at(1, '(') && self.is_name_at(2) && self.is_word_at(3, "IN") {
            return self.list_predicate();
        }
        if self.is_word("REDUCE") && self.is_at(1, '(') {
            return self.reduce();
        }
        if self.is_any_word(&["TRUE", "FALSE", "NULL"]) && !self.is_at(1, '(') {
            self.at += 1;
            return Ok(Expr::default());
        }
        self.variable_or_call()
    }

    fn variable_or_call(&mut self) -> Parsed<Expr> {
        if let Some(end) = self.call_end() {
            return self.call(end);
        }
        self.is_vague |= self.is_any_word(&NO_VARIABLES);
        let name = self.name()?;
        let carried = vec![Carrier::Name(name.clone())];
        if self.is('{') {
            return self.nested(|parser| parser.map_projection(carried));
        }
        Ok(Expr { shape: Shape::Variable(name), carried, ..Expr::default() })
    }

    /// `n {.key, .*, other, key: value}`.
    fn map_projection(&mut self, base: Vec<Carrier>) -> Parsed<Expr> {
        self.expect('{')?;
        let mut map = Expr::default();
        while !self.is('}') {
            self.copy(base.len())?;
            if self.is('.') && self.is_at(1, '*') {
                self.at += 2;
                map.reads.push(Read::AnyKey(base.clone()));
            } else if self.skip('.') {
                let mut entry = Expr { carried: base.clone(), ..Expr::default() };
                let key = self.name()?;
                self.read_key(&mut entry, key)?;
                map.absorb(entry);
            } else {
                self.map_projection_entry(&mut map)?;
            }
            if !self.skip(',') {
                break;
            }
        }
        self.expect('}')?;
        map.carried.extend(super::exprs::inside(base));
        Ok(map)
    }

    fn map_projection_entry(&mut self, map: &mut Expr) -> Parsed<()> {
        let name = self.name()?;
        let carried = if self.skip(':') {
            let value = self.expr()?;
            map.absorb_reads(value)
        } else {
            vec![Carrier::Name(name)]
        };
        self.hold_in_map(map, carried)
    }

    /// Whether `CASE` is the keyword and no variable: a value or a condition follows.
    fn begins_case(&self) -> bool {
        match self.kind(1) {
            Some(TokenKind::Word) => self.is_word_at(1, "WHEN") || !may_follow_variable(self.source(1)),
            Some(TokenKind::Punct(punct)) => "([{$+-".contains(punct),
            following => following.is_some(),
        }
    }

    fn case(&mut self) -> Parsed<Expr> {
        self.expect_word("CASE")?;
        let mut whole = if self.is_word("WHEN") { Expr::default() } else { self.expr()? };
        while self.skip_word("WHEN") {
            for value in self.list(Self::case_value)? {
                whole.absorb(value);
            }
            self.expect_word("THEN")?;
            whole.absorb(self.expr()?);
        }
        if self.skip_word("ELSE") {
            whole.absorb(self.expr()?);
        }
        self.expect_word("END")?;
        whole.shape = Shape::Other;
        Ok(whole)
    }

    /// After `WHEN`: a value or a condition, or the second half of one: `> 3`, `STARTS WITH 'a'`, `IS NOT NULL`, `:: INTEGER`.
    fn case_value(&mut self) -> Parsed<Expr> {
        let mut value = Expr::default();
        let is_text = self.is_any_word(&["STARTS", "ENDS"]) && self.is_word_at(1, "WITH");
        let predicates = ["NULL", "NOT", "TYPED", "NORMALIZED", "NFC", "NFD", "NFKC", "NFKD"];
        let is_predicate = self.is_word("IS")
            && (self.is_at(1, ':') || predicates.iter().any(|word| self.is_word_at(1, word)));
        if is_predicate {
            self.is_predicate(&mut value)?;
        } else if self.are("::") {
            self.at += 2;
            self.type_predicate(&mut value)?;
        } else {
            if is_text || ["<", ">", "=", "!="].iter().any(|sign| self.are(sign)) {
                self.operator()?;
            }
            value = self.expr()?;
        }
        Ok(value)
    }

    /// `EXISTS { … }`, `COUNT { … }`, `COLLECT { … }`. Only the last one's value holds elements.
    fn subquery(&mut self) -> Parsed<Expr> {
        let is_collect = self.is_word("COLLECT");
        self.at += 2;
        let mut found = Expr::default();
        if self.begins_clause() {
            let query = self.within_brackets(|parser| parser.nested(Self::query))?;
            if is_collect {
                found.carried = self.returned(&query)?;
            }
            found.queries.push(query);
        } else {
            let matched = self.within_brackets(|parser| parser.nested(Self::matched))?;
            found.patterns.push(matched);
        }
        self.expect('}')?;
        Ok(found)
    }

    /// What the rows of a subquery hold.
    fn returned(&mut self, query: &Query) -> Parsed<Vec<Carrier>> {
        let mut carried = Vec::new();
        for branch in &query.branches {
            let Some(crate::tags::tree::Clause::Return(last)) = branch.last() else {
                return Err(Unread::Syntax);
            };
            if last.is_all {
                return Err(Unread::Syntax);
            }
            for item in &last.items {
                self.copy(item.value.carried.len())?;
                carried.extend(item.value.carried.iter().cloned());
            }
        }
        Ok(carried)
    }
}
