"""Hosts of weft's adapters in their own source trees: stock and with weft, their own tests, their outputs, memory and speed.

    scripts/host thpool libvmaf=DIR oai=DIR    these, with the trees given; the others' come from Debian
    scripts/host --all                         those that Debian has the source of

Everything fetched or built goes to build/hosts and is kept; what was built from another state of weft is built anew. Exits 1 when
a test that passes with the host's own pool does not with weft, an output differs, weft does not build there, or no case has the name
that is wanted; 3 when a test fails with both, or a host that was named is left out, so that nothing is known of weft.
"""

import argparse
import fcntl
import os
import re
import sys
import traceback

sys.dont_write_bytecode = True

import aom  # noqa: E402
import box2d  # noqa: E402
import common  # noqa: E402
import ffmpeg  # noqa: E402
import fftw  # noqa: E402
import libvmaf  # noqa: E402
import oai  # noqa: E402
import opencv  # noqa: E402
import thpool  # noqa: E402
import webp  # noqa: E402
import x264  # noqa: E402
import zstd  # noqa: E402

HOSTS = {module.Host.name: module.Host for module in (x264, thpool, zstd, webp, opencv, fftw, ffmpeg, aom, libvmaf, oai, box2d)}
# Those that one asks for and that have no place for a pool: docs/hosts/README.md says more.
WITHOUT = {
    "dav1d": "no place for a pool: its threads choose the next task themselves, by the progress of tiles, under the decoder's own lock",
    "svt-av1": "no place for a pool: its threads are stages of a pipeline, each a loop for the encoder's life that sleeps for its queue",
}


def parse_arguments():
    parser = argparse.ArgumentParser(prog="host", description=__doc__.splitlines()[0], epilog=f"Hosts: {', '.join(HOSTS)}. Without a place for weft: {', '.join(WITHOUT)}.")
    parser.add_argument("hosts", nargs="*", metavar="NAME[=DIR]", help="a host, and its source tree")
    parser.add_argument("--all", action="store_true", help="every host that is in a Debian package")
    parser.add_argument("--source", metavar="DIR", help="the source tree of the one host that is named")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="turns for each case; 0: outputs and memory alone (default: 7)")
    parser.add_argument("--alone", type=float, metavar="PERCENT", help="take turns anew in which other programs had more of the CPUs, at most three for each")
    parser.add_argument("--only", default="", metavar="PATTERN", help="only cases whose name has this regular expression")
    parser.add_argument("--no-tests", action="store_true", help="without the hosts' own tests")
    parser.add_argument("--long", action="store_true", help="also tests of a quarter of an hour")
    parser.add_argument("--work", default=os.path.join(common.ROOT, "build", "hosts"), metavar="DIR", help="default: build/hosts")
    chosen = parser.parse_args()
    wanted = dict(word.partition("=")[::2] for word in chosen.hosts)
    chosen.named = frozenset(wanted)
    if chosen.all:
        wanted |= {name: "" for name, host in HOSTS.items() if host.package and name not in wanted}
    chosen.without = [name for name in WITHOUT if chosen.all or wanted.pop(name, None) is not None]
    unknown = [name for name in wanted if name not in HOSTS]
    if unknown or not wanted and not chosen.without:
        parser.error(f"no host {unknown[0]}" if unknown else "name a host, or --all")
    if chosen.source:
        if len(wanted) != 1:
            parser.error("--source goes with one host")
        wanted = {name: chosen.source for name in wanted}
    for name, tree in wanted.items():
        if tree and not os.path.isdir(tree):
            parser.error(f"{name}: no directory {tree}")
    if not os.path.exists(common.LIBRARY):
        parser.error(f"no {os.path.relpath(common.LIBRARY)}: make hosts builds it")
    try:
        re.compile(chosen.only)
    except re.error as fault:
        parser.error(f"--only: {fault}")
    chosen.wanted = wanted
    return chosen


def take(lock):
    """Two runs in one directory would take each other's files away."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as busy:
        raise common.Unavailable(f"another run is at work in {os.path.dirname(lock.name)}") from busy


def try_host(name, tree, chosen):
    result = common.Result(name)
    work = os.path.join(os.path.abspath(chosen.work), name)
    os.makedirs(work, exist_ok=True)
    print(f"{name}: in {os.path.relpath(work)}", file=sys.stderr)
    lock = open(os.path.join(work, "lock"), "w", encoding="utf-8")
    try:
        take(lock)
        host = HOSTS[name](work, os.path.abspath(tree) if tree else None, result.remarks)
        common.measure(host, work, chosen, result)
        result.is_measured = True
    except common.Unavailable as reason:
        if name in chosen.named:
            result.unknown.append(f"{name}: left out: {reason}")
        else:
            result.remarks.append(f"left out: {reason}")
    except common.Broken as fault:
        result.faults.append(f"{name}: {fault}")
    except Exception as fault:  # of one host: the others are tried
        traceback.print_exc()
        result.faults.append(f"{name}: {type(fault).__name__}: {fault}")
    except KeyboardInterrupt:
        result.faults.append(f"{name}: interrupted")
        result.is_interrupted = True
    finally:
        lock.close()
    return result


def table(rows, columns):
    lines = [columns, *(tuple(row[column] for column in columns) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def tell(result):
    """One host's, as soon as it has ended."""
    for remark in result.remarks:
        print(f"{result.name}: {remark}")
    for test, passed in result.suites:
        print(f"{result.name}: {test}: {common.told(passed)}")
    for fault in result.faults:
        print(f"FAULT: {fault}")
    sys.stdout.flush()


def report(results, only):
    """The table of all, and the exit status."""
    rows = [row for result in results for row in result.rows]
    if rows:
        print("\nspeed: stock's time / weft's, median of the turns (interval at 95 percent); cpu: weft's CPU time / stock's; peak: medians,"
              " and that of weft's / stock's; others: the share of the CPUs that other programs had, median of the runs")
        print(table(rows, ("host", "case", "output", "peak", "speed", "cpu", "others")))
    faults = [fault for result in results for fault in result.faults]
    is_failed = bool(faults)
    if len(results) == 1:
        faults = []  # they stand right above
    if only and any(result.is_measured for result in results) and not any(result.cases for result in results):
        faults.append(f"--only {only}: no case has such a name")
    for fault in faults:
        print(f"FAULT: {fault}")
    unknown = [each for result in results for each in result.unknown]
    for each in unknown:
        print(f"UNKNOWN: {each}")
    return 1 if is_failed or faults else 3 if unknown else 0


def main():
    chosen = parse_arguments()
    common.settings.update(long=chosen.long, alone=chosen.alone)
    for name in chosen.without:
        print(f"{name}: left out: {WITHOUT[name]}")
    results = []
    for name, tree in chosen.wanted.items():
        results.append(try_host(name, tree, chosen))
        tell(results[-1])
        if results[-1].is_interrupted:
            break
    return report(results, chosen.only)


if __name__ == "__main__":
    sys.exit(main())
