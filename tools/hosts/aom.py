"""libaom as Debian has it, a static library, with weft's workers linked to its programs: clips encoded and decoded, byte by byte. Of its source
the two programs alone are built."""

import glob
import os

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, WEFT, Broken, Case, Unavailable, run
from source import unpack

OFF = ("ENABLE_DOCS", "ENABLE_TESTS", "ENABLE_TESTDATA", "ENABLE_TOOLS", "CONFIG_WEBM_IO", "CONFIG_LIBYUV")
SHARED = ("aom_common_app_util", "aom_decoder_app_util", "aom_encoder_app_util", "aom_encoder_stats")
PROGRAMS = {"aomenc": ("aom_common_app_util", "aom_encoder_app_util", "aom_encoder_stats"), "aomdec": ("aom_common_app_util", "aom_decoder_app_util")}
CLIP = "testsrc2=size=1280x720:rate=25,noise=alls=12:allf=t"
FRAMES = 12


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
        self.objects()
        for build in BUILDS:
            self.link(build)
        self.clips()
        remarks.append("its tests of threads need clips from elsewhere: left out; the library itself is Debian's")

    def objects(self):
        """Its two programs' objects, and the one that installs weft."""
        off = [f"-D{name}=0" for name in OFF]
        run(["cmake", "-G", "Ninja", "-S", self.source, "-B", self.folder, "-DCMAKE_BUILD_TYPE=Release", *off], self.log)
        mains = [f"CMakeFiles/{name}.dir/apps/{name}.c.o" for name in PROGRAMS]
        jobs = os.environ.get("JOBS", str(len(os.sched_getaffinity(0))))
        run(["ninja", "-j", jobs, "-C", self.folder, *SHARED, *mains], self.log)
        folders = [f"-I{path}" for path in (self.source, self.folder, INCLUDE, ADAPTERS)]
        run(["gcc", "-O2", *folders, "-c", os.path.join(ADAPTERS, "aom", "install.c"), "-o", os.path.join(self.work, "install.o")], self.log, Broken)

    def link(self, build):
        ours = [os.path.join(self.work, "install.o"), LIBRARY] if build == WEFT else []
        for name, parts in PROGRAMS.items():
            made = [path for part in (*parts, name) for path in glob.glob(os.path.join(self.folder, "CMakeFiles", f"{part}.dir", "**", "*.o"), recursive=True)]
            run(["g++", *made, *ours, self.library, "-lm", "-pthread", "-o", self.program(build, name)], self.log, Broken if build == WEFT else Unavailable)

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

    def suite(self):
        return ()

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
