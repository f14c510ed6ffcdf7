"""common.py - what the scripts of this folder share: checks that count, `hearth serve`, and what other commands of hearth say
of the same model. Every script is called with HEARTH and MODEL, and after them, if wanted, the names of the only parts to run.
"""
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

import jsonschema

HEARTH, MODEL = sys.argv[1:3]

# How a prompt is cut into steps depends on who else is there, and changes the last digits. With numbers as exact as this no
# choice among tokens depends on them.
EXACT = ["--activations", "f32", "--kv", "f32"]

DATA = pathlib.Path(os.environ.get("DATA") or pathlib.Path(HEARTH).resolve().parent / "test-data")  # tests/data/README.md
CONTEXT = 1 << 14  # of tool_server()

checks = failures = 0
processes = []


def check(what, ok, got=""):
    global checks, failures
    checks += 1
    if not ok:
        failures += 1
        print("FAIL: %s: %.600s" % (what, got), flush=True)


def same(what, got, expected):
    check(what, got == expected, "got %r, expected %r" % (got, expected))


def near(what, got, expected, bound):
    check(what, abs(got - expected) <= bound, "got %.9g, expected %.9g within %g" % (got, expected, bound))


def raises(what, kind, call):
    """Returns the error that call raises, which must be of exactly this class; None if it was not."""
    try:
        got = call()
    except Exception as error:
        same("%s: class of the error" % what, type(error).__name__, kind.__name__)
        return error if type(error) is kind else None
    check("%s: an error" % what, False, got)
    return None


# Fields that the classes of the packages know no null of, where the API itself says null: of completions the end in all
# pieces of a stream but the last, and the probability of a prompt's first token.
NULLS = {"Completion": {"finish_reason", "token_logprobs", "top_logprobs"}}


def valid(answer):
    """Returns an answer after its class has checked every field. The packages themselves build objects without checking."""
    wrong, name = [], type(answer).__name__
    try:
        type(answer).model_validate(answer.to_dict(mode="json"))
    except ValueError as error:
        wrong = [e for e in error.errors() if e["input"] is not None or not NULLS.get(name, set()) & set(e["loc"])]
    check("fields of %s" % name, not wrong, [(".".join(map(str, e["loc"])), e["msg"]) for e in wrong])
    return answer


def fits(what, value, schema):
    """Checks that a value is valid by a JSON schema."""
    wrong = [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(value)]
    check("%s: fits its schema" % what, not wrong, (wrong, value))


# ------------------------------------------------------------------ hearth

class Server:
    """`hearth serve` at a port of its own; self.url is its address."""

    def __init__(self, *options, model=MODEL):
        self.process = subprocess.Popen([HEARTH, "serve", model, "--port", "0", "-q", *EXACT, *options],
                                        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        processes.append(self.process)
        line = self.process.stdout.readline()
        check("the line of a server", line.startswith("listening on http://127.0.0.1:"), line)
        self.url = line.split()[-1]

    def end(self):
        self.process.terminate()
        same("exit status of a server", self.process.wait(60), 0)


def thinking_server():
    """A server whose answers are thoughts without end, since the template has begun one."""
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write("{{ messages[0].content }} <think>")
        template.flush()
        return Server("--chat-template", template.name)


def tool_server(*options):
    """A server that knows tools, by a real template: Qwen 2.5's, which is that of Hermes. Since what agents send is long, its
    model is a copy that says it was made for more; what it answers makes no more sense than before."""
    template = DATA / "golden" / "templates" / "Qwen-Qwen2.5-7B-Instruct.jinja"
    data, key = pathlib.Path(MODEL).read_bytes(), b"llama.context_length" + struct.pack("<I", 4)  # 4: a u32
    same("keys that say the context", data.count(key), 1)
    at = data.index(key) + len(key)
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(data[:at] + struct.pack("<I", CONTEXT) + data[at + 4:])
        file.flush()
        return Server("--chat-template", str(template), "-c", str(CONTEXT), *options, model=file.name)


def hearth(*arguments, text=None):
    """Returns what a command of hearth prints."""
    return subprocess.run([HEARTH, *arguments], check=True, capture_output=True, input=text, text=True, timeout=300).stdout


def greedy(*arguments):
    """Returns what `hearth run` says of an answer of likeliest tokens."""
    return json.loads(hearth("run", MODEL, "--temp", "0", "--json", *EXACT, *arguments, text=""))


def token_ids(text, *options):
    """Returns the tokens of a text, BOS first unless options say otherwise."""
    return [int(i) for i in hearth("tokenize", MODEL, "-f", "-", *options, text=text).split()]


def log_probabilities(ids):
    """Returns for each of ids[1:] its log-probability and whether it is the likeliest, from `hearth eval logits`."""
    with tempfile.NamedTemporaryFile() as out:
        hearth("eval", "logits", MODEL, "--ids", ",".join(map(str, ids)), "--out", out.name, *EXACT)
        data = open(out.name, "rb").read()
    size, found = len(data) // 4 // len(ids), []
    for at, token in enumerate(ids[1:]):
        logits = struct.unpack_from("<%df" % size, data, 4 * size * at)
        most = max(logits)
        found.append((logits[token] - most - math.log(sum(math.exp(x - most) for x in logits)), logits[token] == most))
    return found


# ------------------------------------------------------------------ the page

def commands(word, url):
    """Returns the commands of docs/serve.md that have this word in their first line, for a server at this address."""
    page = (pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "serve.md").read_text()
    found = re.findall(r"^    \$ (.*\n(?:    > .*\n)*)", page, re.MULTILINE)
    found = [c.replace("\n    > ", "\n").strip() for c in found if re.search(r"\b%s\b" % word, c.split("\n")[0])]
    return [c.replace("http://127.0.0.1:8080", url) for c in found if not c.startswith("pip ")]


def shell(command):
    """Returns what a command prints where python3 is this one."""
    environment = dict(os.environ, PATH=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment, timeout=120)
    same("exit status of %s (%s)" % (command, done.stderr[-300:]), done.returncode, 0)
    return done.stdout


# ------------------------------------------------------------------ running

def run(*parts):
    """Calls functions, those that the command line names or all; says how long they took; ends the program."""
    try:
        for part in parts:
            if sys.argv[3:] and part.__name__ not in sys.argv[3:]:
                continue
            begun = time.monotonic()
            part()
            print("%-28s %5.1f s" % (part.__name__, time.monotonic() - begun), flush=True)
    finally:
        for process in processes:
            process.kill()
    print("%d checks, %d failed" % (checks, failures))
    sys.exit(failures > 0)
