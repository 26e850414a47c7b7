"""A source package of Debian's, x264 by default: found through the machine's own apt sources, unpacked under the work directory.

The machine's configuration is read, never written: the deb-src list, apt's package lists and its cache all live in the work
directory.
"""

import glob
import os
import re
import shutil
import subprocess


class Unavailable(Exception):
    """What the race needs cannot be had here; the text says why."""


class Broken(Exception):
    """What was given, or weft's own adapter, does not work; the text says how."""


def run(command, log, fault=Unavailable, **options):
    """Runs a command with its output in `log`; raises `fault` with the log's last line when it fails."""
    with open(log, "ab") as out:
        try:
            code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False, **options).returncode
        except OSError as error:
            raise fault(f"{command[0]}: {error.strerror}") from error
    if code:
        with open(log, encoding="utf-8", errors="replace") as text:
            lines = [line.strip() for line in text if line.strip()]
        raise fault(f"{os.path.basename(command[0])} failed ({code}): {lines[-1] if lines else 'no output'}; see {log}")


def identity(tree):
    """What tells a source tree from another one, and from itself before it changed."""
    newest, count = 0, 0
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if name not in (".git", ".pc")]
        for name in names:
            newest, count = max(newest, os.lstat(os.path.join(folder, name)).st_mtime_ns), count + 1
    return f"{os.path.realpath(tree)}\n{count} files, newest {newest}\n"


def made_of(source, work, *names):
    """Removes these under `work` if they were made of another source tree, or of this one before it changed."""
    now, stamp = identity(source), os.path.join(work, "made-of")
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8", errors="surrogateescape") as told:
            if told.read() == now:
                return
    for path in (os.path.join(work, name) for name in names):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)
    with open(stamp + ".part", "w", encoding="utf-8", errors="surrogateescape") as out:
        out.write(now)
    os.rename(stamp + ".part", stamp)


def copy_once(source, target, *left_out):
    """A copy of a tree, unless it is there; one that was interrupted is not."""
    if os.path.exists(target):
        return
    shutil.rmtree(target + ".part", ignore_errors=True)
    shutil.copytree(source, target + ".part", symlinks=True, ignore=shutil.ignore_patterns(*left_out))
    os.rename(target + ".part", target)


def configure_once(source, tree, command, log):
    """A configured copy of a tree, unless it is there, whole and configured by this."""
    done = os.path.join(tree, ".configured-here")
    if os.path.exists(done):
        return
    shutil.rmtree(tree, ignore_errors=True)
    copy_once(source, tree, ".git", ".pc")
    run(command, log, cwd=tree)
    with open(done, "wb"):
        pass


def source_list(text):
    """A one-line-format apt list turned into its deb-src lines."""
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return "".join("deb-src" + line[3:] + "\n" for line in lines if line.split()[:1] == ["deb"])


def source_stanzas(text):
    """A deb822 apt list turned into its enabled binary stanzas with Types: deb-src."""
    kept = []
    for stanza in text.split("\n\n"):
        lines = [line for line in stanza.splitlines() if line.strip() and not line.startswith("#")]
        fields = {line.split(":")[0].lower(): line.split(":", 1)[1].split() for line in lines if ":" in line and line[0] != " "}
        if "deb" not in fields.get("types", []) or fields.get("enabled", ["yes"])[0].lower() in ("no", "false", "0"):
            continue
        kept.append("\n".join("Types: deb-src" if line.lower().startswith("types:") else line for line in lines) + "\n")
    return "\n".join(kept)


def write_sources(parts, etc="/etc/apt"):
    """Writes the deb-src twin of every list under `etc` into the directory `parts`; how many had one."""
    os.makedirs(parts, exist_ok=True)
    count = 0
    lists = [os.path.join(etc, "sources.list"), *sorted(glob.glob(os.path.join(etc, "sources.list.d", "*")))]
    for path in lists:
        convert = {".list": source_list, ".sources": source_stanzas}.get(os.path.splitext(path)[1])
        if not convert or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", errors="surrogateescape") as source:
            text = convert(source.read())
        if text:
            with open(os.path.join(parts, os.path.basename(path)), "w", encoding="utf-8", errors="surrogateescape") as out:
                out.write(text)
            count += 1
    return count


def apt_options(apt):
    """apt-get options that keep lists and cache in the directory `apt` and read only the sources put there."""
    places = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": f"{apt}/sources.list.d",
        "Dir::State::lists": f"{apt}/lists",
        "Dir::Cache": f"{apt}/cache",
        "Acquire::Languages": "none",
    }
    if os.geteuid() == 0:
        places["APT::Sandbox::User"] = "root"  # apt's own user may not reach into this directory
    return [word for name, value in places.items() for word in ("-o", f"{name}={value}")]


def source_versions(text, package):
    """The versions of the source package in what `apt-cache showsrc` prints."""
    stanzas = [dict(line.split(": ", 1) for line in stanza.splitlines() if re.match(r"(Package|Version): ", line)) for stanza in text.split("\n\n")]
    found = [stanza["Version"] for stanza in stanzas if stanza.get("Package") == package and "Version" in stanza]
    return list(dict.fromkeys(found))


def fetch_source(apt, package, log):
    """Unpacks the newest version, or another one: a mirror may have dropped what its lists still name."""
    listed = subprocess.run(["apt-cache", *apt_options(apt), "showsrc", package], capture_output=True, text=True, check=False).stdout
    faults = []
    for wanted in (package, *(f"{package}={version}" for version in source_versions(listed, package))):
        try:
            return run(["apt-get", "-q", *apt_options(apt), "source", wanted], log, cwd=f"{apt}/unpack")
        except Unavailable as error:
            faults.append(error)
    raise Unavailable(f"no source package {package} (no network, or no mirror with sources?): {faults[0]}")


def unpack(work, package="x264"):
    """The path of the unpacked source of Debian's `package` under `work`, fetched at the first call."""
    done = os.path.join(work, "source")
    if os.path.isdir(done):
        return done
    if not shutil.which("apt-get"):
        raise Unavailable("no apt-get: this is not a Debian machine")
    apt = os.path.join(work, "apt")
    for name in ("lists/partial", "cache/archives/partial", "unpack"):
        os.makedirs(os.path.join(apt, name), exist_ok=True)
    if not write_sources(f"{apt}/sources.list.d"):
        raise Unavailable("no apt source to derive a deb-src line from")
    log = os.path.join(work, "source.log")
    apt_get = ["apt-get", "-q", *apt_options(apt)]
    try:
        run([*apt_get, "update"], log)
    except Unavailable:
        pass  # one list of several may have failed: whether the package's is there shows next
    fetch_source(apt, package, log)
    trees = glob.glob(f"{apt}/unpack/{package}-*/")
    if not trees:
        raise Unavailable(f"apt-get source {package} left no source tree; see {log}")
    os.rename(trees[0].rstrip("/"), done)
    return done
