"""visit.py: what a person does to the page, and what is measured on the screen; drive.py has the checks."""
import json
import time
import urllib.request

BUSY = "document.querySelector('#send').classList.contains('stop')"
LAST = "[...document.querySelectorAll('.message.assistant .text')].at(-1)?.textContent ?? ''"
LIVE = "document.querySelectorAll('#live-rows tr').length > 0 || document.querySelector('#live-note').textContent !== ''"

# For every text that is seen: its contrast with what lies behind it. Returns those below 4.5, as text.
CONTRAST = """(() => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    const rgb = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = (colour) => {
        const [r, g, b] = colour.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const low = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        if (walker.currentNode.data.trim() === '' ||
            !node.checkVisibility({ opacityProperty: true, visibilityProperty: true }) ||
            node.closest(':disabled, .hidden-label, .drop-note, noscript, option'))
            continue;
        let behind = node;
        while (behind && rgb(getComputedStyle(behind).backgroundColor)[3] < 255)
            behind = behind.parentElement;
        const [a, b] = [rgb(getComputedStyle(node).color), rgb(getComputedStyle(behind ?? document.body).backgroundColor)]
            .map((colour) => light(colour.slice(0, 3)) + 0.05);
        const ratio = Math.max(a, b) / Math.min(a, b);
        if (ratio < 4.5)
            low.push(`${ratio.toFixed(2)}: ${walker.currentNode.data.trim().slice(0, 30)}`);
    }
    return low;
})()"""

# What sticks out of the page to the right, outside of what scrolls by itself.
WIDER = """[...document.querySelectorAll('body *')].filter((node) => node.checkVisibility() &&
    !node.closest('.code pre, .table, .hidden-label, .skip, svg') &&
    node.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((node) => node.outerHTML.slice(0, 80))
    .concat([...document.querySelectorAll('#scroll, #live, #conversations, dialog')]
        .filter((node) => node.scrollWidth > node.clientWidth).map((node) => `${node.id} scrolls sideways`))"""


# Settles once what was written to the page's database before is there: transactions take their turns.
STORED = """new Promise((resolve) => {
    const request = indexedDB.open('hearth', 1);
    request.onerror = () => resolve(false);
    request.onsuccess = () => {
        const reading = request.result.transaction('conversations').objectStore('conversations').count();
        reading.onsuccess = () => { request.result.close(); resolve(true); };
        reading.onerror = () => resolve(false);
    };
})"""


# Until the page is loaded again, streams of events come in pieces of 200 bytes, 30 ms apart.
PACED_FETCH = """(() => {
  const fetchAtOnce = window.fetch
  window.fetch = async (what, how) => {
    const reply = await fetchAtOnce(what, how)
    if (!(reply.headers.get('content-type') ?? '').startsWith('text/event-stream'))
      return reply
    const reader = reply.body.getReader(), pieces = []
    return new Response(new ReadableStream({
      start: (to) => how?.signal?.addEventListener('abort', () => to.error(how.signal.reason)),
      pull: async (to) => {
        await new Promise((resolve) => setTimeout(resolve, 30))
        if (pieces.length === 0) {
          const { done, value } = await reader.read()
          if (done)
            return to.close()
          for (let at = 0; at < value.length; at += 200)
            pieces.push(value.subarray(at, at + 200))
        }
        to.enqueue(pieces.shift())
      },
      cancel: (why) => reader.cancel(why),
    }), reply)
  }
})()"""


class Page:
    """The page in the browser, with what a person does to it."""

    def __init__(self, browser, base, pictures):
        self.browser, self.base, self.pictures = browser, base, pictures
        self.run, self.wait, self.click, self.press, self.type = (
            browser.run, browser.wait, browser.click, browser.press, browser.type)

    def fresh(self):
        """Empties what the browser keeps, and the mock."""
        self.browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
        self.browser.call("Emulation.clearDeviceMetricsOverride")
        self.browser.call("Emulation.setEmulatedMedia", features=[])
        self.browser.open(self.base + "icon.svg")
        origin = self.base.rstrip("/")
        self.browser.call("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
        self.run("try { sessionStorage.clear() } catch {}")
        self.mock("reset")
        self.browser.errors.clear()
        self.browser.network_errors.clear()
        self.open()

    def open(self):
        self.browser.open(self.base)
        self.ready()

    def ready(self):
        self.wait("!document.querySelector('#welcome').hidden || document.querySelector('.message') !== null")

    def mock(self, what):
        try:
            with urllib.request.urlopen(f"{self.base}mock/{what}", timeout=10) as reply:
                return json.load(reply)
        except OSError:
            return {}

    def seen(self):
        return self.mock("seen")["chat"]

    def set_media(self, **features):
        self.browser.call("Emulation.setEmulatedMedia", features=[
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def slow_down(self):
        """Lets a server's answer arrive slowly, where it is no mock that waits between its pieces: the page gets what it
        fetches a piece at a time. (A slower network does not do: what the browser reads at once, which may be the whole
        answer, it gives the page at once.)"""
        if self.mock("seen") == {}:
            self.run(PACED_FETCH)

    def send(self, text):
        self.run("document.getElementById('message').focus()")
        self.type(text)
        self.press("Enter")
        self.wait("document.querySelector('#message').value === ''")

    def ask(self, text):
        """Sends a message and waits for the whole answer; returns it."""
        self.send(text)
        return self.finish()

    def text(self, selector):
        """The text of the last element that a selector finds."""
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].at(-1).textContent")

    def has(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}) !== null")

    def finish(self):
        self.wait(f"!{BUSY}", 60)
        return self.run(LAST)

    def shown(self):
        """The messages that are seen, in order."""
        return self.run("[...document.querySelectorAll('.said, .message.assistant .text')].map((node) => node.textContent)")

    def reload(self):
        """As a person does, who is slower than the database."""
        self.run(STORED)
        self.browser.reload()

    def picture(self, name):
        if self.pictures:
            time.sleep(0.3)
            self.browser.screenshot(f"{self.pictures}{name}.png")


def expect(condition, words):
    if not condition:
        raise AssertionError(words)


def equal(got, expected, words):
    expect(got == expected, f"{words}: got {got!r}, expected {expected!r}")
