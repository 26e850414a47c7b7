#!/usr/bin/env python3
"""`weft chunks` as a user has it: programs over a range, several workers, kills, signals, wrong arguments, a full disk.

    test_chunks_command.py PATH-OF-WEFT
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import check, wait_for

WEFT = os.path.abspath(sys.argv[1])
PLACE = None


def run(*words, cwd=None):
    result = subprocess.run([WEFT, "chunks", *map(str, words)], capture_output=True, text=True, cwd=cwd or PLACE, check=False,
                            stdin=subprocess.DEVNULL, timeout=600)
    return result.returncode, result.stdout + result.stderr


def start(*words):
    return subprocess.Popen([WEFT, "chunks", *map(str, words)], cwd=PLACE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def records(queue, kind):
    """{chunk: how many records of the kind}."""
    counts = {}
    for name in os.listdir(PLACE / queue / "chunks"):
        if os.readlink(PLACE / queue / "chunks" / name).startswith(kind + " "):
            chunk = int(name.split(".")[0])
            counts[chunk] = counts.get(chunk, 0) + 1
    return counts


def outputs(count):
    return [(PLACE / f"out{chunk}").read_text().split() for chunk in range(count)]


def test_program():
    status, output = run("run", "--dir", "a", "--begin", 5, "--end", 25, "--chunk", 3, "-j", 2, "-o", "out{chunk}", "--", "sh", "-c",
                         "seq {begin} {last} >{output}; echo {count} {end} {other} '{'")
    check(status == 0, "a program", output)
    check(sum(outputs(7), []) == [str(i) for i in range(5, 25)], "outputs", str(outputs(7)))
    check("3 8 {other} {" in output, "placeholders", output)
    status, output = run("status", "--dir", "a", "--all")
    check(status == 0 and "7 chunks of 5 to 25: 7 done" in output and output.count("done ") == 7, "status", output)
    status, output = run("run", "--dir", "a", "--", "false")
    check(status == 0, "nothing is done twice", output)


def test_cuts():
    (PLACE / "cuts").write_text("0\n7\n9\n")
    status, output = run("run", "--dir", "b", "--end", 12, "--cuts", "cuts", "--", "echo", "{chunk}:{begin}-{end}")
    check(status == 0 and all(word in output for word in ("0:0-7", "1:7-9", "2:9-12")), "cuts", output)
    (PLACE / "cuts").write_text("0\nx\n")
    status, output = run("create", "--dir", "b2", "--end", 12, "--cuts", "cuts")
    check(status == 1 and "not an index: x" in output, "wrong cuts", output)


def test_failures():
    status, output = run("run", "--dir", "c", "--end", 5, "--chunk", 1, "--", "sh", "-c", "test {begin} != 2 || exit 9")
    check(status == 1 and "sh failed with 9" in output and "chunk 2 has failed with 9" in output, "a failure", output)
    check(run("status", "--dir", "c")[1].count("FAILED") == 1, "a failed chunk's status")
    status, output = run("run", "--dir", "c", "--", "true")
    check(status == 1, "who comes later", output)
    check(run("retry", "--dir", "c")[0] == 0 and run("run", "--dir", "c", "--", "true")[0] == 0, "retry")
    status, output = run("run", "--dir", "d", "--end", 5, "--chunk", 1, "--keep-going", "--tries", 2, "--", "sh", "-c",
                         "test {begin} != 2 || kill -SEGV $$")
    check(status == 1 and output.count("was killed by signal 11") == 2, "a signal", output)
    check(len(records("d", "done")) == 4, "keep going")
    status, output = run("run", "--dir", "e", "--end", 1, "--chunk", 1, "--lease", 3600, "--limit", 0.2, "--", "sleep", 1000)
    check(status == 1 and "over the limit" in output, "a limit", output)
    check(run("cancel", "--dir", "f")[0] == 1, "no queue")
    check(run("create", "--dir", "f", "--end", 5, "--chunk", 1)[0] == 0 and run("cancel", "--dir", "f")[0] == 0, "cancel")
    status, output = run("run", "--dir", "f", "--", "true")
    check(status == 1 and "cancelled" in output and not records("f", "held"), "cancelled", output)


def test_wrong_arguments():
    for words, said, expected in (
        (["run", "--dir", "g", "--end", 5, "--chunk", 1], "program is required", 2),
        (["run", "--end", 5, "--chunk", 1, "--", "true"], "--dir is required", 2),
        (["run", "--dir", "g", "--end", 5, "--chunk", 1, "-j", 0, "--", "true"], "range", 2),
        (["run", "--dir", "g", "--end", 5, "--", "true"], "either a chunk's size or cuts", 1),
        (["run", "--dir", "g", "--end", 0, "--chunk", 1, "--", "true"], "the range 0 to 0 is empty", 1),
        (["run", "--dir", "g", "--chunk", 1, "--", "true"], "--chunk requires --end", 2),
        (["run", "--dir", "a", "--lease", 9, "--", "true"], "--lease requires --end", 2),
        (["create", "--dir", "g", "--chunk", 1], "--end is required", 2),
        (["run", "--dir", "g", "--end", -5, "--chunk", 1, "--", "true"], "", 2),
        (["run", "--dir", "g", "--end", 10**7, "--chunk", 1, "--", "true"], "more than 1000000 chunks", 1),
        (["run", "--dir", "g", "--", "true"], "no directory g", 1),
        (["run", "--dir", "/dev/null", "--end", 1, "--chunk", 1, "--", "true"], "Not a directory", 1),
        (["run", "--dir", "g", "--end", 5, "--chunk", 1, "-o", "same", "--", "true"], "one file for all chunks", 2),
        (["run", "--dir", "a", "--end", 5, "--chunk", 1, "--", "true"], 'another queue, with "begin 5", not "begin 0": 5 to 25 in 7 chunks', 1),
        (["status", "--dir", "nowhere"], "no directory", 1), ([], "subcommand", 2), (["walk"], "", 2)):
        status, output = run(*words)
        check(status == expected and said in output, f"{words}: {status}", output)


def test_killed_worker():
    """A worker that is killed takes its programs with it; what it held is done by another one, at once on the same machine."""
    first = start("run", "--dir", "h", "--end", 3, "--chunk", 1, "-j", 2, "-o", "h{chunk}", "--", "sh", "-c",
                  "echo $$ >pid{chunk}; exec sleep 1000")
    wait_for(lambda: all((PLACE / f"pid{i}").exists() and (PLACE / f"pid{i}").read_text().strip() for i in range(2)), "two programs")
    pids = [int((PLACE / f"pid{i}").read_text()) for i in range(2)]
    status, output = run("status", "--dir", "h")
    check(output.count(f":{first.pid} for") == 2, "who holds what", output)
    first.kill()
    first.communicate()
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "programs that end with their worker")
    status, output = run("run", "--dir", "h", "-o", "h{chunk}", "--", "sh", "-c", "echo {chunk} >{output}")
    check(status == 0 and records("h", "done") == {0: 1, 1: 1, 2: 1}, "the rest", output)
    check(all((PLACE / f"h{i}").read_text() == f"{i}\n" for i in range(3)), "the outputs")


def test_signals():
    """SIGTERM: what was begun is given back."""
    worker = start("run", "--dir", "i", "--end", 3, "--chunk", 1, "--", "sh", "-c", "touch begun{chunk}; exec sleep 1000")
    wait_for((PLACE / "begun0").exists, "a program")
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate()
    check(worker.returncode == 128 + signal.SIGTERM and "given back" in said, "SIGTERM", said)
    check(records("i", "free") == {0: 1} and not os.listdir(PLACE / "i/workers"), "given back")


def test_hangup():
    """A terminal that is closed: as SIGTERM. Who asked not to be told of it (nohup) goes on."""
    worker = start("run", "--dir", "i2", "--end", 3, "--chunk", 1, "--", "sh", "-c", "touch hung{chunk}; exec sleep 1000")
    wait_for((PLACE / "hung0").exists, "a program")
    worker.send_signal(signal.SIGHUP)
    _, said = worker.communicate()
    check(worker.returncode == 128 + signal.SIGHUP and "given back" in said, "SIGHUP", said)
    check(records("i2", "free") == {0: 1} and not os.listdir(PLACE / "i2/workers"), "given back at SIGHUP")
    words = ["run", "--dir", "i3", "--end", "2", "--chunk", "1", "--", "sh", "-c", "touch ignored{chunk}; while ! test -e go; do sleep 0.01; done"]
    with subprocess.Popen(["nohup", WEFT, "chunks", *words], cwd=PLACE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as worker:
        wait_for((PLACE / "ignored0").exists, "a program under nohup")
        worker.send_signal(signal.SIGHUP)
        (PLACE / "go").touch()
        said = worker.communicate()[1]
    check(worker.returncode == 0 and len(records("i3", "done")) == 2, "nohup", said)


def test_input():
    """Programs read nothing: several at once would share the worker's input, and at a terminal be stopped for it."""
    result = subprocess.run([WEFT, "chunks", "run", "--dir", "n", "--end", "2", "--chunk", "1", "--", "sh", "-c", "cat; echo end"], input="stolen\n",
                            cwd=PLACE, capture_output=True, text=True, check=False, timeout=600)
    check(result.returncode == 0 and result.stdout == "end\nend\n", "a program's input", result.stdout + result.stderr)


