//! The contract of the store, on memory and on Redis servers of the tests' own.

mod store_contract;
