//! Expressions: terms with operators between them, in the order of the text. Their precedence does not matter,
//! because a form keeps all tokens in order. Only the conjuncts of a whole WHERE may change places.
//!
//! A simple conjunct raises no error on any row: a comparison, `IN`, `STARTS WITH` and the like, or `IS NULL`, of
//! variables, properties of nodes and relationships, parameters and literals; a test of labels. (`x IN $p` with a
//! parameter that is no list is refused before the statement runs, wherever it stands: tried on 5.26.12.) AND is
//! commutative where no operand raises an error, so the order of such conjuncts has no meaning.

use super::Printer;
use crate::lexer::TokenKind;
use crate::syntax::tree::{Expr, Operand, Operator, Sign, Tail, Term};

/// Operators that compare any two values and raise no error. `IN` raises one on a value that is no list.
const COMPARISONS: [&str; 10] =
    ["=", "<", ">", "<=", ">=", "<>", "IN", "CONTAINS", "STARTS WITH", "ENDS WITH"];

/// Operators of Cypher 5 that mean the same in every place, but for `!=` and `||`.
const OTHERS: [&str; 9] = ["OR", "XOR", "=~", "+", "-", "*", "/", "%", "^"];

/// What a printed expression is.
pub(super) struct PrintedExpr {
    /// Whether it is one operand that raises no error, and not a condition.
    pub(super) is_simple_value: bool,
    /// Where its conjuncts begin and end in the form, if all are simple.
    conjuncts: Option<Vec<(usize, usize)>>,
}

/// What an operand with its tail is in a conjunct.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It raises no error on any row, and may stand in a comparison of a simple conjunct.
    Value,
    /// `n:Label`.
    LabelTest,
    Other,
}

/// The conjunct that is being printed.
#[derive(Default)]
struct Conjunct {
    from: usize,
    values: usize,
    comparisons: usize,
    tests: usize,
    label_tests: usize,
    is_other: bool,
}

impl Conjunct {
    fn take(&mut self, role: Role) {
        match role {
            Role::LabelTest => self.label_tests += 1,
            Role::Value => self.values += 1,
            Role::Other => self.is_other = true,
        }
    }

    fn is_simple(&self) -> bool {
        let counts = (self.values, self.comparisons, self.tests, self.label_tests);
        !self.is_other && matches!(counts, (2, 1, 0, 0) | (1, 0, 1, 0) | (0, 0, 0, 1))
    }

    /// Ends this conjunct at `end`.
    fn end(&mut self, end: usize, conjuncts: &mut Option<Vec<(usize, usize)>>) {
        let ended = std::mem::take(self);
        match conjuncts {
            Some(all) if ended.is_simple() => all.push((ended.from, end)),
            _ => *conjuncts = None,
        }
    }
}

impl<'q> Printer<'q> {
    /// An expression with its conjuncts in one order, if they may change places.
    pub(super) fn sorted_expr(&mut self, expr: &'q Expr<'q>) -> Option<()> {
        let from = self.form.len();
        if let Some(conjuncts) = self.expr(expr)?.conjuncts {
            let texts = conjuncts.iter().map(|(from, to)| self.form[*from..*to].trim_start().to_owned());
            let mut texts: Vec<String> = texts.collect();
            texts.sort_unstable();
            self.form.truncate(from);
            self.put(&texts.join(" AND "));
        }
        Some(())
    }

    /// An expression.
    pub(super) fn expr(&mut self, expr: &'q Expr<'q>) -> Option<PrintedExpr> {
        self.nested(|printer| printer.terms(&expr.terms))
    }

