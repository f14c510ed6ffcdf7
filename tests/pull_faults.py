"""pull_faults.py HEARTH - `hearth pull` from servers that misbehave; prints what fails, and how much was checked.

Every path of the server is a script of answers: the first request gets the first, and so on; the last one is repeated. What
was asked, with its headers, is remembered."""
import hashlib
import http.server
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

HEARTH = sys.argv[1]
checks = failures = 0
DATA = random.Random(1).randbytes(3_000_000)
OTHER = random.Random(2).randbytes(3_000_000)
HALF = len(DATA) // 2


def check(what, ok, got=""):
    global checks, failures
    checks += 1
    if not ok:
        failures += 1
        print("FAIL: %s: %.600s" % (what, got), flush=True)


def same(what, got, expected):
    check(what, got == expected, "got %.300r, expected %.300r" % (got, expected))


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


# ------------------------------------------------------------------ answers

def answer(status=200, body=b"", headers=(), cut=None, length=None, pause=0):
    """A fixed answer; cut: bytes after which the connection breaks; length: what is announced instead; pause: seconds there."""
    def send(request):
        request.send_response(status)
        given = dict(headers)
        if length != "none":
            given.setdefault("Content-Length", str(len(body) if length is None else length))
        for name, value in given.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body if cut is None else body[:cut])
        if cut is not None or length is not None:
            request.wfile.flush()
            time.sleep(pause)
            request.close_connection = True
    return send


def good(data, etag='"one"', cut=None, modified=None, ranges=True, pause=0):
    """What a proper server does with Range and If-Range."""
    def send(request):
        headers = {}
        if etag:
            headers["ETag"] = etag
        if modified:
            headers["Last-Modified"] = modified
        wanted, condition = request.headers.get("Range"), request.headers.get("If-Range")
        if ranges and wanted and (not condition or condition in (etag, modified)):
            first = int(wanted[len("bytes="):-1])
            if first >= len(data):
                return answer(416, headers={"Content-Range": "bytes */%d" % len(data)})(request)
            headers["Content-Range"] = "bytes %d-%d/%d" % (first, len(data) - 1, len(data))
            return answer(206, data[first:], headers, cut, pause=pause)(request)
        return answer(200, data, headers, cut, pause=pause)(request)
    return send


def redirect(to, status=302, body=b""):
    return answer(status, body, {"Location": to})


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers)))
        script = self.server.paths.get(self.path, [answer(404)])
        turn = self.server.turns.get(self.path, 0)
        self.server.turns[self.path] = turn + 1
        try:
            script[min(turn, len(script) - 1)](self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.paths, self.turns = [], {}, {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, address):
        pass  # clients that go

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.server_address[1]

    def script(self, path, *answers):
        self.paths[path], self.turns[path] = answers, 0
        self.asked.clear()
        return self.url + path

    def header(self, number, name):
        return self.asked[number][1].get(name) if number < len(self.asked) else "not asked"


# ------------------------------------------------------------------ the program

environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and not k.startswith("HF_")}
folder = tempfile.mkdtemp(prefix="hearth-pull.", dir=os.environ.get("TMPDIR"))
server, elsewhere = Server(), Server()


def arguments(*options):
    return [HEARTH, "pull", "--retry-delay", "0.01", "--timeout", "2", *options]


def pull(*options, **more):
    """Runs it in the folder; returns exit status, standard output, standard error."""
    given = dict(environment, **more.pop("env", {}))
    done = subprocess.run(arguments(*options), cwd=folder, env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, **more)
    return done.returncode, done.stdout, done.stderr


def files():
    return sorted(os.listdir(folder))


def content(name="file.gguf"):
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()
    except OSError as error:
        return str(error)


def write(name, data):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def clear():
    for root, folders, names in os.walk(folder, topdown=False):
        for name in names:
            os.unlink(os.path.join(root, name))
        for name in folders:
            os.rmdir(os.path.join(root, name))


def succeeds(what, *options, data=DATA, left=("file.gguf",), notes=0, **more):
    status, out, error = pull(*options, **more)
    same("status of %s (%s)" % (what, error), status, 0)
    check("content of " + what, content() == data, "%s, %s" % (files(), error))
    same("files of " + what, files(), sorted(left))
    same("notes of %s (%s)" % (what, error), error.count("note: "), notes)
    return out, error


def refused(what, status, text, *options, left=(), **more):
    got, out, error = pull(*options, **more)
    same("status of %s (%s)" % (what, error), got, status)
    last = error.strip().split("\n")[-1]
    check("message of " + what, last.startswith("hearth: ") and text in last, error)
    same("errors of " + what, error.count("hearth: "), 1)
    same("output of " + what, out, "")
    same("files of " + what, files(), sorted(left))
    return error


