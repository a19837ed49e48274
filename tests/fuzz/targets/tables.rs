//! Tables of Leaf and tinyid: for any file, its rows are within their bounds, and each line that an error names exists.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mintleaf::leaf_tables::{Table, pairs_of_leaf, read};
use mintleaf_core::limits::{DESCRIPTION_CHARS_MAX, ID_END, STEP_MAX};

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, body)) = bytes.split_first() else { return };
    let before: &[u8] = match kind % 4 {
        0 => b"",
        1 => b"INSERT INTO `leaf_alloc` VALUES ",
        2 => b"biz_tag,max_id,step,description\n",
        _ => b"biz_type\tmax_id\tstep\tdelta\n",
    };
    let file = [before, body].concat();
    let Ok(table) = read(&file) else { return };
    is_sound(&table, &file);
    for (one, other) in pairs_of_leaf(&table.rows) {
        assert!(other.strip_prefix(one).is_some_and(|rest| rest.starts_with('.')));
    }
});

fn is_sound(table: &Table, file: &[u8]) {
    let lines = 1 + file.iter().filter(|byte| **byte == b'\n').count() as u64;
    for row in &table.rows {
        assert!((1..=lines).contains(&row.line) && (1..=ID_END).contains(&row.max_id));
        assert!((1..=STEP_MAX).contains(&row.step));
        assert!(row.description.chars().count() <= DESCRIPTION_CHARS_MAX);
    }
    assert!(table.rows.windows(2).all(|pair| pair[0].line <= pair[1].line));
    assert!(table.faults.iter().all(|fault| (1..=lines).contains(&fault.line)));
}
