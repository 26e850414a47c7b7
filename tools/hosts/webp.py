"""libwebp, with weft's workers linked to its programs: pictures encoded and decoded, byte by byte."""

import os
import subprocess

from common import ADAPTERS, INCLUDE, LIBRARY, STOCK, WEFT, Broken, Case, Unavailable, run
from source import made_of, unpack

# Only what these programs need; no picture libraries: they read and write PPM and PAM by themselves.
OFF = ("ANIM_UTILS", "GIF2WEBP", "IMG2WEBP", "VWEBP", "WEBPINFO", "WEBPMUX", "EXTRAS")
PROGRAMS = ("cwebp", "dwebp")
PICTURES = {"ppm": "rgb24", "pam": "rgba"}


class Host:
    name, package = "libwebp", "libwebp"

    def __init__(self, work, source, remarks):
        self.work, self.folder = work, os.path.join(work, "objects")
        self.log, self.install = self.path("build.log"), self.path("install.o")
        self.source = source or unpack(work, self.package)
        if not os.path.exists(os.path.join(self.source, "src", "utils", "thread_utils.h")):
            raise Unavailable(f"{self.source} has no src/utils/thread_utils.h")
        made_of(self.source, work, "objects")
        self.build()
        for program in PROGRAMS:
            self.link(program)
        self.pictures()
        remarks.append("its tests are fuzzers, which run until they are stopped: left out; dwebp's own sample is among the pictures")

    def build(self):
        """libwebp, its two programs, and the object that installs weft."""
        off = [f"-DWEBP_BUILD_{name}=OFF" for name in OFF]
        run(["cmake", "-G", "Ninja", "-S", self.source, "-B", self.folder, "-DCMAKE_BUILD_TYPE=Release", *off], self.log)
        jobs = os.environ.get("JOBS", str(len(os.sched_getaffinity(0))))
        run(["ninja", "-j", jobs, "-C", self.folder, *PROGRAMS], self.log)
        run(["gcc", "-O2", "-c", f"-I{self.source}", f"-I{INCLUDE}", f"-I{ADAPTERS}", os.path.join(ADAPTERS, "webp", "install.c"), "-o", self.install],
            self.log, Broken)

    def link(self, program):
        """Both forms are linked from the same objects, as its own build links them."""
        told = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", program], capture_output=True, text=True, check=True).stdout
        command, own = told.splitlines()[-1], f" -o {program} "
        if own not in command:
            raise Unavailable(f"its build links {program} in a way that is not known here: {command}")
        ours = f" -o {self.program(WEFT, program)} {self.install} {LIBRARY} "
        run(["sh", "-c", command.replace(own, ours)], self.log, Broken, cwd=self.folder)

    def program(self, build, name):
        return os.path.join(self.folder, name if build == STOCK else f"{name}-weft")

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