PARTS = ("file.gguf.part", "file.gguf.part.json")


# ------------------------------------------------------------------ a file

def whole():
    url = server.script("/file.gguf", good(DATA))
    out, error = succeeds("a plain file", url)
    same("output", out, "file.gguf\n")
    check("line", error.startswith("file.gguf: 3.00 MB in "), error)
    same("no token where there is none", server.header(0, "Authorization"), None)
    same("encoding", server.header(0, "Accept-Encoding"), "identity")
    # It is there: by length alone, by digest without asking, and never replaced unasked.
    out, error = succeeds("the same again", url)
    check("the same again", "is there already" in error, error)
    server.asked.clear()
    succeeds("the same, by digest", url, "--sha256", sha256(DATA).upper())
    same("requests where the digest is right", server.asked, [])
    refused("another digest", 1, "file.gguf: exists and is not what", url, "--sha256", sha256(OTHER), left=["file.gguf"])
    write("file.gguf", DATA[:-1])
    refused("another length", 1, "--force replaces it", url, left=["file.gguf"])
    same("what was there", content(), DATA[:-1])
    succeeds("--force", url, "--force")
    clear()
    out, error = succeeds("quiet", url, "-q")
    same("what quiet says", error, "")
    clear()
    out, error = succeeds("json", url, "--json")
    result = json.loads(out)
    same("json", (result["model"], result["bytes"], result["files"][0]["state"], result["files"][0]["sha256"]),
         ("file.gguf", len(DATA), "downloaded", sha256(DATA)))
    clear()
    os.mkdir(os.path.join(folder, "sub"))
    for output, place in (("sub", "sub/file.gguf"), ("sub/", "sub/file.gguf"), ("sub/x", "sub/x"), ("new/deep/", "new/deep/file.gguf")):
        status, out, error = pull(url, "-o", output)
        same("-o %s (%s)" % (output, error), (status, out, content(place)), (0, place + "\n", DATA))
        clear()
        os.mkdir(os.path.join(folder, "sub"))
    refused("a missing folder", 1, "none/x.part: cannot open for writing", url, "-o", "none/x", left=["sub"])
    clear()
    encoded = server.script("/a%20b.gguf?download=true", good(DATA))
    same("a name with a blank", pull(encoded)[1], "a b.gguf\n")
    clear()
    for path in ("/", "/a%2fb", "/..%2f", "/%01x", "/%00", "/a%5cb"):
        refused("name of " + path, 2, "names no file; -o FILE does", server.url + path)
    server.script("/empty", answer(200, b""))
    same("an empty file", (pull(server.url + "/empty")[0], content("empty")), (0, b""))
    clear()


def interrupted():
    # The connection breaks in the middle, again and again; every try goes on where the last ended.
    url = server.script("/file.gguf", good(DATA, cut=1_000_000), good(DATA, cut=500_000), good(DATA))
    succeeds("a connection that breaks", url, notes=2)
    same("ranges", [server.header(i, "Range") for i in range(3)], [None, "bytes=1000000-", "bytes=1500000-"])
    same("conditions", [server.header(i, "If-Range") for i in range(3)], [None, '"one"', '"one"'])
    clear()
    # Another run goes on.
    url = server.script("/file.gguf", good(DATA, cut=HALF), good(DATA))
    error = refused("no retries", 1, "file.gguf", url, "--retries", "0", left=PARTS)
    check("what to do", "; the same command goes on behind the 1.50 MB in file.gguf.part" in error, error)
    out, error = succeeds("a second run", url, "--json")
    same("state", json.loads(out)["files"][0]["state"], "resumed")
    same("received", json.loads(out)["files"][0]["received"], len(DATA) - HALF)
    same("digest of both", json.loads(out)["files"][0]["sha256"], sha256(DATA))
    check("line of a second run", "after 1.50 MB of an earlier run" in error, error)
    clear()
    # A date does as well as a tag, a weak tag does not, and with neither only a digest lets it go on.
    date = "Mon, 01 Jan 2024 00:00:00 GMT"
    for what, etag, modified, options, condition, went_on in (
            ("a date", None, date, (), date, True), ("a weak tag", 'W/"one"', None, (), None, False),
            ("a weak tag and a date", 'W/"one"', date, (), date, True), ("nothing", None, None, (), None, False),
            ("a digest", None, None, ("--sha256", sha256(DATA)), None, True)):
        url = server.script("/file.gguf", good(DATA, etag, HALF, modified), good(DATA, etag, None, modified))
        pull(url, *options, "--retries", "0")
        succeeds(what, url, *options)
        same("range with " + what, server.header(1, "Range"), "bytes=%d-" % HALF if went_on else None)
        same("condition with " + what, server.header(1, "If-Range"), condition)
        clear()
    # Bytes of another URL, another digest, without a sidecar, with a damaged one.
    for what, change, options in (
            ("another URL", lambda: json.dumps({"hearth_pull": 1, "key": "http://x/", "validator": '"one"', "digest": ""}), ()),
            ("a damaged sidecar", lambda: "{", ()), ("a hostile sidecar", lambda: json.dumps(
                {"hearth_pull": 1, "key": server.url + "/file.gguf", "validator": "x\r\nX-Evil: 1", "digest": ""}), ()),
            ("no sidecar", lambda: None, ()), ("a digest that was not wanted then", lambda: "same", ("--sha256", sha256(DATA)))):
        url = server.script("/file.gguf", good(DATA, cut=HALF), good(DATA))
        pull(url, "--retries", "0")
        text = change()
        if text is None:
            os.unlink(os.path.join(folder, PARTS[1]))
        elif text != "same":
            write(PARTS[1], text.encode())
        write(PARTS[0], OTHER[:HALF])
        succeeds(what, url, *options)
        same("range with " + what, server.header(1, "Range"), None)
        clear()
    # A run that was ended between the last byte and the name.
    url = server.script("/file.gguf", good(DATA, cut=HALF), good(DATA))
    pull(url, "--retries", "0")
    write(PARTS[0], DATA)
    server.asked.clear()
    succeeds("a complete part", url)
    same("requests of a complete part", server.asked, [])
    clear()
    # More bytes than the server has.
    url = server.script("/file.gguf", good(DATA, cut=HALF), good(DATA))
    pull(url, "--retries", "0")
    write(PARTS[0], DATA + b"more")
    succeeds("a part that is too long", url)
    clear()


