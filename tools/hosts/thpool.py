"""C-Thread-Pool: its six test scripts, and its own test programs in turns."""

import os
import shutil
import subprocess
import sys

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, WEFT, Broken, Case, Unavailable, passes, settings
from source import unpack

SCRIPTS = ("threadpool", "api", "pause_resume", "heap_stack_garbage", "memleaks", "wait")
LONG = ("memleaks",)
COMPILES = "../thpool.c -D THPOOL_DEBUG -pthread -o test"  # how its tests say it


class Host:
    name, package = "thpool", "cthreadpool"

    def __init__(self, work, source, remarks):
        self.work, self.remarks = work, remarks
        try:
            source = source or unpack(work, self.package)
        except Unavailable as reason:  # mirrors have dropped it
            raise Unavailable(f"{reason}; thpool=DIR names a tree of its repository") from reason
        for build in BUILDS:
            self.copy(source, build)
        self.tools()

    def copy(self, source, build):
        tree = os.path.join(self.work, build)
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(source, tree, ignore=shutil.ignore_patterns(".git", ".pc"))
        functions = os.path.join(tree, "tests", "funcs.sh")
        if not os.path.exists(functions):
            raise Unavailable(f"{source} has no tests/funcs.sh")
        if build == WEFT:
            shutil.copyfile(os.path.join(ADAPTERS, "thpool", "thpool.c"), os.path.join(tree, "thpool.c"))
            with open(functions, encoding="utf-8") as script:
                text = script.read()
            if COMPILES not in text:
                raise Unavailable("its tests compile otherwise than they did")
            with open(functions, "w", encoding="utf-8") as script:
                script.write(text.replace(COMPILES, f"-I{INCLUDE} -I{ADAPTERS} -I.. ../thpool.c {LIBRARY} {COMPILES.split('c ', 1)[1]}"))
        for program in ("conc_increment", "wait"):
            self.compile(tree, build, program)

    def compile(self, tree, build, program):
        extra = [f"-I{INCLUDE}", f"-I{ADAPTERS}"] if build == WEFT else []
        command = ["gcc", "-O2", *extra, f"tests/src/{program}.c", "thpool.c", *([LIBRARY] if build == WEFT else []), "-pthread", "-o", program]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
        if done.returncode:
            raise (Broken if build == WEFT else Unavailable)(f"{program} does not compile with {build}: {done.stderr[-500:]}")

    def tools(self):
        """Its scripts call `python`."""
        folder = os.path.join(self.work, "bin")
        os.makedirs(folder, exist_ok=True)
        link = os.path.join(folder, "python")
        if not os.path.exists(link):
            os.symlink(sys.executable, link)
        self.environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}

    def runs(self, script, build):
        return passes(["bash", f"./{script}.sh"], os.path.join(self.work, f"{script}.{build}.log"), os.path.join(self.work, build, "tests"),
                      self.environment)

    def suite(self):
        for script in SCRIPTS:
            if script in LONG and not settings["long"]:
                self.remarks.append(f"skipped, {script}: a quarter of an hour or more; --long runs it")
                continue
            if script == "memleaks" and not shutil.which("valgrind"):
                self.remarks.append("skipped, memleaks: valgrind is not installed")
                continue
            yield script, {build: self.runs(script, build) for build in BUILDS}

    def cases(self):
        for threads in (2, 4):
            yield Case(f"1000000 jobs, {threads} threads",
                       lambda build, threads=threads: [os.path.join(self.work, build, "conc_increment"), "1000000", str(threads)])
