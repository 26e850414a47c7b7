"""libaom as Debian has it, a static library, with weft's workers linked to its programs: its own tests that encode with several threads, and
clips encoded and decoded, byte by byte. Of its source two programs and two files of tests alone are built."""

import glob
import os
import subprocess

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, STOCK, WEFT, Broken, Case, Unavailable, passes, run, settings
from source import made_of, unpack

OFF = ("ENABLE_DOCS", "ENABLE_TESTS", "ENABLE_TESTDATA", "ENABLE_TOOLS", "CONFIG_WEBM_IO", "CONFIG_LIBYUV")
SHARED = ("aom_common_app_util", "aom_decoder_app_util", "aom_encoder_app_util", "aom_encoder_stats")
PROGRAMS = {"aomenc": ("aom_common_app_util", "aom_encoder_app_util", "aom_encoder_stats"), "aomdec": ("aom_common_app_util", "aom_decoder_app_util")}
CLIP = "testsrc2=size=1280x720:rate=25,noise=alls=12:allf=t"
FRAMES = 12
# Its tests that compare what one thread makes with what 2, 4, 8 and 64 make, and those that count on two.
GTEST = os.path.join("third_party", "googletest", "src", "googletest")
TESTS = (*(os.path.join("test", f"{name}.cc") for name in ("ethread_test", "encode_small_width_height_test", "test_libaom", "encode_test_driver",
                                                         "decode_test_driver")), os.path.join(GTEST, "src", "gtest-all.cc"))
BESIDE = ("md5_utils", "y4minput")
# They read clips that its makefile fetches from elsewhere, and look at no picture in them: pictures of ours stand there, under the clips' names.
PICTURES = {"niklas_640_480_30.yuv": ("640x480", 26, "rawvideo"), "niklas_1280_720_30.y4m": ("1280x720", 60, "yuv4mpegpipe")}
SUITES = {
    "small pictures, 2 threads": "EncodeSmallWidthHeight.*",
    "real time, speed 10, 1 to 64 threads": ":".join(f"AV1/AVxEncoderThreadRTTest.*/{number}" for number in range(40, 48)),
    "all intra, 1 to 64 threads": "AV1/AVxEncoderThreadAllIntraTest.*/0:AV1/AVxEncoderThreadAllIntraTest.*/1",
    "first pass, 1 to 8 threads": "AV1/AVxFirstPassEncoderThreadTest.*/0",
}
LONG = {
    "all intra, all": "AV1/AVxEncoderThreadAllIntraTest.*",
    "real time, all speeds, 1 to 64 threads": "AV1/AVxEncoderThreadRTTest.*",
    "two passes, 1 to 64 threads": "AV1/AVxEncoderThreadTest.*",
    "first pass, all": "AV1/AVxFirstPassEncoderThreadTest.*",
}
GOOD = r"^\[ +OK \] (\S+)"  # how googletest names one that passes


def names_of(listed):
    """What is listed, without the values behind the names: there are addresses among them."""
    return [line.split("#")[0].rstrip() for line in listed.stdout.splitlines()]


def count_tests(words, pattern):
    """How many tests both programs know by that pattern."""
    listed = {build: subprocess.run([*words[build], "--gtest_list_tests"], capture_output=True, text=True, check=False) for build in BUILDS}
    count = sum(line.startswith("  ") for line in listed[STOCK].stdout.splitlines())
    if listed[STOCK].returncode or not count:  # it would pass with none
        raise Unavailable(f"no test of its own is called {pattern}")
    if listed[WEFT].returncode or names_of(listed[WEFT]) != names_of(listed[STOCK]):
        raise Broken(f"its tests' names, {pattern}: ends with {listed[WEFT].returncode}, other names than with its own workers")
    return count


