"""browser.py: drives headless Chromium through its debugging pipe (the Chrome DevTools Protocol, JSON messages that end
with a zero byte). Needs nothing but Python and Chromium. Keys and clicks are real input events, not calls of methods."""
import base64
import fcntl
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

KEYS = {  # name: (code, virtual key, text)
    "Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "Tab": ("Tab", 9, ""), "ArrowUp": ("ArrowUp", 38, ""),
    "n": ("KeyN", 78, ""), "l": ("KeyL", 76, ""), ",": ("Comma", 188, ""), "?": ("Slash", 191, "?"),
    "/": ("Slash", 191, "/"), "a": ("KeyA", 65, ""), " ": ("Space", 32, " "),
}
MODIFIERS = {"Alt": 1, "Control": 2, "Shift": 8}


def find_chromium():
    """Returns the path of a Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """A Chromium with one tab. Everything that the tab asks for, logs or throws is collected in lists."""

    def __init__(self, path):
        self.folder = tempfile.TemporaryDirectory(prefix="page-browser-", ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.source, from_write = os.pipe()
        # Chromium reads descriptor 3 and writes 4: first out of the way, since a pipe may have got those numbers.
        to_read, from_write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (to_read, from_write))

        def in_child():
            os.dup2(to_read, 3)
            os.dup2(from_write, 4)

        # pylint: disable-next=consider-using-with,subprocess-popen-preexec-fn
        self.process = subprocess.Popen(
            [path, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}", "--no-first-run",
             "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-extensions",
             "--disable-component-update", "--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
             "--force-prefers-reduced-motion=0", "--window-size=1280,860", "about:blank"],
            preexec_fn=in_child, pass_fds=(3, 4), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.answers = queue.Queue()
        self.number = 0
        self.session = None
        self.requests, self.errors, self.network_errors = [], [], []
        threading.Thread(target=self._listen, daemon=True).start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")

    def _listen(self):
        rest = b""
        while True:
            data = os.read(self.source, 1 << 16)
            if not data:
                self.answers.put(None)
                return
            *messages, rest = (rest + data).split(b"\0")
            for text in messages:
                message = json.loads(text)
                if "id" in message:
                    self.answers.put(message)
                else:
                    self._event(message.get("method"), message.get("params", {}))

    def _event(self, method, data):
        if method == "Network.requestWillBeSent":
            self.requests.append(data["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = data["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and data["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in data["args"]))
        elif method == "Log.entryAdded" and data["entry"]["level"] == "error":
            entry = data["entry"]
            (self.network_errors if entry["source"] == "network" else self.errors).append(
                f"{entry['text']} {entry.get('url', '')}")

    def call(self, method, **params):
        """Calls a method of the protocol; returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.answers.get(timeout=60)
            if answer is None:
                raise RuntimeError("Chromium ended")
            if answer["id"] == self.number:
                break
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def run(self, expression):
        """The value of a JavaScript expression in the page; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True,
                           userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def wait(self, expression, seconds=20):
        """Waits until an expression is true; returns its value, or raises TimeoutError."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(expression)
            if value:
                return value
            if time.monotonic() > end:
                raise TimeoutError(f"not within {seconds} s: {expression}")
            time.sleep(0.03)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def reload(self):
        self.run("window.beforeReload = true")
        self.call("Page.reload")
        self.wait("!window.beforeReload && document.readyState === 'complete'")

    def click(self, selector):
        """Clicks the middle of an element with the pointer."""
        self.wait(f"document.querySelector({json.dumps(selector)}) !== null")
        x, y = self.run(f"""(() => {{
            const node = document.querySelector({json.dumps(selector)});
            node.scrollIntoView({{ block: 'nearest' }});
            const box = node.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y,
                      button="none" if kind == "mouseMoved" else "left", clickCount=0 if kind == "mouseMoved" else 1)

    def press(self, name, *modifiers):
        code, virtual, text = KEYS[name]
        bits = sum(MODIFIERS[modifier] for modifier in modifiers)
        common = {"key": name, "code": code, "windowsVirtualKeyCode": virtual, "modifiers": bits}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text and bits in (0, 8) else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (RuntimeError, OSError, queue.Empty, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()