def changed():
    # The content changes between two tries: the tag tells, and all of it comes anew.
    url = server.script("/file.gguf", good(DATA, '"one"', HALF), good(OTHER, '"two"'))
    succeeds("changed content", url, data=OTHER, notes=1)
    clear()
    # A server that knows no ranges.
    url = server.script("/file.gguf", good(DATA, cut=HALF, ranges=False), good(DATA, ranges=False))
    succeeds("a server without ranges", url, notes=1)
    same("it was asked for a range", server.header(1, "Range"), "bytes=%d-" % HALF)
    clear()
    # Ranges that were not asked for: once anew, whole.
    for what, headers, body in (
            ("a range from 0", {"Content-Range": "bytes 0-%d/%d" % (len(DATA) - 1, len(DATA))}, DATA),
            ("a later range", {"Content-Range": "bytes %d-%d/%d" % (HALF + 1, len(DATA) - 1, len(DATA))}, DATA[HALF + 1:]),
            ("a short range", {"Content-Range": "bytes %d-%d/%d" % (HALF, HALF + 9, len(DATA))}, DATA[HALF:HALF + 10]),
            ("a range of another length", {"Content-Range": "bytes %d-%d/%d" % (HALF, len(DATA) - 1, len(DATA))}, DATA[-10:]),
            ("a range of another file", {"Content-Range": "bytes %d-%d/%d" % (HALF, len(DATA), len(DATA) + 1)}, DATA[HALF:] + b"x"),
            ("a range with another tag", {"Content-Range": "bytes %d-%d/%d" % (HALF, len(DATA) - 1, len(DATA)), "ETag": '"x"'},
             DATA[HALF:]),
            ("a range of nonsense", {"Content-Range": "bytes x-y/z"}, DATA[HALF:]),
            ("a range without words", {}, DATA[HALF:])):
        url = server.script("/file.gguf", good(DATA, cut=HALF), answer(206, body, headers), good(DATA))
        succeeds(what, url, notes=1)
        same("requests with " + what, [server.header(i, "Range") for i in range(3)], [None, "bytes=%d-" % HALF, None])
        clear()
        url = server.script("/file.gguf", answer(206, body, headers))
        refused(what + ", unasked", 1, "range that was not asked for", url)
    url = server.script("/file.gguf", good(DATA, cut=HALF), answer(416), good(DATA))
    succeeds("416", url, notes=1, data=DATA)
    clear()
    url = server.script("/file.gguf", answer(416))
    refused("416 unasked", 1, "HTTP status 416", url)