def test_names():
    """Blanks in names, and commands that differ where the label is cut."""
    program = PLACE / "my program"
    program.write_text("#!/bin/sh\necho \"$1|$2\" >\"$3\"\n")
    program.chmod(0o755)
    (PLACE / "a place").mkdir()
    words = ["run", "--dir", "a place/the queue", "--end", 2, "--chunk", 1, "-o", "a place/out {chunk}", "--", program, "{begin} {end}", "", "{output}"]
    status, output = run(*words)
    check(status == 0 and (PLACE / "a place/out 1").read_text() == "1 2|\n", "blanks in names", output)
    for first, other in (("x" * 5000 + "1", "x" * 5000 + "2"), ("a\nb", "a b"), ("a b", None)):
        queue = f"same{len(first)}{'n' in first}{other is None}"
        check(run("run", "--dir", queue, "--end", 1, "--chunk", 1, "--", "true", first)[0] == 0, "a long command")
        check(run("run", "--dir", queue, "--end", 1, "--chunk", 1, "--", "true", first)[0] == 0, "the same command again")
        others = [other] if other is not None else first.split()
        status, output = run("run", "--dir", queue, "--end", 1, "--chunk", 1, "--", "true", *others)
        check(status == 1 and "another queue" in output, f"another command: {others[0][-10:]}", output)


