"""libvmaf, from a source tree that holds libvmaf/ and model/, as its repository does: every test of its suite, and scores of a clip of
240 frames of 720p, byte by byte, with one to four threads, SIMD on and off."""

import json
import os
import shutil

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, WEFT, Broken, Case, Unavailable, passes, run
from source import copy_once, made_of

FEATURES = [word for name in ("psnr", "float_ssim") for word in ("--feature", name)]
FRAMES = 240
CLIP = "testsrc2=size=1280x720:rate=25,noise=alls=12:allf=t"


class Host:
    name, package = "libvmaf", None

    def __init__(self, work, source, remarks):
        if source is None:
            raise Unavailable("Debian has no source of a libvmaf with this pool: scripts/host libvmaf=DIR names a tree")
        if not os.path.exists(os.path.join(source, "libvmaf", "meson.build")):
            raise Unavailable(f"{source} has no libvmaf/meson.build")
        self.work, self.remarks = work, remarks
        self.digits = self.all_digits(source)
        made_of(source, work, *BUILDS)
        for build in BUILDS:
            self.build(source, build)
        self.clips()

    def all_digits(self, source):
        """Words for scores with all their digits, which only some trees have."""
        with open(os.path.join(source, "libvmaf", "tools", "cli_parse.c"), encoding="utf-8") as text:
            if '"precision"' in text.read():
                return ["--precision", "17"]
        self.remarks.append("this tree's vmaf has no --precision: scores are compared as it prints them, mostly six digits after the point")
        return []

    def tree(self, build):
        return os.path.join(self.work, build, "libvmaf")

    def build(self, source, build):
        """One form of libvmaf; its only change is the file of the pool, and weft beside it."""
        tree, fault = self.tree(build), Broken if build == WEFT else Unavailable
        copy_once(os.path.join(source, "libvmaf"), tree, "build")
        copy_once(os.path.join(source, "model"), os.path.join(self.work, build, "model"))
        arguments = []
        if build == WEFT:
            pool = os.path.join(ADAPTERS, "libvmaf")
            shutil.copyfile(os.path.join(pool, "thread_pool.c"), os.path.join(tree, "src", "thread_pool.c"))
            flags = " ".join(f"-I{path}" for path in (INCLUDE, ADAPTERS, pool))
            arguments = [f"-Dc_args={flags}", f"-Dc_link_args={LIBRARY}", f"-Dcpp_link_args={LIBRARY}"]
        log = os.path.join(self.work, f"{build}.log")
        if not os.path.exists(os.path.join(tree, "build", "build.ninja")):
            run(["meson", "setup", "build", "--buildtype", "release", "-Denable_docs=false", "-Denable_float=true", *arguments], log, fault,
                cwd=tree)
        if build == WEFT:  # meson does not know that the library is a dependency
            for name in ("tools/vmaf", "test/test_thread_pool", "test/test_framesync"):
                if os.path.exists(os.path.join(tree, "build", name)) and os.path.getmtime(os.path.join(tree, "build", name)) < os.path.getmtime(LIBRARY):
                    os.remove(os.path.join(tree, "build", name))
        jobs = os.environ.get("JOBS", str(len(os.sched_getaffinity(0))))
        run(["ninja", "-j", jobs, "-C", "build"], log, fault, cwd=tree)

    def clips(self):
        """A reference and a distorted copy of it, raw."""
        self.pair = [os.path.join(self.work, name) for name in ("reference.y4m", "distorted.y4m")]
        log = os.path.join(self.work, "clips.log")
        made = [["-f", "lavfi", "-i", CLIP, "-frames:v", str(FRAMES)], ["-i", self.pair[0], "-vf", "boxblur=2:1"]]
        for words, path in zip(made, self.pair):
            if not os.path.exists(path):
                run(["ffmpeg", "-nostdin", "-v", "error", "-y", *words, "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", path + ".part"], log)
                os.rename(path + ".part", path)

    def suite(self):
        """Each test of both builds."""
        results = {}
        for build in BUILDS:
            for name, is_good in self.tests(build).items():
                results.setdefault(name, dict.fromkeys(BUILDS, False))[build] = is_good
        yield from sorted(results.items())

    def tests(self, build):
        """Whether each test passes, as meson notes it."""
        log, noted = os.path.join(self.work, f"suite.{build}.log"), os.path.join(self.tree(build), "build", "meson-logs", "testlog.json")
        if os.path.exists(noted):
            os.remove(noted)
        done = passes(["meson", "test", "-C", "build", "--no-rebuild", "--timeout-multiplier", "10"], log, self.tree(build))
        tests = []
        if os.path.exists(noted):
            with open(noted, encoding="utf-8") as lines:
                tests = [json.loads(line) for line in lines]
        good = {test["name"]: test["result"] == "OK" for test in tests}
        if not good or not done and all(good.values()):
            fault = Broken if build == WEFT else Unavailable
            raise fault(f"meson test, {build}: ends with {done.code}, {len(good)} tests noted; see {log}")
        return good

    def cases(self):
        for threads in (1, 2, 4):
            for simd in (True, False) if threads == 2 else (True,):
                yield Case(f"{threads} threads" + ("" if simd else ", no SIMD"), self.score(threads, simd), self.scores,
                           r'"fps": [^,]*,|"version": [^,]*,')

    def scores(self, build):
        return os.path.join(self.work, f"{build}.json")

    def score(self, threads, simd):
        return lambda build: [os.path.join(self.tree(build), "build", "tools", "vmaf"), "-r", self.pair[0], "-d", self.pair[1], "--threads",
                              str(threads), "--json", "-o", self.scores(build), "-q", *self.digits, *FEATURES,
                              *([] if simd else ["--cpumask", "-1"])]
