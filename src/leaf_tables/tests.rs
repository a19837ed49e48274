use mintleaf_core::tag::BizTag;
use proptest::prelude::*;

use super::*;

/// The table that every file of `tests/` holds, as the databases wrote it in their several ways.
fn expected() -> Vec<(&'static str, u64, u32, &'static str)> {
    vec![
        (r#"it's "quoted" \ back"#, 7, 10, "a,b;(c)\nnew\tline\r -- /* no comment */"),
        ("leaf-segment-test", 2001, 2000, "Test leaf Segment Mode Get Id"),
        ("orders", 1, 100, ""),
        ("orders.cn", 100_001, 500, ""),
        ("semi;colon", 5, 5, "); INSERT INTO `leaf_alloc` VALUES ('x',1,1,NULL,NULL);"),
        ("订单", 9_000_000_000_000_000_000, 1, "é 🙂"),
    ]
}

fn told(table: &Table) -> Vec<(&str, u64, u32, &str)> {
    table
        .rows
        .iter()
        .map(|row| (row.tag.as_str(), row.max_id, row.step, row.description.as_str()))
        .collect()
}

#[test]
fn what_each_database_wrote_is_read_alike() {
    let files = [
        ("mariadb.sql", include_str!("tests/mariadb.sql")),
        ("mariadb-complete-insert.sql", include_str!("tests/mariadb-complete-insert.sql")),
        ("mariadb-ansi.sql", include_str!("tests/mariadb-ansi.sql")),
        ("mysql-5.7.sql", include_str!("tests/mysql-5.7.sql")),
        ("mysql-8.sql", include_str!("tests/mysql-8.sql")),
        ("mysql-8-complete-insert.sql", include_str!("tests/mysql-8-complete-insert.sql")),
        ("batch.tsv", include_str!("tests/batch.tsv")),
    ];
    for (name, file) in files {
        let table = read(file.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((told(&table), table.faults.as_slice()), (expected(), &[][..]), "{name}");
    }
}

/// A row's line, tag and mark.
type RowSeen = (u64, String, u64);

/// Reads rows, and faults as line and words.
fn outcome(file: &str) -> (Vec<RowSeen>, Vec<(u64, String)>) {
    let table = read(file.as_bytes()).unwrap();
    let rows = table.rows.into_iter().map(|row| (row.line, row.tag.to_string(), row.max_id));
    let faults = table.faults.into_iter().map(|fault| (fault.line, fault.detail));
    (rows.collect(), faults.collect())
}

#[test]
fn a_row_with_a_fault_is_named_by_its_line_and_costs_itself_only() {
    let (rows, faults) = outcome(
        "biz_tag,max_id,step,description\na,1,1,x\nb,-1,1,\nc,1,0,\n,1,1,\ne,1\nf,x,1,\"two\nlines\"\n\
         g,1,1,\"open\nh,9223372036854775808,1,\ni,5,1,\r\n\r\nj,9223372036854775807,2147483647,\"\"\"\"\n",
    );
    let good = [(2, "a", 1), (11, "i", 5), (13, "j", 9_223_372_036_854_775_807)];
    assert_eq!(rows, good.map(|(line, tag, mark)| (line, tag.to_owned(), mark)));
    assert_eq!(faults.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(
        faults[0].1,
        "tag \"b\": max_id must be a number from 0 to 9223372036854775807, and is \"-1\""
    );
    assert_eq!(faults[1].1, "tag \"c\": step must be 1 to 2147483647, and is 0");
}

#[test]
fn a_broken_row_of_many_in_one_statement_costs_itself_only() {
    for (broken, line) in [
        ("('b',1,1,'no end,NULL)", 2),
        ("('b',1,1)", 2),
        ("('b' 1,1,NULL,NULL)", 2),
        ("(,1,1,NULL,NULL)", 2),
        ("('b',NULL,1,NULL,NULL)", 2),
        ("('b',1.5,1,NULL,NULL)", 2),
    ] {
        for between in ["\n", ""] {
            let file = format!(
                "INSERT INTO `leaf_alloc` VALUES \n('a',1,1,NULL,NULL),{between}{broken},{between}('c',3,1,'x','y');\n\
                 INSERT INTO leaf_alloc VALUES ('d',4,1,NULL,NOW()) ON DUPLICATE KEY UPDATE max_id=VALUES(max_id);\n"
            );
            let (rows, faults) = outcome(&file);
            let names: Vec<&str> = rows.iter().map(|(_, tag, _)| tag.as_str()).collect();
            assert_eq!(names, ["a", "c", "d"], "{file}");
            assert_eq!(faults.len(), 1, "{file}: {faults:?}");
            assert_eq!(faults[0].0, line + u64::from(!between.is_empty()), "{file}");
        }
    }
}

#[test]
fn tinyid_has_given_its_max_id_already() {
    let header = "id,biz_type,begin_id,max_id,step,delta,remainder";
    let (rows, faults) = outcome(&format!("{header}\n1,a,1,100,10,1,0\n2,b,1,100,10,2,1\n"));
    assert_eq!(rows, [(2, "a".to_owned(), 101)]);
    assert_eq!(faults, [(3, "tag \"b\": delta is 2, and ids here rise by 1 only".to_owned())]);
    let dump =
        "INSERT INTO `tiny_id_info` VALUES (1,'a',1,100,10,1,0,'2018-01-01','2018-01-01',1);";
    assert_eq!(outcome(dump), (vec![(1, "a".to_owned(), 101)], vec![]));
}

#[test]
fn a_table_is_known_by_its_columns_whatever_it_is_called() {
    let frozen = "CREATE TABLE `ids` (\n `step` int, `max_id` bigint, `biz_tag` varchar(128),\n KEY `k` (`step`,`max_id`)\n);\n\
                  INSERT INTO `leaf`.`ids` VALUES (5,7,'a');";
    assert_eq!(outcome(frozen), (vec![(5, "a".to_owned(), 7)], vec![]));
    let spaces = "\u{feff}\n".to_owned() + "\"BIZ_TAG\";\"max_id\"\n\"a\";\"0\"\n";
    assert_eq!(outcome(&spaces), (vec![(3, "a".to_owned(), 1)], vec![]));
    for nothing in ["", "a,b\n1,2\n", "INSERT INTO goods VALUES (1);", "leaf-segment-test\t1\t1\n"]
    {
        assert_eq!(read(nothing.as_bytes()), Err(Unreadable::NoTable), "{nothing:?}");
    }
}

#[test]
fn a_dump_that_was_cut_off_within_a_statement_is_refused_and_one_behind_a_statement_is_marked() {
    for dump in [&include_bytes!("tests/mysql-8.sql")[..], include_bytes!("tests/mariadb.sql")] {
        let whole = read(dump).unwrap();
        assert!(!whole.lacks_end);
        let place = |text: &[u8]| dump.windows(text.len()).position(|it| it == text).unwrap();
        let cut = read(&dump[..place(b"-- Dump completed")]).unwrap();
        assert_eq!((&cut.rows, cut.lacks_end), (&whole.rows, true));
        let last_row = whole.rows.last().unwrap().line as usize;
        let ends = dump.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
        let ends: Vec<usize> = ends.collect();
        // The semicolon behind the last row, and a place within that row's line.
        let (begin, end) = (ends[last_row - 2] + 1, ends[last_row - 1] - 1);
        assert_eq!(dump[end], b';');
        for bytes in begin + 1..=end {
            assert_eq!(read(&dump[..bytes]), Err(Unreadable::CutOff), "{bytes} bytes");
        }
        assert!(read(&dump[..=end]).unwrap().lacks_end);
        // Within a comment for some releases only.
        let comment = end + place_behind(&dump[end..], b"/*!");
        assert_eq!(read(&dump[..comment]), Err(Unreadable::CutOff));
    }
}

fn place_behind(text: &[u8], wanted: &[u8]) -> usize {
    text.windows(wanted.len()).position(|it| it == wanted).unwrap() + wanted.len()
}

#[test]
fn tags_that_leaf_took_for_one_are_found() {
    let names = ["a.b.c", "b", "a", "a.b", ".x", "c.d", "a"];
    let row = |(line, name): (usize, &&str)| Row {
        line: line as u64,
        tag: BizTag::parse(name).unwrap(),
        max_id: 1,
        step: 1,
        description: String::new(),
    };
    let rows: Vec<Row> = names.iter().enumerate().map(row).collect();
    assert_eq!(pairs_of_leaf(&rows), [("a", "a.b"), ("a.b", "a.b.c")]);
}

/// A text as `mysqldump` quotes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for c in text.chars() {
        match c {
            '\0' => quoted.push_str("\\0"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\u{1a}' => quoted.push_str("\\Z"),
            '\\' | '\'' | '"' => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted + "'"
}

fn rows() -> impl Strategy<Value = Vec<(String, u64, u32, String)>> {
    let name = "[a-c'\"`\\\\,;()é# -]{1,12}";
    let text = "[a-c'\"`\\\\,;()é\n\r\t# /*-]{0,20}";
    proptest::collection::vec((name, 1..=i64::MAX as u64, 1..=i32::MAX as u32, text), 1..12)
}

proptest! {
    #[test]
    fn what_a_dump_holds_is_what_is_read(rows in rows(), per_statement in 1..5usize, newlines in any::<bool>()) {
        let written = |(tag, max_id, step, text): &(String, u64, u32, String)| {
            format!("({},{max_id},{step},{},NULL)", quoted(tag), quoted(text))
        };
        let tuples: Vec<String> = rows.iter().map(written).collect();
        let between = if newlines { ",\n" } else { "," };
        let dump: String = tuples
            .chunks(per_statement)
            .map(|some| format!("INSERT INTO `leaf_alloc` VALUES {};\n", some.join(between)))
            .collect();
        let table = read(dump.as_bytes()).unwrap();
        prop_assert_eq!(&table.faults, &[]);
        let expected: Vec<_> =
            rows.iter().map(|(tag, max_id, step, text)| (tag.as_str(), *max_id, *step, text.as_str())).collect();
        prop_assert_eq!(told(&table), expected);
    }

    #[test]
    fn what_csv_holds_is_what_is_read(rows in rows()) {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(["biz_tag", "max_id", "step", "description"]).unwrap();
        for (tag, max_id, step, text) in &rows {
            csv.write_record([tag, &max_id.to_string(), &step.to_string(), text]).unwrap();
        }
        let table = read(&csv.into_inner().unwrap()).unwrap();
        prop_assert_eq!(&table.faults, &[]);
        let expected: Vec<_> =
            rows.iter().map(|(tag, max_id, step, text)| (tag.as_str(), *max_id, *step, text.as_str())).collect();
        prop_assert_eq!(told(&table), expected);
    }

    #[test]
    fn no_bytes_make_reading_fail_otherwise(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let dump = [b"INSERT INTO leaf_alloc VALUES ('a',1,1,NULL,NULL),", &bytes[..]].concat();
        let table = read(&dump).unwrap();
        prop_assert_eq!(table.rows[0].tag.as_str(), "a");
        drop(read(&bytes));
    }
}
