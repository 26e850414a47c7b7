"""x264: checkasm, and encodes in slices and in frame threads, whose bits must be equal. scripts/x264-race has more of its speed."""

import os
import subprocess

import build as x264_build
import clips
from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, STOCK, WEFT, Case
from source import unpack

FRAMES = {"360p": 300, "720p": 132}
MODES = {"sliced": ["--tune", "zerolatency"], "frame": []}


class Host:
    name, package = "x264", "x264"

    def __init__(self, work, source, remarks):
        self.work = work
        source = source or unpack(work, self.package)
        adapter = os.path.join(ADAPTERS, "x264", "threadpool.c")
        stock = x264_build.build_stock(source, work)
        self.pool = ([LIBRARY], f"-I{INCLUDE} -I{ADAPTERS}")
        weft = x264_build.build_variant("weft", adapter, work, *self.pool)
        self.program = {STOCK: stock, WEFT: weft}
        self.videos = clips.make_clips(work, FRAMES)
        remarks.append("its own suite tests its assembly alone, which weft leaves as it is; the bits below are what its pool may spoil")

    def checkasm(self, build):
        tree = os.path.dirname(self.program[build])
        log = os.path.join(self.work, f"checkasm.{build}.log")
        with open(log, "wb") as out:
            variables = x264_build.pool_variables(*self.pool) if build == WEFT else []
            for command in (["make", "checkasm8", *variables], ["./checkasm8"]):
                if subprocess.run(command, cwd=tree, stdout=out, stderr=subprocess.STDOUT, check=False).returncode:
                    return False
        return True

    def suite(self):
        yield "checkasm8", {build: self.checkasm(build) for build in BUILDS}

    def cases(self):
        for clip, path in self.videos:
            for mode, words in MODES.items():
                for threads in (2, 4, 8):
                    yield Case(f"{clip.rsplit('-', 1)[1]} {mode} {threads}", self.encode(path, words, threads), self.stream)

    def stream(self, build):
        return os.path.join(self.work, f"{build}.264")

    def encode(self, path, words, threads):
        return lambda build: [self.program[build], "--preset", "superfast", "--threads", str(threads), "--no-progress", *words,
                              "-o", self.stream(build), path]
