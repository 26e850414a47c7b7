#!/usr/bin/env python3
"""libweft-mpi under a real mpirun: the scenes of dist_scenes.c on several ranks, the bits of its reductions for every number of ranks
and workers, and ranks that die or hang.

    test_dist.py openmpi|mpich PROGRAM [--library PATH] [--kills N] [--faults N]

mpirun.openmpi, mpirun.mpich, or mpirun, must be on PATH. --kills: N ranks of as many jobs are killed, and nothing else is run; --faults:
each call fails at its first to its Nth time, and nothing else is run.
"""
import argparse
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import check

GRIDS = [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (3, 2)]
TCP = ["--mca", "btl", "self,tcp", "--mca", "pml", "ob1", "--mca", "osc", "^sm,ucx", "--mca", "btl_tcp_if_include", "lo"]
LIMIT_S = 600  # only a hang takes this long
ALONE_S = 10


class Launcher:
    def __init__(self, kind, program):
        self.kind, self.program, self.tcp = kind, program, TCP if kind == "openmpi" else []
        self.mpirun = shutil.which(f"mpirun.{kind}") or shutil.which("mpirun")
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}

    def start(self, ranks, *words, options=(), **more):
        command = [self.mpirun, "-np", str(ranks), *options] if ranks > 1 or options else []
        return subprocess.Popen([*command, self.program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**self.environment, **more}, stdin=subprocess.DEVNULL, start_new_session=True)

    def run(self, ranks, *words, options=(), **more):
        process = self.start(ranks, *words, options=options, **more)
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            sys.exit(f"FAILED: {ranks} ranks, {words}: hangs")
        return process.returncode, output

    @functools.cached_property
    def bits(self):
        """What a reduction gives on one rank of one worker."""
        return re.search(r"bits (\w+)", passes(self, 1, 1, "reduce"))[1]


def passes(launcher, ranks, *words, options=()):
    status, output = launcher.run(ranks, *words, options=options)
    check(status == 0 and "passed" in output, f"{ranks} ranks, {words}: status {status}", output)
    return output


def fails(launcher, ranks, *words, options=()):
    """The job ends, not with 0, and no rank has come to a result."""
    status, output = launcher.run(ranks, *words, options=options)
    check(status != 0 and "a result" not in output and "passed" not in output, f"{ranks} ranks, {words}: status {status}", output)
    return output


# Calls that may fail without harm: a window that is not shared, and a communicator that is left over.
HARMLESS = {"MPI_Win_allocate_shared", "MPI_Comm_free"}


def calls_layered():
    text = (Path(__file__).parent / "dist_faults.h").read_text()
    return sorted(set(re.findall(r"^LAYER\((\w+)", text, re.M)))


def calls_considered(library):
    """Every call that the library makes of MPI is one that fails here, or the layer's head says why it does not."""
    symbols = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
    wanted = set(re.findall(r"\bMPI_\w+", symbols)) - {"MPI_Abort", "MPI_Error_string"}
    check(len(wanted) > 20 and wanted <= set(calls_layered()), f"calls that are not made to fail: {wanted - set(calls_layered())}")


def fault(launcher, name, number, rank, options, ranks=2):
    """One call fails on one rank: an error or the end of the job, non-zero; else the whole result. True: it was called so often."""
    more = {"WEFT_FAIL_CALLS": f"{name}:{number}"}
    if name not in HARMLESS: # where one rank alone is refused a window, the others wait for it inside MPI
        more["WEFT_FAIL_RANK"] = str(rank)
    status, output = launcher.run(ranks, 1, "reduce", "sort", options=options, **more)
    what = f"{name}, call {number} on rank {rank} of {ranks}"
    is_struck, is_whole = f"struck {name}" in output, f"bits {launcher.bits}" in output and "passed" in output
    check(status != 0 or is_whole, f"{what}: status 0 without the result", output)
    check(not is_struck or name in HARMLESS or status != 0, f"{what}: nobody says so", output)
    check(is_struck or status == 0, f"{what}: status {status}, and no fault", output)
    return is_struck


def faults(launcher, numbers, ways):
    """Each of MPI's calls fails in turn, on either rank."""
    struck, jobs, never = 0, 0, []
    for turn, name in enumerate(calls_layered()):
        before = struck
        for number in numbers:
            for options in ways:
                jobs += 1
                struck += fault(launcher, name, number, (turn + number) % 2, options)
        for options, ranks in [(ways[0], 2), ((), 1)]:  # what rank 0 alone calls; without mpirun
            if struck == before:
                jobs += 1
                struck += fault(launcher, name, 1, 0, options, ranks)
        if struck == before:
            never.append(name)
    check(not never or not launcher.tcp, f"never called: {never}")
    print(f"{launcher.kind}: {len(calls_layered())} calls of MPI made to fail in {jobs} jobs, struck in {struck}: no result that is not whole"
          + (f"; only where memory is not shared: {' '.join(never)}" if never else ""))


