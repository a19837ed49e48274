//! A monotonic clock that costs a generator less than an id.

/// Milliseconds since some moment before the first call. It may show the same one for some milliseconds.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    // It counts from the start of the machine, so neither is negative.
    now.tv_sec.unsigned_abs() * 1_000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

#[cfg(not(target_os = "linux"))]
#[inline]
pub(crate) fn now_ms() -> u64 {
    use std::sync::LazyLock;
    use std::time::Instant;

    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let since = BEGAN.elapsed();
    since.as_secs() * 1_000 + u64::from(since.subsec_millis())
}
