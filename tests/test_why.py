#!/usr/bin/env python3
"""weft why, told of tasks that were late for a known reason: it must name that one, and no other.

    test_why.py WEFT SCENE LOAD [COUNT [SOURCE]]    SCENE is why_scene, LOAD why_load; 3 delays of each kind; figures for docs with 100
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

KINDS = {"long": "queued", "sleep": "task slept", "stop": "stopped", "fault": "page fault", "hog": "preempted", "nap": "preempted", "quota": "throttled"}
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
    if kind == "nap" and not told["source"].endswith("wake-ups"):
        assert all("or was awake again" in link["what"] for one in told["late"] for link in one["chain"] if link["cause"] == "task slept")
        print(f"skipped, {kind}: wake-ups are not seen ({told['source']})")
        return None
    late = [one for one in told["late"] if one["late_us"] > 5000 and any(link["us"] > 2000 for link in one["chain"])]
    injected = sorted(told["late"], key=lambda one: one["submitted_us"])[1::2]  # each after an undisturbed one
    assert len(told["late"]) == 2 * count and len(injected) == count, (kind, len(told["late"]))
    causes = Counter(one["cause"] for one in injected)
    named = sum(one["causes_us"].get(KINDS[kind], 0) > 2000 for one in injected)
    undisturbed = len([one for one in late if one not in injected])
    print(f"{kind}: {dict(causes)} of {count}; among the causes of {named}; {undisturbed} others late ({told['source']})")
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
        assert "killed by signal 2" in say(weft, "--", "sh", "-c", "kill -INT $$", status=130, TMPDIR=directory).stderr
        assert not os.listdir(directory)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "t.json")
        subprocess.run([scene, "long", "2"], check=True, env={"WEFT_TRACE": str(file)})
        assert "no task of a function nobody" in say(weft, "--task", "nobody", "--timeline", str(file), status=1).stderr
        out = say(weft, "--timeline", str(file), "--task", "victim").stdout
        assert "the timeline alone" in out and out.count("queued behind long_task on worker 0") >= 2, out


def told(weft, load, *arguments, status=0, options=(), **more):
    """What it prints, and its JSON."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        run = say(weft, *options, "--json", file.name, "--", load, *arguments, status=status, **more)
        return run.stdout, json.loads(Path(file.name).read_text())


def check_lost(weft, load):
    """Events that were overwritten, or never written, leave no clean bill."""
    out, result = told(weft, load, "rush", "20", status=3, options=("--late-us", "5000"), WEFT_TRACE_EVENTS="64")
    assert result["events_lost"] > 1000 and f"{result['events_lost']} events" in out, out
    if not result["late"]:
        assert "No task that is known was late" in out, out
    out, result = told(weft, load, "rush", "1", options=("--late-us", "5000"))
    assert result["events_lost"] == 0 and "lost: each" not in out, out
    late = {one["task"] for one in result["late"]}
    assert "victim" in late, result["late"]
    out, result = told(weft, load, "pools", "10", options=("--late-us", "5000"))
    assert "victim" in {one["task"] for one in result["late"]}, out
    assert "worker 0 of pool " in out, out


