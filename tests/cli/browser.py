# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its DevTools pipe with the standard library alone, and a reader of its PNGs."""
import base64
import fcntl
import json
import os
import select
import shutil
import struct
import subprocess
import tempfile
import time
import zlib

PROGRAM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
PATIENCE = 120  # seconds for one answer: a loaded machine is slow, a stuck browser never ends


class Browser:
    """One browser with one tab; use it in a `with`. `complaints` holds what the console and the page reported."""

    def __enter__(self):
        self.home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (read, to), (self.back, write) = os.pipe(), os.pipe()
        # The browser has its two ends as 3 and 4; out of their way first.
        read, write = (fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in (read, write))
        self.child = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
             "--user-data-dir=" + self.home.name, "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(3, 4),
            env={**os.environ, "HOME": self.home.name}, start_new_session=True,
            preexec_fn=lambda: (os.dup2(read, 3), os.dup2(write, 4)))
        os.close(read), os.close(write)
        self.to, self.rest, self.number, self.session, self.complaints = to, b"", 0, None, []
        self.events = []
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.ask(domain + ".enable")
        return self

    def __exit__(self, *error):
        try:
            self.session = None
            self.ask("Browser.close")
            self.child.wait(PATIENCE)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.child.kill()
            self.child.wait()
        os.close(self.to), os.close(self.back)
        self.home.cleanup()

    def read(self):
        """The next message."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.back], [], [], max(0.0, end - time.monotonic()))
            piece = os.read(self.back, 1 << 20) if ready else b""
            if not piece:
                raise RuntimeError("the browser does not answer")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(message)
        method, of = message.get("method"), message.get("params", {})
        if method in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(json.dumps(of))
        if method == "Runtime.consoleAPICalled" and of["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(of))
        if method == "Network.requestWillBeSent":
            self.requests.append(of["request"]["url"])
        return message

    requests = []

    def ask(self, method, **values):
        self.number += 1
        message = {"id": self.number, "method": method, "params": values}
        if self.session is not None:
            message["sessionId"] = self.session
        left = json.dumps(message).encode() + b"\0"
        while left:
            left = left[os.write(self.to, left):]
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]))
                return answer["result"]
            self.events.append(answer.get("method"))

    def open(self, path, width, dark=False, height=900):
        """Loads a file in a window of that size and waits until it is there; forgets earlier complaints."""
        self.complaints, self.requests, self.events = [], [], []
        self.width = width
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme",
                                                          "value": "dark" if dark else "light"}])
        self.ask("Page.navigate", url="file://" + os.path.abspath(path))
        while "Page.loadEventFired" not in self.events:
            self.events.append(self.read().get("method"))

    def run(self, script):
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def picture(self, most=20000):
        """The whole page as the bytes of a PNG, at most `most` pixels high."""
        height = min(most, self.run("document.documentElement.scrollHeight"))
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                        clip={"x": 0, "y": 0, "width": self.width, "height": height, "scale": 1})
        return base64.b64decode(shot["data"])

    def printed(self):
        """The page as the bytes of a PDF."""
        return base64.b64decode(self.ask("Page.printToPDF")["data"])


def pixels(png):
    """Width, height and the rows of an 8-bit PNG, each row as bytes of RGB or RGBA, and the bytes of one pixel."""
    if png[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("not a PNG")
    width = height = channels = 0
    packed, at = b"", 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            channels = {2: 3, 6: 4}[colour]
            if depth != 8:
                raise ValueError("a depth of %d" % depth)
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    data, step, rows = zlib.decompress(packed), width * channels, []
    before = bytearray(step)
    for y in range(height):
        start = y * (step + 1)
        before = unfilter(data[start], bytearray(data[start + 1:start + 1 + step]), before, channels)
        rows.append(bytes(before))
    return width, height, rows, channels


def unfilter(kind, row, above, channels):
    """One row of a PNG as it was before its filter."""
    for i in range(len(row)):
        left = row[i - channels] if i >= channels else 0
        if kind == 1:
            row[i] = (row[i] + left) & 255
        elif kind == 2:
            row[i] = (row[i] + above[i]) & 255
        elif kind == 3:
            row[i] = (row[i] + (left + above[i]) // 2) & 255
        elif kind == 4:
            corner = above[i - channels] if i >= channels else 0
            guess = left + above[i] - corner
            distances = abs(guess - left), abs(guess - above[i]), abs(guess - corner)
            best = distances.index(min(distances))
            row[i] = (row[i] + (left, above[i], corner)[best]) & 255
    return row
