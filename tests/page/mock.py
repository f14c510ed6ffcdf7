#!/usr/bin/env python3
"""mock.py [--port N]: a server for the page's tests. It serves src/serve/page with its Content-Security-Policy and fakes
what hearth serve answers, always the same way. It loads no model.

What a chat request gets is chosen by the first word of its last message:

  slow      60 ms between pieces (others: 4 ms)        think     reasoning before the answer
  markdown  a sample of all Markdown                   hostile   Markdown that tries to run or load something
  long      400 lines, in half a second                silent    an answer without text
  wide      a table and code wider than a phone        huge      100,000 characters at once
  cut       finish_reason length                       break     the connection ends in the midst
  busy      503 with Retry-After: 1, twice             fails     status 500; inside: an error in the stream
  other     "Answer N to: MESSAGE", N counts requests

GET /mock/set?NAME=VALUE changes how other addresses answer (models, props, live: a status; key: the key that is wanted;
live=null: a document without values; two-models, no-template); GET /mock/seen tells what was asked. tests/ is this folder, for unit.js.
"""
import argparse
import json
import pathlib
import sys
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "src" / "serve" / "page"
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
          "form-action 'none'; frame-ancestors 'none'; base-uri 'none'")
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

MARKDOWN = """## What hearth skips

In a network with **ReLU** most neurons are *zero* for any one token. What a zero is multiplied with
need not be read:

1. the gate of every neuron is computed,
2. those above zero are listed,
3. only their rows of `up` and `down` are read.
   - rows are stored one after the other
   - so a row is one read

| mode | tokens/s | read per token |
|:-----|---------:|---------------:|
| dense | 42.1 | 616 MB |
| exact | 64.8 | 349 MB |
| predicted | 74.2 | 275 MB |

> The answer of *exact* is that of *dense*, bit for bit.

```c
for (uint32_t i = 0; i < listed; i++)
    axpy(d, activation[i], down_t + (size_t)list[i] * d, out);
```

- [x] read what is needed
- [ ] ~~read everything~~

More in [the project's pages](https://example.org/hearth), or at https://example.org/a_(b).
"""

HOSTILE = """<img src=x onerror="window.hacked=1"> <script>window.hacked=2</script>
<svg onload="window.hacked=3"><iframe src="javascript:window.hacked=4"></iframe>

[a](javascript:window.hacked=5) [b](JaVaScRiPt:window.hacked=6) [c](data:text/html,<script>window.hacked=7</script>)
[d](java\tscript:window.hacked=8) [e](&#106;avascript:window.hacked=9) <javascript:window.hacked=10>
[f](https://example.org/" onclick="window.hacked=11) ![g](http://127.0.0.1:9/picture.png) [h](//example.org/x)
[i](vbscript:x) [j](<javascript:window.hacked=12>) [k](\\javascript:window.hacked=13) [l](file:///etc/passwd)

| <b>a</b> | <img src=x onerror=window.hacked=14> |
|---|---|
| [x](javascript:window.hacked=15) | `</code><script>window.hacked=16</script>` |

<style>body { display: none }</style>
""" + ">" * 3000 + " deep\n\n" + "[" * 3000 + "\n\n" + "*a **b " * 3000 + """

```html"><script>window.hacked=17</script>
</code></pre><script>window.hacked=18</script>
an unclosed fence"""