def wrong():
    url = server.script("/file.gguf", good(OTHER))
    error = refused("a wrong digest", 1, "SHA-256 is %s, expected %s" % (sha256(OTHER), sha256(DATA)), url, "--sha256", sha256(DATA))
    check("a wrong digest is removed", "what came was removed" in error, error)
    url = server.script("/file.gguf", answer(200, DATA, length=len(DATA) + 10))
    refused("a body that is cut short", 1, "file.gguf: ", url, "--retries", "1")
    url = server.script("/file.gguf", answer(200, DATA, {"Content-Encoding": "gzip"}))
    refused("an encoding", 1, "in the encoding gzip", url)
    url = server.script("/file.gguf", answer(200, b"<html>", {"Content-Type": "text/html; charset=utf-8"}))
    refused("a page", 1, "is a page for browsers", url)
    url = server.script("/file.gguf", answer(200, DATA, length="none"))
    succeeds("no length", url)
    clear()
    for status, text in ((401, "HF_TOKEN"), (403, "does not allow it"), (404, "no such thing"), (410, "it is gone"), (418, "unexpected")):
        url = server.script("/file.gguf", answer(status, b"sorry", {"X-Error-Message": "words of\tthe Hub"}))
        error = refused(str(status), 1, "%s/file.gguf: HTTP status %d: " % (server.url, status), url)
        check("meaning of %d" % status, text in error and "words of?the Hub" in error, error)
        same("requests with %d" % status, len(server.asked), 1)
    # The disk: 1 MB is all that a file may have.
    url = server.script("/file.gguf", good(DATA))
    refused("a full disk", 1, "file.gguf.part: cannot write: File too large", url, left=PARTS,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    succeeds("room was made", url)
    same("range after a full disk", server.header(1, "Range"), "bytes=%d-" % (1 << 20))
    clear()
    huge = server.script("/file.gguf", answer(200, b"x", length=1 << 60))
    refused("more than the disk has", 1, "file.gguf: needs 1153 PB more, the disk has", huge)
    os.mkdir(os.path.join(folder, "file.gguf"))
    os.mkdir(os.path.join(folder, "file.gguf", "file.gguf"))
    refused("a folder of that name", 1, "file.gguf/file.gguf: cannot write: is a folder", url, "-o", "file.gguf", left=["file.gguf"])
    clear()
    write("target", b"secret")
    os.symlink("target", os.path.join(folder, PARTS[0]))
    refused("a link of the part's name", 1, "file.gguf.part: cannot open for writing", url, left=[PARTS[0], "target"])
    same("what the link leads to", content("target"), b"secret")
    clear()
    os.mkfifo(os.path.join(folder, PARTS[0]))
    refused("a pipe of the part's name", 1, "file.gguf.part: cannot write: not a plain file", url, left=PARTS[:1])
    clear()


def later():
    for status in (408, 429, 500, 502, 503, 504, 520):
        url = server.script("/file.gguf", answer(status), answer(status), good(DATA))
        succeeds("%d twice" % status, url, notes=2)
        clear()
    url = server.script("/file.gguf", answer(503))
    refused("503 for ever", 1, "HTTP status 503: the server cannot answer now", url, "--retries", "3")
    same("tries", len(server.asked), 4)
    for status in (501, 505):
        url = server.script("/file.gguf", answer(status))
        refused(str(status), 1, "HTTP status %d" % status, url)
        same("tries of %d" % status, len(server.asked), 1)
    url = server.script("/file.gguf", answer(429, headers={"Retry-After": "1"}), good(DATA))
    begin = time.monotonic()
    succeeds("Retry-After", url, notes=1)
    check("seconds of Retry-After", time.monotonic() - begin >= 1, time.monotonic() - begin)
    clear()
    url = server.script("/file.gguf", answer(429, headers={"Retry-After": "9999999"}))
    refused("a long Retry-After", 1, "the server asks to come back in 9999999 s", url)
    # Nothing comes any more. A server that is stopped once counts as one try, since 1.5 MB came.
    url = server.script("/file.gguf", good(DATA, cut=HALF, pause=8), good(DATA))
    succeeds("a stall", url, "--timeout", "1", notes=1)
    clear()
    closed = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    address = "http://127.0.0.1:%d/file.gguf" % closed.server_address[1]
    closed.server_close()
    error = refused("nobody listens", 1, "connect", address, "--retries", "2")
    same("notes where nobody listens", error.count("note: "), 2)
    url = server.script("/file.gguf", *[good(DATA, cut=10)] * 3, good(DATA))
    refused("ten bytes are no progress", 1, "file.gguf", url, "--retries", "2", left=PARTS)
    clear()


def redirects():
    target = elsewhere.script("/blob", good(DATA))
    url = server.script("/file.gguf", redirect("/second", 301), redirect("/second", 301))
    server.paths["/second"] = [redirect(target, 307, b"moved" * 100)]
    succeeds("redirects", url)
    clear()
    elsewhere.script("/blob", good(DATA, cut=HALF), good(DATA))
    succeeds("redirects and a break", url, notes=1)
    same("a range behind redirects", elsewhere.header(1, "Range"), "bytes=%d-" % HALF)
    clear()
    url = server.script("/loop.gguf", redirect("/loop.gguf"))
    refused("a loop", 1, "more than 10 redirects", url)
    same("requests of a loop", len(server.asked), 11)
    for to in ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "http://user:pass@127.0.0.1/x"):
        url = server.script("/file.gguf", redirect(to))
        refused("a redirect to " + to, 1, "which is no plain URL of http or https", url)
    url = server.script("/file.gguf", redirect("/x", body=b"x" * 1_000_000))
    refused("a long redirect", 1, "redirects with a body of more than", url)
    url = server.script("/file.gguf", answer(302))
    refused("a redirect to nowhere", 1, "HTTP status 302", url)
    for url, text in (("file:///etc/passwd", "is neither http nor https"), ("ftp://127.0.0.1/x", "is neither http nor https"),
                      ("http://", "is not a URL"), ("http://user:pass@127.0.0.1/x", "the URL has a user's name in it")):
        error = refused(url, 2, text, url)
        check("no password is shown", "pass@" not in error, error)


