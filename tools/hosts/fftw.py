"""FFTW as Debian has it, on its own threads and with weft's loop installed before main: the checks of its threaded transforms, by its own
test program, and transforms whose bits must be equal. Of its source the test program alone is built."""

import os

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, ROOT, STOCK, WEFT, Broken, Case, Unavailable, passes, run
from source import configure_once, made_of, unpack

LIBRARIES = ["-lfftw3_threads", "-lfftw3", "-lm", "-pthread"]
TEST = ("bench", "hook", "fftw-bench")
# How its makefile checks threaded transforms, with a number of tests that takes a minute.
CHECKS = {"random, 2 threads": ["-r", "-c=8", "--nthreads=2"], "random, 4 threads": ["-r", "-c=4", "--nthreads=4"],
          "random, 2 threads, estimated": ["-r", "--estimate", "-c=8", "--nthreads=2"]}
TRANSFORMS = ((512, 512, 2, 40), (600, 800, 2, 25), (600, 800, 4, 25), (1024, 1024, 4, 10), (64, 64, 2, 4000), (64, 64, 2, 0))


class Host:
    name, package = "fftw", "fftw3"

    def __init__(self, work, source, remarks):
        self.work = work
        if not os.path.exists("/usr/include/fftw3.h"):
            raise Unavailable("libfftw3-dev is not installed")
        source = source or unpack(work, self.package)
        self.log = os.path.join(work, "build.log")
        made_of(source, work, STOCK)
        self.build_test(source)
        installed = os.path.join(work, "install.o")
        run(["gcc", "-O2", f"-I{INCLUDE}", f"-I{ADAPTERS}", "-c", os.path.join(ADAPTERS, "fftw", "install.c"), "-o", installed], self.log, Broken)
        run(["gcc", "-O2", "-c", os.path.join(ROOT, "tools", "hosts", "fftw_run.c"), "-o", os.path.join(work, "fftw_run.o")], self.log, Broken)
        for build in BUILDS:
            ours = [installed, LIBRARY] if build == WEFT else []
            self.link(build, "bench", [*self.objects(), os.path.join(self.tree, "libbench2", "libbench2.a"), *ours])
            self.link(build, "fftw_run", [os.path.join(work, "fftw_run.o"), *ours])
        remarks.append("the library is Debian's own; its larger checks take hours and are left out")

    def objects(self):
        return [os.path.join(self.tree, "tests", f"{name}.o") for name in TEST]

    def build_test(self, source):
        """The objects of its test program; the library beside them is not built."""
        self.tree = os.path.join(self.work, STOCK)
        # As Debian configures the library for this machine: its inner structures, which the test program looks at, must be these.
        configure_once(source, self.tree, ["./configure", "--enable-threads", "--enable-sse2", "--disable-fortran", "--disable-shared"], self.log)
        run(["make", "-C", "libbench2"], self.log, cwd=self.tree)
        run(["make", "-C", "tests", *(f"{name}.o" for name in TEST)], self.log, cwd=self.tree)

    def program(self, build, name):
        return os.path.join(self.work, f"{name}.{build}")

    def link(self, build, name, inputs):
        run(["gcc", *inputs, *LIBRARIES, "-o", self.program(build, name)], self.log, Broken if build == WEFT else Unavailable)

    def suite(self):
        check = os.path.join(self.tree, "tests", "check.pl")
        for number, (name, words) in enumerate(CHECKS.items(), 1):
            yield f"check.pl, {name}", {
                build: passes(["perl", check, *words, self.program(build, "bench")], os.path.join(self.work, f"check{number}.{build}.log"), self.work)
                for build in BUILDS
            }

    def cases(self):
        for rows, columns, threads, count in TRANSFORMS:
            words = [str(number) for number in (rows, columns, threads, count)]
            yield Case(f"{rows} x {columns}, {threads} threads" + ("" if count else ", only planned"),
                       lambda build, words=words: [self.program(build, "fftw_run"), *words])
