#!/usr/bin/env python3
"""What several pools write to one file or directory: test_observe_files.py POOLS_SCENE POOLS_PLUGIN [WEFT]"""
import fcntl
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SCENE, PLUGIN = map(os.path.abspath, sys.argv[1:3])
WEFT = sys.argv[3] if len(sys.argv) > 3 and sys.argv[3] else None
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
TASKS = 500


def run(*arguments, **more):
    subprocess.run([SCENE, *map(str, arguments)], check=True, env={**ENVIRONMENT, **more}, timeout=600)


class Staying:
    def __init__(self, *arguments, **more):
        self.run = subprocess.Popen([SCENE, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**ENVIRONMENT, **more})
        assert self.run.stdout.readline() == "begun\n"

    def end(self):
        self.run.communicate()
        assert self.run.returncode == 0, self.run.returncode


def tasks_of(file):
    """Of a timeline that is whole."""
    timeline = json.loads(Path(file).read_text())
    tasks = [e for e in timeline["traceEvents"] if e.get("cat") == "task"]
    assert {e["name"] for e in tasks} <= {"pool_task"}, tasks[:1]
    return timeline, tasks


def check_one_file(directory):
    file = Path(directory, "trace.json")
    for how, pools in (("once", 8), ("once", 32), ("after", 5), ("once", 2), ("after", 1)):
        file.write_text("what was there before" * 1000)
        run(how, pools, TASKS, WEFT_TRACE=str(file))
        timeline, tasks = tasks_of(file)
        other = timeline["otherData"]
        assert len(tasks) == pools * TASKS and other["pools"] == pools and other["dropped"] == 0, (how, pools, len(tasks), other)
        names = [e["args"]["name"] for e in timeline["traceEvents"] if e["name"] == "thread_name"]
        assert len(names) >= 2 * pools and len(set(names)) == len(names), sorted(names)
        assert all(other["monotonic_ns"] / 1000 - 1 <= e["ts"] for e in timeline["traceEvents"] if e["ph"] != "M"), other
        begins = [e["bind_id"] for e in timeline["traceEvents"] if e.get("flow_out")]
        assert len(set(begins)) == len(begins), "an arrow begins once"
        if WEFT:
            told = subprocess.run([WEFT, "why", "--timeline", file, "--task", "pool_task", "--json", directory + "/why.json"], env=ENVIRONMENT,
                                  capture_output=True, text=True, timeout=600)
            assert told.returncode == 0 and len(json.loads(Path(directory, "why.json").read_text())["late"]) == pools * TASKS, told
    run("once", 16, TASKS, WEFT_TRACE=str(file), WEFT_TRACE_EVENTS="64")
    timeline, tasks = tasks_of(file)
    assert timeline["otherData"]["dropped"] >= 16 * TASKS - len(tasks) > 0 and timeline["otherData"]["events_per_thread"] == 64


def check_same_file_of_copies(directory):
    """Two copies of the library, and what the process was before exec, add to one file; a later process replaces it."""
    file = Path(directory, "trace.json")
    copies = Staying("copy", PLUGIN, TASKS, WEFT_TRACE=str(file))
    copies.end()
    timeline, tasks = tasks_of(file)
    assert len(tasks) == 2 * TASKS and timeline["otherData"]["pools"] == 2, (len(tasks), timeline["otherData"])
    later = Staying("exec", 2, TASKS, WEFT_TRACE=str(file))
    later.end()
    timeline, tasks = tasks_of(file)
    assert len(tasks) == 3 * TASKS and timeline["otherData"]["pools"] == 3, (len(tasks), timeline["otherData"])


def check_full(directory):
    """A timeline that finds no room leaves the earlier ones whole. How long each is differs from run to run."""
    file = Path(directory, "trace.json")
    run("after", 1, TASKS, WEFT_TRACE=str(file))
    blocks = file.stat().st_size * 2 // 512
    told = subprocess.run(["sh", "-c", f'ulimit -f {blocks}; exec "$0" after 5 {TASKS}', SCENE], env={**ENVIRONMENT, "WEFT_TRACE": str(file)},
                          stderr=subprocess.PIPE, text=True, timeout=600)
    timeline, tasks = tasks_of(file)
    left_out = told.stderr.count("took not all of the timeline")
    assert told.returncode == 0 and 1 <= left_out < 5, told
    assert len(tasks) == (5 - left_out) * TASKS and timeline["otherData"]["pools"] == 5 - left_out, timeline["otherData"]


