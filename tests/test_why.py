#!/usr/bin/env python3
"""weft why, told of tasks that were late for a known reason: it must name that one, and no other.

    test_why.py WEFT SCENE [COUNT [SOURCE]]    SCENE is why_scene; 3 delays of each kind; a figure for docs with 100
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

KINDS = {"long": "queued", "sleep": "task slept", "stop": "stopped", "fault": "page fault", "hog": "preempted", "quota": "throttled"}
CANNOT = 77


def say(weft, *arguments, status=0, **more):
    run = subprocess.run([weft, "why", *arguments], capture_output=True, text=True, env={**os.environ, **more})
    assert run.returncode == status, (arguments, run)
    return run


def check_file(events):
    """The tracks for late tasks: their slices lie inside each other or beside each other."""
    tracks = {}
    for e in events:
        if e.get("cat") == "why":
            tracks.setdefault(e["tid"], []).append((e["ts"], -e["dur"]))
    assert tracks
    for slices in tracks.values():
        ends = []
        for start, length in sorted(slices):
            while ends and ends[-1] <= start + 0.0005:
                ends.pop()
            assert not ends or start - length <= ends[-1] + 0.0005, (start, length)
            ends.append(start - length)


def run_kind(weft, scene, kind, count, source):
    with tempfile.TemporaryDirectory() as directory:
        result, tracks = Path(directory, "why.json"), Path(directory, "tracks.json")
        run = subprocess.run([weft, "why", "--task", "victim", "--source", source, "--json", result, "--perfetto", tracks, "--", scene, kind, str(count)],
                             capture_output=True, text=True)
        if "skipped, why_scene" in run.stdout:
            print(next(line for line in run.stdout.splitlines() if line.startswith("skipped")).replace("why_scene", kind))
            return None
        assert run.returncode == 0, (kind, run)
        told = json.loads(result.read_text())
        check_file(json.loads(tracks.read_text())["traceEvents"])
    if told["source"].startswith("/proc") and kind not in ("long", "sleep", "stop"):
        print(f"skipped, {kind}: not told without perf_event_open ({told['source']})")
        return None
    late = [one for one in told["late"] if one["late_us"] > 5000 and any(link["us"] > 2000 for link in one["chain"])]
    injected = sorted(told["late"], key=lambda one: one["submitted_us"])[1::2]  # each after an undisturbed one
    assert len(told["late"]) == 2 * count and len(injected) == count, (kind, len(told["late"]))
    causes = Counter(one["cause"] for one in injected)
    named = sum(any(link["cause"] == KINDS[kind] for link in one["chain"]) for one in injected)
    undisturbed = len([one for one in late if one not in injected])
    print(f"{kind}: {dict(causes)} of {count}; in the chain of {named}; {undisturbed} others late ({told['source']})")
    for one in injected:
        if one["cause"] != KINDS[kind]:
            print("   ", one["sentence"])
    return named, causes


def check_words(weft, scene):
    say(weft, status=2)
    say(weft, "--timeline", "/dev/null", status=1)
    say(weft, "--late-us", "-1", "--", "true", status=2)
    assert "no timeline" in say(weft, "--", "true", status=1).stderr
    with tempfile.TemporaryDirectory() as directory:  # a terminal's signals: the program's, not those of who watches it
        told = say(weft, "--", "sh", "-c", 'kill -INT $PPID; kill -QUIT $PPID; exec "$0" long 2', scene, TMPDIR=directory)
        assert "late" in told.stdout, told
        assert "status 130" in say(weft, "--", "sh", "-c", "kill -INT $$", status=1, TMPDIR=directory).stderr
        assert not os.listdir(directory)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "t.json")
        subprocess.run([scene, "long", "2"], check=True, env={"WEFT_TRACE": str(file)})
        assert "no task of a function nobody" in say(weft, "--task", "nobody", "--timeline", str(file), status=1).stderr
        out = say(weft, "--timeline", str(file), "--task", "victim").stdout
        assert "the timeline alone" in out and out.count("queued behind long_task on worker 0") >= 2, out


def main():
    weft, scene = sys.argv[1:3]
    for number in (signal.SIGINT, signal.SIGQUIT):  # a shell's background job has them ignored
        signal.signal(number, signal.SIG_DFL)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    source = sys.argv[4] if len(sys.argv) > 4 else "best"
    check_words(weft, scene)
    wrong = []
    for kind in KINDS:
        found = run_kind(weft, scene, kind, count, source)
        if found and found[0] < count:  # a stranger that had the CPU meanwhile is a cause as well, so a second run decides
            found = run_kind(weft, scene, kind, count, source)
        if found and found[0] < count:
            wrong.append(kind)
    assert not wrong, wrong


if __name__ == "__main__":
    main()
