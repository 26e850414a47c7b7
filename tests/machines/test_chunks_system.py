#!/usr/bin/env python3
"""`weft chunks run` where the system is in its way: a slow disk, calls that are refused, workers that stop, vanish or are told to end, a
reader of its messages that is gone.

    test_chunks_system.py PATH-OF-WEFT PATH-OF-CHUNKS-PRELOAD
"""
import errno
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WEFT, PRELOAD = map(os.path.abspath, sys.argv[1:3])
PLACE = None
WORKER = 75  # exit status of a worker that cannot go on, though nothing has failed


def start(*words, before=(), stderr=subprocess.PIPE, **wishes):
    """A worker whose own calls are those of chunks_preload.c, if there are wishes; its programs' are the system's."""
    environment = dict(os.environ)
    if wishes:
        environment.update(LD_PRELOAD=PRELOAD, **{f"WEFT_{name}": str(value) for name, value in wishes.items()})
    return subprocess.Popen([*before, WEFT, "chunks", *map(str, words)], cwd=PLACE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=stderr, text=True, env=environment)


def run(*words, **more):
    worker = start(*words, **more)
    said = worker.communicate(timeout=600)[1]
    return worker.returncode, said


def status(queue):
    return subprocess.run([WEFT, "chunks", "status", "--dir", queue, "--all"], cwd=PLACE, capture_output=True, text=True, check=True).stdout


def check(condition, what, output=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{output}")


def wait_for(condition, what):
    for _ in range(60000):
        if condition():
            return
        time.sleep(0.01)
    sys.exit(f"FAILED: never: {what}")


def log(queue):
    """The kinds of all records, chunk by chunk."""
    names = sorted(os.listdir(PLACE / queue / "chunks"), key=lambda name: [int(part) for part in name.split(".")])
    return [os.readlink(PLACE / queue / "chunks" / name).split()[0] for name in names]


def program(text):
    """For -o: the program has the system's calls."""
    return ["--", "env", "-u", "LD_PRELOAD", "sh", "-c", text]


def parts():
    return [path.name for path in PLACE.glob(".*.part")]


def test_slow_sync():
    """A worker lives while it waits for a disk, and keeps its chunks: that of the output, and others."""
    check(run("create", "--dir", "b", "--end", 2, "--chunk", 1, "--lease", 2)[0] == 0, "a queue")
    words = ["run", "--dir", "b", "-j", 2, "-o", "b{chunk}",
             *program("echo x >{output}; test {chunk} = 0 || while ! test -e go; do sleep 0.01; done")]
    slow = start(*words, SYNC_UNTIL="go")
    wait_for(lambda: log("b") == ["held", "held"], "two claims")
    other = start(*words)

    def beats():
        return max(int(path.read_text().split()[1]) for path in (PLACE / "b/workers").iterdir())

    wait_for(lambda: beats() >= 16 or len(log("b")) > 2, "sixteen renewals, of which four make a lease")
    records = log("b")
    (PLACE / "go").touch()
    for worker in (slow, other):
        said = worker.communicate()[1]
        check(worker.returncode == 0, "a worker on a slow disk", said)
    check(records == ["held", "held"] and log("b") == ["held", "done"] * 2, "chunks taken from a worker that lives", str(log("b")))


def test_vanished():
    """A chunk that ends its workers has failed in the end; `retry` counts anew."""
    words = ["run", "--dir", "e", "--end", 3, "--chunk", 1, "--losses", 3, "--keep-going", "--", "sh", "-c", "test {chunk} != 1 || kill -9 $PPID"]
    codes = [run(*words)[0] for _ in range(4)]
    check(codes == [-9, -9, -9, 1], "a chunk that ends its workers", str(codes))
    code, said = run(*words)
    check(code == 1 and "chunk 1 has failed: its worker vanished 3 times" in said, "what is said of it", said)
    check("1  FAILED  1 to 2  lost its worker 3 times" in status("e") and "2 done" in status("e"), "its status", status("e"))
    check(subprocess.run([WEFT, "chunks", "retry", "--dir", "e"], cwd=PLACE, check=False).returncode == 0, "retry")
    codes = [run(*words)[0] for _ in range(4)]
    check(codes == [-9, -9, -9, 1], "after a retry", str(codes))
    code, said = run("run", "--dir", "e2", "--end", 1, "--chunk", 1, "--", "sh", "-c", "test -e again && exit; touch again; kill -9 $PPID")
    check(code == -9 and run("run", "--dir", "e2", "--", "true")[0] == 0, "a worker that was killed once")


def test_time_namespace():
    """A worker of the same pid namespace, to whom other times since the boot are shown, lives."""
    spaced = ["unshare", "--time", "--boottime", "1000"]
    if subprocess.run([*spaced, "true"], check=False, capture_output=True).returncode != 0:
        print("skipped, time namespace: this user, or this kernel, may not have one")
        return
    words = ["run", "--dir", "k", "--end", 1, "--chunk", 1, "--lease", 3600, "--", "sh", "-c", "touch spaced$WHO; while ! test -e spaced-go; do sleep 0.01; done"]
    first = start(*words, before=["env", "WHO=1", *spaced])
    wait_for((PLACE / "spaced1").exists, "a program")
    other = start(*words, before=("env", "WHO=2"))
    # It looks again and again; two workers' files say that it is there.
    wait_for(lambda: len(os.listdir(PLACE / "k/workers")) == 2, "another worker")
    for _ in range(100):
        time.sleep(0.01)
    (PLACE / "spaced-go").touch()
    codes = [worker.wait() for worker in (first, other)]
    for worker in (first, other):
        worker.stderr.close()
    check(codes == [0, 0] and log("k") == ["held", "done"], f"a worker of another time namespace: {codes}", str(log("k")))


def test_foreign_name():
    """A name in the journal that is no record says nothing of a chunk."""
    code, said = run("create", "--dir", "l", "--end", 3, "--chunk", 1)
    check(code == 0, "a queue", said)
    (PLACE / "l/chunks/0000001.2026").touch()
    check("torn" not in status("l"), "a foreign name", status("l"))
    code, said = run("run", "--dir", "l", "--", "true")
    names = [name for name in os.listdir(PLACE / "l/chunks") if re.match(r"0000001\.", name)]
    check(code == 0 and sorted(names) == ["0000001.1", "0000001.2", "0000001.2026"], "beside a foreign name", said + str(names))


with tempfile.TemporaryDirectory() as directory:
    PLACE = Path(directory)
    for name, test in list(globals().items()):
        if name.startswith("test_") and (len(sys.argv) < 4 or name in sys.argv[3:]):
            test()
            print(f"ok {name}")
