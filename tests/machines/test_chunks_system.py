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

from checks import check, wait_for

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


def log(queue):
    """The kinds of all records, chunk by chunk."""
    names = sorted(os.listdir(PLACE / queue / "chunks"), key=lambda name: [int(part) for part in name.split(".")])
    return [os.readlink(PLACE / queue / "chunks" / name).split()[0] for name in names]


def program(text):
    """For -o: the program has the system's calls."""
    return ["--", "env", "-u", "LD_PRELOAD", "sh", "-c", text]


def parts():
    return [path.name for path in PLACE.glob(".*.part")]


def test_told_to_end():
    """A program that ends with 0 when it is told to end has not done its chunk."""
    worker = start("run", "--dir", "a", "--end", 1, "--chunk", 1, "-o", "a{chunk}",
                   *program("trap 'exit 0' TERM; echo 1 >{output}; touch begun; while :; do sleep 0.01; done"))
    wait_for((PLACE / "begun").exists, "a program")
    worker.send_signal(signal.SIGTERM)
    said = worker.communicate()[1]
    check(worker.returncode == 128 + signal.SIGTERM and "given back" in said, "SIGTERM", said)
    check(log("a") == ["held", "free"] and not (PLACE / "a0").exists() and not parts(), "an incomplete part", str(log("a")))


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


def test_refused():
    """What is refused to the worker is not the chunk's failure: given back, and the next worker goes on."""
    for turn, (call, number) in enumerate((("fsync", errno.ENOSPC), ("rename", errno.ESTALE), ("fsync", errno.EDQUOT), ("fsync", errno.EIO),
                                           ("rename", errno.ENOENT))):  # as of a call that is sent again, its reply lost
        queue = f"c{turn}"
        check(run("create", "--dir", queue, "--end", 2, "--chunk", 1)[0] == 0, "a queue")
        words = ["run", "--dir", queue, "-o", queue + "-{chunk}", *program("echo {chunk} >{output}")]
        code, said = run(*words, REFUSE=f"{call}:{number}:refused{turn}")
        check(code == WORKER and os.strerror(number) in said and "given back" in said, f"{call}, {os.strerror(number)}: {code}", said)
        check(log(queue) == ["held", "free"] and not parts(), f"{call}: the chunk", str(log(queue)))
        code, said = run(*words)
        check(code == 0 and (PLACE / f"{queue}-1").read_text() == "1\n", "the next worker", said)


def test_full_disk():
    """A program that has no room for its output has not failed; one that fails where there is room has."""
    disk = PLACE / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], check=False, capture_output=True).returncode != 0:
        print("skipped, full disk: this user may not mount a small one")
        return
    try:
        (disk / "ballast").write_bytes(b"x" * 1200000)
        words = ["run", "--dir", "disk/q", "--end", 8, "--chunk", 1, "-o", "disk/out{chunk}", "--", "dd", "if=/dev/zero", "of={output}", "bs=1000", "count=200"]
        code, said = run(*words)
        check(code == WORKER and "No space left on device; the chunk was given back" in said, f"a full disk: {code}", said)
        check("fail" not in log("disk/q") and not list(disk.glob(".*.part")), "a full disk's chunks", str(log("disk/q")))
        (disk / "ballast").unlink()
        code, said = run(*words)
        check(code == 0 and all((disk / f"out{chunk}").stat().st_size == 200000 for chunk in range(8)), "room again", said)
    finally:
        subprocess.run(["umount", disk], check=True)
    code, said = run("run", "--dir", "d", "--end", 1, "--chunk", 1, "-o", "d{chunk}", *program("exit 3"))
    check(code == 1 and log("d") == ["held", "fail"] and not parts(), "a failure where there is room", said)


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


