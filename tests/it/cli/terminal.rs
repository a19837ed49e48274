//! What the command line does only on a terminal: colour, tables that fit, questions.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{ask, assert_fails, json_of, printed, run};
use crate::harness::{Dev, clean, mintleaf, runs};

/// The result of a command on a terminal: its exit code, and all output to the terminal.
struct Shown {
    code: Option<i32>,
    screen: String,
}

/// Runs a client command on a terminal with this number of columns and this typed input; `None` if no terminal
/// is available.
fn on_terminal(dev: &Dev, columns: u16, typed: &str, args: &[&str]) -> Option<Shown> {
    if !runs("script", &["--version"]) {
        return None;
    }
    let quoted = |word: &&str| format!("'{word}'");
    let program = mintleaf().command().get_program().to_string_lossy().into_owned();
    let url = dev.url();
    let words = [&[program.as_str()], args, &["--url", &url]].concat();
    let line = words.iter().map(quoted).collect::<Vec<_>>().join(" ");
    let mut terminal = Command::new("script");
    clean(&mut terminal);
    terminal.args(["-qefc", &format!("stty cols {columns} rows 24; {line}"), "/dev/null"]);
    terminal.env_remove("NO_COLOR").env_remove("COLUMNS").env("TERM", "xterm-256color");
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = terminal.spawn().unwrap();
    process.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    Some(Shown {
        code: output.status.code(),
        screen: String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n"),
    })
}

/// The width of a line in columns, without its styles. Chinese characters take two columns.
fn columns(line: &str) -> usize {
    let mut columns = 0;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => drop(rest.by_ref().find(|c| *c == 'm')),
            '\u{2e80}'.. => columns += 2,
            _ => columns += 1,
        }
    }
    columns
}

#[test]
fn tables_fit_the_terminal_and_line_up_under_chinese() {
    let dev = mintleaf().dev();
    let text = "订单的编号 for the shop in Shanghai, and for the one in Hangzhou";
    assert_eq!(ask(&dev, &["tag", "create", "订单", "--description", text]).code, Some(0));
    assert_eq!(ask(&dev, &["tag", "create", "orders", "--step", "20"]).code, Some(0));

    let whole = ask(&dev, &["tag", "list"]);
    let mut lines = printed(&whole).lines();
    assert!(lines.next().unwrap().starts_with("TAG     MAX_ID  STEP"), "{whole:?}");
    assert!(lines.next().unwrap().starts_with("orders       1    20"), "{whole:?}");
    let chinese = lines.next().unwrap();
    assert!(chinese.starts_with("订单         1  1000") && chinese.ends_with(text), "{whole:?}");
    assert!(whole.stdout.contains("LEFT") && whole.stdout.contains("100%"), "{whole:?}");

    for width in [75, 40, 24] {
        for args in [&["tag", "list"][..], &["audit"], &["worker", "list"]] {
            let Some(shown) = on_terminal(&dev, width, "", args) else { return };
            assert_eq!(shown.code, Some(0), "{}", shown.screen);
            let table = shown.screen.lines().filter(|line| !line.starts_with("layout "));
            for line in table {
                assert!(columns(line) <= usize::from(width), "{width}: {line:?}\n{}", shown.screen);
            }
            assert!(args[0] == "worker" || shown.screen.contains("Hangzhou"), "{}", shown.screen);
        }
    }
}

#[test]
fn the_audit_stays_a_table_at_80_columns_and_wide_shows_all_of_it() {
    let dev = mintleaf().dev();
    let long = ["payments-of-the-shop-in-Shanghai", "payments-of-the-shop-in-Hangzhou"];
    let text = "card payments, refunds and everything else that has a receipt";
    for name in long {
        assert_eq!(ask(&dev, &["tag", "create", name, "--description", text]).code, Some(0));
        assert_eq!(ask(&dev, &["tag", "update", name, "--step", "70"]).code, Some(0));
    }
    let Some(shown) = on_terminal(&dev, 80, "", &["audit"]) else { return };
    let lines: Vec<&str> = shown.screen.lines().collect();
    assert!(lines[0].contains("TIME") && lines[1].contains("tag.create"), "{}", shown.screen);
    assert!(lines.iter().all(|line| columns(line) <= 80), "{}", shown.screen);
    let wide = on_terminal(&dev, 80, "", &["audit", "--wide"]).unwrap().screen;
    assert!(long.iter().all(|name| wide.contains(name)) && wide.contains(text), "{wide}");
    assert!(wide.contains("INDEX") && wide.contains("step=1000"), "{wide}");
}

