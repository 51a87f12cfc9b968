//! Operands of expressions: literals, variables, parameters, calls, map projections, `CASE`, subqueries, patterns.

use crate::functions::function_kind;
use crate::lexer::TokenKind;
use crate::verdict::may_follow_variable;

use super::tree::{Call, CallForm, Case, Clause, MapProjectionItem, Match, Operand, When};
use super::{Parsed, Parser, Unread};

/// Keywords. Neo4j allows variables with these names; whether a text means the variable or the keyword takes more
/// knowledge of its grammar than this reader has. So its meaning is unknown. In backticks they are variables, and before a property
/// (`any.path`): where an operand begins, no keyword has a dot behind it.
const NO_VARIABLES: [&str; 40] = [
    "ALL", "AND", "ANY", "AS", "ASC", "BY", "CALL", "CASE", "CONTAINS", "CREATE", "DELETE", "DESC", "DETACH",
    "DISTINCT", "ELSE", "END", "ENDS", "FOREACH", "IN", "IS", "LIMIT", "MATCH", "MERGE", "NOT", "OFFSET",
    "OPTIONAL", "OR", "ORDER", "REMOVE", "RETURN", "SET", "SKIP", "STARTS", "THEN", "UNION", "UNWIND",
    "WHEN", "WHERE", "WITH", "XOR",
];

const CONSTANTS: [&str; 3] = ["TRUE", "FALSE", "NULL"];