def test_nobody_reads():
    """Messages that nobody takes any more: what they say is recorded all the same."""
    reader, writer = os.pipe()
    os.close(reader)
    code, _ = run("run", "--dir", "f", "--end", 2, "--chunk", 1, "--keep-going", "--", "sh", "-c", "test {chunk} = 1 || exit 3", stderr=writer)
    check(code == 1 and log("f") == ["held", "fail", "held", "done"], f"a pipe without a reader: {code}", str(log("f")))
    # The programs have SIGPIPE as the worker had it.
    code, _ = run("run", "--dir", "f2", "--end", 1, "--chunk", 1, "--", "sh", "-c", "grep SigIgn /proc/self/status >ignored", stderr=writer)
    os.close(writer)
    ignored = int((PLACE / "ignored").read_text().split()[1], 16)
    # Popen gives a child SIGPIPE as it is by default.
    check(code == 0 and ignored >> (signal.SIGPIPE - 1) & 1 == 0, "a program's SIGPIPE")


def is_stopped(worker):
    return Path(f"/proc/{worker.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def test_late():
    """A worker that is stopped between looking whether the chunk is its own and the rename; another one does the chunk."""
    words = ["run", "--dir", "g", "--end", 1, "--chunk", 1, "--lease", 0.3, "-o", "g{chunk}", *program("echo $WHO >{output}")]
    late = start(*words, before=("env", "WHO=late"), STOP="stopped")
    wait_for(lambda: (PLACE / "stopped").exists() and is_stopped(late), "a worker that is stopped")
    code, said = run(*words, before=("env", "WHO=other"))
    check(code == 0 and (PLACE / "g0").read_text() == "other\n", "who took the chunk over", said)
    late.send_signal(signal.SIGCONT)
    said = late.communicate()[1]
    check("went to another worker" in said and late.returncode == 0, f"who comes late: {late.returncode}", said)
    check((PLACE / "g0").read_text() == "other\n" and log("g") == ["held", "held", "done"], "what came late counts", (PLACE / "g0").read_text())
    check(not parts(), "parts that are left", str(parts()))


def test_late_program():
    """As before, but the program goes on while its worker is stopped."""
    words = ["run", "--dir", "h", "--end", 1, "--chunk", 1, "--lease", 0.3, "-o", "h{chunk}"]
    text = "echo $WHO >{output}; touch begun$WHO; while ! test -e ended$WHO; do sleep 0.01; done; touch over$WHO"
    late = start(*words, *program(text), before=("env", "WHO=1"))
    wait_for((PLACE / "begun1").exists, "a program")
    late.send_signal(signal.SIGSTOP)
    (PLACE / "ended2").touch()
    code, said = run(*words, *program(text), before=("env", "WHO=2"))
    check(code == 0 and (PLACE / "h0").read_text() == "2\n", "who took the chunk over", said)
    (PLACE / "ended1").touch()
    wait_for((PLACE / "over1").exists, "a program's end")
    late.send_signal(signal.SIGCONT)
    said = late.communicate()[1]
    check("went to another worker" in said and (PLACE / "h0").read_text() == "2\n", "what came late counts", said)


def test_killed_parts():
    """What a killed worker's program has written goes when the chunk is done; names that look alike stay."""
    others = [".i0.0123456789abcdef.9.part", ".i0.0123456789abcde.1.part", ".i0.x.0123456789abcdef.1.part", ".i0.0123456789abcdef.1.parts"]
    for name in others:
        (PLACE / name).touch()
    words = ["run", "--dir", "i", "--end", 1, "--chunk", 1, "-o", "i{chunk}"]
    code, _ = run(*words, *program("echo 1 >{output}; exec sh -c 'kill -9 $0' $PPID"))
    check(code == -9 and len(parts()) == 4, f"a worker that is killed: {code}", str(parts()))
    code, said = run("run", "--dir", "i", "-o", "i{chunk}", *program("echo 2 >{output}"))
    check(code == 0 and sorted(parts()) == sorted(others[:3]) and (PLACE / "i0").read_text() == "2\n", "parts that are left", said + str(parts()))
    for name in others:
        (PLACE / name).unlink()


def test_cannot_give_back():
    worker = start("run", "--dir", "j", "--end", 1, "--chunk", 1, *program("touch held; exec sleep 1000"), REFUSE_LINKS="refuse")
    wait_for((PLACE / "held").exists, "a program")
    (PLACE / "refuse").touch()
    worker.send_signal(signal.SIGTERM)
    said = worker.communicate()[1]
    check(worker.returncode == 128 + signal.SIGTERM and "1 of what was begun could not be given back" in said and "was given back" not in said,
          "a chunk that cannot be given back", said)


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
