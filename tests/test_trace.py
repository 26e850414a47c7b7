#!/usr/bin/env python3
"""The files that a pool writes when the environment asks: the timeline against a schema, its times against each other, the counters.

    test_trace.py [EMULATOR] PROGRAM        where PROGRAM is trace_scene
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
        "otherData": {"type": "object", "required": ["weft", "events_per_thread", "dropped", "monotonic_ns", "threads"], "additionalProperties": False,
                      "properties": {"weft": {"type": "string"}, "events_per_thread": {"type": "integer", "minimum": 1},
                                     "dropped": {"type": "integer", "minimum": 0},
                                     "monotonic_ns": {"type": "integer", "minimum": 1},
                                     "threads": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}}}},
        "traceEvents": {"type": "array", "minItems": 1, "items": {"anyOf": [
            event("M", ["args"], args={"type": "object", "minProperties": 1, "maxProperties": 1}),
            event("X", ["ts", "dur", "cat"], ts=TIME, dur=TIME, cat={"enum": ["task", "node", "fork", "loop", "sleep"]},
                  args={"type": "object"}),
            event("i", ["ts", "s", "cat"], ts=TIME, s={"const": "t"}, cat={"enum": ["claim", "wake"]}, args={"type": "object"}),
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


def check_threads(events):
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(names.values())[-3:] == ["worker 0", "worker 1", "worker 2"], names
    assert {e["tid"] for e in events if e["ph"] != "M"} <= set(names), "a thread without a name"
    assert not {e["pid"] for e in events} & set(names), "a thread numbered like a process"
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
    assert count.get(("sleep", "waking"), 0) <= count.get(("sleep", "parked"), 0), count
    assert all(e["args"]["tasks"] >= 1 for e in events if e.get("cat") == "claim")
    frames = [e for e in events if e["name"] == "encode_frame"]
    assert all(e["dur"] >= 2 for e in frames), "a frame shorter than its shortest row"


def check_others(others, events, before_ns, after_ns):
    """The clock that others record by, the system's threads, groups."""
    assert before_ns <= others["monotonic_ns"] <= after_ns, (before_ns, others, after_ns)
    names = {str(e["tid"]) for e in events if e["name"] == "thread_name"}
    assert others["threads"] and set(others["threads"]) <= names, others
    assert len(set(others["threads"].values())) == len(others["threads"]), others
    groups = {}
    for e in events:
        if e.get("cat") == "task" and "args" in e:
            groups.setdefault(e["args"]["group"], set()).add(e["name"])
    assert groups and all(group > 0 for group in groups), "tasks tell their groups"


def main():
    with tempfile.TemporaryDirectory() as directory:
        trace, stats = Path(directory, "trace.json"), Path(directory, "stats.txt")
        before_ns = time.monotonic_ns()
        run = subprocess.run(sys.argv[1:], check=True, capture_output=True, text=True,
                             env={**os.environ, "WEFT_TRACE": str(trace), "WEFT_STATS": str(stats)})
        after_ns = time.monotonic_ns()
        tasks = int(run.stdout)
        timeline = json.loads(trace.read_text())
        rows = [line.split() for line in stats.read_text().splitlines()]
    check_schema(timeline)
    events = timeline["traceEvents"]
    assert timeline["otherData"]["dropped"] == 0
    check_threads(events)
    check_nesting(events)
    check_contents(events, tasks)
    check_others(timeline["otherData"], events, before_ns, after_ns)
    assert sum(int(row[2]) for row in rows if row[1:2] in (["worker"], ["outside"], ["spare"])) == tasks, rows
    print(f"{len(events)} events, {tasks} tasks")


if __name__ == "__main__":
    main()
