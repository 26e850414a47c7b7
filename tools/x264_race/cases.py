"""Which encodes a profile runs."""

import os

from measure import Case, Variant, realtime_allowed

POOLS = ("stock", "control", "weft")
MODES = ("sliced", "frame", "lookahead")
LOOKAHEAD_THREADS = 4  # x264's threads in the lookahead experiment, as in the original


def pool_cases(clips, modes, threads, quick, realtime):
    """Stock, control and weft side by side; with real time, each as an ordinary program and under SCHED_RR."""
    for clip, path in clips:
        for mode in modes:
            for count in threads:
                if quick and len(threads) > 2 and "720p" in clip and count < 4:
                    continue  # the slow encodes, where a pool has least to do
                pools = POOLS if count > 1 else ("stock", "weft")  # one thread: x264 makes no pool
                if not quick:
                    pools += ("stock-again", "weft-shared") if count > 1 else ("stock-again",)  # the former: what chance does
                kinds = [Variant(pool) for pool in pools]
                if realtime:
                    kinds += [Variant(pool, realtime=True) for pool in pools]
                yield Case(clip, path, mode, count, tuple(kinds))


def lookahead_cases(clips, quick):
    """Serial against threaded lookahead: with all CPUs, with half of them, and stock with real-time priority."""
    all_cpus = len(os.sched_getaffinity(0))
    for clip, path in clips:
        for cpus in dict.fromkeys((0, max(1, all_cpus // 2))):
            kinds = [("stock", False), ("weft", False)]
            if not quick and realtime_allowed():
                kinds.append(("stock", True))
            variants = [Variant(pool, serial, cpus, realtime) for pool, realtime in kinds for serial in (1, 0)]
            yield Case(clip, path, "sliced", LOOKAHEAD_THREADS, tuple(variants))


def cases(clips, modes, threads, quick, realtime=False):
    """Every Case of the profile."""
    found = list(pool_cases(clips, [mode for mode in modes if mode != "lookahead"], threads, quick, realtime))
    if "lookahead" in modes:
        found += lookahead_cases(clips, quick)
    return found
