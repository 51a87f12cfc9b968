//! Counts of writes, as bytes.

use hopcache_core::limits::COUNTED_TOLD_MAX;
use hopcache_core::node::Holder;
use hopcache_core::proof::CountedWrite;
use hopcache_engine::message::{ToldWrites, encode_counted};

use super::*;

#[test]
fn counts_are_told_with_the_marks() {
    let by: Holder = "node-b#0000000000000007".parse().unwrap();
    let written = Written::at(WrittenEpoch(2), range(7, 9).unwrap().to());
    let records = [WrittenRecord { name: DatabaseTag(1), written, tag: Some(TagId(4)) }];
    let after = TransactionId(8);
    let count = |number| CountedWrite { name: DatabaseTag(1), number, written, after };
    let counted = [count(5), count(6)];
    let told = encode_counted(&by, &counted, &records);
    let expected = ToldWrites { records: records.to_vec(), counted: Some((by.clone(), counted.to_vec())) };
    assert!(matches!(decode_question(&told), Ok(Question::Written(got)) if got == expected));
    for end in 0..told.len() {
        // Cut after the last count it is a telling without marks.
        let is_whole = end == told.len() - WrittenRecord::BYTES_MAX;
        assert_eq!(decode_question(&told.slice(..end)).is_ok(), is_whole, "{end}");
    }
    let many = vec![count(1); COUNTED_TOLD_MAX + 1];
    assert!(decode_question(&encode_counted(&by, &many, &records)).is_err());
}
