#!/usr/bin/env python3
"""What scripts/warm-pool prints is what the heap does: each mode in each case, by counts that do not depend on time.

Usage: test_warm_pool.py BUILD_DIRECTORY"""
import os
import re
import subprocess
import sys

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "scripts", "warm-pool")
BUILD = sys.argv[1]
MODES = ["off", "1/4", "3/16", "adaptive", "unkept"]


def warm_pool(*options):
    return subprocess.run([sys.executable, SCRIPT, "--build", BUILD, *options], capture_output=True, text=True, timeout=600, check=False)


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def tables(text):
    """{case: {mode: {column: cell}}}"""
    found = {}
    for part in text.strip().split("\n\n"):
        title, head, *lines = part.splitlines()
        columns, *rows = [re.split(r"\s{2,}", line.strip()) for line in (head, *lines)]
        found[title.split(":")[0]] = {row[0]: dict(zip(columns, row)) for row in rows}
    return found


def refills():
    found = {}
    for cases, tasks in (("mixed-65536,bursts", "200000"), ("cold-start", "65536"), ("threads", "1000")):
        done = warm_pool("--cases", cases, "--tasks", tasks, "--rounds", "1", "--modes", ",".join(MODES))
        check(done.returncode == 0, done.stderr)
        found.update(tables(done.stdout))
    check(set(found) == {"mixed-65536", "bursts", "cold-start", "threads"}, found)
    for case, rows in found.items():
        check(list(rows) == MODES, f"{case}: {list(rows)}")
        for mode, row in rows.items():
            check(float(row["ns/task"]) > 0, f"{case}, {mode}: {row}")
            check(float(row["refill %"]) >= 0, f"{case}, {mode}: {row}")
        check(rows["off"]["hits"] == "0", f"{case}: no pool gives no slab: {rows['off']}")
    bursts = {mode: {name: int(bursts_row[name]) for name in ("refills", "slabs", "hits", "page faults")} for mode, bursts_row in found["bursts"].items()}
    for mode, row in bursts.items():
        check(row["refills"] > 1000 and row["slabs"] > 500, f"bursts refill often, {mode}: {row}")
        if mode != "off":
            check(row["hits"] > row["slabs"] / 4, f"the pool serves, {mode}: {row}")
    check(int(found["cold-start"]["adaptive"]["page faults"]) > 1000, "memory of a fresh process is fresh")


def wrong_options():
    for options in (["--modes", "3"], ["--modes", "0/4"], ["--cases", "none"], ["--rounds", "0"], ["--tasks", "-1"], ["--build", "/nonexistent"]):
        done = warm_pool(*options)
        check(done.returncode != 0 and done.stdout == "" and done.stderr, f"{options}: {done}")
        check("Traceback" not in done.stderr, f"{options}: {done.stderr}")


for test in (wrong_options, refills):
    test()
    print("ok", test.__name__)