impl<'t> Parser<'t, '_> {
    /// An operand, without what stands behind it.
    pub(super) fn operand(&mut self) -> Parsed<Operand<'t>> {
        let source = self.source(0);
        match self.kind(0).ok_or(Unread::Syntax)? {
            TokenKind::Number => {
                self.at += 1;
                Ok(Operand::Number(source))
            }
            TokenKind::Text => {
                self.at += 1;
                Ok(Operand::Text(source))
            }
            TokenKind::Punct('$') => self.parameter().map(Operand::Parameter),
            TokenKind::Punct('(') if self.begins_path() => {
                let path = self.path_in_expression()?;
                Ok(Operand::Pattern(Box::new(Match { paths: vec![path], ..Match::default() })))
            }
            TokenKind::Punct('(') => self.parenthesised(),
            TokenKind::Punct('[') => {
                self.within_brackets(|parser| parser.nested(Self::list_or_comprehension))
            }
            TokenKind::Punct('{') => {
                self.within_brackets(|parser| parser.nested(Self::map)).map(Operand::Map)
            }
            TokenKind::Word => self.word(),
            TokenKind::QuotedWord => self.variable_or_call(),
            _ => Err(Unread::Syntax),
        }
    }

    fn parenthesised(&mut self) -> Parsed<Operand<'t>> {
        self.expect('(')?;
        let inside = self.within_brackets(Self::expr)?;
        self.expect(')')?;
        Ok(Operand::Parenthesised(Box::new(inside)))
    }

    /// An operand that begins with an unquoted word.
    fn word(&mut self) -> Parsed<Operand<'t>> {
        if self.is_word("CASE") && self.begins_case() {
            return self.nested(Self::case);
        }
        if self.is_at(1, '{') && self.is_any_word(&["EXISTS", "COUNT", "COLLECT"]) {
            return self.subquery();
        }
        if self.is_shortest() {
            let path = self.shortest()?;
            return Ok(Operand::Pattern(Box::new(Match { paths: vec![path], ..Match::default() })));
        }
        let is_list_predicate = self.is_any_word(&["ALL", "ANY", "NONE", "SINGLE"]);
        if is_list_predicate && self.is_at(1, '(') && self.is_name_at(2) && self.is_word_at(3, "IN") {
            return self.list_predicate();
        }
        if self.is_word("REDUCE") && self.is_at(1, '(') {
            return self.reduce();
        }
        match CONSTANTS.iter().find(|word| self.is_word(word)) {
            Some(constant) if !self.is_at(1, '(') => {
                self.at += 1;
                Ok(Operand::Constant(constant))
            }
            _ => self.variable_or_call(),
        }
    }

    fn variable_or_call(&mut self) -> Parsed<Operand<'t>> {
        if let Some(end) = self.call_end() {
            return self.call(end);
        }
        let has_property = self.is_at(1, '.') && self.is_name_at(2);
        self.is_certain &= has_property || !self.is_any_word(&NO_VARIABLES);
        let name = self.name()?;
        if self.is('{') {
            let entries = self.nested(Self::map_projection)?;
            return Ok(Operand::MapProjection(name, entries));
        }
        Ok(Operand::Variable(name))
    }

    /// The index of the opening bracket of the call that is next, if one is: `name(`, `a.b.name(`.
    fn call_end(&self) -> Option<usize> {
        let mut ahead = 1;
        while self.is_at(ahead, '.') && self.is_name_at(ahead + 1) {
            ahead += 2;
        }
        self.is_at(ahead, '(').then_some(self.at + ahead)
    }

    /// The call whose opening bracket is at `open`.
    fn call(&mut self, open: usize) -> Parsed<Operand<'t>> {
        let mut name = vec![self.name()?];
        while self.at < open {
            self.expect('.')?;
            name.push(self.name()?);
        }
        let mut function = name.iter().map(super::tree::Name::as_str).collect::<Vec<_>>().join(".");
        function.make_ascii_lowercase();
        self.expect('(')?;
        let mut call =
            self.nested(if function == "trim" { Self::trim } else { Self::arguments }).map(Box::new)?;
        call.kind = function_kind(&function).filter(|_| name.iter().all(|part| !part.as_str().contains('.')));
        (call.name, call.function) = (name, function);
        Ok(Operand::Call(call))
    }

    /// The arguments of a call, and its closing bracket.
    pub(super) fn arguments(&mut self) -> Parsed<Call<'t>> {
        let is_distinct = self.skip_word("DISTINCT");
        let is_all = !is_distinct && self.is_name_at(1) && self.skip_word("ALL");
        let has_star = self.skip('*');
        let is_empty = has_star || (self.is(')') && !is_distinct && !is_all);
        let arguments =
            if is_empty { Vec::new() } else { self.within_brackets(|parser| parser.list(Self::expr))? };
        self.expect(')')?;
        let form = match (is_distinct, is_all, has_star) {
            (false, false, false) => CallForm::Plain,
            (true, false, false) => CallForm::Distinct,
            (false, false, true) => CallForm::Star,
            _ => CallForm::Worded,
        };
        Ok(Call { name: Vec::new(), function: String::new(), kind: None, arguments, form })
    }

    /// `trim(x)`, `trim(BOTH 'a' FROM x)`, `trim(LEADING FROM x)`, `trim('a' FROM x)`.
    fn trim(&mut self) -> Parsed<Call<'t>> {
        let is_operand = |kind| matches!(kind, TokenKind::Word | TokenKind::Text | TokenKind::Punct('$'));
        let has_side =
            self.is_any_word(&["BOTH", "LEADING", "TRAILING"]) && self.kind(1).is_some_and(is_operand);
        self.at += usize::from(has_side);
        let mut arguments = Vec::new();
        if !(has_side && self.is_word("FROM")) {
            arguments.push(self.within_brackets(Self::expr)?);
        }
        if self.skip_word("FROM") {
            arguments.push(self.within_brackets(Self::expr)?);
        }
        self.expect(')')?;
        Ok(Call { name: Vec::new(), function: String::new(), kind: None, arguments, form: CallForm::Worded })
    }

    /// `{.key, .*, other, key: value}` behind a variable.
    fn map_projection(&mut self) -> Parsed<Vec<MapProjectionItem<'t>>> {
        self.expect('{')?;
        let mut entries = Vec::new();
        while !self.is('}') {
            entries.push(if self.are(".*") {
                self.at += 2;
                MapProjectionItem::All
            } else if self.skip('.') {
                MapProjectionItem::Key(self.name()?)
            } else {
                let name = self.name()?;
                if self.skip(':') {
                    MapProjectionItem::Value(name, self.expr()?)
                } else {
                    MapProjectionItem::Variable(name)
                }
            });
            if !self.skip(',') {
                break;
            }
        }
        self.expect('}')?;
        Ok(entries)
    }

    /// Whether `CASE` is the keyword and no variable: a value or a condition follows.
    fn begins_case(&self) -> bool {
        match self.kind(1) {
            Some(TokenKind::Word) => self.is_word_at(1, "WHEN") || !may_follow_variable(self.source(1)),
            Some(TokenKind::Punct(punct)) => "([{$+-".contains(punct),
            following => following.is_some(),
        }
    }

    fn case(&mut self) -> Parsed<Operand<'t>> {
        self.expect_word("CASE")?;
        let subject = if self.is_word("WHEN") { None } else { Some(self.expr()?) };
        let mut branches = Vec::new();
        while self.skip_word("WHEN") {
            let values = self.list(Self::case_value)?;
            self.expect_word("THEN")?;
            branches.push((values, self.expr()?));
        }
        let otherwise = if self.skip_word("ELSE") { Some(self.expr()?) } else { None };
        self.expect_word("END")?;
        Ok(Operand::Case(Box::new(Case { subject, branches, otherwise })))
    }

    fn case_value(&mut self) -> Parsed<When<'t>> {
        let is_text = self.is_any_word(&["STARTS", "ENDS"]) && self.is_word_at(1, "WITH");
        let predicates = ["NULL", "NOT", "TYPED", "NORMALIZED", "NFC", "NFD", "NFKC", "NFKD"];
        let is_predicate = self.is_word("IS")
            && (self.is_at(1, ':') || predicates.iter().any(|word| self.is_word_at(1, word)));
        if is_predicate {
            return self.is_predicate().map(|_| When::Predicate);
        }
        if self.are("::") {
            self.at += 2;
            return self.type_predicate().map(|_| When::Predicate);
        }
        if is_text || ["<", ">", "=", "!="].iter().any(|sign| self.are(sign)) {
            self.operator()?;
            return self.expr().map(When::Half);
        }
        self.expr().map(When::Whole)
    }

    /// `EXISTS { … }`, `COUNT { … }`, `COLLECT { … }`.
    fn subquery(&mut self) -> Parsed<Operand<'t>> {
        let is_collect = self.is_word("COLLECT");
        self.at += 2;
        let operand = if self.begins_clause() {
            let query = self.within_brackets(|parser| parser.nested(Self::query))?;
            if is_collect && !query.branches.iter().all(|branch| returns_items(branch)) {
                return Err(Unread::Syntax);
            }
            Operand::Subquery { query: Box::new(query), is_collect }
        } else {
            Operand::PatternSubquery(Box::new(self.within_brackets(|parser| parser.nested(Self::matched))?))
        };
        self.expect('}')?;
        Ok(operand)
    }
}

/// Whether the last clause is a `RETURN` without a `*`, so that it says what the rows hold.
fn returns_items(branch: &[Clause<'_>]) -> bool {
    matches!(branch.last(), Some(Clause::Return(last)) if !last.is_all)
}
