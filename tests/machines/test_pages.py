#!/usr/bin/env python3
"""The commands of docs/howto/machines.md and docs/howto/machines-batch.md, as they stand there, with a ./simulate that writes its numbers: workers that
come at once, one that is told to end, and one that comes later.

    test_pages.py PATH-OF-WEFT
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import check

WEFT = Path(sys.argv[1]).resolve()
DOCS = Path(__file__).resolve().parents[2] / "docs/howto"
SIMULATE = """#!/bin/sh
[ "$1 $3 $5" = "--from --to -o" ] || exit 2
while [ ! -e "$HOME/go" ]; do sleep 0.02; done
seq "$2" "$(($4 - 1))" >"$6"
"""


def blocks(page):
    """What is indented by four columns, as a shell or a file has it."""
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", (DOCS / page).read_text(), re.M)
    return [re.sub(r"^    ", "", block, flags=re.M).strip("\n") + "\n" for block in found]


def block_with(page, text):
    found = [block for block in blocks(page) if text in block]
    check(len(found) == 1, f"{page} has {len(found)} blocks with {text}")
    return found[0]


class Place:
    """A directory with ./simulate and out/, and workers in it."""

    def __init__(self, path):
        self.path = Path(path)
        (self.path / "out").mkdir()
        (self.path / "simulate").write_text(SIMULATE)
        (self.path / "simulate").chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{WEFT.parent}:{os.environ['PATH']}", "HOME": str(path), "SLURM_SUBMIT_DIR": str(path)}

    def start(self, *words):
        return subprocess.Popen(words, cwd=self.path, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def held_by(self, worker):
        for _ in range(6000):
            status = subprocess.run([WEFT, "chunks", "status", "--dir", "queue"], cwd=self.path, capture_output=True, text=True, check=False)
            if re.search(rf"held .* by \S+:{worker.pid} ", status.stdout):
                return
            time.sleep(0.01)
        sys.exit("FAILED: a worker holds nothing")

    def work(self, *words):
        """Three workers begin; one is told to end, and its chunks are done by the others; one comes later."""
        workers = [self.start(*words) for _ in range(3)]
        self.held_by(workers[0])
        workers[0].send_signal(signal.SIGTERM)
        said = workers[0].communicate()[0]
        check(workers[0].returncode == 128 + signal.SIGTERM, f"a worker that is told to end: {workers[0].returncode}", said)
        (self.path / "go").touch()
        for worker in (*workers[1:], self.start(*words)):
            said = worker.communicate()[0]
            check(worker.returncode == 0, f"a worker: {worker.returncode}", said)
        parts = [(self.path / f"out/part{chunk}").read_text().split() for chunk in range(100)]
        check(sum(parts, []) == [str(i) for i in range(1000)], "the parts are not the whole")
        check(len(list((self.path / "out").iterdir())) == 100, "something is left over")


def test_line():
    line = block_with("machines.md", "weft chunks run --dir queue").splitlines()[-1]
    with tempfile.TemporaryDirectory() as path:
        Place(path).work("sh", "-c", "exec " + line)


def test_slurm():
    script = block_with("machines-batch.md", "#SBATCH")
    with tempfile.TemporaryDirectory() as path:
        place = Place(path)
        (place.path / "job.sh").write_text(script)
        (place.path / "job.sh").chmod(0o755)
        place.work("./job.sh")


def test_kubernetes():
    """The container's command, a list as YAML writes it in one line, with the volume's place replaced."""
    job = block_with("machines-batch.md", "kind: Job")
    check("completionMode: Indexed" in job, "an indexed job", job)
    text = re.search(r"command: \[(.*?)\]\n", job, re.S)[1]
    words = [word.strip().strip('"') for word in re.split(r",\s+", text)]
    with tempfile.TemporaryDirectory() as path:
        Place(path).work(*[word.replace("/shared", path) for word in words])


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print(f"ok {name}")
