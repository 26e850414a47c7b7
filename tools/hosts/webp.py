"""libwebp, with weft's workers linked to its programs: pictures encoded and decoded, byte by byte."""

import os

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, STOCK, WEFT, Broken, Case, Unavailable, run
from source import unpack

# Only what these programs need; no picture libraries: they read and write PPM and PAM by themselves.
OFF = ("ANIM_UTILS", "GIF2WEBP", "IMG2WEBP", "VWEBP", "WEBPINFO", "WEBPMUX", "EXTRAS")
PICTURES = {"ppm": "rgb24", "pam": "rgba"}


class Host:
    name, package = "libwebp", "libwebp"

    def __init__(self, work, source, remarks):
        self.work = work
        self.source = source or unpack(work, self.package)
        if not os.path.exists(os.path.join(self.source, "src", "utils", "thread_utils.h")):
            raise Unavailable(f"{self.source} has no src/utils/thread_utils.h")
        for build in BUILDS:
            self.build(build)
        self.pictures()
        remarks.append("its tests are fuzzers, which run until they are stopped: left out; dwebp's own sample is among the pictures")

    def build(self, build):
        """The same source; with weft its programs have one object more."""
        log, fault = os.path.join(self.work, f"{build}.log"), Broken if build == WEFT else Unavailable
        linked = ""
        if build == WEFT:
            made = os.path.join(self.work, "install.o")
            run(["gcc", "-O2", "-c", f"-I{self.source}", f"-I{INCLUDE}", f"-I{ADAPTERS}", os.path.join(ADAPTERS, "webp", "install.c"),
                 "-o", made], log, fault)
            linked = f"{made} {LIBRARY}"
        folder = os.path.join(self.work, build)
        off = [f"-DWEBP_BUILD_{name}=OFF" for name in OFF]
        run(["cmake", "-G", "Ninja", "-S", self.source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXE_LINKER_FLAGS=", *off], log,
            fault)
        if linked:  # the programs with which cmake tries the compiler have no libwebp to be installed in
            run(["cmake", f"-DCMAKE_EXE_LINKER_FLAGS={linked}", folder], log, fault)
        for program in ("cwebp", "dwebp"):  # cmake does not know that what is in the linker's flags is a dependency
            if build == WEFT and os.path.exists(self.program(build, program)):
                os.remove(self.program(build, program))
        jobs = os.environ.get("JOBS", str(len(os.sched_getaffinity(0))))
        run(["ninja", "-j", jobs, "-C", folder, "cwebp", "dwebp"], log, fault)

    def program(self, build, name):
        return os.path.join(self.work, build, name)

    def path(self, name):
        return os.path.join(self.work, name)

    def pictures(self):
        """A picture, one with transparency, and the first one's two compressed forms, by the stock program."""
        log = self.path("pictures.log")
        for form, pixels in PICTURES.items():
            if not os.path.exists(self.path(f"picture.{form}")):
                what = "testsrc2=size=3840x2160:rate=1,noise=alls=9,format=rgba,colorchannelmixer=aa=0.7"
                run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", what, "-frames:v", "1", "-pix_fmt", pixels, "-update", "1",
                     self.path(f"part.{form}")], log)
                os.rename(self.path(f"part.{form}"), self.path(f"picture.{form}"))
        for name, words in {"lossy": ["-q", "80"], "lossless": ["-z", "2"]}.items():
            run([self.program(STOCK, "cwebp"), "-quiet", *words, self.path("picture.ppm"), "-o", self.path(f"{name}.webp")], log)

    def suite(self):
        return ()

    def cases(self):
        yield self.case("encode", "cwebp", ["-mt", "-m", "4", self.path("picture.ppm")])
        yield self.case("encode, no threads", "cwebp", ["-m", "4", self.path("picture.ppm")])
        yield self.case("encode, transparency", "cwebp", ["-mt", "-m", "4", self.path("picture.pam")])
        yield self.case("encode, lossless", "cwebp", ["-mt", "-z", "6", self.path("picture.ppm")])
        yield self.case("decode its sample", "dwebp", ["-mt", "-ppm", os.path.join(self.source, "examples", "test.webp")])
        yield self.case("decode", "dwebp", ["-mt", "-ppm", self.path("lossy.webp")])
        yield self.case("decode, lossless", "dwebp", ["-mt", "-ppm", self.path("lossless.webp")])

    def case(self, name, program, words):
        return Case(name, lambda build: [self.program(build, program), "-quiet", *words, "-o", self.output(build)], self.output)

    def output(self, build):
        return self.path(f"output.{build}")
