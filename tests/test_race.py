#!/usr/bin/env python3
"""The race's promises: the shape of its JSON, that a lying pool is found out, that wrong options end with status 2.

Usage: test_race.py WEFT LIAR.so ALLOC_LIAR.so. No figure's size is checked."""
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

ROW_KEYS = [
    "workload", "case", "pool", "workers", "rounds", "tasks", "ns_per_task", "ns_per_task_min", "ns_per_task_max",
    "first_round_ns_per_task", "cpu_ns_per_task", "context_switches_per_task", "allocations_per_task",
    "futex_calls_per_task", "peak_bytes", "bytes_per_task", "efficiency",
]
WEFT, LIAR, ALLOC_LIAR = sys.argv[1:4]


def race(*options):
    """Exit status, parsed JSON (None when none was written), standard output, standard error."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "race.json")
        command = [WEFT, "race", "--json", file, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        result = None
        if os.path.exists(file):
            with open(file, encoding="utf-8") as text:
                result = json.load(text)
        return done.returncode, result, done.stdout, done.stderr


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def check_row(row):
    check(list(row) == ROW_KEYS, f"keys of a row: {list(row)}")
    for key in ROW_KEYS[:3]:
        check(isinstance(row[key], str) and row[key], f"{key} is a name")
    for key in ROW_KEYS[3:6]:
        check(isinstance(row[key], int) and row[key] > 0, f"{key} is a count")
    for key in ROW_KEYS[6:]:
        check(row[key] is None or isinstance(row[key], (int, float)), f"{key} is a number or null")
    for key in ("ns_per_task", "ns_per_task_min", "ns_per_task_max", "first_round_ns_per_task"):
        check(row[key] > 0, f"{key} was measured")
    check(row["ns_per_task_min"] <= row["ns_per_task"] <= row["ns_per_task_max"], "the median lies between min and max")


def schema():
    status, result, _, errors = race("--workload", "submit", "--tasks", "2000", "--rounds", "1", "--workers", "2")
    check(status == 0, f"status {status}: {errors}")
    for key in ("machine", "compiler", "flags", "date", "version", "rows", "summary"):
        check(key in result, f"top of the JSON has {key}")
    for row in result["rows"]:
        check_row(row)
    identities = [tuple(row[key] for key in ("workload", "case", "pool", "workers")) for row in result["rows"]]
    check(len(set(identities)) == len(identities), "no row twice")
    for pool in ("weft", "weft-help", "recycled-inline", "mutex-queue", "static", "serial"):
        check(("submit", "int", pool, 1 if pool == "serial" else 2) in identities, f"a row of {pool}")
    told = result["summary"]
    verdicts = told["first"] + len(told["level"]) + len(told["undecided"]) + len(told["loses"])
    check(verdicts == told["rows"] == 2, f"each case has one verdict: {told}")
    check(len(told["undecided"]) == 2, f"one round decides nothing: {told}")
    check(all(case["in_turns"] for case in told["undecided"]), f"so few tasks fit at once: {told}")


def verdicts():
    _, result, _, errors = race("--workload", "submit,fib19", "--tasks", "2000", "--rounds", "6", "--workers", "2", "--pool", "weft,recycled",
                                "--no-count")
    told = result["summary"]
    check(told["first"] + len(told["level"]) + len(told["undecided"]) + len(told["loses"]) == told["rows"] == 3, f"{told}{errors}")
    for case in told["level"]:
        check(1 / 1.1 <= case["ratio_low"] <= 1 <= case["ratio_high"] <= 1.1, f"level is narrow: {case}")
    for case in told["undecided"]:
        check(case["ratio_low"] < 1 / 1.1 or case["ratio_high"] > 1.1, f"undecided is wide: {case}")
    for case in told["loses"]:
        check(case["ratio_low"] > 1, f"behind is all above: {case}")


def repeated():
    """What is asked for twice runs, and counts, once."""
    _, result, _, errors = race("--workload", "submit,submit", "--tasks", "2000", "--rounds", "1", "--workers", "2,2", "--pool", "weft,recycled",
                                "--no-count")
    check(result["summary"]["rows"] == 2, f"int and shared-counter: {result['summary']}{errors}")
    _, result, _, errors = race("--workload", "fib19,coliseum", "--tasks", "100", "--rounds", "1", "--workers", "2", "--pool", "weft,recycled",
                                "--no-count")
    check(result["summary"]["rows"] == 3, f"three mixes: {result['summary']}{errors}")


def one_cpu():
    """Efficiency is of the CPUs that the race may use."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        _, result, _, errors = race("--workload", "fib19", "--tasks", "100", "--rounds", "1", "--workers", "2", "--pool", "recycled", "--no-count")
    finally:
        os.sched_setaffinity(0, before)
    rows = {row["pool"]: row for row in result["rows"]}
    share = rows["serial"]["ns_per_task"] / rows["recycled"]["ns_per_task"]
    check(abs(rows["recycled"]["efficiency"] / share - 1) < 1e-9, f"two workers on one CPU: {rows}{errors}")