class Host:
    name, package = "libaom", "aom"

    def __init__(self, work, source, remarks):
        self.work = work
        library = glob.glob("/usr/lib/*/libaom.a")
        if not library:
            raise Unavailable("libaom-dev is not installed")
        self.source, self.library = source or unpack(work, self.package), library[0]
        if not os.path.exists(os.path.join(self.source, "aom_util", "aom_thread.h")):
            raise Unavailable(f"{self.source} has no aom_util/aom_thread.h")
        self.log, self.folder = os.path.join(work, "build.log"), os.path.join(work, "objects")
        made_of(self.source, work, "objects", "tests", *(f"{name}.o" for name in PROGRAMS))
        self.objects()
        for build in BUILDS:
            self.link(build)
        self.clips()
        self.tests()
        remarks.append("its tests that need clips from elsewhere, or no threads, are left out, and so are those of its Large sets; the library is Debian's")
        if not settings["long"]:
            remarks.append(f"skipped: {'; '.join(LONG)} (--long runs them)")

    def objects(self):
        """Its two programs' objects, and the one that installs weft."""
        off = [f"-D{name}=0" for name in OFF]
        run(["cmake", "-G", "Ninja", "-S", self.source, "-B", self.folder, "-DCMAKE_BUILD_TYPE=Release", *off], self.log)
        jobs = os.environ.get("JOBS", str(len(os.sched_getaffinity(0))))
        run(["ninja", "-j", jobs, "-C", self.folder, *SHARED], self.log)
        folders = [f"-I{path}" for path in (self.source, self.folder, INCLUDE, ADAPTERS)]
        for name in PROGRAMS:  # ninja would build the library before them
            run(["gcc", "-O2", *folders, "-c", os.path.join(self.source, "apps", f"{name}.c"), "-o", self.main(name)], self.log)
        run(["gcc", "-O2", *folders, "-c", os.path.join(ADAPTERS, "aom", "install.c"), "-o", os.path.join(self.work, "install.o")], self.log, Broken)

    def link(self, build):
        ours = [os.path.join(self.work, "install.o"), LIBRARY] if build == WEFT else []
        for name, parts in PROGRAMS.items():
            made = [path for part in parts for path in glob.glob(os.path.join(self.folder, "CMakeFiles", f"{part}.dir", "**", "*.o"), recursive=True)]
            run(["g++", self.main(name), *made, *ours, self.library, "-lm", "-pthread", "-o", self.program(build, name)], self.log, Broken if build == WEFT else Unavailable)

    def main(self, name):
        return os.path.join(self.work, f"{name}.o")

    def program(self, build, name):
        return os.path.join(self.work, f"{name}.{build}")

    def clips(self):
        self.raw, self.packed = (os.path.join(self.work, name) for name in ("clip.y4m", "clip.obu"))
        if not os.path.exists(self.raw):
            run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", CLIP, "-frames:v", str(FRAMES), "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe",
                 self.raw + ".part"], self.log)
            os.rename(self.raw + ".part", self.raw)
        if not os.path.exists(self.packed):
            run([*self.encode(BUILDS[0], 2), "--cpu-used=9", "--tile-columns=1", "--obu", "-o", self.packed + ".part", self.raw], self.log)
            os.rename(self.packed + ".part", self.packed)

    def encode(self, build, threads):
        return [self.program(build, "aomenc"), "--quiet", "--rt", f"--threads={threads}", "--end-usage=q", "--cq-level=40"]

    def tests(self):
        """Their objects, once, and a program for each build."""
        folder, inner = os.path.join(self.work, "tests"), os.path.join(self.source, GTEST)
        self.pictures = os.path.join(folder, "pictures")
        os.makedirs(self.pictures, exist_ok=True)
        for name, (size, frames, form) in PICTURES.items():
            if not os.path.exists(os.path.join(self.pictures, name)):
                made = os.path.join(folder, name)
                run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", f"testsrc2=size={size}:rate=30,noise=alls=12:allf=t",
                     "-frames:v", str(frames), "-pix_fmt", "yuv420p", "-f", form, made], self.log)
                os.rename(made, os.path.join(self.pictures, name))
        folders = [f"-I{path}" for path in (self.source, self.folder, os.path.join(inner, "include"), inner)]
        made = []
        for path, words in [*((path, ["g++", "-O1", "-DGTEST_HAS_PTHREAD=1"]) for path in TESTS),
                            *((os.path.join("common", f"{name}.c"), ["gcc", "-O2"]) for name in BESIDE)]:
            made.append(os.path.join(folder, f"{os.path.basename(path)}.o"))
            if not os.path.exists(made[-1]):
                run([*words, *folders, "-c", os.path.join(self.source, path), "-o", f"{made[-1]}.part"], self.log)
                os.rename(f"{made[-1]}.part", made[-1])
        for build in BUILDS:
            ours = [os.path.join(self.work, "install.o"), LIBRARY] if build == WEFT else []
            run(["g++", *made, *ours, self.library, "-lm", "-pthread", "-o", self.program(build, "tests/test_libaom")], self.log,
                Broken if build == WEFT else Unavailable)

    def suite(self):
        for name, pattern in (SUITES | (LONG if settings["long"] else {})).items():
            words = {build: ["env", f"LIBAOM_TEST_DATA_PATH={self.pictures}", self.program(build, "tests/test_libaom"), f"--gtest_filter={pattern}"]
                     for build in BUILDS}
            count = count_tests(words, pattern)
            log = os.path.join(self.work, "tests", name.replace(" ", "-").replace(",", ""))
            yield f"{name} ({count} tests)", {build: passes(words[build], f"{log}.{build}.log", self.work).naming(GOOD) for build in BUILDS}

    def cases(self):
        for threads in (2, 4):
            yield self.case(f"encode, {threads} threads, rows", lambda build, threads=threads: [
                *self.encode(build, threads), "--cpu-used=8", "--row-mt=1", "--obu"], self.raw)
        yield self.case("encode, 4 threads, tiles", lambda build: [
            *self.encode(build, 4), "--cpu-used=8", "--row-mt=0", "--tile-columns=2", "--obu"], self.raw)
        yield self.case("encode, 4 threads, two passes, rows", lambda build: [
            self.program(build, "aomenc"), "--quiet", "--good", "--cpu-used=6", "--threads=4", "--row-mt=1", "--limit=4", "--obu"], self.raw)
        for threads in (2, 4):
            yield self.case(f"decode, {threads} threads, rows", lambda build, threads=threads: [
                self.program(build, "aomdec"), f"--threads={threads}", "--row-mt=1", "--rawvideo"], self.packed)

    def case(self, name, words, path):
        return Case(name, lambda build: [*words(build), "-o", self.output(build), path], self.output)

    def output(self, build):
        return os.path.join(self.work, f"output.{build}")