#[test]
fn colour_is_for_terminals_and_no_color_keeps_it_off_them() {
    let dev = mintleaf().dev();
    let args = ["cluster", "status"];
    assert!(!printed(&ask(&dev, &args)).contains('\u{1b}'));
    let refused = ask(&dev, &["tag", "get", "nobody"]);
    assert!(refused.stderr.starts_with("error: "), "{refused:?}");
    let Some(shown) = on_terminal(&dev, 100, "", &args) else { return };
    assert!(shown.screen.contains("\u{1b}[1mNODE"), "{:?}", shown.screen);
    let Some(refused) = on_terminal(&dev, 100, "", &["tag", "get", "nobody"]) else { return };
    assert!(refused.screen.contains("\u{1b}[1m\u{1b}[31merror\u{1b}[0m: "), "{:?}", refused.screen);

    let mut without = Command::new("script");
    clean(&mut without);
    let program = mintleaf().command().get_program().to_string_lossy().into_owned();
    let line = format!("NO_COLOR=1 '{program}' cluster status --url {}", dev.url());
    let output = without.args(["-qec", &line, "/dev/null"]).output().unwrap();
    let screen = String::from_utf8(output.stdout).unwrap();
    assert!(screen.contains("NODE") && !screen.contains('\u{1b}'), "{screen:?}");
}

#[test]
fn what_cannot_be_undone_is_asked_for_on_a_terminal_and_wants_yes_elsewhere() {
    let dev = mintleaf().dev();
    let create = || assert_eq!(ask(&dev, &["tag", "create", "orders"]).code, Some(0));
    let is_there = || ask(&dev, &["tag", "get", "orders"]).code == Some(0);
    let delete = ["tag", "delete", "orders"];
    create();
    let Some(declined) = on_terminal(&dev, 80, "n\n", &delete) else { return };
    assert_eq!(declined.code, Some(1), "{}", declined.screen);
    assert!(declined.screen.contains("Delete the tag orders?"), "{}", declined.screen);
    assert!(declined.screen.contains("nothing was done") && is_there(), "{}", declined.screen);

    let agreed = on_terminal(&dev, 80, "y\n", &delete).unwrap();
    assert!(agreed.code == Some(0) && !is_there(), "{}", agreed.screen);
    create();
    let told = on_terminal(&dev, 80, "", &["tag", "delete", "orders", "--yes"]).unwrap();
    assert!(told.code == Some(0) && !told.screen.contains('?') && !is_there(), "{}", told.screen);
    create();
    assert_fails(&ask(&dev, &delete), 2, "wants --yes");
    assert!(is_there());
    let script = json_of(&ask(&dev, &["tag", "delete", "orders", "--yes", "--json"]));
    assert!(script["deleted"] == true && !is_there(), "{script}");

    let declined = on_terminal(&dev, 80, "\n", &["cluster", "remove", "1"]).unwrap();
    assert_eq!(declined.code, Some(1), "{}", declined.screen);
    assert!(declined.screen.contains("Remove node 1 from the cluster?"), "{}", declined.screen);
    create();
    for (args, question) in [
        (&["tag", "update", "orders", "--max-id", "5000"][..], "Skip ahead in orders to 5000?"),
        (&["cluster", "level", "raise"], "There is no way back."),
        (&["cluster", "remove", "7"], "Remove node 7"),
        (&["snowflake-floor", "4194304"], "This cannot be undone."),
    ] {
        let declined = on_terminal(&dev, 200, "\n", args).unwrap();
        assert!(declined.code == Some(1) && declined.screen.contains(question), "{args:?}");
        assert_fails(&ask(&dev, args), 2, question);
        // What follows is no question of consent.
        let agreed = ask(&dev, &[args, &["-y"]].concat());
        assert_eq!(agreed.code, Some(i32::from(args[1] == "remove")), "{agreed:?}");
    }
}

#[test]
fn completions_and_man_pages_name_every_command() {
    let commands = ["serve", "doctor", "worker", "completions", "snowflake-floor"];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]);
        for command in commands {
            assert!(printed(&script).contains(command), "{shell} lacks {command}");
        }
    }
    assert_eq!(run(&["completions", "tcsh"]).code, Some(2));
    let bash = run(&["completions", "bash"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("completions");
    std::fs::write(&file, printed(&bash)).unwrap();
    let complete = r#"source "$0"; COMP_WORDS=(mintleaf clu); COMP_CWORD=1
        _mintleaf mintleaf clu mintleaf; echo "${COMPREPLY[*]}""#;
    let completed = Command::new("bash").arg("-c").arg(complete).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8(completed.stdout).unwrap(), "cluster\n");

    let pages = dir.path().join("man1");
    let written = json_of(&run(&["man", pages.to_str().unwrap(), "--json"]));
    let there = std::fs::read_dir(&pages).unwrap().count();
    assert_eq!(written["pages"], there);
    let page = std::fs::read_to_string(pages.join("mintleaf-tag-create.1")).unwrap();
    let synopsis = page.lines().skip_while(|line| *line != ".SH SYNOPSIS").nth(1).unwrap();
    let plain = synopsis.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "");
    assert_eq!(plain.trim(), "mintleaf tag create [OPTIONS] <NAME>", "{page}");
    for command in ["tag-create", "cluster-status", "serve"] {
        let page = std::fs::read_to_string(pages.join(format!("mintleaf-{command}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains("Example"), "{command}: {page}");
    }
    let page = std::fs::read_to_string(pages.join("mintleaf-restore.1")).unwrap();
    let example = page.lines().find(|line| line.starts_with("  mintleaf restore ")).unwrap();
    assert!(page.contains(&format!("\n.nf\n{example}\n")), "{page}");
    assert_eq!(run(&["man", "/proc/nowhere"]).code, Some(1));
}