def test_cancelled_too_late():
    check(run("run", "--dir", "o", "--end", 2, "--chunk", 1, "--", "true")[0] == 0, "a queue")
    check(run("cancel", "--dir", "o")[0] == 0, "cancel")
    status, output = run("run", "--dir", "o", "--", "true")
    check(status == 0, "a queue that is done was cancelled", output)


def test_read_only():
    """Status of a queue that this user, or anybody, may only read."""
    disk = PLACE / "readonly"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "none", disk], check=False, capture_output=True).returncode != 0:
        print("skipped, read-only: this user may not mount anything")
        return
    try:
        check(run("create", "--dir", "readonly/q", "--end", 5, "--chunk", 1)[0] == 0, "a queue")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        status, output = run("status", "--dir", "readonly/q")
        check(status == 0 and "0 done, 0 held, 5 free" in output, "status of a read-only queue", output)
        status, output = run("create", "--dir", "readonly/q", "--end", 5, "--chunk", 1)
        check(status == 0, "the same queue made again, read-only", output)
        for words in (["run", "--dir", "readonly/q", "--quiet", "--", "true"], ["cancel", "--dir", "readonly/q"]):
            status, output = run(*words)
            check(status == (75 if words[0] == "run" else 1) and output.count("Read-only file system") == 1, f"{words[0]}, read-only", output)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_no_output():
    """A program that succeeds and writes nothing to {output} has not done its chunk, and is not said to have failed."""
    status, output = run("run", "--dir", "unwritten", "--end", 2, "--chunk", 1, "-o", "none{chunk}", "--", "true")
    check(status == 1 and "ended with 0, but there is no {output}, that is .none0." in output and "true failed" not in output, "no output", output)
    check(not records("unwritten", "done") and records("unwritten", "fail") == {0: 1}, "a chunk without its output")


