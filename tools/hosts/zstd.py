"""zstd, with weft as its pool.c: its pool's tests and those of its program, and files compressed, decompressed and trained on with two
and four threads, byte by byte."""

import os
import shutil

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, WEFT, Broken, Case, Unavailable, passes, run
from source import copy_once, made_of, unpack

POOL = os.path.join("lib", "common", "pool.c")
MEGABYTES = 96
SAMPLES = 400


class Host:
    name, package = "zstd", "libzstd"

    def __init__(self, work, source, remarks):
        self.work = work
        source = source or unpack(work, self.package)
        if not os.path.exists(os.path.join(source, POOL)):
            raise Unavailable(f"{source} has no {POOL}")
        made_of(source, work, *BUILDS)
        for build in BUILDS:
            self.build(source, build)
        self.files()
        remarks.append("its fuzzers run until a time is over, so what they tried could not be compared: left out")

    def tree(self, build, *names):
        return os.path.join(self.work, build, *names)

    def build(self, source, build):
        """One form of zstd; its only change is the file of the pool. What is made of that is made anew."""
        tree, fault, environment = self.tree(build), Broken if build == WEFT else Unavailable, dict(os.environ)
        copy_once(source, tree, ".git", ".pc")
        program, test = self.tree(build, "programs", "zstd"), self.tree(build, "tests", "poolTests")
        if build == WEFT:
            pool = os.path.join(ADAPTERS, "zstd", "pool.c")
            shutil.copyfile(pool, self.tree(build, POOL))
            environment["CPPFLAGS"] = f"-I{INCLUDE} -I{ADAPTERS}"
            # Its makefiles put this before the objects.
            environment["LDFLAGS"] = f"-Wl,--whole-archive {LIBRARY} -Wl,--no-whole-archive"
            newest = max(os.path.getmtime(path) for path in (LIBRARY, pool, os.path.join(ADAPTERS, "view.h")))
            for made in (program, test):
                if os.path.exists(made) and os.path.getmtime(made) < newest:
                    os.remove(made)
        log = os.path.join(self.work, f"{build}.log")
        jobs = os.environ.get("JOBS", str(len(os.sched_getaffinity(0))))
        for folder, wanted in (("programs", ["zstd"]), ("tests", ["poolTests", "datagen"])):
            run(["make", "-j", jobs, "-C", self.tree(build, folder), *wanted], log, fault, env=environment)

    def files(self):
        """What is compressed, its compressed form, and the samples of a dictionary."""
        self.data = os.path.join(self.work, "data")
        self.packed = self.data + ".zst"
        self.samples = os.path.join(self.work, "samples")
        self.small = os.path.join(self.work, "small")
        log, tree = os.path.join(self.work, "files.log"), BUILDS[0]
        if not os.path.exists(self.data):
            run(["sh", "-c", f'"{self.tree(tree, "tests", "datagen")}" -s1 -g{MEGABYTES}MB >"{self.data}.part"'], log)
            os.rename(self.data + ".part", self.data)
        run([self.tree(tree, "programs", "zstd"), "-q", "-f", self.data, "-o", self.packed], log)
        with open(self.data, "rb") as data, open(self.small, "wb") as small:
            small.write(data.read(1000))
        if not os.path.exists(self.samples):
            os.makedirs(self.samples + ".part", exist_ok=True)
            with open(self.data, "rb") as data:
                for index in range(SAMPLES):
                    with open(os.path.join(self.samples + ".part", f"{index:04}"), "wb") as sample:
                        sample.write(data.read(4096 + 16 * index))
            os.rename(self.samples + ".part", self.samples)

    def runs(self, command, build):
        # Links to the program, which an earlier run has left and the script would make.
        shutil.rmtree(self.tree(build, "tests", "cli-tests", "bin", "symlinks"), ignore_errors=True)
        log = os.path.join(self.work, f"{os.path.basename(command[0])}.{build}.log")
        return passes(command, log, self.tree(build, "tests")).naming(r"^PASS: (\S+)")

    def suite(self):
        programs = ["--zstd=../programs/zstd", "--zstdgrep=../programs/zstdgrep", "--zstdless=../programs/zstdless", "--datagen=./datagen"]
        for name, command in {"poolTests": ["./poolTests"], "cli-tests": ["./cli-tests/run.py", *programs]}.items():
            yield name, {build: self.runs(command, build) for build in BUILDS}

    def cases(self):
        for threads in (1, 2, 4):
            yield self.case(f"level 3, {threads} threads", [f"-T{threads}", self.data])
        yield self.case("level 1, 4 threads, jobs of 512 KiB", ["-1", "-T4", "-B512K", self.data])
        yield self.case("level 9, 4 threads", ["-9", "-T4", self.data])
        yield self.case("decompress", ["-d", self.packed])
        yield self.case("1 KB, 4 threads", ["-T4", self.small])
        yield self.case("dictionary, 4 threads", ["--train-cover=d=8,steps=24", "-T4", "-r", self.samples])

    def case(self, name, words):
        return Case(name, lambda build: [self.tree(build, "programs", "zstd"), "-q", "-f", *words, "-o", self.output(build)], self.output)

    def output(self, build):
        return os.path.join(self.work, f"output.{build}")