def check_stats(directory):
    file = Path(directory, "stats.txt")
    run("once", 32, TASKS, WEFT_STATS=str(file))
    blocks = file.read_text().split("weft pool ")[1:]
    assert len(blocks) == 32, len(blocks)
    for block in blocks:
        rows = [line.split() for line in block.splitlines()[2:]]
        assert sum(int(row[2]) for row in rows if row[1:2] in (["worker"], ["outside"], ["spare"])) == TASKS, block


def check_directory(directory):
    """Each pool has files of its own, whatever copy of the library or program of the process wrote one of the same number."""
    copies = Staying("copy", PLUGIN, TASKS, WEFT_TRACE=directory, WEFT_TOP=directory)
    pid = copies.run.pid
    names = {f"{kind}-{pid}-1{more}.json" for kind in ("weft", "trace") for more in ("", ".2")}
    assert set(os.listdir(directory)) == names, os.listdir(directory)
    copies.end()
    traces = sorted(Path(directory).iterdir())
    assert [trace.name for trace in traces] == [f"trace-{pid}-1.2.json", f"trace-{pid}-1.json"], traces
    assert all(len(tasks_of(trace)[1]) == TASKS for trace in traces)


def check_exec(directory):
    later = Staying("exec", 1, TASKS, WEFT_TRACE=directory, WEFT_TOP=directory)
    pid = later.run.pid
    # Of the pool that exec ended nobody keeps the file for weft top; its timeline stays empty.
    names = {f"weft-{pid}-1.json", f"weft-{pid}-2.json", f"trace-{pid}-1.json", f"trace-{pid}-2.json", f"trace-{pid}-1.2.json"}
    assert set(os.listdir(directory)) == names, os.listdir(directory)
    later.end()
    assert set(os.listdir(directory)) == names - {f"weft-{pid}-1.json"}, os.listdir(directory)
    for name in (f"trace-{pid}-1.json", f"trace-{pid}-1.2.json"):
        assert len(tasks_of(Path(directory, name))[1]) == TASKS


def check_left(directory):
    """Another program's file, as in another PID namespace: it stays while it is locked, and goes when nobody keeps it."""
    shell = 'cd "$2"; printf kept >weft-$$-1.json; echo $$; read line; exec "$0" stay 1 "$1"'
    for is_kept in (True, False):
        with subprocess.Popen(["sh", "-c", shell, SCENE, str(TASKS), directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**ENVIRONMENT, "WEFT_TOP": directory}) as run_one:
            pid = int(run_one.stdout.readline())
            own = Path(directory, f"weft-{pid}-1.json")
            with open(own, "r+") as file:
                if is_kept:
                    fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
                run_one.stdin.write("\n")
                run_one.stdin.flush()
                assert run_one.stdout.readline() == "begun\n"
                assert (own.read_text() == "kept") == is_kept, own.read_text()
                assert Path(directory, f"weft-{pid}-1.2.json").exists() == is_kept, os.listdir(directory)
                run_one.communicate()
                assert run_one.returncode == 0
                assert own.exists() == is_kept and not Path(directory, f"weft-{pid}-1.2.json").exists(), os.listdir(directory)


def check_containers(directory):
    """Two processes of the same number, and weft top outside."""
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        print("skipped, check_containers: unshare makes no PID namespace")
        return
    both = [subprocess.Popen([*command, SCENE, "stay", "1", str(TASKS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={**ENVIRONMENT, "WEFT_TOP": directory, "WEFT_TRACE": directory}) for _ in range(2)]
    for one in both:
        assert one.stdout.readline() == "begun\n"
    names = {f"{kind}-1-1{more}.json" for kind in ("weft", "trace") for more in ("", ".2")}
    assert set(os.listdir(directory)) == names, os.listdir(directory)
    if WEFT:
        look = json.loads(subprocess.run([WEFT, "top", "--once", "--json", "--interval", "0.3", directory], env=ENVIRONMENT, check=True,
                                         capture_output=True, timeout=300).stdout)
        assert len(look) == 2 and all(pool["task_run_count"] == TASKS for pool in look), look
    for one in both:
        one.communicate()
        assert one.returncode == 0
    assert set(os.listdir(directory)) == {"trace-1-1.json", "trace-1-1.2.json"}, os.listdir(directory)
    assert all(len(tasks_of(file)[1]) == TASKS for file in Path(directory).iterdir())


def main():
    for check in (check_one_file, check_same_file_of_copies, check_full, check_stats, check_directory, check_exec, check_left, check_containers):
        with tempfile.TemporaryDirectory() as directory:
            check(directory)
            print(f"{check.__name__}: ok", flush=True)


if __name__ == "__main__":
    main()
