#!/usr/bin/env python3
"""What `weft latency` promises: the shape of its JSON, counts that must hold, that a lying pool is found out, that wrong options
end with status 2.

Usage: test_latency.py WEFT LIAR.so. No figure's size is checked, only what can be counted."""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

ROW_KEYS = [
    "pool", "mode", "period_us", "task_us", "tasks", "jitter_percent", "makespan_over_ideal_p50", "makespan_over_ideal_p90",
    "makespan_over_ideal_p99", "makespan_over_ideal_p999", "worker_cpu_percent", "same_cpu_percent",
]
WEFT_MODES = {"anticipated", "told", "parked", "spinning", "parked-fifo", "parked-rr", "real-time"}
WEFT, LIAR = sys.argv[1:3]


def latency(*options, extra=()):
    """Exit status, parsed JSON (None when none was written), standard output, standard error."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "latency.json")
        command = [WEFT, "latency", "--json", file, *options, *(word.format(folder=folder) for word in extra)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        files = {name: open(os.path.join(folder, name), encoding="utf-8").read() for name in os.listdir(folder)}
        result = json.loads(files["latency.json"]) if "latency.json" in files else None
        return done.returncode, result, done.stdout, done.stderr, files


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def check_row(row):
    check(list(row) == ROW_KEYS, f"keys of a row: {list(row)}")
    steps = [row[f"makespan_over_ideal_{name}"] for name in ("p50", "p90", "p99", "p999")]
    check(0 < steps[0] and steps == sorted(steps), f"percentiles rise: {steps}")
    check(row["worker_cpu_percent"] >= 0, "CPU time was measured")
    check(row["same_cpu_percent"] is None or 0 <= row["same_cpu_percent"] <= 100, f"a share: {row['same_cpu_percent']}")


def schema():
    status, result, output, errors, _ = latency("--seconds", "0.05", "--period-us", "1000", "--task-us", "20", "--tasks", "3",
                                                "--jitter-percent", "10", "--miss-percent", "10", "--vary-percent", "5",
                                                "--workers", "2")
    check(status == 0, f"status {status}: {errors}")
    for key in ("machine", "compiler", "flags", "date", "version", "workers", "miss_percent", "rows", "errors"):
        check(key in result, f"top of the JSON has {key}")
    check(result["miss_percent"] == 10 and result["workers"] == 2, "what was asked for is told")
    identities = [(row["pool"], row["mode"]) for row in result["rows"]]
    check(len(set(identities)) == len(identities), "no row twice")
    for row in result["rows"]:
        check_row(row)
        check((row["period_us"], row["task_us"], row["tasks"], row["jitter_percent"]) == (1000, 20, 3, 10), "as asked for")
        check(f"\n  {row['pool']} " in output, f"{row['pool']} is in the table")
    for pool in ("weft", "static-spin", "static-futex", "static-barrier", "steal-trylock", "recycled-inline"):
        check(pool in {pool for pool, _ in identities}, f"a row of {pool}")
    for error in result["errors"]:
        check(error["error"], f"{error['pool']}/{error['mode']} is not measured for a reason")
    everywhere = {(row["pool"], row["mode"]) for row in result["rows"] + result["errors"]}
    check({mode for pool, mode in everywhere if pool == "weft"} == WEFT_MODES, "each of weft's modes has a row or a reason")


def counts():
    """What a static split must give, whatever the machine."""
    status, result, _, errors, _ = latency("--seconds", "0.05", "--period-us", "500", "--task-us", "5", "--tasks", "6",
                                           "--workers", "2", "--pool", "weft/parked,static-spin,static-futex,static-barrier")
    check(status == 0, f"status {status}: {errors}")
    check([row["pool"] for row in result["rows"]] == ["weft", "static-barrier", "static-futex", "static-spin"], f"who was asked for: {result}")
    for row in result["details"]:
        check(row["bursts"] == 100, f"bursts: {row['bursts']}")
        check(row["caller_runs_tasks"], "the caller is one of the threads")
        if row["pool"] != "weft":
            check(row["tasks_on_workers"] == 300, f"{row['pool']}: {row['tasks_on_workers']} on workers")
        check(row["tasks_on_workers"] <= 600, f"{row['pool']}: {row['tasks_on_workers']} on workers")


def one_thread():
    """A burst of one task on a pool whose caller runs it needs no worker: the share on the submitter's CPU is not a number."""
    _, result, _, _, _ = latency("--seconds", "0.01", "--tasks", "1", "--task-us", "1", "--pool", "static-futex")
    check([row["same_cpu_percent"] for row in result["rows"]] == [None], f"{result['rows']}")


def liar():
    status, result, output, _, _ = latency("--seconds", "0.02", "--peer", LIAR, "--pool", "liar,recycled")
    check(status == 0, f"status {status}")
    check("not every task ran exactly once" in output, "the table says so")
    check([row["pool"] for row in result["rows"]] == ["recycled"], "the liar has no row")
    check([error["pool"] for error in result["errors"]] == ["liar"], "the liar is the error")
    status = latency("--seconds", "0.02", "--peer", LIAR, "--pool", "liar")[0]
    check(status == 1, f"nothing was measured: status {status}")


def plot():
    if shutil.which("gnuplot") is None:
        print("skipped, plot: gnuplot is not installed")
        return
    status, _, _, errors, files = latency("--seconds", "0.02", "--pool", "weft/parked,static-spin",
                                          extra=("--plot", "{folder}/cdf.svg"))
    check(status == 0, f"status {status}: {errors}")
    for word in ("<svg", "weft, parked", "static-spin, spinning", "makespan / ideal"):
        check(word in files["cdf.svg"], f"the picture has {word}")


