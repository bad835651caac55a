"""Chromium without a window, spoken to through its pipe of DevTools messages: no package needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
         "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
         "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND")  # fmt: skip


def find():
    """The path of a Chromium, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page. As a with block; what it starts ends with it."""

    def __init__(self, width=1440, height=1000, flags=()):
        self.flags = flags
        self.size = width, height
        self._next = 0
        self._rest = b""
        self.errors = []  # what the page complained of
        self.requests = []  # what the page asked the network for

    def __enter__(self):
        self._home = tempfile.TemporaryDirectory()
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def place():  # Chromium reads from 3 and writes to 4
            os.dup2(os.dup(to_read), 33)
            os.dup2(os.dup(to_write), 34)
            os.dup2(33, 3)
            os.dup2(34, 4)

        self._process = subprocess.Popen(
            [find(), *FLAGS, *self.flags, f"--user-data-dir={self._home.name}", "about:blank"],
            preexec_fn=place, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        target = next(
            t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page"
        )
        self._session = self._call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )["sessionId"]
        width, height = self.size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._home.name, ignore_errors=True)
        self._home._finalizer.detach()

    def _message(self, timeout):
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], timeout)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def _note(self, message):
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description"))
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif message.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def _call(self, method, session=None, **params):
        self._next += 1
        number = self._next
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message(60)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def call(self, method, **params):
        return self._call(method, self._session, **params)

    def run(self, script):
        """The value of an expression; promises are waited for."""
        got = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                        returnByValue=True)  # fmt: skip
        if "exceptionDetails" in got:
            raise RuntimeError(got["exceptionDetails"]["exception"].get("description"))
        return got["result"].get("value")

    def open(self, path, fragment=""):
        self.call("Page.navigate", url=Path(path).resolve().as_uri() + fragment)
        self.wait("document.readyState === 'complete' && window.report !== undefined")

    def wait(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {condition}; {self.errors}")
            time.sleep(0.02)

    def frame(self):
        """Waits until what was asked for is drawn."""
        self.run("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y, count=1):
        for n in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.mouse(kind, x, y, button="left", clickCount=n)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        code = {"Enter": 13, "Escape": 27}.get(key, 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code,
                  **text)  # fmt: skip
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(data))
