# The commands that a contributor needs most. `just` lists them; each script explains itself with --help.

_default:
    @{{just_executable()}} --list --unsorted

# One node in memory, on http://127.0.0.1:8080
dev:
    cargo run --release -- dev

# Tests of what is pure, in seconds
core:
    cargo test --package mintleaf-core

# All tests
test:
    cargo test --workspace

# Formatting, lints, rustdoc, dependencies, planted bugs
check:
    scripts/check

# Three nodes on this machine: just cluster start, status, kill 1, stop
cluster *ARGS:
    scripts/cluster {{ARGS}}

# Whole clusters in simulated time: just simulate --minutes 5
simulate *ARGS:
    scripts/simulate {{ARGS}}

# A real cluster under faults: just chaos --minutes 5
chaos *ARGS:
    scripts/chaos {{ARGS}}

# Speed beside nginx, Redis and etcd; --against BINARY for an older build
bench *ARGS:
    scripts/bench {{ARGS}}

# Hostile input
fuzz *ARGS:
    scripts/fuzz {{ARGS}}

# Plants each bug and sees that a test notices; --refresh after a change of the code around one
mutants *ARGS:
    scripts/mutants {{ARGS}}

# The static binary
package:
    scripts/package

# All that a release consists of, and a first id from each part: just release 0.3.0
release VERSION:
    scripts/release {{VERSION}}
    scripts/release-check target/release-{{VERSION}}

# What CI runs; just ci check test
ci *ARGS:
    .ci/run {{ARGS}}
