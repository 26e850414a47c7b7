#!/usr/bin/env python3
"""What `weft simulate` promises: the same result from the same seed, every workload on one worker and on many, a cost that was planted
shows at its line, and wrong input ends with a message.

Usage: test_simulate.py WEFT. The machine is virtual, so every figure can be compared exactly."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WEFT = sys.argv[1]


def simulate(*options):
    """Exit status, parsed JSON (None when none was written), its text, standard error."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "simulate.json")
        done = subprocess.run([WEFT, "simulate", "--json", file, *options], capture_output=True, text=True, timeout=600, check=False)
        text = open(file, encoding="utf-8").read() if os.path.exists(file) else None
        return done.returncode, json.loads(text) if text else None, text, done.stderr


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def rows(*options):
    status, result, _, errors = simulate(*options)
    check(status == 0, f"status {status}: {errors} {result}")
    return result["rows"]


def same_seed():
    options = ["--workload", "irregular,producers,slot", "--workers", "9", "--tasks", "20", "--lines", "1000"]
    first, second = simulate(*options), simulate(*options)
    check(first[0] == 0 and first[2] is not None and first[2] == second[2], "the same seed gives the same bytes")
    other = simulate(*options, "--seed", "2")
    check(other[0] == 0 and other[1]["rows"] != first[1]["rows"], "another seed gives another run")


def every_workload():
    names = subprocess.run([WEFT, "simulate", "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split()[0] for line in names]
    check({"submit", "producers", "chain", "fib", "loop", "slot", "nested", "groups", "graph", "irregular"} <= set(names), names)
    for row in rows("--workload", ",".join(names), "--workers", "1,70", "--tasks", "12", "--submitters", "3"):
        where = f"{row['workload']} at {row['workers']}"
        check(row["tasks"] > 0 and row["elapsed_ns"] > 0, f"{where} ran")
        check(row["elapsed_ns"] * (row["workers"] + 1) * 1.05 >= row["work_ns"], f"{where}: no more work than threads can do")
        check(row["lines"] and all(line["ns"] > 0 for line in row["lines"]), f"{where} names its dearest lines")
        check(row["wait_p50_ns"] <= row["wait_p99_ns"], where)


def changed():
    """--set changes the machine, also as it is told, and by how many CPUs it has."""
    status, result, _, errors = simulate("--workload", "chain", "--set", "cpus=4", "--set", "sockets=1", "--tasks", "12")
    check(status == 0, errors)
    check(result["values"]["cpus"] == 4 and result["values"]["sockets"] == 1, result["values"])
    check([row["workers"] for row in result["rows"]] == [1, 2, 4], result["rows"])


def planted():
    options = ["--workload", "nested", "--workers", "1", "--set", "cpus=1", "--set", "sockets=1", "--tasks", "500"]
    plain = rows(*options, "--lines", "1000")[0]
    cheap = [line for line in plain["lines"][5:] if line["kind"] == "store" and line["count"] >= 500 and "sched/" in line["place"]]
    check(cheap, "some line of the scheduler stores once a task, and is none of the five dearest")
    line = cheap[-1]
    dear = rows(*options, "--plant", f"{line['place']}:3000")[0]
    check(dear["lines"][0]["place"] == line["place"], f"{line['place']} is the dearest now: {dear['lines']}")
    check(dear["lines"][0]["ns"] >= 3000 * dear["lines"][0]["count"], "by what was planted")
    check(dear["elapsed_ns"] >= plain["elapsed_ns"] + 3000 * 500, "and the run on the one CPU takes longer by that")


def alone():
    """One worker on one CPU: nothing passes between CPUs, and time is what the only CPU did."""
    row = rows("--workload", "chain", "--workers", "1", "--set", "cpus=1", "--set", "sockets=1", "--tasks", "300")[0]
    check(row["transfers"] == 0 and row["steals"] == 0, "no line from another CPU")
    check(abs(row["cpu_ns"] - row["elapsed_ns"]) <= row["elapsed_ns"] / 20, "the CPU was busy all the time")


def wrong_input():
    for options, word in (
        (["--workload", "no-such"], "no-such"),
        (["--machine", "/no/such.json"], "such.json"),
        (["--workers", "0"], "workers"),
        (["--workers", "513"], "workers"),
    ):
        status, result, _, errors = simulate(*options)
        check(status == 2 and result is None and word in errors, f"{options}: {status} {errors}")
    for options, word in (
        (["--set", "cpus=0"], "cpus"),
        (["--set", "rmw_ns=-1"], "rmw_ns"),
        (["--set", "rmw_ns=nan"], "rmw_ns"),
        (["--set", "nothing=1"], "nothing"),
        (["--plant", "lane.c:1:5"], "plant"),
        (["--plant", "lane.c"], "plant"),
    ):
        status, result, _, _ = simulate("--workload", "chain", "--workers", "1", "--tasks", "3", *options)
        check(status == 1 and word in result["rows"][0]["error"], f"{options}: {status} {result}")
    with tempfile.TemporaryDirectory() as folder:  # a bare word is a machine, never a file; the error says what to write
        shutil.copy(Path(__file__).parent.parent / "tools/simulate/machines/epyc-128.json", Path(folder, "rnd"))
        options = ["simulate", "--workload", "chain", "--workers", "1", "--tasks", "3", "--machine"]
        runs = [subprocess.run([WEFT, *options, name], cwd=folder, capture_output=True, text=True, timeout=600, check=False) for name in ("rnd", "./rnd")]
        check(runs[0].returncode == 2 and "write ./rnd" in runs[0].stderr and runs[1].returncode == 0, f"{runs}")
    for text, word in (("[]", "object"), ("{", "object"), ('{"cpus": 2, "rmw_ns": "x"}', "rmw_ns"), ('{"rmw_ns": 3}', "cpus")):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text)
            file.flush()
            status, _, _, errors = simulate("--machine", file.name, "--workload", "chain", "--workers", "1")
            check(status == 2 and word in errors, f"{text}: {status} {errors}")


for test in (same_seed, every_workload, changed, planted, alone, wrong_input):
    test()
    print(f"ok {test.__name__}")
