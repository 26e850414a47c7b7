#!/usr/bin/env python3
"""`weft top` beside programs that run, end, stop and are killed: test_top.py WEFT PROGRAM, where PROGRAM is top_scene."""
import atexit
import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

WEFT, SCENE = sys.argv[1:3]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}


class Scene:
    """Killed when this program ends: one that is stopped then would keep its output, and whoever reads it, for ever."""

    def __init__(self, directory, *arguments, cwd=None, **more):
        environment = {**ENVIRONMENT, **more, **({"WEFT_TOP": directory} if directory else {})}
        self.run = subprocess.Popen([SCENE, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=cwd)
        atexit.register(self.run.kill)
        assert self.run.stdout.readline() == "begun\n"

    def end(self):
        self.run.communicate("end\n")
        assert self.run.returncode == 0, self.run.returncode


def top(*arguments, status=0, **more):
    run = subprocess.run([WEFT, "top", "--interval", "0.6", *arguments], capture_output=True, text=True, timeout=300, env={**ENVIRONMENT, **more})
    assert run.returncode == status, (arguments, run)
    return run


def look(directory):
    return {pool["process"]: pool for pool in json.loads(top("--once", "--json", directory).stdout) if "process" in pool}


def until(directory, holds):
    """Looks again and again, for a busy machine may let a program wait; 200 looks in vain are an error."""
    for _ in range(200):
        if holds(pools := look(directory)):
            return pools
    raise AssertionError(pools)


def state(pools, pid):
    """None: the file was being written when it was read."""
    return pools.get(pid, {}).get("state")


def check_live(directory):
    scenes = [Scene(directory), Scene(directory, WEFT_TRACE=os.devnull)]
    plain, traced = (scene.run.pid for scene in scenes)
    pools = until(directory, lambda pools: all(pools.get(pid, {}).get("task_run_per_second") for pid in (plain, traced))
                  and pools[traced].get("queued_task_count", 0) > 0)
    for pid in (plain, traced):
        pool = pools[pid]
        assert pool["pool"] == "scene" and pool["workers"] == 2 and pool["command"] == "top_scene", pool
        assert pool["running"] + pool["searching"] + pool["sleeping"] + pool["waiting"] <= 6 and pool["rss_bytes"] > 0, pool
    assert "queued_task_count" not in pools[plain]
    table = top("--once", directory).stdout
    assert table.count("top_scene") == 2 and "\033" not in table, table
    scenes[0].run.send_signal(signal.SIGSTOP)

    def one_is_silent(pools):
        if state(pools, plain) is None:  # it was stopped while it wrote its file: it goes on, and is stopped again
            scenes[0].run.send_signal(signal.SIGCONT)
            time.sleep(0.1)
            scenes[0].run.send_signal(signal.SIGSTOP)
        return state(pools, plain) == "silent" and state(pools, traced) == "live"

    until(directory, one_is_silent)
    scenes[0].run.send_signal(signal.SIGCONT)
    until(directory, lambda pools: state(pools, plain) == "live")
    scenes[1].end()
    until(directory, lambda pools: list(pools) == [plain])
    scenes[0].run.kill()
    scenes[0].run.wait()
    assert look(directory)[plain]["state"] == "gone"
    assert "gone: its process has ended" in top("--once", directory).stdout
    scenes[0].run.stdout.close(), scenes[0].run.stdin.close()


def check_files(directory):
    for name, content in {"weft-1-1.json": "{", "weft-2-2.json": "[1, 2]", "weft-3-3.json": "", "other": "x",
                          "weft-4-4.json": '{"number": 1, "end": 2, "pool": "\\u001b[2J"}'}.items():
        Path(directory, name).write_text(content)
    numbers = dict.fromkeys(("number end process pool_id monotonic_ns period_ns running searching polling sleeping waiting blocked queue_cells workers "
                             "task_run_count wake_count steal_count heap_live_bytes spare_started_count").split(), 1)
    Path(directory, "weft-7-7.json").write_text(json.dumps({**numbers, "pool": "x", "queued_task_count": "many"}))
    os.mkfifo(Path(directory, "weft-5-5.json"))
    os.symlink("/etc/passwd", Path(directory, "weft-6-6.json"))
    Path(directory, "weft-8-8.json").write_text("[" * 900000)
    pools = json.loads(top("--once", "--json", directory).stdout)
    assert [pool["problem"] for pool in pools if pool["file"] == "weft-8-8.json"] == ["larger than what a pool writes"], pools
    states = {pool["file"]: pool["state"] for pool in json.loads(top("--once", "--json", directory).stdout)}
    assert states == {f"weft-{n}-{n}.json": "unreadable" for n in range(1, 9)}, states
    assert "\033" not in top("--once", directory).stdout
    # A process that has the number of a pool's that ended before it began.
    me, nobody = os.getpid(), 2**31 - 2
    Path(directory, f"weft-{me}-1.json").write_text(json.dumps({**numbers, "pool": "x", "process": me}))
    stranger = look(directory)[me]
    assert stranger["state"] == "gone" and stranger["command"] == "", stranger
    # Names are UTF-8, in columns of characters, and none writes to the terminal.
    for name, shown in (("h\u00e4\u20ac", "h\u00e4\u20ac        "), ("\u00e4" * 12, "\u00e4" * 10 + " "), ("a\u009b2J\x1b[b\x7f", "a?2J?[b?   ")):
        Path(directory, f"weft-{me}-1.json").write_text(json.dumps({**numbers, "pool": name, "process": me}))
        table = top("--once", directory).stdout
        assert f" {shown}gone " in table and "\u009b" not in table, (shown, table)
    # One that has no such number here, as in a container: its file is kept locked, and has just been written.
    kept = Path(directory, f"weft-{nobody}-1.json")
    for is_kept, period_ns, expected in ((True, 10**12, "live"), (False, 10**12, "gone"), (True, 1, "gone")):
        kept.write_text(json.dumps({**numbers, "pool": "x", "process": nobody, "monotonic_ns": time.monotonic_ns() - 10**10, "period_ns": period_ns}))
        with open(kept, "r+") as file:
            if is_kept:
                fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
            assert look(directory)[nobody]["state"] == expected, look(directory)[nobody]


def check_reads(directory):
    """What stays the same is read twice in each look, not again and again."""
    if not shutil.which("strace"):
        print("skipped, check_reads: strace is not installed")
        return
    file = Path(directory, "weft-1-1.json")
    file.write_text("{" * 60000)
    log = Path(directory, "log")
    run = subprocess.run(["strace", "-f", "-e", "trace=openat", "-o", log, WEFT, "top", "--once", "--interval", "0.1", directory], env=ENVIRONMENT,
                         capture_output=True, text=True, timeout=300)
    if run.returncode != 0 and "ptrace" in run.stderr:
        print("skipped, check_reads: " + run.stderr.strip())
        return
    assert run.returncode == 0 and log.read_text().count(str(file)) == 4, log.read_text().count(str(file))


def check_arguments(directory):
    assert "WEFT_TOP" in top("--once", status=1).stderr
    assert "no pool writes" in top("--once", WEFT_TOP=directory).stdout
    assert "No such file" in top("--once", directory + "/none", status=1).stderr
    assert "0.1" in top("--interval", "0", "--once", directory, status=2).stderr
    with open("/dev/full", "w") as full:
        run = subprocess.run([WEFT, "top", "--once", "--interval", "0.1", directory], stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert run.returncode == 1 and "standard output" in run.stderr, run
    refused = subprocess.run([SCENE], env={**ENVIRONMENT, "WEFT_TOP": directory + "/none"}, capture_output=True, text=True)
    assert refused.returncode == 1 and refused.stderr, refused


def check_unasked(directory):
    scene = Scene(None)
    threads = sorted(Path(f"/proc/{scene.run.pid}/task/{name}/comm").read_text().strip() for name in os.listdir(f"/proc/{scene.run.pid}/task"))
    assert "weft-top" not in threads and os.listdir(directory) == [], threads
    scene.end()


def check_elsewhere(directory):
    """The file goes though the program has left the directory from which the name leads there."""
    scene = Scene(".", "/", cwd=directory)
    assert list(look(directory)) == [scene.run.pid]
    scene.end()
    assert os.listdir(directory) == [], os.listdir(directory)


def check_pipe(directory):
    """A reader that goes ends it; a terminal is refreshed in place."""
    with subprocess.Popen([WEFT, "top", "--interval", "0.1", directory], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as run:
        assert run.stdout.readline().startswith(b"process")
        run.stdout.close()
        assert run.wait(300) != 0
    for rows in (24, 1):
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("4H", rows, 80, 0, 0))
        with subprocess.Popen([WEFT, "top", "--interval", "0.1", directory], stdout=follower, env=ENVIRONMENT) as run:
            os.close(follower)  # so that a command that has ended is an error of the read, not a wait
            seen = b""
            while seen.count(b"\033[H\033[J") < 3:
                seen += os.read(leader, 4096)
            run.terminate()
        os.close(leader)


def main():
    for check in (check_live, check_files, check_reads, check_arguments, check_unasked, check_elsewhere, check_pipe):
        with tempfile.TemporaryDirectory() as directory:
            check(directory)


if __name__ == "__main__":
    main()