    fn terms(&mut self, terms: &'q [Term<'q>]) -> Option<PrintedExpr> {
        let mut conjuncts = Some(Vec::new());
        let mut conjunct = Conjunct { from: self.form.len(), ..Conjunct::default() };
        let mut is_simple_value = terms.len() == 1;
        for term in terms {
            match term.operator {
                None => {}
                Some(Operator { sign: "AND", .. }) => {
                    conjunct.end(self.form.len(), &mut conjuncts);
                    self.put("AND");
                    conjunct.from = self.form.len();
                }
                Some(operator) => self.operator(operator, term, &mut conjunct)?,
            }
            self.signs(term, &mut conjunct)?;
            let tests =
                term.tail.iter().rev().take_while(|tail| matches!(tail, Tail::IsNull | Tail::IsNotNull));
            let tests = tests.count();
            let role = self.operand(&term.operand, &term.tail[..term.tail.len() - tests])?;
            conjunct.take(role);
            is_simple_value &= role == Role::Value && tests == 0 && !conjunct.is_other;
            for test in &term.tail[term.tail.len() - tests..] {
                self.put(if matches!(test, Tail::IsNull) { "IS NULL" } else { "IS NOT NULL" });
                conjunct.tests += 1;
            }
        }
        conjunct.end(self.form.len(), &mut conjuncts);
        Some(PrintedExpr { is_simple_value, conjuncts })
    }

    /// The operator before `term`.
    fn operator(&mut self, operator: Operator, term: &Term<'_>, conjunct: &mut Conjunct) -> Option<()> {
        let (sign, next) = (operator.sign, term.tokens.from);
        let is_comparison = COMPARISONS.contains(&sign);
        // `(a)-[r]-(b)`, `(a)--(b)`, `(a)-->(b)`, `(a)<-[r]-(b)` are patterns.
        let may_be_arrow = match sign {
            "-" => self.is(next, '-') || self.is(next, '['),
            "<" => self.is(next, '-') && self.tokens[next - 1].end == self.tokens[next].start,
            _ => false,
        };
        if may_be_arrow || !operator.is_glued || !(is_comparison || OTHERS.contains(&sign)) {
            return None;
        }
        self.put(sign);
        conjunct.comparisons += usize::from(is_comparison);
        conjunct.is_other |= !is_comparison || (sign == "IN" && !(self.is(next, '[') || self.is(next, '$')));
        Some(())
    }

    /// `NOT`, and signs. The sign of a number is part of its operand.
    fn signs(&mut self, term: &Term<'_>, conjunct: &mut Conjunct) -> Option<()> {
        for (sign, next) in term.signs.iter().zip(term.tokens.from + 1..) {
            if *sign == Sign::Not {
                self.put("NOT");
                conjunct.is_other = true;
                continue;
            }
            // `--` and `-[` belong to patterns.
            if self.is(next, '-') || self.is(next, '[') {
                return None;
            }
            self.put(if *sign == Sign::Minus { "-" } else { "+" });
            conjunct.is_other |= self.kind(next) != Some(TokenKind::Number);
        }
        Some(())
    }

    /// An operand, and the keys, indexes or labels behind it.
    fn operand(&mut self, operand: &'q Operand<'q>, tail: &'q [Tail<'q>]) -> Option<Role> {
        let (mut role, variable) = self.bare_operand(operand)?;
        let is_element = variable.is_some_and(|variable| variable.is_element);
        if !tail.is_empty() && !may_have_tail(operand) {
            return None;
        }
        for (at, part) in tail.iter().enumerate() {
            role = Role::Other;
            match part {
                Tail::Key(key) => {
                    self.put(".");
                    self.put(&key.written());
                    if is_element && at == 0 {
                        role = Role::Value;
                    }
                }
                Tail::Index(index) => {
                    self.put("[");
                    self.expr(index)?;
                    self.put("]");
                }
                Tail::Slice(from, to) => {
                    self.put("[");
                    from.iter().try_for_each(|from| self.expr(from).map(|_| ()))?;
                    self.put("..");
                    to.iter().try_for_each(|to| self.expr(to).map(|_| ()))?;
                    self.put("]");
                }
                Tail::Labels(labels) if variable.is_some() && tail.len() == 1 => {
                    self.labels(labels, &[':'])?;
                    if is_element {
                        role = Role::LabelTest;
                    }
                }
                _ => return None,
            }
        }
        Some(role)
    }
}

/// Whether this printer prints what stands behind such an operand.
fn may_have_tail(operand: &Operand<'_>) -> bool {
    !matches!(operand, Operand::Number(_) | Operand::Text(_) | Operand::Constant(_) | Operand::Case(_))
}
