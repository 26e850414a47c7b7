"""Box2D 3.2 from a source tree: its unit tests, whose test of determinism compares a hash of all transforms with a constant, and scenes of
its benchmark, on Box2D's own threads and on a weft pool. Box2D stays as it is; box2d_world.c gives weft to each world that is made."""

import os
import re

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, ROOT, WEFT, Broken, Case, Unavailable, passes, run
from source import made_of

WORLD = os.path.join(ROOT, "tools", "hosts", "box2d_world.c")
# The flags below are not for programs that try the compiler.
OPTIONS = ["-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY", "-DCMAKE_BUILD_TYPE=Release", "-DBOX2D_SAMPLES=OFF", "-DBOX2D_BENCHMARKS=ON", "-DBOX2D_UNIT_TESTS=ON", "-DBOX2D_VALIDATE=OFF"]
SCENES = ("joint_grid", "large_pyramid", "tumbler")
TIMES = r"run \d+ : [^\n]*\n"


class Host:
    name, package = "box2d", None

    def __init__(self, work, source, remarks):
        if source is None:
            raise Unavailable("Debian 12 has no Box2D 3: scripts/host box2d=DIR names a tree")
        header = os.path.join(source, "include", "box2d", "types.h")
        if not os.path.exists(header):
            raise Unavailable(f"{source} has no include/box2d/types.h")
        with open(header, encoding="utf-8") as text:
            if not re.search(r"b2EnqueueTaskCallback\*\s*enqueueTask", text.read()):
                raise Unavailable(f"{source} is not Box2D 3.2: its tasks have another form")
        self.work, self.source = work, source
        made_of(source, work, *BUILDS)
        for build in BUILDS:
            self.build(build)
        remarks.append("weft has one worker beside the stepping thread, whatever Box2D's workerCount says")

    def folder(self, build, *names):
        return os.path.join(self.work, build, *names)

    def build(self, build):
        """Programs of the tree as it is; each b2CreateWorld goes by way of ours."""
        log, fault = os.path.join(self.work, f"{build}.log"), Broken if build == WEFT else Unavailable
        ours, weft = os.path.join(self.work, f"world.{build}.o"), ["-DON_WEFT"] if build == WEFT else []
        folders = [f"-I{folder}" for folder in (INCLUDE, ADAPTERS, os.path.join(self.source, "include"))]
        run(["gcc", "-O2", *weft, *folders, "-c", WORLD, "-o", ours], log, fault)
        words = [*OPTIONS, f"-DCMAKE_EXE_LINKER_FLAGS=-Wl,--wrap=b2CreateWorld {ours}",
                 f"-DCMAKE_C_STANDARD_LIBRARIES={LIBRARY if build == WEFT else ''} -lm -pthread"]
        for name in ("test", "benchmark"):  # its makefiles do not know what these depend on
            if os.path.exists(self.folder(build, "bin", name)):
                os.remove(self.folder(build, "bin", name))
        run(["cmake", "-S", self.source, "-B", self.folder(build), *words], log, fault)
        jobs = os.environ.get("JOBS", str(len(os.sched_getaffinity(0))))
        run(["cmake", "--build", self.folder(build), "-j", jobs, "--target", "test", "benchmark"], log, fault)

    def suite(self):
        yield "unit tests", {build: passes([self.folder(build, "bin", "test")], os.path.join(self.work, f"test.{build}.log"), self.work)
                             for build in BUILDS}

    def cases(self):
        for scene in SCENES:
            for threads in (2, 4):
                yield Case(f"{scene}, {threads} workers", self.scene(scene, threads), ignore=TIMES, folder=self.folder)

    def scene(self, scene, threads):
        return lambda build: ["env", f"WORLD_WORKERS={threads}", self.folder(build, "bin", "benchmark"), f"-b={scene}", "-t=1", "-r=1"]
