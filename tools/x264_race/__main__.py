"""The x264 race: Debian's x264 with its own thread pool, with a control pool of two workers, and with weft.

    scripts/x264-race --quick

Everything fetched or built goes to build/x264 and is kept. Where the source package or the clips cannot be had, the reason is
printed (and stands in the JSON, with no rows) and the exit code is 0.
"""

import argparse
import os
import sys

import build
import cases
import clips
import measure
import report
from neighbours import neighbours
from source import Broken, Unavailable, unpack

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Frames and rounds of a profile.
FRAMES = {"quick": {"360p": 300, "720p": 132}, "full": {"360p": 600, "720p": 264}}
ROUNDS = {"quick": 6, "full": 7}  # six: the least that can decide


def number_list(text):
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError("a number of threads is at least 1")
    return numbers


def positive(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return int(text)


def output_file(text):
    """Told now, not after minutes of encoding."""
    if not os.access(text if os.path.exists(text) else os.path.dirname(text) or ".", os.W_OK) or os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"cannot write {text}")
    return text


def mode_list(text):
    modes = text.split(",")
    if not set(modes) <= set(cases.MODES):
        raise argparse.ArgumentTypeError(f"modes are {', '.join(cases.MODES)}")
    return modes


def size_list(text):
    sizes = text.split(",")
    if not set(sizes) <= set(clips.SIZES):
        raise argparse.ArgumentTypeError(f"sizes are {', '.join(clips.SIZES)}")
    return sizes


def parse_arguments():
    parser = argparse.ArgumentParser(prog="x264-race", description=__doc__.splitlines()[0])
    profile = parser.add_mutually_exclusive_group()
    profile.add_argument("--quick", dest="profile", action="store_const", const="quick", help="a subset, a few minutes")
    profile.add_argument("--full", dest="profile", action="store_const", const="full", help="every case, more rounds (default)")
    parser.add_argument("--clip", metavar="FILE", help="encode this video instead (anything ffmpeg reads)")
    parser.add_argument("--threads", type=number_list, default=[1, 2, 4, 8], metavar="N,...", help="default: 1,2,4,8")
    parser.add_argument("--mode", type=mode_list, default=list(cases.MODES), metavar="M,...", help="sliced, frame, lookahead")
    parser.add_argument("--size", type=size_list, default=list(clips.SIZES), metavar="S,...", help="360p, 720p")
    beside = parser.add_mutually_exclusive_group()
    beside.add_argument("--hogs", type=positive, default=0, metavar="N", help="beside so many busy threads, each on a CPU")
    beside.add_argument("--compile", action="store_true", help="beside a C compiler on each CPU (CC, or cc)")
    parser.add_argument("--realtime", action="store_true", help="sliced, frame: each pool under SCHED_RR, too; needs the right to it")
    parser.add_argument("--rounds", type=positive, metavar="N", help="encodes of each kind (default: 7, quick 6)")
    parser.add_argument("--verdicts", action="store_true", help="a line for each of weft's rows in place of the table")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the rows there too")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "x264"), metavar="DIR", help="default: build/x264")
    parser.add_argument("--library", type=os.path.abspath, default=os.path.join(ROOT, "build", "release", "libweft.a"), metavar="FILE",
                        help="the static library (default: build/release/libweft.a)")
    chosen = parser.parse_args()
    chosen.profile = chosen.profile or "full"
    chosen.rounds = chosen.rounds or ROUNDS[chosen.profile]
    if chosen.realtime and not measure.realtime_allowed():
        parser.error("--realtime: this account may not use SCHED_RR")
    for needed in filter(None, (chosen.library, chosen.clip)):
        if not os.path.exists(needed):
            parser.error(f"no file {needed}")
    try:
        os.makedirs(chosen.work, exist_ok=True)
    except OSError as error:
        parser.error(f"--work: {error}")
    return chosen


def race(chosen, programs, videos):
    """(rows, what went wrong): a failed encode costs its case, not the race."""
    rows, faults = [], []
    planned = cases.cases(videos, chosen.mode, chosen.threads, chosen.profile == "quick", chosen.realtime)
    progress = report.Progress(chosen.rounds * sum(len(case.variants) for case in planned))
    for case in planned:
        try:
            rows += measure.measure(case, programs, chosen.rounds, chosen.work, progress)
        except measure.EncodeFailed as error:
            faults.append(str(error))
    progress.say()
    faults += [f"{row['clip']} {row['mode']} {row['threads']} threads, {row['pool']}: the bitstream differs from stock's"
               for row in rows if row["identical"] is False]
    return rows, faults


def main():
    chosen = parse_arguments()
    print(f"x264: setting up in {os.path.relpath(chosen.work)} (kept for the next time)", file=sys.stderr)
    try:
        programs = build.build_all(unpack(chosen.work), chosen.work, ROOT, chosen.library)
        frames = {size: FRAMES[chosen.profile][size] for size in chosen.size}
        videos = clips.make_clips(chosen.work, frames, chosen.clip)
    except Unavailable as reason:
        print(f"x264: left out: {reason}")
        if chosen.json:
            report.write_json(chosen.json, [], reason=str(reason))
        return 0
    except Broken as fault:
        print(f"FAULT: {fault}")
        return 1
    about = build.describe(chosen.work) | {"profile": chosen.profile, "hogs": chosen.hogs, "compile": chosen.compile, "reason": None}
    print(f"{about['x264']}, {about['compiler']}, {about['flags']}")
    rows, faults = [], []
    try:
        with neighbours(chosen.hogs, chosen.compile):
            rows, faults = race(chosen, programs, videos)
    except Unavailable as reason:
        if not rows:
            print(f"x264: left out: {reason}")
            return 1
        faults.append(str(reason))
    print(report.verdicts(rows) if chosen.verdicts else report.table(rows))
    for fault in faults:
        print(f"FAULT: {fault}")
    if chosen.json:
        report.write_json(chosen.json, rows, **about, faults=faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