def ended_alone(launcher, process):
    """Has mpirun come to its end? Open MPI's (PMIx 4.2.2) may lock itself up while it ends, when its ranks are gone."""
    name, alone = os.path.basename(launcher.program), 0
    for _ in range(LIMIT_S):
        try:
            return process.communicate(timeout=1)[0], True
        except subprocess.TimeoutExpired:
            alone = 0 if ranks_of(process.pid, name) else alone + 1
        if alone == ALONE_S:
            os.killpg(process.pid, signal.SIGKILL)
            return process.communicate()[0], False
    os.killpg(process.pid, signal.SIGKILL)
    sys.exit("FAILED: a job of which a rank was killed hangs")


def kill_one(launcher, turn, most_s):
    """How the job ended: "ended non-zero", "with its result", or "mpirun hung without ranks"."""
    scene = ("reduce", "loop", "sort")[turn % 3]
    process = launcher.start(3, 1, scene)
    time.sleep(random.random() * most_s[scene])
    ranks = ranks_of(process.pid, os.path.basename(launcher.program))
    if ranks:
        try:
            os.kill(random.choice(ranks), signal.SIGKILL)
        except ProcessLookupError:
            ranks = []
    output, has_ended = ended_alone(launcher, process)
    # A rank that has passed may be killed in MPI_Finalize; one result, whole, is there then.
    check(process.returncode != 0 or "passed" in output, f"kill {turn}: status 0 without a result", output)
    check(process.returncode == 0 or ranks, f"kill {turn}: status {process.returncode}, and nobody was killed", output)
    for bits in re.findall(r"bits (\w+)", output):
        check(bits == launcher.bits, f"kill {turn}: another result", output)
    return "mpirun hung without ranks" if not has_ended else "ended non-zero" if process.returncode != 0 else "with its result"


def kills(launcher, count):
    """Any rank, at any moment of a job: a job that was not done ends non-zero and says no result that is not whole."""
    most_s, outcomes = {}, dict.fromkeys(("ended non-zero", "with its result", "mpirun hung without ranks"), 0)
    for scene in ("reduce", "loop", "sort"):
        begin = time.monotonic()
        passes(launcher, 3, 1, scene)
        most_s[scene] = time.monotonic() - begin
    for turn in range(count):
        outcomes[kill_one(launcher, turn, most_s)] += 1
    print(f"{launcher.kind}: {count} jobs of which a rank was to be killed: {outcomes}; no result but the whole one")