def start(weft, *arguments, **more):
    """In a process group of its own; it has begun when this returns."""
    run = subprocess.Popen([weft, "why", "--late-us", "5000", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env={**os.environ, **more}, start_new_session=True)
    assert run.stdout.readline() == "begun\n"
    return run


def check_signals(weft, load):
    with tempfile.TemporaryDirectory() as directory:
        run = start(weft, "--", load, "serve", "100000", TMPDIR=directory)
        run.send_signal(signal.SIGTERM)  # the program ends, as it does without its watcher
        out, err = run.communicate(timeout=300)
        assert run.returncode == 0 and "The kernel's side" in out, (run.returncode, out, err)
        assert not os.listdir(directory)
        for number in (signal.SIGTERM, signal.SIGINT):
            run = start(weft, "--", load, "mortal", "100000", TMPDIR=directory)
            os.killpg(run.pid, number)  # as a terminal does
            out, err = run.communicate(timeout=300)
            assert run.returncode == 128 + number and f"killed by signal {number}" in err, (run.returncode, out, err)
            assert not os.listdir(directory)
        with subprocess.Popen([weft, "why", "--late-us", "0", "--rows", "100000", "--", load, "queue", "2000"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": directory}) as run:
            run.stdout.readline()
            run.stdout.close()  # the reader goes
            run.wait(300)
        assert not os.listdir(directory)


def stopped_group(weft, load):
    """The task that was latest beside a stop of one second of the program and of who watches it."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        run = start(weft, "--task", "long_task", "--json", file.name, "--", load, "serve", "100000")
        os.killpg(run.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, run.pid, os.WSTOPPED)
        time.sleep(1)
        os.killpg(run.pid, signal.SIGCONT)
        time.sleep(0.2)
        run.send_signal(signal.SIGTERM)
        out = run.communicate(timeout=300)
        assert run.returncode == 0, out
        return max(json.loads(Path(file.name).read_text())["late"], key=lambda one: one["late_us"])


def check_group_stop(weft, load):
    for _ in range(20):
        worst = stopped_group(weft, load)
        if worst["ran_us"] > 900000:
            assert worst["cause"] == "stopped", worst
            return
        # The stop fell between two tasks. A worker that slept in the kernel then may not be told from one that nobody woke.
        assert worst["late_us"] < 900000 or worst["cause"] in ("stopped", "unknown"), worst
    raise AssertionError("no task was stopped")


def made_up(weft, slices):
    """What it tells of a timeline made up here: of worker 0's slices (category, name, begin, length, submission or None). A
    submission is a time; or (time,); or (time, how much later it may have been)."""
    events = [{"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "worker 0"}}]
    for category, name, begin, length, submitted in slices:
        event = {"ph": "X", "pid": 1, "tid": 2, "ts": begin, "dur": length, "cat": category, "name": name}
        when = submitted if isinstance(submitted, tuple) else (submitted,)
        arguments = {"submitter": 1, **dict(zip(("submitted", "later_us"), when))}
        events.append(event if submitted is None else {**event, "args": arguments})
    with tempfile.TemporaryDirectory() as directory:
        timeline, result = Path(directory, "t.json"), Path(directory, "why.json")
        timeline.write_text(json.dumps({"traceEvents": events, "otherData": {"weft": "x", "dropped": 0, "events_per_thread": 65536}}))
        out = say(weft, "--timeline", str(timeline), "--json", str(result)).stdout
        return out, json.loads(result.read_text())["late"]


def check_guesses(weft, _):
    """No cause is named from a submission that the timeline guesses: late is what is late at the latest guess, and waits from then on."""
    pause = [("sleep", "parked", 0, 50000, None), ("sleep", "waking", 50000, 10, None)]
    quick = [("task", "victim", 100 * i, 10, (100 * i - 5,)) for i in range(-9, 0)]
    out, late = made_up(weft, [*quick, *pause, ("task", "victim", 50010, 10, (10, 50000))])
    assert not late and "1 tasks were late, or were submitted so late" in out and "No task that is known was late" in out, (late, out)
    busy = [("task", "longer", 50010, 30000, (50000,)), ("task", "victim", 80010, 10, (10, 49995))]
    out, late = made_up(weft, [*quick, *pause, *busy])
    victim = next(one for one in late if one["task"] == "victim")
    assert victim["cause"] == "queued" and victim["queued_us"] == 30005 and victim["causes_us"]["queued"] == 30000, victim
    assert "has a guess" not in out, out


def check_sums(weft, _):
    """It names what took longest in all, with its own time, not the longest single one."""
    ahead = [("task", "a" if i % 2 == 0 else "b", 1000 * i, 1000 + i % 2, 0) for i in range(10)]
    slices = [("task", "victim", 0, 10, 0), *ahead, ("task", "longer", 10010, 1300, 0), ("task", "victim", 11310, 10, 0)]
    victim = made_up(weft, slices)[1][-1]
    assert victim["task"] == "victim" and victim["cause"] == "queued", victim
    assert "for 5.00 ms of it queued behind b on worker 0 (5 times); queued in all: 11.3 ms." in victim["sentence"], victim["sentence"]


def check_chains(weft, _):
    """A chain has no link for each task ahead."""
    for names, most in ((("quick",), 1), (("quick", "other"), 16)):
        count = 2000
        _, late = made_up(weft, [("task", names[i % len(names)], 25 * i, 25, 0) for i in range(count)])
        assert len(late) > count / 2 and max(len(one["chain"]) for one in late) == most, [len(one["chain"]) for one in late]
        last = max(late, key=lambda one: one["late_us"])
        links = sum(link["times"] for link in last["chain"]) + last.get("more", {"links": 0})["links"]
        assert links >= count - 40 if len(names) > 1 else links > count / 2, (links, last)


def check_unseen(weft, _):
    """Whoever does not see other programs does not say that a wake-up arrived late."""
    slices = [("sleep", "parked", 0, 1000, None), ("sleep", "waking", 1000, 9000, None), ("task", "victim", 10000, 10, 1000)]
    out, late = made_up(weft, slices)
    assert [link["cause"] for link in late[0]["chain"]] == ["unknown"] and "is not seen" in out and "arrived" not in out, out


def main():
    weft, scene, load = sys.argv[1:4]
    for number in (signal.SIGINT, signal.SIGQUIT):  # a shell's background job has them ignored
        signal.signal(number, signal.SIG_DFL)
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    source = sys.argv[5] if len(sys.argv) > 5 else "best"
    check_words(weft, scene)
    for check in (check_lost, check_signals, check_group_stop, check_guesses, check_sums, check_chains, check_unseen):
        check(weft, load)
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
