#!/usr/bin/env python3
"""The files that a pool writes when the environment asks: the timeline against a schema, its times against each other, the counters.

    test_trace.py [EMULATOR] TRACE_SCENE PAUSE_SCENE
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THREAD = {"pid": {"type": "integer", "minimum": 1}, "tid": {"type": "integer", "minimum": 1}}
TIME = {"type": "number", "minimum": 0}
NAME = {"type": "string", "minLength": 1}


def event(phase, required=(), **fields):
    return {"type": "object", "additionalProperties": False, "required": ["ph", "pid", "tid", "name", *required],
            "properties": {"ph": {"const": phase}, "name": NAME, **THREAD, **fields}}


SCHEMA = {
    "type": "object", "required": ["traceEvents", "displayTimeUnit", "otherData"], "additionalProperties": False,
    "properties": {
        "displayTimeUnit": {"const": "ns"},
        "otherData": {"type": "object", "additionalProperties": False,
                      "required": ["weft", "events_per_thread", "dropped", "monotonic_ns", "pools", "process", "process_start"],
                      "properties": {"pools": {"const": 1}, "process": {"type": "integer", "minimum": 1}, "process_start": {"type": "integer"},
                                     "weft": {"type": "string"}, "events_per_thread": {"type": "integer", "minimum": 1},
                                     "dropped": {"type": "integer", "minimum": 0},
                                     "monotonic_ns": {"type": "integer", "minimum": 1}}},
        "traceEvents": {"type": "array", "minItems": 1, "items": {"anyOf": [
            event("M", ["args"], args={"type": "object", "minProperties": 1, "maxProperties": 1}),
            event("X", ["ts", "dur", "cat"], ts=TIME, dur=TIME, args={"type": "object"}, bind_id={"type": "string", "pattern": "^0x[0-9a-f]+$"},
                  cat={"enum": ["task", "node", "fork", "loop", "sleep", "claim", "wake", "submit"]},
                  flow_in={"const": True}, flow_out={"const": True}),
            event("C", ["ts", "args"], ts=TIME, args={"type": "object", "minProperties": 1, "maxProperties": 1,
                                                      "additionalProperties": {"type": "integer", "minimum": 0}}),
        ]}},
    },
}


def check_schema(trace):
    try:
        import jsonschema
    except ImportError:
        print("skipped, check_schema: python3-jsonschema is not installed")
        return
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(trace, SCHEMA)
    for spoilt in ({**trace, "more": 1}, {**trace, "traceEvents": [{"ph": "X", "pid": 1, "tid": 1, "name": "no time"}]}):
        assert not jsonschema.Draft7Validator(SCHEMA).is_valid(spoilt), "the schema accepts what it must not"


def check_threads(events, pid):
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(names.values())[-3:] == ["worker 0", "worker 1", "worker 2"], names
    assert {e["tid"] for e in events if e["ph"] != "M"} <= set(names), "a thread without a name"
    assert {e["pid"] for e in events} == {pid} and pid in names, "the system's numbers; the first thread has the process's"
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["scene"]


def check_nesting(events):
    """Of one thread, a slice lies inside another or beside it."""
    for tid in {e["tid"] for e in events}:
        ends = []
        slices = [(e["ts"], -e["dur"], e) for e in events if e["ph"] == "X" and e["tid"] == tid]
        for start, length, e in sorted(slices, key=lambda s: s[:2]):
            while ends and ends[-1] <= start + 0.0005:
                ends.pop()
            assert not ends or start - length <= ends[-1] + 0.0005, f"overlaps what came before it: {e}"
            ends.append(start - length)


def check_contents(events, tasks):
    count = {}
    for e in events:
        key = (e.get("cat"), e["name"])
        count[key] = count.get(key, 0) + 1
    assert count["task", "encode_frame"] == 60 and count["task", "encode_row"] == 600, count
    assert tasks >= 660 and tasks == sum(n for (kind, _), n in count.items() if kind == "task"), (tasks, count)
    assert count["node", "graph_step"] == 50, count
    assert count["loop", "filter_lines"] >= 20, count
    assert count["submit", "submit"] >= 80 and count.get(("sleep", "waking"), 0) <= count.get(("sleep", "parked"), 0), count
    assert all(e["args"]["tasks"] >= 1 for e in events if e.get("cat") == "claim" and e["name"] != "taken from")
    assert all(list(e["args"]) == ["tasks_expected"] and e["args"]["tasks_expected"] >= 1 for e in events if e.get("cat") == "submit")
    frames = [e for e in events if e["name"] == "encode_frame"]
    assert all(e["dur"] >= 2 for e in frames), "a frame shorter than its shortest row"


def check_arrows(events):
    """Each arrow has its beginning, before its end, and leads to what it should."""
    begins = {e["bind_id"]: e for e in events if e.get("flow_out")}
    assert len(begins) == sum("flow_out" in e for e in events), "two beginnings of one arrow"
    kinds = set()
    for e in events:
        if "flow_in" not in e:
            continue
        begin = begins[e["bind_id"]]
        kinds.add((begin["cat"], e["cat"]))
        assert begin["ts"] <= e["ts"] + 0.0005, (begin, e)
        assert begin["cat"] != "claim" or begin["tid"] != e["tid"], "it took its own tasks"
    assert kinds <= {("submit", "task"), ("wake", "sleep"), ("claim", "claim")} and ("submit", "task") in kinds, kinds


def check_submissions(events):
    """A row is submitted while a frame runs on its submitter's thread, and waits for what is between."""
    frames = {}
    for e in events:
        if e["name"] == "encode_frame":
            frames.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"]))
    for e in events:
        if e["name"] != "encode_row":
            continue
        when = e["args"]["submitted"]
        assert abs(e["ts"] - when - e["args"]["queued_us"]) < 0.01, e
        assert any(begin <= when <= end for begin, end in frames[e["args"]["submitter"]]), e