def every_workload():
    names = ["submit", "payload", "fib19", "fib19x1-3", "fib17-19", "handoff", "frame", "x264-shape", "one", "chain"]
    status, result, _, errors = race("--workload", ",".join(names), "--tasks", "300", "--rounds", "1", "--workers", "2",
                                     "--pool", "weft,recycled-inline,frame-thread-ring,lamport", "--no-count")
    check(status == 0, f"status {status}: {errors}")
    check({row["workload"] for row in result["rows"]} == set(names), "each workload has rows")
    check(all(row["futex_calls_per_task"] is None for row in result["rows"]), "what is not counted is null")
    shown = {row["case"] for row in result["rows"] if row["workload"] == "payload"}
    check(shown == {"4", "48", "64", "328", "416", "1024"}, f"payload's cases: {shown}")


PATTERNS = {
    "fib": {"forked"}, "nqueens": {"forked"}, "uts": {"geometric", "binomial"}, "loop-empty64": {"hot"},
    "loop-spin64": {"hot", "stranger"}, "loop-axpy": {"hot"}, "loop-groups": {"64", "256", "1024", "4096"}, "loop-cold": {"p50", "p99"},
    "graph": {"wavefront", "dag", "wavefront-empty", "dag-empty"},
}


def patterns():
    status, result, output, errors = race("--workload", "patterns", "--tasks", "50", "--rounds", "1", "--workers", "2",
                                          "--pool", "serial,weft", "--no-count")
    check(status == 0, f"status {status}: {errors}{output}")
    shown = {}
    for row in result["rows"]:
        check_row(row)
        shown.setdefault(row["workload"], set()).add(row["case"])
    check(shown == PATTERNS, f"workloads and cases: {shown}")
    ours = {row["workload"] for row in result["rows"] if row["pool"] == "weft"}
    check(ours == set(PATTERNS), f"weft runs {ours}")
    for row in result["details"]:
        if row["pool"] == "serial":
            check(row["ratio_to_serial"] == 1, "serial is its own measure")
        has_idle = row["idle_cpu_ms_in_2_s"] is not None
        check(has_idle == (row["workload"] == "fib"), f"idle CPU is measured after {row['workload']}: {has_idle}")


def pattern_sizes():
    """Recursions come in sizes of their own: the largest with no more tasks than asked for."""
    for workload, asked, tasks in (("fib", 41, 41), ("fib", 60, 41), ("fib", 67, 67), ("nqueens", 2057, 2057)):
        _, result, _, _ = race("--workload", workload, "--tasks", str(asked), "--rounds", "1", "--workers", "1", "--pool",
                               "serial", "--no-count")
        check([row["tasks"] for row in result["rows"]] == [tasks], f"{workload} {asked}: {result['rows']}")


def pattern_liar():
    status, result, output, _ = race("--workload", "patterns", "--tasks", "200", "--rounds", "1", "--workers", "2", "--peer",
                                     LIAR, "--pool", "liar", "--no-count")
    check(status == 1, f"status {status}")
    for text in ("a wrong result", "not every index ran exactly once", "a node ran before one it waits for"):
        check(text in output, f"the table says: {text}")
    check(all(row["pool"] == "serial" for row in result["rows"]), "the liar has no row")
    wrong = {(error["workload"], error["case"]) for error in result["errors"]}
    every = {(workload, case) for workload, cases in PATTERNS.items() for case in cases if case != "p99"}
    check(wrong == every, f"each lie is found: {every - wrong}")