def full_disk():
    """gnuplot itself ends with 0."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an error then, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))


def cut_plot():
    if shutil.which("gnuplot") is None:
        print("skipped, cut plot: gnuplot is not installed")
        return
    for name in ("cdf.svg", "cdf.png"):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, name)
            done = subprocess.run([WEFT, "latency", "--seconds", "0.02", "--pool", "recycled", "--plot", file], text=True,
                                  capture_output=True, timeout=600, check=False, restore_signals=False, preexec_fn=full_disk)
            check(os.path.getsize(file) <= 200, f"{name} was cut")
        check(done.returncode == 1 and f"{name} is incomplete" in done.stderr, f"{name}: {done.returncode}, {done.stderr}")


def listing():
    done = subprocess.run([WEFT, "latency", "--list", "--peer", LIAR], capture_output=True, text=True, timeout=600, check=False)
    check(done.returncode == 0, f"status {done.returncode}")
    for name in (*(f"weft/{mode}" for mode in WEFT_MODES), "static-spin/spinning", "fifo-oai/parked", "liar/parked"):
        check(f"  {name} " in done.stdout, f"{name} is listed")


def stranger():
    status, result, output, errors, _ = latency("--seconds", "0.02", "--pool", "weft/parked,recycled", "--stranger")
    check(status == 0, f"status {status}: {errors}")
    check(result["stranger"] is True and result["quota_percent"] is None, "what was asked for is told")
    check("busy on the last CPU" in output, "the table says so")
    check(len(result["rows"]) == 2, f"rows: {result['rows']}")


def neighbours():
    for options, key, value, told in ((["--hogs", "3"], "hogs", 3, "busy threads: 3"), (["--compile"], "compile", True, "C compiler on each")):
        status, result, output, errors, _ = latency("--seconds", "0.02", "--pool", "weft/parked,recycled", *options)
        check(status == 0, f"status {status}: {errors}")
        check(result[key] == value and told in output, "what was asked for is told")
        check(len(result["rows"]) == 2, f"rows: {result['rows']}")
    done = subprocess.run([WEFT, "latency", "--seconds", "0.02", "--pool", "recycled", "--compile"], capture_output=True, text=True,
                          timeout=600, check=False, env={**os.environ, "CC": "/nonexistent"})
    check(done.returncode == 1 and "no C compiler works" in done.stderr, f"{done.returncode}, {done.stderr}")


def groups_left():
    """Control groups of runs that have ended; others may be running."""
    groups = {path for path, _, _ in os.walk("/sys/fs/cgroup") if "weft-latency-" in path}
    return {path for path in groups if not os.path.exists("/proc/" + path.split("weft-latency-")[1].split("-")[0])}


def quota():
    """Under a quota, or a reason for each row why there can be none."""
    before = groups_left()  # of runs that somebody has killed
    status, result, output, errors, _ = latency("--seconds", "0.02", "--pool", "weft/parked,recycled", "--quota-percent", "50")
    check(result["quota_percent"] == 50, "what was asked for is told")
    check(not groups_left() - before, f"groups are left: {groups_left() - before}")
    if status == 1 and not result["rows"]:
        check(all(error["error"].startswith("no quota: ") for error in result["errors"]), f"reasons: {result['errors']}")
        print("skipped, quota:", result["errors"][0]["error"])
        return
    check(status == 0 and len(result["rows"]) == 2, f"status {status}: {errors}{output}")
    check("50 % of a CPU" in output, "the table says so")


def wrong_options():
    cases = [["--pool", "nonsense"], ["--pool", "weft/nonsense"], ["--tasks", "0"], ["--period-us", "1"], ["--seconds", "0"],
             ["--jitter-percent", "100"], ["--miss-percent", "-1"], ["--workers", "1"], ["--nonsense"],
             ["--peer", "/nonexistent.so"], ["--quota-percent", "0"], ["--hogs", "0"], ["--hogs", "1", "--stranger"], ["--compile", "--stranger"],
             ["--compile", "--hogs", "1"]]
    for options in cases:
        status, result, _, errors, _ = latency(*options)
        check(status == 2, f"{options}: status {status}")
        check(errors.strip(), f"{options}: says what is wrong")
        check(result is None, f"{options}: writes nothing")
    for file, name in (("/nonexistent/file", "/nonexistent/file"), ("", "a file without a name")):
        command = [WEFT, "latency", "--seconds", "0.01", "--pool", "recycled", "--json", file]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        check(done.returncode == 2 and done.stdout == "" and f"cannot write {name}" in done.stderr, f"{name}: {done.returncode}, {done.stderr}")


def interrupt():
    """Also when the terminal is closed: no control group is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        command = [WEFT, "latency", "--seconds", "3600", "--pool", "weft/parked,recycled", "--quota-percent", "50"]
        if number == signal.SIGINT:
            command = command[:-2]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            for line in running.stdout:
                if "histogram" in line:
                    break
            running.send_signal(number)
            output = running.communicate(timeout=600)[0]
        no_quota = "--quota-percent" in command and "no quota" in output
        check(running.returncode == 130 or no_quota, f"{number}: status {running.returncode}")
        check("interrupted" in output or no_quota, f"{number}: it says that it was interrupted")
        check(not [path for path in groups_left() if f"-{running.pid}-" in path], f"{number}: groups are left: {groups_left()}")


def main():
    for case in (schema, counts, one_thread, liar, plot, cut_plot, listing, stranger, neighbours, quota, wrong_options, interrupt):
        case()
        print("ok", case.__name__)


main()
