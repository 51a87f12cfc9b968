//! I9: budgets of bytes under load, and results of 100 MB (F29).