def listing():
    done = subprocess.run([WEFT, "race", "--list", "--peer", LIAR], capture_output=True, text=True, timeout=600, check=False)
    check(done.returncode == 0, f"status {done.returncode}")
    for word in (*PATTERNS, "submit", "slot", "x264", "coliseum", "patterns"):
        check(f"\n  {word} " in done.stdout, f"{word} is listed")
    check(done.stdout.count("\n  liar ") == 2, "a peer with two tables is listed in both lists")


SLOT_KEYS = ["period_us", "makespan_over_ideal_p50", "makespan_over_ideal_p99", "makespan_over_ideal_p999",
             "missed_deadline_percent", "makespan_in_task_times_p50"]


def slot():
    pools = {"weft", "weft-help", "weft-oai", "steal-trylock", "fifo-oai", "static-spin"}
    status, result, output, errors = race("--workload", "slot", "--tasks", "20", "--rounds", "1", "--workers", "2,3", "--pool",
                                          ",".join(pools), "--no-count")
    check(status == 0, f"status {status}: {errors}{output}")
    found = {(row["case"], row["pool"], row["workers"]) for row in result["rows"]}
    want = {(load, pool, workers) for load in ("30", "60", "90") for pool in pools for workers in (2, 3)}
    check(found == want | {(load, "serial", 1) for load in ("30", "60", "90")}, f"rows: {found}")
    for row in result["rows"]:
        check(list(row) == ROW_KEYS + SLOT_KEYS, f"keys of a row: {list(row)}")
        steps = [row[f"makespan_over_ideal_{name}"] for name in ("p50", "p99", "p999")]
        check(0 < steps[0] and steps == sorted(steps), f"percentiles rise: {steps}")
        check(0 <= row["missed_deadline_percent"] <= 100 and row["tasks"] == 20, "20 slots, some of them late")
    for load in ("30", "60", "90"):
        check(f"slot, load {load} %: median in times of a task, by workers" in output, "what more workers do is told")
    check(race("--workload", "slot", "--tasks", "20", "--rounds", "1", "--workers", "2", "--peer", LIAR, "--pool", "liar",
               "--no-count")[0] == 1, "the liar is found out")


def liar():
    status, result, output, _ = race("--workload", "submit", "--tasks", "100", "--rounds", "1", "--workers", "2",
                                     "--peer", LIAR, "--pool", "liar,recycled", "--no-count")
    check(status == 1, f"status {status}")
    check("not every job ran exactly once" in output, "the table says so")
    check(all(row["pool"] != "liar" for row in result["rows"]), "the liar has no row")
    check({error["pool"] for error in result["errors"]} == {"liar"}, "the liar is the error")


def alloc():
    names = ["alloc-mixed", "alloc-hot", "alloc-cold", "alloc-middle", "alloc-remote", "alloc-memory"]
    status, result, _, errors = race("--workload", "alloc", "--tasks", "300", "--rounds", "1", "--pool", "glibc", "--no-count")
    check(status == 0, f"status {status}: {errors}")
    check({row["workload"] for row in result["rows"]} == set(names), "each workload has rows")
    check({row["pool"] for row in result["rows"]} == {"glibc"}, "allocators alone run them")
    # Bytes in memory for each that lives, or did before it was freed: never fewer, but for what is trimmed.
    check(all(row["bytes_per_task"] >= 1 for row in result["rows"] if row["workload"] == "alloc-memory" and row["case"] != "freed-trim"),
          "memory is measured")


def alloc_same_work():
    """However the pilots were disturbed, the allocators of a row do the same work."""
    status, result, _, errors = race("--workload", "alloc-hot", "--rounds", "1", "--pool", "glibc,weft", "--no-count")
    check(status == 0, errors)
    for case in {row["case"] for row in result["rows"]}:
        tasks = [row["tasks"] for row in result["rows"] if row["case"] == case]
        check(len(tasks) == 2 and tasks[0] == tasks[1], f"{case}: {tasks}")