class State:
    """What the tests can set and see. Requests are counted, so that two answers to one message differ."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.settings = {}
        self.seen = []
        self.tokens = 0
        self.refused = 0
        self.cut_off = 0


def answer_for(text, number):
    """Returns (reasoning, answer, finish_reason, seconds between pieces)."""
    kind = text.split()[0].lower() if text.split() else ""
    if kind == "slow":
        return "", " ".join(f"word{i}" for i in range(200)), "stop", 0.06
    if kind == "think":
        return "First I look at the question. " * 6, f"Answer {number} after thought.", "stop", 0.01
    if kind == "markdown":
        return "The reader wants to know what is skipped, so a list and a table will do.", MARKDOWN, "stop", 0.004
    if kind == "hostile":
        return "<img src=x onerror=window.hacked=20>", HOSTILE, "stop", 0
    if kind == "long":
        return "", "\n\n".join(f"Line {i} of a long answer." for i in range(400)), "stop", 0.001
    if kind == "wide":
        row = "|" + " some cell |" * 14
        return "", f"{row}\n|{'---|' * 14}\n{row}\n\n```\n{'wide ' * 60}\n```\n\n`{'code' * 60}`", "stop", 0
    if kind == "huge":
        return "", "A line with **some** `marks` in it, and\n- an item\n\n" * 2000, "stop", 0
    if kind == "silent":
        return "", "", "stop", 0
    if kind == "cut":
        return "", "This answer is cut", "length", 0.004
    return "", f"Answer {number} to: {text} (Ωλ — 火 🔥)", "stop", 0.004


def pieces(text):
    """A text in pieces of a few characters, as tokens are."""
    return [text[i:i + 5] for i in range(0, len(text), 5)]


def live_document(state):
    if state.settings.get("live") == "null":
        return {"layers": [{"neurons": None, "fired": None, "form": None, "hot": None}] * 4, "bytes_per_token": None,
                "predicted_tokens_per_second": None, "achieved_tokens_per_second": None, "token": None}
    layers = []
    for i in range(24):
        share = 0.02 + 0.45 * (i / 23) ** 3 + ((state.tokens * 7 + i * 13) % 17) / 170
        form = "device" if i < 9 else "split" if i < 17 else "ffn-host" if i < 19 else "host"
        hot = 11008 if form == "device" else 2816 if form == "split" else 0
        layers.append({"neurons": 11008, "fired": int(11008 * share), "form": form, "hot": hot})
    return {"layers": layers, "bytes_per_token": 349_000_000 + state.tokens % 5 * 1_300_000,
            "predicted_tokens_per_second": 70.1, "achieved_tokens_per_second": 64.8, "token": state.tokens}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def state(self):
        return self.server.state

    def log_message(self, *_):
        pass

    def reply(self, status, body, kind="application/json", headers=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def error(self, status, words, headers=None):
        self.reply(status, {"error": {"message": words, "type": "error", "code": status}}, headers=headers)

    def refused(self, name):
        """Answers with the status that was set for an address, or 401 without the key. Returns whether it did."""
        status = self.state.settings.get(name, "")
        if status == "503":
            self.state.settings.pop(name)  # once: the next request succeeds
            self.error(503, "The model is being loaded.", {"Retry-After": "2"})
            return True
        if status.isdigit():
            self.error(int(status), f"status {status} was asked for")
            return True
        key = self.state.settings.get("key")
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self.error(401, "invalid API key")
            return True
        return False

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        path = url.path
        if path == "/mock/set":
            self.state.settings.update(urllib.parse.parse_qsl(url.query))
            return self.reply(200, {})
        if path == "/mock/reset":
            self.state.reset()
            return self.reply(200, {})
        if path == "/mock/seen":
            return self.reply(200, {"chat": self.state.seen, "cut_off": self.state.cut_off})
        if path in ("/v1/models", "/props", "/live"):
            if self.refused(path.split("/")[-1]):
                return None
            if path == "/v1/models":
                names = ["stories-1b-relu"] + ["other-7b"] * ("two-models" in self.state.settings)
                return self.reply(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in names]})
            if path == "/props":
                return self.reply(200, {
                    "model": "stories-1b-relu", "build": "hearth 1.0", "mode": "exact", "guarantee": "bitwise",
                    "n_ctx": 4096,
                    "chat_template": None if "no-template" in self.state.settings else "{{ messages }}",
                    "default_generation_settings": {"temperature": 0.8, "top_p": 0.95}})
            return self.reply(200, live_document(self.state))
        return self.file(path)

    def file(self, path):
        folder, name = (HERE, path[7:]) if path.startswith("/tests/") else (PAGE, path[1:] or "index.html")
        file = folder / name
        if "/" in name or file.suffix not in TYPES or not file.is_file():
            return self.error(404, f"no such address: {path}")
        return self.reply(200, file.read_bytes(), TYPES[file.suffix],
                          {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff",
                           "Cache-Control": "no-cache"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.path not in ("/v1/chat/completions", "/v1/completions"):
            return self.error(404, f"no such address: {self.path}")
        if self.refused("chat"):
            return None
        self.completes = self.path == "/v1/completions"
        text = (body["prompt"] if self.completes else body["messages"][-1]["content"]).split("\n")[-1]
        kind = text.split()[0].lower() if text.split() else ""
        if kind == "busy" and self.state.refused < 2:
            self.state.refused += 1
            return self.error(503, "the queue is full", {"Retry-After": "1"})
        self.state.seen.append({"body": body, "authorization": self.headers.get("Authorization")})
        if kind == "fails":
            return self.error(500, "the model failed")
        reasoning, answer, finish, delay = answer_for(text, len(self.state.seen))
        return self.stream(kind, reasoning, answer, finish, delay)

    def stream(self, kind, reasoning, answer, finish, delay):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()

        def send(document):
            text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
            data = f"data: {text}\n\n".encode()
            for i in range(0, len(data), 61):  # cut anywhere, also inside a character
                self.wfile.write(data[i:i + 61])
                self.wfile.flush()

        def chunk(delta, reason=None):
            if self.completes:
                return {"object": "text_completion", "model": "stories-1b-relu",
                        "choices": [{"index": 0, "text": delta.get("content", ""), "finish_reason": reason}]}
            return {"object": "chat.completion.chunk", "model": "stories-1b-relu",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        try:
            send(chunk({"role": "assistant", "content": ""}))
            self.wfile.write(b": still here\n\n")
            count = 0
            for name, text in (("reasoning_content", reasoning), ("content", answer)):
                for piece in pieces(text):
                    count += 1
                    self.state.tokens += 1
                    send(chunk({name: piece}))
                    time.sleep(delay)
                    if count == 4 and kind == "break":
                        return
                    if count == 4 and kind == "inside":
                        return send({"error": {"message": "the device was lost", "code": 500}})
            send(chunk({}, finish))
            send({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": count}})
            send("[DONE]")
        except (BrokenPipeError, ConnectionResetError):
            self.state.cut_off += 1


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A browser that goes away is no error; anything else is told."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(*_)


def start(port=0):
    """Makes a server; returns it. Its address is server.server_address."""
    server = Server(("127.0.0.1", port), Handler)
    server.state = State()
    return server


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--port", type=int, default=0)
    server = start(parser.parse_args().port)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
