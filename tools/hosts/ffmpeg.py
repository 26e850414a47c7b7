"""FFmpeg, with weft's slice threads as its libavutil/slicethread.c: those of its tests (FATE) that need no samples from elsewhere and have a
codec or a filter with slices, on four threads; clips encoded, decoded and filtered with slices, byte by byte."""

import os
import shutil

from common import ADAPTERS, BUILDS, INCLUDE, LIBRARY, STOCK, WEFT, Broken, Case, Unavailable, passes, run
from source import configure_once, made_of, unpack

POOL = os.path.join("libavutil", "slicethread.c")
# What the tests and cases below use: a tenth of it, so that it is built in minutes.
CODECS = "rawvideo,mpeg1video,mpeg2video,mpeg4,h263p,ffv1,dnxhd,mjpeg,dvvideo,vc2,prores_ks,pcm_s16le,wrapped_avframe,pgmyuv,pgm"
PARTS = {
    "encoder": CODECS,
    "decoder": f"{CODECS},h263,prores,dirac,h264,hevc,vp8,vp9,pcm_s16le",
    "muxer": "rawvideo,avi,mov,dv,dnxhd,framecrc,framemd5,md5,nut,image2,mpeg1video,mpeg2video,null,crc",
    "demuxer": "rawvideo,avi,mov,dv,dnxhd,nut,image2,image2_pgm_pipe,ivf,h264,hevc,mpegvideo",
    "parser": "mpegvideo,mpeg4video,h263,dnxhd,mjpeg,h264,hevc,vp8,vp9,dirac,dvvideo",
    "protocol": "file,pipe",
    "indev": "lavfi",
    "filter": "scale,format,null,copy,testsrc,testsrc2,rgbtestsrc,noise,split,crop,pad,vflip,hflip,perms,overlay,negate,transpose,unsharp,colorbalance,"
    "colorlevels,colorchannelmixer,hue,edgedetect,avgblur,gblur,fade,blend,tblend,hstack,vstack,removegrain,phase,interlace,chromashift,gradfun,"
    "framerate,waveform,vectorscope,mergeplanes,yadif,nlmeans,setpts,settb,drawbox,select,concat",
}
SUITES = ("fate-vsynth1", "fate-vsynth2", "fate-vsynth3", "fate-vfilter")
TESTED, FAILED = r"^TEST +(\S+)", r"^make.*\*\*\* \[.*\bfate-(\S+)\] Error"
THREADS = 4
CLIP = "testsrc2=size=1280x720:rate=25,noise=alls=12:allf=t"
FRAMES = 60
# Made by the ffmpeg that is installed, which has these encoders: name -> words, container.
STREAMS = {
    "vp8": (["-c:v", "libvpx", "-b:v", "4M", "-deadline", "realtime", "-cpu-used", "8", "-slices", "8"], "ivf"),
    "vp9": (["-c:v", "libvpx-vp9", "-b:v", "4M", "-deadline", "realtime", "-cpu-used", "8", "-tile-columns", "2"], "ivf"),
    "h264": (["-c:v", "libx264", "-preset", "superfast", "-x264-params", "slices=8"], "h264"),
    "hevc": (["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "wpp=1:log-level=none"], "hevc"),
}


class Host:
    name, package = "ffmpeg", "ffmpeg"

    def __init__(self, work, source, remarks):
        self.work = work
        source = source or unpack(work, self.package)
        if not os.path.exists(os.path.join(source, POOL)):
            raise Unavailable(f"{source} has no {POOL}")
        made_of(source, work, *BUILDS)
        self.build_stock(source)
        self.build_weft()
        self.clips()
        remarks.append("its tests that need samples from elsewhere are left out, and so are those of parts that have no slices")

    def tree(self, build, *names):
        return os.path.join(self.work, build, *names)

    def jobs(self):
        return ["-j", os.environ.get("JOBS", str(len(os.sched_getaffinity(0))))]

    def make(self, build, fault, *targets):
        run(["make", *self.jobs(), *targets], os.path.join(self.work, f"{build}.log"), fault, cwd=self.tree(build))

    def build_stock(self, source):
        enabled = [f"--enable-{kind}={name}" for kind, names in PARTS.items() for name in names.split(",")]
        configure_once(source, self.tree(STOCK), ["./configure", "--disable-everything", "--disable-autodetect", "--disable-doc", "--disable-network",
                                                  "--disable-ffplay", "--disable-ffprobe", "--disable-debug", "--disable-iconv", *enabled],
                       os.path.join(self.work, "stock.log"))
        self.make(STOCK, Unavailable, "ffmpeg")

    def build_weft(self):
        """A copy of the stock build with one file exchanged: all else is the same object code."""
        tree, pool = self.tree(WEFT), os.path.join(ADAPTERS, "ffmpeg", "slicethread.c")
        program, config = self.tree(WEFT, "ffmpeg"), os.path.join(tree, "ffbuild", "config.mak")
        inputs = (pool, LIBRARY, os.path.join(ADAPTERS, "view.h"), self.tree(STOCK, "ffmpeg"))
        if os.path.exists(program) and os.path.getmtime(program) > max(os.path.getmtime(path) for path in inputs):
            return
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(self.tree(STOCK), tree, symlinks=True)
        shutil.copyfile(pool, os.path.join(tree, POOL))
        os.utime(os.path.join(tree, POOL))
        times = os.stat(config)
        with open(config, "a", encoding="utf-8") as settings:
            # What --extra-cflags and --extra-libs of its configure do.
            settings.write(f"CPPFLAGS+= -I{INCLUDE} -I{ADAPTERS}\nEXTRALIBS+= {LIBRARY}\n")
        os.utime(config, ns=(times.st_atime_ns, times.st_mtime_ns))
        for made in ("ffmpeg", "ffmpeg_g", os.path.join("libavutil", "slicethread.o"), os.path.join("libavutil", "libavutil.a")):
            if os.path.exists(os.path.join(tree, made)):
                os.remove(os.path.join(tree, made))
        self.make(WEFT, Broken, "ffmpeg")

    def clips(self):
        self.raw, log = os.path.join(self.work, "clip.yuv"), os.path.join(self.work, "clips.log")
        begin = ["ffmpeg", "-nostdin", "-v", "error", "-y"]
        if not os.path.exists(self.raw):
            run([*begin, "-f", "lavfi", "-i", CLIP, "-frames:v", str(FRAMES), "-pix_fmt", "yuv420p", "-f", "rawvideo", self.raw + ".part"], log)
            os.rename(self.raw + ".part", self.raw)
        for name, (words, form) in STREAMS.items():
            path = self.stream(name)
            if not os.path.exists(path):
                run([*begin, *self.raw_input(), *words, "-f", form, path + ".part"], log)
                os.rename(path + ".part", path)

    def raw_input(self):
        return ["-f", "rawvideo", "-s", "1280x720", "-pix_fmt", "yuv420p", "-r", "25", "-i", self.raw]

    def stream(self, name):
        return os.path.join(self.work, f"clip.{name}")

    def suite(self):
        # FFmpeg's own decoder of VP8 in slices gives other bits in one of 60 runs: ends well, is all that is asked.
        words = [*self.sliced(), "-i", self.stream("vp8"), "-f", "null"]
        yield "decode vp8", {build: passes([*self.command(build, words), "-"], os.path.join(self.work, f"vp8.{build}.log"), self.work) for build in BUILDS}
        for name in SUITES:
            command = ["make", "-k", *self.jobs(), name, f"THREADS={THREADS}", "THREAD_TYPE=slice"]
            yield f"{name}, {THREADS} threads", {
                build: passes(command, os.path.join(self.work, f"{name}.{build}.log"), self.tree(build)).naming(TESTED, FAILED) for build in BUILDS
            }

    def cases(self):
        for name in sorted(STREAMS.keys() - {"vp8"}):
            yield self.case(f"decode {name}", [*self.sliced(), "-i", self.stream(name), "-f", "md5"])
        for codec, words in {"ffv1": ["-level", "3", "-slices", "16"], "mpeg2video": ["-b:v", "8M"], "prores_ks": []}.items():
            for threads in (2, 4):
                yield self.case(f"encode {codec}, {threads} threads",
                                [*self.raw_input(), "-c:v", codec, *words, *self.sliced(threads), "-fflags", "+bitexact", "-flags", "+bitexact", "-f", "nut"])
        for threads in (2, 4):
            yield self.case(f"filter, {threads} threads", ["-filter_threads", str(threads), *self.raw_input(), "-vf",
                                                           "gblur=sigma=4,unsharp,colorbalance=rs=.2,transpose", "-f", "md5"])

    def sliced(self, threads=THREADS):
        return ["-threads", str(threads), "-thread_type", "slice"]

    def case(self, name, words):
        return Case(name, lambda build: [*self.command(build, words), self.output(build)], self.output)

    def command(self, build, words):
        return [self.tree(build, "ffmpeg"), "-nostdin", "-v", "error", "-y", *words]

    def output(self, build):
        return os.path.join(self.work, f"output.{build}")