def alloc_liar():
    status, result, output, _ = race("--workload", "alloc-hot,alloc-remote", "--tasks", "4096", "--rounds", "1",
                                     "--peer", ALLOC_LIAR, "--pool", "alloc_liar", "--no-count")
    check(status == 1, f"status {status}")
    check("the contents of a block changed" in output, "the table says so")
    wrong = {(error["workload"], error["case"]) for error in result["errors"]}
    check(("alloc-remote", "48, one way") in wrong, f"it lies about 48 bytes: {wrong}")
    check(all("48" in case for _, case in wrong), f"about nothing else: {wrong}")


def wrong_options():
    cases = [["--workload", "nonsense"], ["--pool", "nonsense"], ["--workers", "0"], ["--rounds", "x"], ["--nonsense"],
             ["--peer", "/nonexistent.so"], ["--tasks", "-5"], ["--workload", "loop-nonsense"],
             ["--workload", "alloc-hot", "--pool", "lamport"], ["--plot", "race.pdf"], ["--plot", "/nonexistent/race.svg"]]
    for options in cases:
        status, result, _, errors = race(*options)
        check(status == 2, f"{options}: status {status}")
        check(errors.strip(), f"{options}: says what is wrong")
        check(result is None, f"{options}: writes nothing")


def command(*words, **options):
    return subprocess.run([WEFT, *words], capture_output="stdout" not in options, text=True, timeout=600, check=False, **options)


def outputs():
    """What cannot be written is told before anything runs; what did not arrive, in the exit status."""
    done = command("race", "--workload", "submit", "--pool", "recycled", "--json", "/nonexistent/file")
    check(done.returncode == 2 and done.stdout == "" and "/nonexistent/file" in done.stderr, f"{done}")
    for words in (("doctor", "--script"), ("race", "--list"), ("--help",), ("idle", "--workers", "1", "--seconds", "0")):
        with open("/dev/full", "w", encoding="utf-8") as full:
            check(command(*words, stdout=full).returncode == 1, f"{words}: a script, a list that is not whole")
        closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", WEFT, *words], capture_output=True, timeout=600, check=False)
        check(closed.returncode == 1, f"{words}: standard output is closed: {closed}")
    done = command("nonsense")
    check(done.returncode == 2 and "nonsense" in done.stderr, f"{done}")
    done = command("idle", "--seconds", "nan")
    check(done.returncode == 2 and "nan" in done.stderr, f"{done}")


def reader_leaves():
    """`weft race | head`: it does not go on for nobody."""
    words = [WEFT, "race", "--verbose", "--workload", "fib19", "--tasks", "300", "--rounds", "1", "--workers",
             ",".join(map(str, range(1, 41))), "--pool", "recycled", "--no-count"]
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)  # less than the table: it cannot be done before the reader leaves
    with subprocess.Popen(words, stdout=writes, stderr=subprocess.PIPE, text=True) as running:
        os.close(writes)
        os.read(reads, 1)
        os.close(reads)
        errors = running.stderr.read()
        check(running.wait(timeout=600) == 1 and "standard output" in errors, f"status {running.returncode}: {errors}")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as text:
        return [int(word) for word in text.read().split()]


def interrupt():
    command = [WEFT, "race", "--workload", "fib19", "--tasks", "1000000", "--rounds", "1000", "--pool", "recycled",
               "--no-count"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        while not children_of(running.pid):
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=600)
        check(running.returncode == 130, f"status {running.returncode}")
    # There is a table to say so unless the entrants are still being loaded.
    check("interrupted" in output + errors, f"it says that it was interrupted: {output}{errors}")


def main():
    for case in (schema, verdicts, repeated, one_cpu, every_workload, patterns, pattern_sizes, pattern_liar, listing, slot, liar, alloc, alloc_same_work, alloc_liar,
                 wrong_options, outputs, reader_leaves, interrupt):
        case()
        print("ok", case.__name__)


main()
