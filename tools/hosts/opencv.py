"""OpenCV as Debian has it, on its own backend and with weft as a plugin: functions of imgproc on a picture, byte by byte. Nothing of it is
built here."""

import os
import subprocess

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, ROOT, WEFT, Broken, Case, Unavailable, passes, run

HEADERS = "/usr/include/opencv4"
# Some tenths of a second each.
ROUNDS = {"blur": 60, "median": 8, "canny": 40, "resize": 120, "warp": 60, "colours": 150, "bilateral": 10}


class Host:
    name, package = "opencv", "libopencv-core-dev"

    def __init__(self, work, source, remarks):
        self.work = work
        if source is not None:
            raise Unavailable("it is tried as Debian has it: name no tree")
        if not os.path.exists(os.path.join(HEADERS, "opencv2", "imgproc.hpp")):
            raise Unavailable("libopencv-imgproc-dev is not installed")
        log = os.path.join(work, "build.log")
        flags = ["-O2", f"-I{INCLUDE}", f"-I{ADAPTERS}", "-isystem", HEADERS]
        self.program, plugin = os.path.join(work, "opencv_run"), os.path.join(work, "libopencv_core_parallel_weft.so")
        run(["g++", *flags, os.path.join(ROOT, "tools", "hosts", "opencv_run.cpp"), "-lopencv_imgproc", "-lopencv_core", "-o", self.program], log)
        run(["g++", *flags, "-shared", "-fPIC", "-fvisibility=hidden", os.path.join(ADAPTERS, "opencv", "plugin.cpp"), LIBRARY, "-o", plugin], log,
            Broken)
        self.settings = [f"OPENCV_CORE_PLUGIN_PATH={work}", "OPENCV_PARALLEL_PRIORITY_LIST=WEFT"]
        self.check()
        remarks.append("its tests are in no package, and its source is not built here: left out")

    def check(self):
        """OpenCV goes on with its own backend where a plugin does not fit: what it says about that is looked for."""
        command = ["env", *self.settings, "OPENCV_LOG_LEVEL=INFO", self.program, "resize", "1", "0"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if "using backend: WEFT" not in told.stdout + told.stderr:
            raise Broken("OpenCV does not take the plugin")

    def suite(self):
        for threads in (0, 1):
            words = ["loops", "50", str(threads)]
            yield f"loops, {threads or 'its own number of'} threads", {
                build: passes(self.words(build, words), os.path.join(self.work, f"loops.{build}.log"), self.work) for build in BUILDS
            }

    def cases(self):
        for name, rounds in ROUNDS.items():
            yield self.case(name, name, rounds, 0)
        yield self.case("blur, 1 thread", "blur", ROUNDS["blur"], 1)

    def case(self, title, name, rounds, threads):
        return Case(title, lambda build: self.words(build, [name, str(rounds), str(threads)]))

    def words(self, build, words):
        return ["env", *(self.settings if build == WEFT else []), self.program, *words]