# ------------------------------------------------------------------ the Hub

def listed(path, data, **more):
    large = len(data) > 1000
    return dict({"type": "file", "path": path, "size": len(data), "oid": git_sha1(b"pointer" if large else data)},
                **({"lfs": {"oid": sha256(data), "size": len(data)}} if large else {}), **more)


def hub(files, to=None, extra=()):
    """Lets the server be a Hub with one repository; to: the server that the files are on."""
    entries = [listed(path, data) for path, data in files.items()] + [{"type": "directory", "path": "sub", "size": 0}, *extra]
    server.script("/api/models/me/model/tree/main?recursive=true", answer(200, json.dumps(entries).encode()))
    for path, data in files.items():
        place = "/me/model/resolve/main/" + path.replace(" ", "%20")
        if to:
            server.script(place, redirect(to.script("/cdn/" + path, good(data))))
        else:
            server.script(place, good(data))


def hub_pull(*options, token=None, **more):
    return pull(*options, env={"HF_ENDPOINT": server.url + "/", **({"HF_TOKEN": token} if token else {})}, **more)


def hub_refused(what, text, *options, status=1, left=()):
    return refused(what, status, text, *options, left=left, env={"HF_ENDPOINT": server.url})


def names():
    one = {"config.json": b"{}", "README.md": b"#", "model-Q8_0.gguf": DATA}
    hub(one)
    status, out, error = hub_pull("me/model")
    same("the only model (%s)" % error, (status, out, content("model-Q8_0.gguf")), (0, "model-Q8_0.gguf\n", DATA))
    check("its digest", "SHA-256 as expected" in error, error)
    server.asked.clear()
    status, out, error = hub_pull("me/model")
    same("the only model again (%s)" % error, (status, out, len(server.asked)), (0, "model-Q8_0.gguf\n", 1))
    write("model-Q8_0.gguf", OTHER)
    hub_refused("another file of that name", "exists and is not what", "me/model", left=["model-Q8_0.gguf"])
    clear()
    several = {"a-Q4_K_M.gguf": DATA, "a-Q4_K_S.gguf": OTHER, "sub/a-IQ4_XS.gguf": DATA[:2000], "mmproj-a.gguf": DATA[:5000],
               "Q5_0/a-Q5_0-00001-of-00002.gguf": DATA[:4000], "Q5_0/a-Q5_0-00002-of-00002.gguf": DATA[:3000]}
    hub(several)
    error = hub_refused("several", "has several models; add :QUANT or /FILE: ", "me/model", status=2)
    for text in ("a-Q4_K_M.gguf (3.00 MB)", "sub/a-IQ4_XS.gguf (2.00 kB)", "Q5_0/a-Q5_0-00001-of-00002.gguf (7.00 kB)"):
        check("the list has " + text, text in error, error)
    check("no projector in the list", "mmproj" not in error, error)
    for quantization in ("Q4_K_M", "q4_k_m"):
        same(quantization, hub_pull("me/model:" + quantization)[:2], (0, "a-Q4_K_M.gguf\n"))
        clear()
    same("of a folder", (hub_pull("me/model:IQ4_XS")[:2], files()), ((0, "a-IQ4_XS.gguf\n"), ["a-IQ4_XS.gguf"]))
    clear()
    same("parts", (hub_pull("me/model:Q5_0")[:2], files()),
         ((0, "a-Q5_0-00001-of-00002.gguf\n"), ["a-Q5_0-00001-of-00002.gguf", "a-Q5_0-00002-of-00002.gguf"]))
    clear()
    same("parts by the second", (hub_pull("me/model/Q5_0/a-Q5_0-00002-of-00002.gguf", "-o", "d")[:2], sorted(os.listdir(folder + "/d"))),
         ((0, "d/a-Q5_0-00001-of-00002.gguf\n"), ["a-Q5_0-00001-of-00002.gguf", "a-Q5_0-00002-of-00002.gguf"]))
    clear()
    write("file", b"")
    hub_refused("parts into a file", "has to be a folder, for 2 files", "me/model:Q5_0", "-o", "file", status=2, left=["file"])
    hub_refused("a digest of parts", "--sha256: is of one file", "me/model:Q5_0", "--sha256", sha256(DATA), status=2, left=["file"])
    clear()
    same("any file", (hub_pull("me/model/mmproj-a.gguf", "-o", "x.gguf")[:2], content("x.gguf")), ((0, "x.gguf\n"), DATA[:5000]))
    clear()
    hub_refused("Q4_K is not Q4_K_M", "has no model of Q4_K: a-Q4_K_M.gguf", "me/model:Q4_K", status=2)
    hub_refused("a missing file", "has no file b.gguf: a-Q4_K_M.gguf", "me/model/b.gguf", status=2)
    hub({"x-Q8_0.gguf": DATA, "y-Q8_0.gguf": DATA})
    hub_refused("two of a kind", "has several models of Q8_0", "me/model:Q8_0", status=2)
    hub({"a-00001-of-00003.gguf": DATA, "a-00002-of-00003.gguf": DATA, "b": b"", "c": b""})
    hub_refused("a missing part", "part 3 is missing", "me/model")
    hub({"README.md": b"#"})
    hub_refused("nothing", "has neither a GGUF file nor a model folder", "me/model")
    hub_refused("nothing of a kind", "has no GGUF file, of Q8_0", "me/model:Q8_0", status=2)
    hub_refused("a repository that is not there", "/api/models/me/none/tree/main?recursive=true: HTTP status 404", "me/none")
    status, out, error = hub_pull("me/model", "--list")
    same("--list (%s)" % error, (status, out), (0, "  1 bytes  README.md\n"))
    same("--list --json", json.loads(hub_pull("me/model", "--list", "--json")[1]), {"files": [{"path": "README.md", "bytes": 1}]})
    for name in ("me", "me/", "/x", "me/x/", "me/x/../y", "me/x//y", "../x", "me/..", "-x/y", "me/x:", "me/x:a/b", "a b/c", "me/x/\x01"):
        refused("name " + repr(name), 2, "is neither a URL nor of the form", "--", name)