def check_counters(events):
    for name, key in (("tasks", "waiting"), ("tasks", "running"), ("workers", "asleep")):
        steps = [(e["ts"], e["args"][key]) for e in events if e["ph"] == "C" and e["name"] == name and key in e["args"]]
        assert steps and steps == sorted(steps, key=lambda s: s[0]), name
        assert steps[-1][1] == 0, "all is over in the end"
    assert max(e["args"]["asleep"] for e in events if e["ph"] == "C" and e["name"] == "workers") <= 3


def check_clock(others, events, before_ns, after_ns):
    """The clock that others record by."""
    assert before_ns <= others["monotonic_ns"] <= after_ns, (before_ns, others, after_ns)
    for e in events:
        assert e["ph"] == "M" or before_ns / 1000 - 1 <= e["ts"] <= after_ns / 1000 + 1, e
    groups = {}
    for e in events:
        if e.get("cat") == "task" and "args" in e:
            groups.setdefault(e["args"]["group"], set()).add(e["name"])
    assert groups and all(group > 0 for group in groups), "tasks tell their groups"


def run_scene(scene, env):
    """What it prints, and its process's number."""
    with subprocess.Popen(scene, stdout=subprocess.PIPE, text=True, env=env) as run:
        out = run.communicate()[0]
    assert run.returncode == 0, run.returncode
    return int(out), run.pid


def check_pauses(scene):
    """Where a pause that no event shows falls between submissions, the timeline says how far it guesses."""
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory, "trace.json")
        out = subprocess.run([*scene, "30"], stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "WEFT_TRACE": str(trace)}).stdout
        events = json.loads(trace.read_text())["traceEvents"]
    after = sorted((e for e in events if e["name"] == "paused_task"), key=lambda e: e["ts"])
    before = [int(line) / 1000 for line in out.split()]
    assert len(after) == len(before) == 30
    for when, e in zip(before, after):
        latest = e["args"]["submitted"] + e["args"].get("later_us", 10)  # less is not told
        assert latest >= when - 0.1 and e["args"]["submitted"] <= e["ts"] and latest <= max(e["ts"] + 0.1, e["args"]["submitted"] + 10), (when, e)
    guessed = sum("later_us" in e.get("args", {}) for e in events if e.get("cat") == "task")
    assert guessed > 0, "then the scene pauses in no rush, and shows nothing"


def main():
    *emulator, trace_scene, pause_scene = sys.argv[1:]
    scene = [*emulator, trace_scene]
    check_pauses([*emulator, pause_scene])
    with tempfile.TemporaryDirectory() as directory:
        trace, stats = Path(directory, "trace.json"), Path(directory, "stats.txt")
        before_ns = time.monotonic_ns()
        tasks, pid = run_scene(scene, {**os.environ, "WEFT_TRACE": str(trace), "WEFT_STATS": str(stats)})
        after_ns = time.monotonic_ns()
        timeline = json.loads(trace.read_text())
        rows = [line.split() for line in stats.read_text().splitlines()]
    check_schema(timeline)
    events = timeline["traceEvents"]
    assert timeline["otherData"]["dropped"] == 0
    check_threads(events, pid)
    check_nesting(events)
    check_contents(events, tasks)
    check_arrows(events)
    check_submissions(events)
    check_counters(events)
    check_clock(timeline["otherData"], events, before_ns, after_ns)
    assert sum(int(row[2]) for row in rows if row[1:2] in (["worker"], ["outside"], ["spare"])) == tasks, rows
    print(f"{len(events)} events, {tasks} tasks")


if __name__ == "__main__":
    main()
