//! Commands of Redis clients, as the parser sees them: the same bytes are the same command in any pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mintleaf::resp::fuzzing::command;

fuzz_target!(|bytes: &[u8]| {
    // A command may be refused before its end, and is not parsed further.
    let Ok(whole) = command(bytes) else { return };
    let length = whole.as_ref().map_or(bytes.len(), |(_, length)| *length);
    if let Some((args, _)) = &whole {
        assert!(length <= bytes.len() && args.iter().map(Vec::len).sum::<usize>() <= length);
    }
    for cut in 0..length {
        assert_eq!(command(&bytes[..cut]), Ok(None), "the first {cut} bytes are a command");
    }
    assert_eq!(command(&bytes[..length]), Ok(whole), "what follows changes a command");
});