def folders():
    model = {"config.json": b"{}", "generation_config.json": b"{ }", "tokenizer.json": DATA[:9000], "tokenizer_config.json": b"[]",
             "model.safetensors.index.json": b"{\"a\": 1}", "model-00001-of-00002.safetensors": DATA,
             "model-00002-of-00002.safetensors": OTHER}
    rest = {"README.md": b"#", "consolidated.safetensors": DATA, "onnx/model.safetensors": DATA, "pytorch_model.bin": DATA}
    hub({**model, **rest})
    status, out, error = hub_pull("me/model")
    same("a folder (%s)" % error, (status, out), (0, "model\n"))
    same("files of a folder", {n: content("model/" + n) for n in os.listdir(folder + "/model")}, model)
    check("digests of small files", error.count("git's SHA-1 as expected") == 4, error)
    server.asked.clear()
    out = json.loads(hub_pull("me/model", "--json")[1])
    same("a folder again", ([f["state"] for f in out["files"]], len(server.asked)), (["present"] * 7, 1))
    os.unlink(folder + "/model/tokenizer.json")
    out = json.loads(hub_pull("me/model", "--json")[1])
    same("a folder, completed", sorted(f["state"] for f in out["files"]), ["downloaded"] + ["present"] * 6)
    clear()
    same("-o", (hub_pull("me/model", "-o", "a/b")[:2], len(os.listdir(folder + "/a/b"))), ((0, "a/b\n"), 7))
    clear()
    hub({"config.json": b"{}", "pytorch_model.bin": DATA, "merges.txt": b"a b", "vocab.json": b"{}"})
    same("a folder of torch", (hub_pull("me/model", "-q")[:2], sorted(os.listdir(folder + "/model"))),
         ((0, "model\n"), ["config.json", "merges.txt", "pytorch_model.bin", "vocab.json"]))
    clear()
    hub(model)
    server.script("/me/model/resolve/main/config.json", answer(200, b"[]"))
    error = hub_pull("me/model")[2]
    check("a small file that was changed", "git's SHA-1 is " in error, error)
    check("it is not there", "config.json" not in os.listdir(folder + "/model"), os.listdir(folder + "/model"))
    clear()
    server.script("/me/model/resolve/main/config.json", answer(200, b"[1]"))
    error = hub_pull("me/model")[2]
    check("a small file of another size", "has 3 bytes, expected 2" in error, error)
    clear()
    server.script("/me/model/resolve/main/config.json", answer(200, b"[1]", length="none"))
    error = hub_pull("me/model")[2]
    check("a small file that goes on", "sends more than the 2 bytes" in error, error)
    clear()