def test_many_workers():
    words = ["run", "--dir", "k", "--end", 60, "--chunk", 2, "-o", "out{chunk}", "--", "sh", "-c", "echo {begin} >>ran; seq {begin} {last} >{output}"]
    workers = [start(*words) for _ in range(4)]
    for worker in workers:
        said = worker.communicate()[1]
        check(worker.returncode == 0, "one of four workers", said)
    check(sum(outputs(30), []) == [str(i) for i in range(60)], "outputs of four workers")
    check(sorted(map(int, (PLACE / "ran").read_text().split())) == list(range(0, 60, 2)), "each once")
    check(not list(PLACE.glob(".*.part")), "nothing is left over")


def test_as_init():
    """In a container the worker is process 1: its programs run, and SIGTERM ends it."""
    if subprocess.run(["unshare", "--pid", "--fork", "true"], check=False, capture_output=True).returncode != 0:
        print("skipped, as process 1: this user may not have a space of pids")
        return
    command = ["unshare", "--pid", "--fork", "--kill-child", WEFT, "chunks", "run", "--dir", "l", "--end", "2", "--chunk", "1", "--"]
    result = subprocess.run([*command, "sh", "-c", "echo $PPID"], cwd=PLACE, capture_output=True, text=True, check=False, timeout=600,
                            stdin=subprocess.DEVNULL)
    check(result.returncode == 0 and result.stdout == "1\n1\n", "as process 1", result.stdout + result.stderr)
    command[command.index("l")] = "m"
    with subprocess.Popen([*command, "sh", "-c", "touch deep{chunk}; exec sleep 1000"], cwd=PLACE, stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as outer:
        wait_for((PLACE / "deep0").exists, "a program below process 1")
        inner = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        os.kill(int(inner[0]), signal.SIGTERM)
        said = outer.communicate()[1]
    check(outer.returncode == 128 + signal.SIGTERM and "given back" in said, f"process 1 and SIGTERM: {outer.returncode}", said)


def test_full_disk():
    """A file system without room for one more name: an error in words, and when there is room again it goes on."""
    disk = PLACE / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=24", "none", disk], check=False,
                                           capture_output=True).returncode != 0:
        print("skipped, full disk: this user may not mount a small one")
        return
    try:
        check(run("create", "--dir", "disk/q", "--end", 5, "--chunk", 1)[0] == 0, "a queue on a small disk")
        for number in range(24):
            try:
                (disk / f"full{number}").touch()
            except OSError:
                break
        (disk / "full0").unlink()  # the worker's file
        status, output = run("run", "--dir", "disk/q", "--", "true")
        check(status == 75 and "No space left on device" in output, "a full disk", output)
        (disk / "full1").unlink()
        (disk / "full2").unlink()
        status, output = run("run", "--dir", "disk/q", "--", "true")  # room for a claim, not for its end
        check(status == 75 and "No space left on device" in output, "a disk that fills", output)
        for name in disk.glob("full*"):
            name.unlink()
        status, output = run("run", "--dir", "disk/q", "--", "true")
        check(status == 0, "room again", output)
    finally:
        subprocess.run(["umount", disk], check=True)


with tempfile.TemporaryDirectory() as directory:
    PLACE = Path(directory)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"ok {name}")
