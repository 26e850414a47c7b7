#!/usr/bin/env python3
"""libweft-mpi under a real mpirun: the scenes of dist_scenes.c on several ranks, the bits of its reductions for every number of ranks
and workers, and ranks that die or hang.

    test_dist.py openmpi|mpich PROGRAM [--kills N]      mpirun.openmpi, mpirun.mpich, or mpirun, must be on PATH
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

GRIDS = [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (3, 2)]
TCP = ["--mca", "btl", "self,tcp", "--mca", "pml", "ob1", "--mca", "osc", "^sm,ucx", "--mca", "btl_tcp_if_include", "lo"]
LIMIT_S = 600  # only a hang takes this long


class Launcher:
    def __init__(self, kind, program):
        self.kind, self.program = kind, program
        self.mpirun = shutil.which(f"mpirun.{kind}") or shutil.which("mpirun")
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}

    def start(self, ranks, *words, options=(), **more):
        command = [self.mpirun, "-np", str(ranks), *options] if ranks > 1 or options else []
        return subprocess.Popen([*command, self.program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**self.environment, **more}, stdin=subprocess.DEVNULL, start_new_session=True)

    def run(self, ranks, *words, options=()):
        process = self.start(ranks, *words, options=options)
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            sys.exit(f"FAILED: {ranks} ranks, {words}: hangs")
        return process.returncode, output


def check(condition, what, output=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{output}")


def passes(launcher, ranks, *words, options=()):
    status, output = launcher.run(ranks, *words, options=options)
    check(status == 0 and "passed" in output, f"{ranks} ranks, {words}: status {status}", output)
    return output


def fails(launcher, ranks, *words, options=()):
    """The job ends, not with 0, and no rank has come to a result."""
    status, output = launcher.run(ranks, *words, options=options)
    check(status != 0 and "a result" not in output and "passed" not in output, f"{ranks} ranks, {words}: status {status}", output)
    return output


def faults(launcher, ranks, calls):
    """A call of MPI that fails: an error or the end of the job, non-zero; never a result. Over TCP, where there are more of them."""
    struck = 0
    for call in calls:
        process = launcher.start(ranks, 1, "reduce", options=TCP if ranks > 1 and launcher.kind == "openmpi" else (), WEFT_FAIL_CALL=str(call))
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            sys.exit(f"FAILED: MPI's call {call} fails: hangs")
        struck += "struck" in output
        check(("struck" in output) == (process.returncode != 0), f"MPI's call {call} fails: status {process.returncode}", output)
        check("struck" not in output or "passed" not in output, f"MPI's call {call} fails: a result", output)
    print(f"{launcher.kind}: MPI's calls {calls[0]} to {calls[-1]} failed, on {ranks} ranks: {struck} jobs ended, none with a result")


def kills(launcher, count):
    """Any rank, at any moment: a job that was not done ends non-zero and says no result."""
    outcomes = {"ended before": 0, "aborted": 0}
    for turn in range(count):
        process = launcher.start(3, 1, "reduce")
        time.sleep(random.random() * 0.6)
        ranks = ranks_of(process.pid, os.path.basename(launcher.program))
        if ranks:
            try:
                os.kill(random.choice(ranks), signal.SIGKILL)
            except ProcessLookupError:
                ranks = []
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            sys.exit(f"FAILED: kill {turn}: hangs")
        # A rank that has passed may be killed in MPI_Finalize; one result, whole, is there then.
        check(process.returncode != 0 or "passed" in output, f"kill {turn}: status 0 without a result", output)
        outcomes["ended before" if process.returncode == 0 else "aborted"] += 1
    print(f"{launcher.kind}: {count} kills: {outcomes}; none returned 0 without its result")


def ranks_of(root, name):
    """Processes below `root` that run the program."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        parents[int(pid)] = (int(text.rsplit(")", 1)[1].split()[1]), text.split("(", 1)[1].rsplit(")", 1)[0])

    def is_below(pid):
        while pid in parents and pid != root:
            pid = parents[pid][0]
        return pid == root

    return [pid for pid, (_, command) in parents.items() if command == name[:15] and is_below(pid)]


def main(kind, program, count):
    launcher = Launcher(kind, program)
    if not launcher.mpirun:
        print(f"skipped, {kind}: no mpirun")
        return
    if count:
        faults(launcher, 1, range(1, 2 * count))
        faults(launcher, 2, range(1, count))
        return kills(launcher, count)
    passes(launcher, 1, 2)
    passes(launcher, 3 if kind == "openmpi" else 2, 1)  # waits of MPICH spin, and there may be fewer processors than ranks
    bits = {grid: re.search(r"bits (\w+)", passes(launcher, *grid, "reduce"))[1] for grid in GRIDS}
    check(len(set(bits.values())) == 1, f"bits: {bits}")
    if kind == "openmpi":  # over TCP: nobody shares memory
        passes(launcher, 2, 2, options=TCP)
        check("bits " + bits[1, 1] in passes(launcher, 3, 1, "reduce", options=TCP), "bits over TCP")
    faults(launcher, 1, [1, 2, 3, 5, 8, 13, 21, 34])
    fails(launcher, 3, 1, "die")
    output = fails(launcher, 3, 1, "silent")
    check("rank 2 has been silent" in output and "holding a chunk" in output, "who was silent", output)
    check("rank 2 has had the chunk from index" in output, "who holds what", output)
    check("has had the chunk from index 0 for" in passes(launcher, 3, 1, "watchdog"), "the watchdog says nothing")
    print(f"{kind}: bits {bits[1, 1]} for {' '.join(f'{r}x{w}' for r, w in GRIDS)}")


main(sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[4]) if sys.argv[3:4] == ["--kills"] else 0)