def tokens():
    hub({"a.gguf": DATA}, to=elsewhere)
    status, out, error = hub_pull("me/model", token="hf_secret")
    same("with a token (%s)" % error, (status, content("a.gguf")), (0, DATA))
    same("the Hub has the token", [h.get("Authorization") for p, h in server.asked], ["Bearer hf_secret"] * 2)
    same("nobody else has it", [h.get("Authorization") for p, h in elsewhere.asked], [None])
    clear()
    # Also of a URL, where that is the Hub's; and of a redirect that comes back to it.
    server.script("/x.gguf", redirect(elsewhere.script("/back", redirect(server.url + "/own"))))
    server.paths["/own"] = [good(DATA)]
    write("token", b"hf_other\n")
    status, out, error = pull(server.url + "/x.gguf", "--endpoint", server.url, "--token-file", "token", env={"HF_TOKEN": "hf_secret"})
    same("there and back (%s)" % error, status, 0)
    same("tokens there and back", [h.get("Authorization") for s in (server, elsewhere) for p, h in s.asked],
         ["Bearer hf_other", "Bearer hf_other", None])
    clear()
    for other in ("http://localhost:%d" % server.server_address[1], "http://127.0.0.1:1", "https://127.0.0.1:%d" % server.server_address[1]):
        url = server.script("/y.gguf", good(DATA))
        pull(url, "--endpoint", other, env={"HF_TOKEN": "hf_secret"})
        same("no token of " + other, [h.get("Authorization") for p, h in server.asked], [None])
        clear()
    for token in ("two words", "line\nX-Evil: 1", "\xe4"):
        refused("token " + repr(token), 2, "HF_TOKEN: holds no token", server.url + "/y.gguf", env={"HF_TOKEN": token})
    write("token", b"\n")
    refused("an empty token", 2, "token: holds no token", server.url + "/y.gguf", "--token-file", "token", left=["token"])
    refused("a missing file of the token", 1, "none: cannot open", server.url + "/y.gguf", "--token-file", "none", left=["token"])
    refused("an endpoint", 2, "is neither http nor https", "me/model", "--endpoint", "file:///", left=["token"])
    clear()