def ranks_of(root, name):
    """Processes below `root` that run the program."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        if text.rsplit(")", 1)[1].split()[0] == "Z":
            continue
        parents[int(pid)] = (int(text.rsplit(")", 1)[1].split()[1]), text.split("(", 1)[1].rsplit(")", 1)[0])

    def is_below(pid):
        while pid in parents and pid != root:
            pid = parents[pid][0]
        return pid == root

    return [pid for pid, (_, command) in parents.items() if command == name[:15] and is_below(pid)]


def balance(launcher):
    """A rank in whose chunk one index does not end until the others have nothing left: what it begins after is out of balance."""
    words = r"chunks begun after the others had none: (\d+)"
    for grid in ((2, 1), (2, 2), (3, 1)):
        after = int(re.search(words, passes(launcher, *grid, "balance"))[1])
        check(after == 0, f"{after} chunks were left to one of {grid[0]} ranks")
    if launcher.tcp:  # at most the one that was fetched ahead
        after = int(re.search(words, passes(launcher, 3, 1, "balance", options=TCP))[1])
        check(after <= 1, f"{after} chunks were left to one of three ranks over TCP")


def sanitized(launcher):
    """Both MPIs are code that no sanitizer sees: what they do by themselves is left out, and what they keep at their end. libweft-mpi
    allocates by weft_alloc alone, so of its own nothing is left out."""
    launcher.environment["ASAN_OPTIONS"] = "detect_leaks=0"
    # UCX below MPICH puts a hook into madvise, which glibc calls when a thread has ended for ThreadSanitizer: its lock there is a SIGSEGV,
    # also in a program of MPI_Init_thread and MPI_Finalize alone.
    launcher.environment["UCX_MEM_MMAP_HOOK_MODE"] = "none"
    launcher.environment["TSAN_OPTIONS"] = "ignore_noninstrumented_modules=1:halt_on_error=1"
    for ranks, workers in ((1, 3), (2, 2)):
        passes(launcher, ranks, workers)
        passes(launcher, ranks, workers, "reduce", "sort", "cancel", "failure", options=launcher.tcp if ranks > 1 else ())
    passes(launcher, 2, 2, "balance")
    print(f"{launcher.kind}: the scenes on 1x3 and 2x2")
    print("skipped, calls that fail, kills and silent ranks under a sanitizer: the release build has them")


def examples(launcher, run, bench):
    """dist_run has each piece once and takes no file that it does not understand; a child of it hears signals; dist_bench takes no word
    that it does not know."""
    with tempfile.TemporaryDirectory() as folder:
        cuts = os.path.join(folder, "cuts")

        def ends(text, end, *words):
            with open(cuts, "w", encoding="ascii") as file:
                file.write(text)
            return Launcher(launcher.kind, run).run(1, cuts, end, *words)

        for text in ("0\n5\n9\n", "0\n5\n9"):
            status, output = ends(text, 12, "echo", "piece {piece} from {begin} to {end}, {count}")
            said = sorted(re.findall(r"piece .*", output))
            check(status == 0 and said == ["piece 0 from 0 to 5, 5", "piece 1 from 5 to 9, 4", "piece 2 from 9 to 12, 3"], f"pieces of {text!r}", output)
        for text, end in (("", 12), ("0\n5\nx", 12), ("0\n5\n9x\n", 12), ("0\n-5", 12), ("0\n 5", 12), ("5\n5", 12), ("0\n12", 12), ("0\n5", "12x"),
                          ("0\n5", "-1"), ("0\n" + "1" * 30, 12), ("0\n5\n\n", 12)):
            status, output = ends(text, end, "echo", "piece")
            check(status == 2 and "usage" in output and "\npiece" not in output, f"a file of cuts {text!r} below {end}: status {status}", output)
        status, output = ends("3", 12, "sh", "-c", "echo ${#0} bytes", "a" * 1500 + "{begin}" * 300)
        check(status == 0 and "1800 bytes" in output, "a long word", output)
        status, output = ends("0", 1, "grep", "SigBlk", "/proc/self/status")
        check(status == 0 and re.search(r"SigBlk:\s*0+\n", output), "signals that a child does not hear", output)
    for words in (("1", "8", "1", "odd"), ("1", "8", "1", "even", "0"), ("1", "8", "1", "even", "2", "fro"), ("x", "8", "1"), ("1", "8", "")):
        status, output = Launcher(launcher.kind, bench).run(1, *words)
        check(status == 2 and "usage" in output, f"dist_bench {words}: status {status}", output)
    status, output = Launcher(launcher.kind, bench).run(1, 1, 8, 1, "even", 2, "reduce")
    check(status == 0 and "weft_dist_reduce" in output and "weft_dist_for" not in output, "dist_bench of reductions", output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["openmpi", "mpich"])
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--library", type=os.path.abspath)
    parser.add_argument("--kills", type=int)
    parser.add_argument("--faults", type=int)
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--run", type=os.path.abspath, help="the program dist_run")
    parser.add_argument("--bench", type=os.path.abspath, help="the program dist_bench")
    given = parser.parse_args()
    launcher = Launcher(given.kind, given.program)
    if not launcher.mpirun:
        print(f"skipped, {given.kind}: no mpirun")
        return
    if given.sanitized:
        sanitized(launcher)
        return
    if given.library:
        calls_considered(given.library)
    if given.kills:
        kills(launcher, given.kills)
    if given.faults:
        faults(launcher, range(1, given.faults + 1), [launcher.tcp, ()] if launcher.tcp else [()])
    if given.kills or given.faults:
        return
    if given.run:
        examples(launcher, given.run, given.bench)
    kind = launcher.kind
    passes(launcher, 1, 2)
    passes(launcher, 3 if kind == "openmpi" else 2, 1)  # waits of MPICH spin, and there may be fewer processors than ranks
    output = passes(launcher, 2, 1, "levels")
    if "more than was asked" in output:
        print(f"skipped, a rank of MPI_THREAD_SINGLE: {kind} gives more than that")
    bits = {grid: re.search(r"bits (\w+)", passes(launcher, *grid, "reduce"))[1] for grid in GRIDS}
    check(len(set(bits.values())) == 1, f"bits: {bits}")
    for grid in GRIDS:
        passes(launcher, *grid, "sort")
    if launcher.tcp:  # nobody shares memory
        passes(launcher, 2, 2, options=TCP)
        check("bits " + bits[1, 1] in passes(launcher, 3, 1, "reduce", options=TCP), "bits over TCP")
        passes(launcher, 2, 1, "limits", options=TCP)
    balance(launcher)
    faults(launcher, [1], [launcher.tcp])
    fails(launcher, 3, 1, "die")
    for options in ((), TCP) if launcher.tcp else ((),):
        output = fails(launcher, 3, 1, "silent", options=options)
        check("rank 2 has been silent" in output, "who was silent", output)
        if not options:  # over TCP a rank tells of a chunk only after a while
            check("holding a chunk" in output and "rank 2 has had the chunk from index" in output, "who holds what", output)
        output = fails(launcher, 3, 1, "silent_first", options=options)
        check("rank 0 does not answer" in output or "rank 0 has been silent" in output, "who was silent", output)
    output = passes(launcher, 2, 1, "limits")
    check("has had the chunk" not in output and "silent" not in output, "a watchdog of centuries speaks", output)
    for options in ((), TCP) if launcher.tcp else ((),):
        check("has had the chunk from index 0 for" in passes(launcher, 3, 1, "watchdog", options=options), "the watchdog says nothing")
    print(f"{kind}: bits {bits[1, 1]} for {' '.join(f'{r}x{w}' for r, w in GRIDS)}")


main()