def hostile():
    path = "/api/models/me/model/tree/main?recursive=true"

    def lists(what, text, body, *more):
        server.script(path, answer(200, body if isinstance(body, bytes) else json.dumps(body).encode(), *more))
        hub_refused(what, text, "me/model")

    for what, body in (("no JSON", b"<html>"), ("half of JSON", b'[{"type": "file"'), ("nothing", b""), ("an object", b'{"error": "no"}'),
                       ("deep", b"[" * 100000), ("numbers", b"[1, 2]"), ("a number as path", b'[{"type": "file", "path": 1, "size": 1}]'),
                       ("no size", b'[{"type": "file", "path": "a"}]'), ("a size below 0", b'[{"type": "file", "path": "a", "size": -1}]')):
        lists(what, "/api/models/me/model/tree/main?recursive=true: ", body)
    lists("a wrong hash", "lfs.oid: is no SHA-256", [{"type": "file", "path": "a", "size": 1, "lfs": {"oid": "../../x"}}])
    for name in ("../evil.gguf", "/etc/evil.gguf", "a/../../evil.gguf", "a//evil.gguf", "./evil.gguf", "..", "", "evil\x1b[2J.gguf",
                 "evil\n.gguf", "a\\..\\evil.gguf", "evil\x9b.gguf", "x" * 2000):
        lists("name " + repr(name), "is not safe", [{"type": "file", "path": name, "size": 1}])
    lists("a huge answer", "the answer has more than 16777216 bytes", b" " * (17 << 20))
    lists("many files", "lists more than 20000 files", [{"type": "file", "path": "a", "size": 1}] * 20001)
    # Listings of several answers.
    first, second = [listed("a-Q8_0.gguf", DATA)], [listed("b-Q4_0.gguf", OTHER)]
    link = lambda to: {"Link": '<%s>; rel="prev", <%s>; rel="next"' % (server.url, to)}
    server.script(path, answer(200, json.dumps(first).encode(), link(server.url + "/more")))
    server.paths["/more"] = [answer(200, json.dumps(second).encode())]
    server.paths["/me/model/resolve/main/b-Q4_0.gguf"] = [good(OTHER)]
    same("a second answer", (hub_pull("me/model:Q4_0")[:2], content("b-Q4_0.gguf")), ((0, "b-Q4_0.gguf\n"), OTHER))
    clear()
    lists("a listing without an end", "its listing does not end", first, link(server.url + path))
    lists("a listing that goes elsewhere", "goes on at another host", first, link(elsewhere.url + "/more"))
    lists("a listing that goes to a file", "goes on at another host", first, link("file:///etc/passwd"))
    server.script(path, answer(503), answer(200, b"[", cut=0), answer(200, json.dumps(first).encode()))
    server.paths["/me/model/resolve/main/a-Q8_0.gguf"] = [good(DATA)]
    same("a listing at the third try", hub_pull("me/model")[:2], (0, "a-Q8_0.gguf\n"))
    clear()
    server.script("/api/models/me/model/tree/refs%2Fpr%2F1?recursive=true", answer(200, json.dumps(first).encode()))
    server.paths["/me/model/resolve/refs%2Fpr%2F1/a-Q8_0.gguf"] = [good(DATA)]
    same("--revision", hub_pull("me/model", "--revision", "refs/pr/1")[:2], (0, "a-Q8_0.gguf\n"))
    clear()
    refused("a wrong revision", 2, "--revision: '../x' is not the name", "me/model", "--revision", "../x")


# ------------------------------------------------------------------ signals

def signals():
    """Ended at any moment it leaves either the whole file or a part with which the next run goes on."""
    url = server.script("/file.gguf", good(DATA, cut=HALF, pause=30), good(DATA))
    process = subprocess.Popen(arguments(url, "--timeout", "60"), cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 20
    while time.monotonic() < until and not (os.path.exists(folder + "/file.gguf.part") and
                                            os.path.getsize(folder + "/file.gguf.part") == HALF):
        time.sleep(0.01)
    other = refused("a second one meanwhile", 1, "file.gguf.part: another process is writing it", url, left=PARTS)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=20)
    check("Ctrl-C is heard at once", time.monotonic() - begin < 3, time.monotonic() - begin)
    same("status after Ctrl-C", process.returncode, 130)
    check("what Ctrl-C says", "interrupted; the same command goes on behind the 1.50 MB in file.gguf.part" in error, error)
    same("files after Ctrl-C", files(), sorted(PARTS))
    server.script("/file.gguf", good(DATA))
    succeeds("after Ctrl-C", url)
    same("range after Ctrl-C", server.header(0, "Range"), "bytes=%d-" % HALF)
    clear()
    # While it waits for another try.
    url = server.script("/file.gguf", answer(503, headers={"Retry-After": "60"}))
    process = subprocess.Popen(arguments(url), cwd=folder, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    same("status after SIGTERM while waiting", (process.returncode, files()), (143, []))
    # SIGKILL, which nobody can handle, at twelve moments.
    for i in range(12):
        server.script("/file.gguf", good(DATA, cut=200_000 * i + 1, pause=30), good(DATA))
        process = subprocess.Popen(arguments(url, "-q"), cwd=folder, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        until = time.monotonic() + 20
        while time.monotonic() < until and not (os.path.exists(folder + "/file.gguf.part") and
                                                os.path.getsize(folder + "/file.gguf.part") > 200_000 * i):
            time.sleep(0.005)
        process.kill()
        process.communicate()
        check("no file after SIGKILL", not os.path.exists(folder + "/file.gguf"), files())
        server.script("/file.gguf", good(DATA))
        succeeds("after SIGKILL at %d" % i, url, "--sha256", sha256(DATA)) if i % 2 else succeeds("after SIGKILL at %d" % i, url)
        if i % 2 == 0:
            check("it went on", (server.header(0, "Range") or "").startswith("bytes="), server.asked)
        clear()


try:
    for group in (whole, interrupted, changed, wrong, later, redirects, names, folders, tokens, hostile, signals):
        begin = time.monotonic()
        group()
        print("  %-12s %5.1f s" % (group.__name__, time.monotonic() - begin), flush=True)
        clear()
finally:
    clear()
    os.rmdir(folder)
print("%d checks, %d failed" % (checks, failures))
sys.exit(failures > 0)
