"""serve_clients.py HEARTH MODEL - clients of `hearth serve`, good and bad; prints what fails, and how much was checked. DATA in
the environment is the folder with reference data, as tests/CMakeLists.txt sets it.

One file, long as it is: all parts ask the same server, one after the other, and share its helpers."""
import base64
import concurrent.futures
import http.client
import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse

HEARTH, MODEL = sys.argv[1:3]  # what follows: only these checks
OTHER = os.path.join(os.environ["DATA"], "models", "stories260K")
GPT2 = os.path.join(os.environ["DATA"], "golden", "gpt2", "model.gguf")
CHATML = ["--chat-template", "chatml"]
# How a prompt is cut into steps depends on who else is there, and changes the last digits. With numbers as exact as this no
# choice among tokens depends on them.
EXACT = ["--activations", "f32", "--kv", "f32"]
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


class Server:
    """A server on a port of its own. notes: a file for what it tells people."""

    def __init__(self, *options, models=(MODEL,), notes=None):
        quiet = [] if notes else ["-q"]
        self.process = subprocess.Popen([HEARTH, "serve", *models, "--port", "0", *quiet, *CHATML, *EXACT, *options],
                                        stdout=subprocess.PIPE, stderr=notes, stdin=subprocess.DEVNULL, text=True)
        processes.append(self.process)
        line = self.process.stdout.readline()
        check("the line of " + str(options), line.startswith("listening on http://127.0.0.1:"), line)
        self.port = int(line.rsplit(":", 1)[1])

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def ask(self, path, body=None, method=None, headers={}):
        """Returns status, headers and body, as JSON where it is."""
        connection = self.connect()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if text and "json" in answer.headers.get("Content-Type", ""):
            text = json.loads(text)
        return answer.status, answer.headers, text

    def stream(self, path, body):
        """Returns the objects of a stream, without [DONE], which must be the last."""
        status, headers, text = self.ask(path, dict(body, stream=True))
        same("type of a stream", (status, headers["Content-Type"]), (200, "text/event-stream"))
        events = [line[6:] for line in text.decode().split("\n") if line.startswith("data: ")]
        same("end of a stream", events[-1], "[DONE]")
        return [json.loads(e) for e in events[:-1]]

    def events(self, path, body):
        """Returns the objects of a stream whose events have names, which are their types."""
        status, headers, text = self.ask(path, dict(body, stream=True))
        same("type of a stream", (status, headers["Content-Type"]), (200, "text/event-stream"))
        events = []
        for block in text.decode().split("\n\n")[:-1]:
            name, data = block.split("\n")
            events.append(json.loads(data[len("data: "):]))
            same("name of an event", name, "event: " + events[-1]["type"])
        return events

    def metric(self, name):
        text = self.ask("/metrics")[2].decode()
        return int([line for line in text.split("\n") if line.startswith(name + " ")][0].split()[-1])

    def await_metric(self, name, least):
        for _ in range(6000):  # a server with sanitizers takes a minute where another takes five seconds
            value = self.metric(name)
            if value >= least:
                break
            time.sleep(0.05)
        check(name, value >= least, "%d, not %d" % (value, least))

    def is_idle(self):
        for _ in range(6000):
            if self.metric("hearth_answers_running") + self.metric("hearth_answers_waiting") == 0:
                return True
            time.sleep(0.05)
        return False

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        same("exit status", self.process.wait(60), 0)


def run(*arguments, model=MODEL):
    return json.loads(subprocess.run([HEARTH, "run", model, "--temp", "0", "--json", *EXACT, *arguments], check=True,
                                     capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60).stdout)


def chat(text, **more):
    return dict({"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 24}, **more)


def completion(prompt, **more):
    return dict({"prompt": prompt, "temperature": 0, "max_tokens": 24}, **more)


def message(text, **more):
    return dict({"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 24}, **more)


def response(given, **more):
    return dict({"input": given, "temperature": 0, "max_output_tokens": 24}, **more)


CHAT, TEXT, VECTORS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
MESSAGES, COUNT, RESPONSES = "/v1/messages", "/v1/messages/count_tokens", "/v1/responses"
LONG = completion("Once upon a time", n=64, max_tokens=400, ignore_eos=True)


# ------------------------------------------------------------------ what it answers

def check_density(s):
    """What was active of an answer's tokens is what `hearth run` says of them."""
    expected = run("-p", "Zebras seldom sing", "-n", "30", "--ignore-eos")
    ids = s.ask("/tokenize", {"content": "Zebras seldom sing", "add_special": True})[2]["tokens"]
    s.ask(TEXT, completion(ids, max_tokens=1))
    check("an idle server", s.is_idle())
    names = ["hearth_neurons_total", "hearth_neurons_active_total"]
    before = [s.metric(name) for name in names]
    s.ask(TEXT, completion(ids + expected["ids"][:1], max_tokens=30, ignore_eos=True))
    check("an idle server", s.is_idle())
    neurons, active = [s.metric(name) - b for name, b in zip(names, before)]
    same("density", active / neurons, expected["sparsity"]["density"])
    check("memory", s.metric("hearth_main_memory_bytes") > os.path.getsize(MODEL) / 2)
    same("memory of a device", s.metric("hearth_device_memory_bytes"), 0)


def check_hot_set():
    """Where the active neurons were is counted as `hearth run` counts it of the same tokens."""
    options = ["--device", "host", "--gpu-neurons", "200", "--hot-set", "adaptive", "-t", "1"]
    text = "The old clock in the hall"
    expected = run("-p", text, "-n", "59", "--ignore-eos", *options)["hot_set"]  # it reads the last token as well
    s = Server(*options)
    s.ask(TEXT, completion(text, max_tokens=60, ignore_eos=True))
    s.await_metric("hearth_hot_set_active_total", expected["active"])
    same("active", s.metric("hearth_hot_set_active_total"), expected["active"])
    same("on the device", s.metric("hearth_hot_set_on_device_total"), expected["on_device"])
    same("changed sides", s.metric("hearth_hot_set_swaps_total"), expected["swaps"])
    check("some changed sides", expected["swaps"] > 0)
    s.end()


def check_state(s):
    same("health", s.ask("/health")[2], {"status": "ok"})
    models = s.ask("/v1/models")[2]
    same("models", [m["id"] for m in models["data"]], [os.path.basename(MODEL)[:-5]])
    same("where they end", (models["has_more"], models["first_id"], models["last_id"]), (False,) + 2 * (models["data"][0]["id"],))
    same("a model", s.ask("/v1/models/" + models["data"][0]["id"])[2], models["data"][0])
    same("another model", s.ask("/v1/models/x%2Fy")[2]["error"]["code"], "model_not_found")
    props = s.ask("/props")[2]
    same("props", (props["total_slots"], props["n_ctx"], props["chat_template"], props["tool_calls"]), (4, 512, "chatml", None))
    same("slots", [slot["is_processing"] for slot in s.ask("/slots")[2]], [False] * 4)
    same("HEAD", s.ask("/health", method="HEAD")[0], 200)


def check_text(s):
    ids = s.ask("/tokenize", {"content": "Once upon a time", "add_special": True})[2]["tokens"]
    expected = subprocess.run([HEARTH, "tokenize", MODEL, "-f", "-"], input="Once upon a time", capture_output=True, text=True,
                              timeout=60).stdout
    same("tokenize", ids, [int(i) for i in expected.split()])
    same("detokenize", s.ask("/detokenize", {"tokens": ids[1:]})[2]["content"].strip(), "Once upon a time")
    for body, tokens in (({}, ids), ({"add_special_tokens": False}, ids[1:]), ({"add_special": False}, ids)):
        answer = s.ask("/tokenize", dict(body, prompt="Once upon a time"))[2]
        same("tokenize as vLLM does: %r" % body, answer, {"count": len(tokens), "max_model_len": 512, "tokens": tokens})
    same("detokenize as vLLM does", s.ask("/detokenize", {"tokens": ids[1:]})[2]["prompt"].strip(), "Once upon a time")
    same("the tokenizer", s.ask("/tokenizer_info")[2],
         {"bos_token": "<s>", "eos_token": "</s>", "model_max_length": 512, "chat_template": None})
    pieces = s.ask("/tokenize", {"content": "Once", "with_pieces": True})[2]["tokens"]
    same("pieces", [p["piece"] for p in pieces], ["\u2581Once"])
    messages = [{"role": "user", "content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}]
    text = "<|im_start|>user\nHi<|im_end|>\n"
    same("template", s.ask("/apply-template", {"messages": messages})[2]["prompt"], text + "<|im_start|>assistant\n")
    same("template without an answer", s.ask("/apply-template", {"messages": messages, "add_generation_prompt": False})[2],
         {"prompt": text})


def check_answers(s):
    expected = run(*CHATML, "--chat", "Tell me", "-n", "24")
    answer = s.ask(CHAT, chat("Tell me"))[2]
    same("a chat", answer["choices"][0]["message"], {"role": "assistant", "content": expected["text"]})
    same("its usage", (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]),
         (expected["prompt_tokens"], 24))
    same("its end", answer["choices"][0]["finish_reason"], "length")
    events = s.stream(CHAT, chat("Tell me", stream_options={"include_usage": True}))
    same("a chat as stream", "".join(e["choices"][0]["delta"].get("content", "") for e in events if e["choices"]),
         expected["text"])
    same("its role", events[0]["choices"][0]["delta"]["role"], "assistant")
    same("its reason", [e["choices"][0]["finish_reason"] for e in events if e["choices"]][-1], "length")
    same("its last event", (events[-1]["choices"], events[-1]["usage"]["completion_tokens"]), ([], 24))
    check("what it kept", events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, events[-1])
    expected = run("-p", "Once upon a time", "-n", "24")
    answer = s.ask(TEXT, completion("Once upon a time"))[2]
    same("a completion", answer["choices"][0]["text"], expected["text"])
    events = s.stream(TEXT, completion("Once upon a time"))
    same("a completion as stream", "".join(e["choices"][0]["text"] for e in events), expected["text"])
    stop = expected["text"].split()[3]
    answer = s.ask(TEXT, completion("Once upon a time", stop=["nowhere", stop]))[2]["choices"][0]
    same("a stop", (answer["text"], answer["finish_reason"]), (expected["text"].split(stop)[0], "stop"))
    events = s.stream(TEXT, completion("Once upon a time", stop=stop))
    same("a stop in a stream", "".join(e["choices"][0]["text"] for e in events), expected["text"].split(stop)[0])
    events = s.stream(TEXT, completion(["Once upon a time"] * 3, n=2))
    for i in range(6):
        text = "".join(e["choices"][0]["text"] for e in events if e["choices"][0]["index"] == i)
        same("choice %d of a stream" % i, text, expected["text"])
    several = s.ask(TEXT, completion(["Once upon a time", "One day"], n=2, temperature=1, seed=7))[2]["choices"]
    same("choices", [c["index"] for c in several], [0, 1, 2, 3])
    again = s.ask(TEXT, completion(["Once upon a time", "One day"], n=2, temperature=1, seed=7))[2]["choices"]
    same("the same seed", [c["text"] for c in again], [c["text"] for c in several])
    check("another choice", several[0]["text"] != several[1]["text"], several)


def join(events, kind, key):
    """Puts the pieces of a stream together that are deltas of this type."""
    return "".join(e["delta"][key] for e in events if e["type"] == "content_block_delta" and e["delta"]["type"] == kind)


def check_messages(s):
    expected = s.ask(CHAT, chat("Tell me"))[2]
    text = expected["choices"][0]["message"]["content"]
    answer = s.ask(MESSAGES, message("Tell me"))[2]
    same("content of a message", answer["content"], [{"type": "text", "text": text}])
    same("what it is", (answer["type"], answer["role"], answer["model"], answer["stop_reason"], answer["stop_sequence"]),
         ("message", "assistant", expected["model"], "max_tokens", None))
    used = answer["usage"]
    same("its usage", (used["input_tokens"] + used["cache_read_input_tokens"], used["output_tokens"]),
         (expected["usage"]["prompt_tokens"], 24))
    check("what it kept", used["cache_read_input_tokens"] > 0, used)
    same("tokens that are counted", s.ask(COUNT, message("Tell me"))[2],
         {"input_tokens": expected["usage"]["prompt_tokens"]})
    events = s.events(MESSAGES, message("Tell me"))
    same("a message as stream", join(events, "text_delta", "text"), text)
    same("its events", [e["type"] for e in events if e["type"] != "content_block_delta"],
         ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"])
    start, last = events[0]["message"], events[-2]
    same("its beginning", (start["content"], start["stop_reason"], start["usage"]["input_tokens"]),
         ([], None, expected["usage"]["prompt_tokens"]))
    same("its end", (last["delta"], last["usage"]["output_tokens"]), ({"stop_reason": "max_tokens", "stop_sequence": None}, 24))
    same("its blocks", {e["index"] for e in events if "index" in e}, {0})
    stop = text.split()[2]
    for stops, known in (([stop], stop), (["nowhere", stop], None)):
        stopped = s.ask(MESSAGES, message("Tell me", stop_sequences=stops))[2]
        same("a stop", (stopped["content"], stopped["stop_reason"], stopped["stop_sequence"]),
             ([{"type": "text", "text": text.split(stop)[0]}], "stop_sequence", known))
        events = s.events(MESSAGES, message("Tell me", stop_sequences=stops))
        same("a stop in a stream", (join(events, "text_delta", "text"), events[-2]["delta"]),
             (text.split(stop)[0], {"stop_reason": "stop_sequence", "stop_sequence": known}))
    long = "a " * 512  # cut so that few tokens are left
    while (size := s.ask(COUNT, message(long))[2]["input_tokens"]) > 510:
        long = long[:-2 * max(1, (size - 510) // 4)]
    same("a full context", s.ask(MESSAGES, message(long))[2].get("stop_reason"), "model_context_window_exceeded")
    system = [{"type": "text", "text": "You tell"}, {"type": "text", "text": " stories"}]
    told = {"role": "system", "content": "You tell stories"}
    for given in ("You tell stories", system):
        same("a system", s.ask(MESSAGES, message("Tell me", system=given))[2]["content"][0]["text"],
             s.ask(CHAT, dict(chat("x"), messages=[told] + chat("Tell me")["messages"]))[2]["choices"][0]["message"]["content"])
    same("a query behind the path", s.ask(MESSAGES + "?beta=true", message("Tell me"))[2]["content"], answer["content"])
    before = s.ask(COUNT, message("Tell me"))[2]["input_tokens"]
    ignored = dict(metadata={"user_id": "u"}, thinking={"type": "enabled", "budget_tokens": 1024}, service_tier="auto")
    same("what is ignored", s.ask(MESSAGES, message("Tell me", **ignored))[2]["content"], answer["content"])
    same("tools that are not offered", s.ask(COUNT, message("Tell me", tools=TOOLS, tool_choice={"type": "none"}))[2]["input_tokens"],
         before)


TOOLS = [{"name": "weather", "description": "The weather", "input_schema": {"type": "object", "properties": {}}}]


def check_tools():
    """A template that shows all it is given: tools and calls come to it as in a chat."""
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write("{% for m in messages %}{{ m.role }} {{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %} {% endfor %}{{ tools | tojson }}")
        template.flush()
        s = Server("--chat-template", template.name, "-t", "1")
    history = [{"role": "user", "content": "w?"},
               {"role": "assistant", "content": [{"type": "text", "text": "so"}, {"type": "tool_use", "id": "1", "name": "weather", "input": {"at": "x"}}]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "42"}]}]
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{\"at\": \"x\"}"}}
    messages = [{"role": "user", "content": "w?"}, {"role": "assistant", "content": "so", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "1", "content": "42"}]
    function = {"name": "weather", "description": "The weather", "parameters": TOOLS[0]["input_schema"]}
    tools = [{"type": "function", "function": function}]
    one = s.ask(MESSAGES, dict(message("x"), messages=history, tools=TOOLS))[2]
    other = s.ask(CHAT, dict(chat("x"), messages=messages, tools=tools))[2]
    same("a history with calls", one["content"][0]["text"], other["choices"][0]["message"]["content"])
    items = [{"role": "user", "content": "w?"}, {"role": "assistant", "content": "so"},
             {"type": "function_call", "call_id": "1", "name": "weather", "arguments": "{\"at\": \"x\"}"},
             {"type": "function_call_output", "call_id": "1", "output": "42"}]
    offered = [dict(function, type="function", strict=False)]
    third = s.ask(RESPONSES, dict(response(items), tools=offered))[2]
    same("a history of items", third["output"][0]["content"][0]["text"], one["content"][0]["text"])
    same("what was offered", (third["tools"], third["tool_choice"], third["parallel_tool_calls"]), (offered, "auto", True))
    same("its tokens", one["usage"]["input_tokens"] + one["usage"]["cache_read_input_tokens"], other["usage"]["prompt_tokens"])
    s.end()
    check_calls(tools, offered)


PLACE = {"type": "object", "properties": {"at": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
         "required": ["at", "days"]}


def is_place(arguments):
    return arguments["at"] in ("Rome", "Oslo") and 1 <= arguments["days"] <= 9 and len(arguments) == 2


def check_calls(tools, offered):
    """Calls that are demanded, and those that a grammar has the model write, by several conventions."""
    tools = tools + [{"type": "function", "function": {"name": "forecast", "parameters": PLACE}}]
    offered = offered + [{"type": "function", "name": "forecast", "parameters": PLACE, "strict": False}]
    named = TOOLS + [{"name": "forecast", "input_schema": PLACE}]
    for marks in ("<tool_call>", "[TOOL_CALLS]", "<|start_header_id|>\"parameters\": ", "[TOOL_CALLS][ARGS]", "<tool_call><think>"):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
            template.write("{# %s #}{{ messages[0].content }}%s" % (marks, " <think>\n" if "think" in marks else ""))
            template.flush()
            s = Server("--chat-template", template.name, "-t", "1", "--temp", "1")
        more = {"temperature": 1, "max_tokens": 80, "seed": 5}
        choice = {"type": "function", "function": {"name": "forecast"}}
        answer = s.ask(CHAT, chat("Tell me", tools=tools, tool_choice=choice, n=2, **more))[2]
        for c in answer["choices"]:
            call = c["message"]["tool_calls"][0]["function"]
            check("%s: a call" % marks, call["name"] == "forecast" and is_place(json.loads(call["arguments"])), c)
            same("%s: its end" % marks, (c["finish_reason"], c["message"]["content"]), ("tool_calls", None))
        events = s.stream(CHAT, chat("Tell me", tools=tools, tool_choice=choice, **more))
        calls = [t for e in events for t in e["choices"][0]["delta"].get("tool_calls", [])]
        check("%s: a call in a stream" % marks, is_place(json.loads("".join(t["function"].get("arguments", "") for t in calls))), events)
        said = s.ask(MESSAGES, message("Tell me", tools=named, tool_choice={"type": "tool", "name": "forecast"}, max_tokens=80))[2]
        check("%s: a call in a message" % marks, said["stop_reason"] == "tool_use" and
              [(b["type"], b["name"], is_place(b["input"])) for b in said["content"]] == [("tool_use", "forecast", True)], said)
        item = s.ask(RESPONSES, response("Tell me", tools=offered, tool_choice={"type": "function", "name": "forecast"}, max_output_tokens=80))[2]
        check("%s: a call in a response" % marks, [(i["type"], i["name"], is_place(json.loads(i["arguments"]))) for i in item["output"]] ==
              [("function_call", "forecast", True)], item)
        status, _, some = s.ask(CHAT, chat("Tell me", tools=tools, tool_choice="required", **more))
        if "ARGS" in marks:
            same("%s: one of several" % marks, (status, some["error"]["param"]), (400, "tool_choice"))
        else:
            check("%s: one of several" % marks, some["choices"][0]["message"]["tool_calls"][0]["function"]["name"] in ("weather", "forecast"), some)
        s.end()
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write("{# <tool_call> #}{{ messages[0].content }}")
        template.flush()
        s = Server("--chat-template", template.name, "-t", "1")
    rule = 'root ::= "Wait. " ("<tool_call>{\\"name\\": \\"weather\\", \\"arguments\\": {\\"at\\": \\"" [a-z]{3,6} "\\"}}</tool_call>"){2}'
    answer = s.ask(CHAT, chat("Tell me", tools=tools, grammar=rule, max_tokens=300))[2]["choices"][0]
    same("text before calls", answer["message"]["content"].strip(), "Wait.")
    same("two calls", [c["function"]["name"] for c in answer["message"]["tool_calls"]], ["weather"] * 2)
    single = s.ask(CHAT, chat("Tell me", tools=tools, grammar=rule, max_tokens=300, parallel_tool_calls=False))[2]["choices"][0]
    same("one call", single["message"]["tool_calls"][0]["function"], answer["message"]["tool_calls"][0]["function"])
    same("and no other", len(single["message"]["tool_calls"]), 1)
    s.end()


def check_responses(s):
    expected = s.ask(CHAT, chat("Tell me"))[2]
    text = expected["choices"][0]["message"]["content"]
    answer = s.ask(RESPONSES, response("Tell me"))[2]
    same("items of a response", [(i["type"], i["role"], [(c["type"], c["text"]) for c in i["content"]]) for i in answer["output"]],
         [("message", "assistant", [("output_text", text)])])
    same("what it is", (answer["object"], answer["status"], answer["incomplete_details"]),
         ("response", "incomplete", {"reason": "max_output_tokens"}))
    same("and of its item", answer["output"][0]["status"], "incomplete")
    same("what has nothing to be included", s.ask(RESPONSES, response("Tell me", include=["reasoning.encrypted_content"]))[0], 200)
    used, others = answer["usage"], expected["usage"]
    same("its usage", (used["input_tokens"], used["output_tokens"], used["total_tokens"]),
         (others["prompt_tokens"], 24, others["total_tokens"]))
    same("details of its usage", sorted(used["input_tokens_details"]), ["cache_write_tokens", "cached_tokens"])
    for given in ([{"role": "user", "content": "Tell me"}],
                  [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Tell "}, {"type": "input_text", "text": "me"}]}]):
        same("input %r" % given, s.ask(RESPONSES, response(given))[2]["output"][0]["content"], answer["output"][0]["content"])
    told = [{"role": "system", "content": "Tell stories"}] + chat("Tell me")["messages"]
    same("instructions", s.ask(RESPONSES, response("Tell me", instructions="Tell stories"))[2]["output"][0]["content"][0]["text"],
         s.ask(CHAT, dict(chat("x"), messages=told))[2]["choices"][0]["message"]["content"])
    again = chat("Tell me")["messages"] + answer["output"] + [{"role": "user", "content": "More"}]
    history = chat("Tell me")["messages"] + [{"role": "assistant", "content": text}, {"role": "user", "content": "More"}]
    same("an answer that is sent back", s.ask(RESPONSES, response(again))[2]["output"][0]["content"][0]["text"],
         s.ask(CHAT, dict(chat("x"), messages=history))[2]["choices"][0]["message"]["content"])
    events = s.events(RESPONSES, response("Tell me"))
    same("a response as stream", "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta"), text)
    same("its events", [e["type"][9:] for e in events if e["type"] != "response.output_text.delta"],
         ["created", "in_progress", "output_item.added", "content_part.added", "output_text.done", "content_part.done",
          "output_item.done", "incomplete"])
    same("their numbers", [e["sequence_number"] for e in events], list(range(len(events))))
    whole = events[-1]["response"]
    same("its end", (whole["output"][0]["content"], whole["usage"]["output_tokens"], whole["status"]),
         (answer["output"][0]["content"], 24, "incomplete"))
    same("the end of its item", [e["item"]["status"] for e in events if "item" in e], ["in_progress", "incomplete"])
    same("the ids of its item", {e["item_id"] for e in events if "item_id" in e}, {whole["output"][0]["id"]})


FRUIT = {"type": "object", "properties": {"fruit": {"enum": ["apple", "pear"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}},
         "required": ["fruit", "count"]}
NESTED = {"type": "json_schema", "json_schema": {"name": "fruit", "strict": True, "schema": FRUIT}}
FLAT = {"type": "json_schema", "name": "fruit", "schema": FRUIT}


def is_fruit(text):
    value = json.loads(text)
    return list(value) == ["fruit", "count"] and value["fruit"] in ("apple", "pear") and 0 <= value["count"] <= 99


def check_formats(s):
    for seed in range(8):
        drawn = {"temperature": 1, "seed": seed, "max_tokens": 60}
        for what, more in (("response_format", {"response_format": NESTED}), ("json_schema", {"json_schema": FRUIT})):
            for path, base in ((CHAT, chat("Tell me", **drawn)), (TEXT, completion("Tell me", **drawn))):
                answer = s.ask(path, dict(base, **more))[2]["choices"][0]
                text = answer["message"]["content"] if path == CHAT else answer["text"]
                check("%s of %s" % (what, path), is_fruit(text) and answer["finish_reason"] == "stop", answer)
        events = s.stream(CHAT, chat("Tell me", response_format=NESTED, **drawn))
        check("a schema in a stream", is_fruit("".join(e["choices"][0]["delta"].get("content", "") for e in events)), events)
        several = s.ask(CHAT, chat("Tell me", response_format=NESTED, n=3, **drawn))[2]["choices"]
        check("a schema of several choices", all(is_fruit(c["message"]["content"]) for c in several), several)
        said = s.ask(MESSAGES, message("Tell me", output_config={"format": FLAT}, temperature=1, max_tokens=60))[2]
        check("a schema of a message", is_fruit(said["content"][0]["text"]) and said["stop_reason"] == "end_turn", said)
        item = s.ask(RESPONSES, response("Tell me", text={"format": FLAT}, temperature=1, max_output_tokens=60))[2]
        check("a schema of a response", is_fruit(item["output"][0]["content"][0]["text"]) and item["text"]["format"] == FLAT, item)
        some = s.ask(CHAT, chat("Tell me", response_format={"type": "json_object"}, **drawn))[2]["choices"][0]
        check("an object", some["message"]["content"].startswith("{") and
              (some["finish_reason"] == "length" or isinstance(json.loads(some["message"]["content"]), dict)), some)
        rules = s.ask(TEXT, completion("Tell me", grammar='root ::= ("yes" | "no") [!?]{2}', **drawn))[2]["choices"][0]
        check("a grammar", rules["text"][:-2] in ("yes", "no") and set(rules["text"][-2:]) <= set("!?"), rules)
    same("a text", s.ask(CHAT, chat("Tell me", response_format={"type": "text"}))[2]["choices"][0],
         s.ask(CHAT, chat("Tell me"))[2]["choices"][0])


def check_reasoning():
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write("{{ messages[0].content }} <think>")
        template.flush()
        s = Server("--chat-template", template.name, "-t", "1")
    message = s.ask(CHAT, chat("Once", logprobs=True))[2]["choices"][0]["message"]
    check("thoughts", message["content"] == "" and message["reasoning_content"], message)
    events = s.stream(CHAT, chat("Once"))
    thoughts = "".join(e["choices"][0]["delta"].get("reasoning_content", "") for e in events)
    same("thoughts as stream", thoughts, message["reasoning_content"])
    same("no answer", "".join(e["choices"][0]["delta"].get("content", "") for e in events), "")
    thoughts = message["reasoning_content"]
    said = s.ask(MESSAGES, chat("Once"))[2]["content"]
    same("a block of thoughts", said, [{"type": "thinking", "thinking": thoughts, "signature": ""}])
    same("as stream", join(s.events(MESSAGES, chat("Once")), "thinking_delta", "thinking"), thoughts)
    said = s.ask(RESPONSES, response("Once"))[2]
    same("an item of thoughts", [(i["type"], i["content"]) for i in said["output"]],
         [("reasoning", [{"type": "reasoning_text", "text": thoughts}])])
    same("its tokens", said["usage"]["output_tokens_details"]["reasoning_tokens"], 24)
    events = s.events(RESPONSES, response("Once"))
    same("an item as stream", "".join(e["delta"] for e in events if e["type"] == "response.reasoning_text.delta"), thoughts)
    s.end()


def log_probabilities(ids):
    """Those of ids[1:], from what `hearth eval logits` writes."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run([HEARTH, "eval", "logits", MODEL, "--ids", ",".join(map(str, ids)), "--out", out.name, *EXACT],
                       check=True, capture_output=True, stdin=subprocess.DEVNULL)
        data = open(out.name, "rb").read()
    size = len(data) // 4 // len(ids)
    for at, token in enumerate(ids[1:]):
        logits = struct.unpack_from("<%df" % size, data, 4 * size * at)
        yield logits[token] - math.log(sum(math.exp(x) for x in logits))


def check_probabilities(s):
    ids = s.ask("/tokenize", {"content": "Once upon a time", "add_special": True})[2]["tokens"]
    answer = s.ask(TEXT, completion(ids, logprobs=3, max_tokens=8))[2]["choices"][0]
    said = answer["logprobs"]
    same("tokens of an answer", "".join(said["tokens"]), answer["text"])
    same("greedy", said["token_logprobs"], [max(top.values()) for top in said["top_logprobs"]])
    same("candidates", [len(top) for top in said["top_logprobs"]], [3] * 8)
    more = s.ask("/tokenize", {"content": "Once upon a time" + answer["text"], "add_special": True})[2]["tokens"]
    echoed = s.ask(TEXT, completion([more], logprobs=1, max_tokens=1, echo=True))[2]["choices"][0]
    same("tokens of an echo", len(echoed["logprobs"]["tokens"]), len(more) + 1)
    same("the first token of an echo", echoed["logprobs"]["token_logprobs"][0], None)
    same("the text of an echo", echoed["text"][:20], "Once upon a time" + answer["text"][:4])
    if more[:len(ids)] == ids and len(more) == len(ids) + 8:
        for a, b in zip(echoed["logprobs"]["token_logprobs"][len(ids):-1], said["token_logprobs"]):
            check("a probability of an echo", abs(a - b) < 1e-3, (a, b))
    long = s.ask("/tokenize", {"content": "Lily and Tom went to the park. " * 12, "add_special": True})[2]["tokens"]
    scored = s.ask(TEXT, completion([long], logprobs=1, max_tokens=1, echo=True))[2]["choices"][0]["logprobs"]
    for a, b in zip(scored["token_logprobs"][1:-1], log_probabilities(long)):
        check("a probability beside that of another command", abs(a - b) < 1e-3, (a, b))
    nothing = s.ask(TEXT, completion("Once upon", logprobs=0, max_tokens=0, echo=True))[2]
    same("an echo alone", (nothing["choices"][0]["text"], nothing["usage"]["completion_tokens"]), ("Once upon", 0))
    formed = s.ask(TEXT, completion("Once upon", logprobs=1, max_tokens=1, echo=True, grammar='root ::= "Q"'))
    same("an echo and a token of a format", formed[2]["choices"][0]["text"], "Once uponQ")
    longer = s.ask(TEXT, completion([more], logprobs=1, max_tokens=4, echo=True))[2]["choices"][0]["logprobs"]
    same("an echo and an answer", len(longer["tokens"]), len(more) + 4)
    same("its beginning", longer["token_logprobs"][:len(more)], echoed["logprobs"]["token_logprobs"][:len(more)])
    pieces = s.stream(TEXT, completion([more], logprobs=1, max_tokens=4, echo=True))
    same("an echo as stream", sum((p["choices"][0]["logprobs"]["tokens"] for p in pieces), []), longer["tokens"])
    same("its offsets", sum((p["choices"][0]["logprobs"]["text_offset"] for p in pieces), []), longer["text_offset"])
    text = "".join(p["choices"][0]["text"] for p in pieces)
    same("its text", text[:20], "Once upon a time" + answer["text"][:4])
    for token, offset in zip(longer["tokens"][2:], longer["text_offset"][2:]):
        same("an offset", text[offset:offset + len(token)], token)
    content = s.ask(CHAT, chat("Tell me", logprobs=True, top_logprobs=2))[2]["choices"][0]
    text = bytes(b for entry in content["logprobs"]["content"] for b in entry["bytes"]).decode()
    same("bytes of a chat", text, content["message"]["content"])
    events = s.stream(CHAT, chat("Tell me", logprobs=True, top_logprobs=2))
    streamed = [entry for e in events for entry in (e["choices"][0]["logprobs"] or {"content": []})["content"]]
    same("tokens of a stream", [e["token"] for e in streamed], [e["token"] for e in content["logprobs"]["content"]])
    for a, b in zip(streamed, content["logprobs"]["content"]):
        check("a probability of a stream", abs(a["logprob"] - b["logprob"]) < 1e-2, (a, b))


def embedding(given, **more):
    return dict({"input": given, "model": "any", "user": "me"}, **more)


def unit(vector):
    size = math.sqrt(sum(x * x for x in vector))
    return [x / size for x in vector]


def vectors(s, given, **more):
    """Those of the answer, in the order of their indexes."""
    status, _, answer = s.ask(VECTORS, embedding(given, **more))
    same("status of vectors", status, 200)
    same("their order", [entry["index"] for entry in answer["data"]], list(range(len(answer["data"]))))
    return [entry["embedding"] for entry in answer["data"]]


def near(what, got, expected, most=1e-5):
    check(what, len(got) == len(expected) and all(abs(a - b) <= most for a, b in zip(got, expected)), (got[:4], expected[:4]))


def pooled(ids, pooling):
    """The vector by its definition, of what the Python binding hands out. None: HEARTH_LIBRARY does not say where it is."""
    if "HEARTH_LIBRARY" not in os.environ:
        return None
    import hearth
    with hearth.Model(MODEL, kv="f32", activations="f32", outputs=len(ids)) as model:
        model.feed(ids, outputs=len(ids))
        states = model.hidden()
    return unit(states[-1] if pooling == "last" else [sum(column) / len(ids) for column in zip(*states)])


def check_vectors(s):
    texts = ["Once upon a time", "Lily and Tom went to the park. " * 9, "x"]
    ids = [s.ask("/tokenize", {"content": text, "add_special": True})[2]["tokens"] for text in texts]
    before = s.metric("hearth_prompt_tokens_total")
    answer = s.ask(VECTORS, embedding(texts))[2]
    count = sum(map(len, ids))
    same("counted tokens", s.metric("hearth_prompt_tokens_total") - before, count)
    same("the form of vectors", (answer["object"], answer["usage"], {entry["object"] for entry in answer["data"]}, set(answer)),
         ("list", {"prompt_tokens": count, "total_tokens": count}, {"embedding"}, {"object", "data", "model", "usage"}))
    same("the model's name", answer["model"], s.ask("/v1/models")[2]["data"][0]["id"])
    together = vectors(s, texts)
    same("the same again", [entry["embedding"] for entry in answer["data"]], together)
    same("one at a time", [vectors(s, text)[0] for text in texts], together)
    same("in another order", vectors(s, texts[::-1]), together[::-1])
    same("as tokens", vectors(s, ids), together)
    same("as one list of tokens", vectors(s, ids[0]), together[:1])
    for vector in together:
        check("length 1", abs(sum(x * x for x in vector) - 1) < 1e-5, vector[:4])
    for short, whole in zip(vectors(s, texts, dimensions=7), together):
        near("cut", short, unit(whole[:7]))
    for text, whole in zip(vectors(s, texts, encoding_format="base64"), together):
        data = base64.b64decode(text, validate=True)
        same("base64", list(struct.unpack("<%df" % len(whole), data)), whole)
    same("base64 of odd sizes", [len(base64.b64decode(vectors(s, "x", encoding_format="base64", dimensions=n)[0], validate=True))
                                 for n in range(1, 5)], [4, 8, 12, 16])
    for given, vector in zip(ids, together):
        expected = pooled(given, "mean")
        near("as Python has it", vector, expected) if expected else None
    for name, values in BAD_VECTORS:
        for value in values:
            refused(s, "%s=%r" % (name, value), VECTORS, dict(embedding("x"), **{name: value}), 400, name)
    refused(s, "no input", VECTORS, {}, 400, "input")
    refused(s, "a long input", VECTORS, embedding(["x", "word " * 600]), 400, "input")
    # Beside answers, and with clients that go: the rest notices nothing.
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        writing = pool.submit(s.ask, TEXT, completion("Once there was", max_tokens=60))
        same("many at once", list(pool.map(lambda _: vectors(s, texts), range(6))), [together] * 6)
        same("an answer beside them", writing.result()[2]["choices"],
             s.ask(TEXT, completion("Once there was", max_tokens=60))[2]["choices"])
    before = s.metric("hearth_requests_cancelled_total")
    begin(s, VECTORS, embedding([[3] * 450] * 40)).close()
    s.await_metric("hearth_requests_cancelled_total", before + 1)
    check("nothing is left of it", s.is_idle())
    same("after it", vectors(s, texts), together)
    # One text does not wait for the thousands of another request; and those nobody waits for any more are not read.
    read, batch = s.metric("hearth_prompt_tokens_total"), begin(s, VECTORS, embedding([[3] * 14] * 1200))
    s.await_metric("hearth_prompt_tokens_total", read + 14)
    same("one text beside many", vectors(s, texts[0])[0], together[0])
    batch.close()
    check("nothing is left of many", s.is_idle())
    read = s.metric("hearth_prompt_tokens_total") - read
    check("many texts were not awaited", read < 14 * 1200, read)


def check_pooling():
    s = Server("--pooling", "last", "-t", "1")
    ids = s.ask("/tokenize", {"content": "Once upon a time", "add_special": True})[2]["tokens"]
    vector = vectors(s, [ids])[0]
    expected = pooled(ids, "last")
    near("the last token's, as Python has it", vector, expected) if expected else None
    check("not the mean", expected is None or max(abs(a - b) for a, b in zip(vector, pooled(ids, "mean"))) > 1e-3)
    s.end()


def check_together(s):
    bodies = [(CHAT, chat("Number %d is" % i, max_tokens=8 + i)) for i in range(8)]
    bodies += [(TEXT, completion("Once there were %d" % i, max_tokens=60 - i)) for i in range(6)]
    bodies += [(TEXT, completion("A cat", logprobs=1, echo=i == 0)) for i in range(2)]

    def answer(both):
        path, body = both
        got = s.ask(path, body)[2]
        for choice in got.get("choices", []):  # how a prompt is cut into steps may change the last digits
            if choice["logprobs"]:
                choice["logprobs"] = choice["logprobs"]["tokens"]
        return got.get("choices", got)

    alone = [answer(b) for b in bodies]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for both, one, among in zip(bodies, alone, pool.map(answer, bodies)):
            same("among sixteen: %s" % (both,), among, one)


# ------------------------------------------------------------------ what it refuses

BAD_FIELDS = [
    ("temperature", ["hot", -1, 101, [], True]), ("top_p", ["x", -0.1, 1.5]), ("top_k", [1.5, -1, "x"]),
    ("min_p", [2, "x"]), ("repeat_penalty", [0, "x"]), ("presence_penalty", [101, {}]), ("frequency_penalty", [-101, []]),
    ("seed", ["x", 1.5]), ("max_tokens", [-1, "x", 1 << 40, 1.5]), ("max_completion_tokens", [-1, "x"]),
    ("n", [0, 129, "x"]), ("stream", [1, "yes"]), ("ignore_eos", [1]), ("stop", [1, "", [""], [1], ["x"] * 17, "x" * 4097, ["x" * 300] * 16]),
    ("logit_bias", [[], {"x": 1}, {"1": "x"}, {"1": 101}, {"-1": 1}, {"512": 1}]), ("stream_options", [1, "x", {"include_usage": True}]),
    ("grammar", [1, {}, "", "x ::= y", "root ::= root", "root ::= [a-"]), ("json_schema", ["x", {"type": "strin"}, {"not": {}}]),
]
BAD_CHAT = [
    ("messages", ["x", [], {}]), ("tools", ["x", {}]), ("tool_choice", ["required", "x", 1]),
    ("parallel_tool_calls", ["x", 1]), ("logprobs", [1, "x"]), ("top_logprobs", [-1, 21, "x", 3]), ("response_format", ["x", 1, []]),
    ("chat_template_kwargs", [1, []]), ("max_tokens", [0]),
]
BAD_FORMATS = [  # and what is named behind the place of the format
    ({}, ".type"), ({"type": 1}, ".type"), ({"type": "xml"}, ".type"), ({"type": "json_schema"}, ".schema"),
    ({"type": "json_schema", "schema": 1}, ".schema"), ({"type": "json_schema", "schema": {"type": "strin"}}, ".schema"),
    ({"type": "json_schema", "json_schema": 1}, ".json_schema"), ({"type": "json_schema", "json_schema": {}}, ".json_schema.schema"),
    ({"type": "json_schema", "json_schema": {"schema": {"required": 1}}}, ".json_schema.schema"),
]
BAD_TEXT = [
    ("prompt", [1, {}, [], [[]], ["x", 1], [1, "x"], [-1], [512], [[1], [1 << 40]], [None]]), ("echo", [1, "x"]),
    ("logprobs", [-1, 21, True]), ("best_of", [2]), ("suffix", ["x"]), ("max_tokens", [0]),
]
BAD_VECTORS = [
    ("input", [1, {}, [], "", ["x", ""], [[]], ["x", 1], [1, "x"], [-1], [512], [[1], [1 << 40]], [None], None, ["x"] * 2049]),
    ("encoding_format", [1, [], "int8", ""]), ("dimensions", [0, -1, 1.5, "x", 1 << 20, []]), ("model", [1, []]),
]
BAD_MESSAGES = [
    (1, "messages[0]"), ({}, "messages[0].role"), ({"role": 1}, "messages[0].role"),
    ({"role": "user", "content": 1}, "messages[0].content"),
    ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0].type"),
    ({"role": "user", "content": ["x"]}, "messages[0].content[0]"),
    ({"role": "user", "content": "x", "tool_calls": 1}, "messages[0].tool_calls"),
]

BAD_SHARED = [("temperature", ["hot", -1, 101, [], True]), ("top_p", ["x", -0.1, 1.5]), ("stream", [1, "yes"]),
              ("model", [1, []]), ("chat_template_kwargs", [1, []])]
BAD_HISTORY = [
    ("messages", ["x", [], {}, None]), ("system", [1, {}]), ("tools", ["x", {}]), ("tool_choice", ["auto", []]),
    ("thinking", ["x", []]), ("output_config", [1]), ("output_format", [{"type": "json_schema"}]), ("mcp_servers", [[1], "x"]),
    ("container", ["x"]),
]
BAD_MESSAGE = [("max_tokens", [0, -1, "x", 1 << 40, 1.5, None]), ("top_k", [1.5, -1, "x"]),
               ("stop_sequences", ["x", [""], [1], ["x"] * 17, {}])]
BAD_PLACES = [  # of /v1/messages: members, and what is named
    ({"system": [{"type": "image"}]}, "system[0].type"), ({"tool_choice": {"type": "any"}}, "tool_choice"), ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "tool"}}, "tool_choice.name"), ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
    ({"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"), ({"thinking": {"type": "much"}}, "thinking.type"),
    ({"thinking": {}}, "thinking.type"),
    ({"tools": [{}]}, "tools[0].name"), ({"tools": [{"name": "x"}]}, "tools[0].input_schema"), ({"tools": [1]}, "tools[0]"),
    ({"tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}}, "tool_choice.disable_parallel_tool_use"),
    ({"tools": TOOLS + [{"type": "web_search_20250305", "name": "x"}]}, "tools[1].type"),
]
BAD_TURNS = [  # of /v1/messages: a message, and what is named behind its place
    (1, ""), ({}, ".role"), ({"role": 1}, ".role"), ({"role": "tool", "content": "x"}, ".role"), ({"role": "user"}, ".content"),
    ({"role": "user", "content": 1}, ".content"), ({"role": "user", "content": ["x"]}, ".content[0]"),
    ({"role": "user", "content": [{}]}, ".content[0].type"), ({"role": "user", "content": [{"type": "image"}]}, ".content[0].type"),
    ({"role": "user", "content": [{"type": "text"}]}, ".content[0].text"),
    ({"role": "user", "content": [{"type": "text", "text": 1}]}, ".content[0].text"),
    ({"role": "user", "content": [{"type": "tool_use", "id": "1", "name": "x", "input": {}}]}, ".content[0].type"),
    ({"role": "user", "content": [{"type": "tool_result"}]}, ".content[0].tool_use_id"),
    ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": 1}]}, ".content[0].content"),
    ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image"}]}]},
     ".content[0].content[0].type"),
    ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "is_error": 1}]}, ".content[0].is_error"),
    ({"role": "assistant", "content": [{"type": "thinking"}]}, ".content[0].thinking"),
    ({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "x", "input": "x"}]}, ".content[0].input"),
    ({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "input": {}}]}, ".content[0].name"),
    ({"role": "assistant", "content": [{"type": "tool_use", "name": "x", "input": {}}]}, ".content[0].id"),
    ({"role": "assistant", "content": "begun"}, ".role"),
]
BAD_RESPONSE = [
    ("input", [1, {}, [], None]), ("max_output_tokens", [0, -1, "x", 1 << 40]), ("instructions", [1, []]), ("text", [1]),
    ("tools", ["x", {}]), ("parallel_tool_calls", ["x", 1]), ("tool_choice", ["required", "x", 1]), ("include", [["x"]]), ("background", [True]),
    ("truncation", ["auto"]), ("top_logprobs", [1]), ("previous_response_id", ["x"]), ("conversation", ["x"]), ("prompt", [{}]),
]
BAD_ITEMS = [
    (1, ""), ({}, ".role"), ({"role": "tool"}, ".role"), ({"role": "user"}, ".content"), ({"role": "user", "content": 1}, ".content"),
    ({"role": "user", "content": [{"type": "input_image"}]}, ".content[0].type"),
    ({"type": "function_call_output", "call_id": "x"}, ".output"), ({"type": "function_call_output", "output": "x"}, ".call_id"),
    ({"type": "function_call_output", "call_id": "x", "output": [{"type": "input_image"}]}, ".output[0].type"),
    ({"type": "function_call", "name": "x", "arguments": "{}"}, ".call_id"),
    ({"type": "function_call", "call_id": "x", "arguments": "{}"}, ".name"),
    ({"type": "function_call", "call_id": "x", "name": "x"}, ".arguments"),
    ({"type": "function_call", "call_id": "x", "name": "x", "arguments": {}}, ".arguments"),
    ({"type": 1}, ".type"), ({"type": "web_search_call"}, ".type"),
]
BAD_TOOLS = [(1, ""), ({}, ".type"), ({"type": "web_search"}, ".type"), ({"type": "function"}, ".name"),
             ({"type": "function", "name": 1}, ".name"), ({"type": "function", "name": "x", "parameters": []}, ".parameters")]


def refused_as_message(s, what, path, body, status, kind, name="", **more):
    """In the form of Anthropic's API, whose errors name the field at the beginning of the text alone."""
    got, _, answer = s.ask(path, body, **more)
    text = answer["error"]["message"] if isinstance(answer, dict) and "error" in answer else ""
    same("%s: form" % what, (got, answer), (status, {"type": "error", "error": {"type": kind, "message": text}}))
    check("%s: message" % what, text and text.startswith((name + ":", name + "[0]:") if name else ""), (text, name))


def check_refusals(s):
    for path, rows in ((MESSAGES, BAD_SHARED + BAD_HISTORY + BAD_MESSAGE), (COUNT, BAD_HISTORY)):
        for name, values in rows:
            for value in values if name not in ("model", "chat_template_kwargs") or path == MESSAGES else []:
                body = dict(message("x"), **{name: value})
                refused_as_message(s, "%s %s=%r" % (path, name, value), path, body, 400, "invalid_request_error", name)
    for members, name in BAD_PLACES:
        for path in (MESSAGES, COUNT):
            refused_as_message(s, "%s %r" % (path, members), path, message("x", **members), 400, "invalid_request_error", name)
    for turn, name in BAD_TURNS:
        body = dict(message("x"), messages=[{"role": "system", "content": "x"}, turn])
        refused_as_message(s, "message %r" % turn, MESSAGES, body, 400, "invalid_request_error", "messages[1]" + name)
    refused_as_message(s, "a long message", MESSAGES, message("word " * 600), 400, "invalid_request_error", "messages")
    for data in (b"", b"{", b"[]", b"[" * 60000):
        refused_as_message(s, "body %r" % data[:20], MESSAGES, data, 400, "invalid_request_error")
    refused_as_message(s, "another method", MESSAGES, None, 405, "invalid_request_error")
    refused_as_message(s, "another host", MESSAGES, message("x"), 403, "permission_error", headers={"Host": "example.com"})
    refused_as_message(s, "a large body", COUNT, b" " * 70000, 413, "request_too_large")
    for name, values in BAD_SHARED + BAD_RESPONSE:
        for value in values:
            refused(s, "%s=%r" % (name, value), RESPONSES, dict(response("x"), **{name: value}), 400, name)
    for format, name in BAD_FORMATS:
        for path, base in ((CHAT, chat("x")), (TEXT, completion("x"))):
            refused(s, "format %r" % format, path, dict(base, response_format=format), 400, "response_format" + name)
        refused(s, "format %r" % format, RESPONSES, response("x", text={"format": format}), 400, "text.format" + name)
        refused_as_message(s, "format %r" % format, MESSAGES, message("x", output_config={"format": format}), 400,
                           "invalid_request_error", "output_config.format" + name)
    refused(s, "two formats", CHAT, chat("x", response_format=NESTED, grammar='root ::= "x"'), 400, "grammar")
    for item, name in BAD_ITEMS:
        refused(s, "item %r" % item, RESPONSES, response([item]), 400, "input[0]" + name)
    for tool, name in BAD_TOOLS:
        refused(s, "tool %r" % tool, RESPONSES, response("x", tools=[tool]), 400, "tools[0]" + name)
    refused(s, "a long input", RESPONSES, response("word " * 600), 400, "input")


def refused(s, what, path, body, status, param, **more):
    got, _, answer = s.ask(path, body, **more)
    check("%s: status %d" % (what, status), got == status, "%s %s" % (got, answer))
    if isinstance(answer, dict) and "error" in answer:
        same("%s: param" % what, answer["error"]["param"], param)
        check("%s: message" % what, answer["error"]["message"] and answer["error"]["type"], answer)
    else:
        check("%s: an error in the API's form" % what, False, answer)


def check_errors(s):
    for path, base, rows in ((CHAT, chat("x"), BAD_FIELDS + BAD_CHAT), (TEXT, completion("x"), BAD_FIELDS + BAD_TEXT)):
        for name, values in rows:
            for value in values:
                refused(s, "%s %s=%r" % (path, name, value), path, dict(base, **{name: value}), 400, name)
    refused(s, "include_usage", TEXT, completion("x", stream=True, stream_options={"include_usage": 1}), 400,
            "stream_options.include_usage")
    for message, param in BAD_MESSAGES:
        refused(s, "message %r" % message, CHAT, {"messages": [message]}, 400, param)
    refused(s, "no messages", CHAT, {}, 400, "messages")
    refused(s, "no prompt", TEXT, {}, 400, "prompt")
    refused(s, "no content", "/tokenize", {}, 400, "content")
    refused(s, "no tokens", "/detokenize", {}, 400, "tokens")
    refused(s, "bad tokens", "/detokenize", {"tokens": [1, 512]}, 400, "tokens")
    refused(s, "a long prompt", TEXT, completion("word " * 600), 400, "prompt")
    refused(s, "a long chat", CHAT, chat("word " * 600), 400, "messages")
    for body in (b"", b"{", b"[]", b"\xff\xfe", b'{"prompt": "\xff"}', b'{"prompt": "x"} x', b'{"a": 1, "a": 2}',
                 b"[" * 60000):
        refused(s, "body %r" % body[:20], TEXT, body, 400, None)
    refused(s, "an unknown path", "/v1/nothing", None, 404, None)
    refused(s, "another method", CHAT, None, 405, None)
    same("the method there is", s.ask(CHAT)[1]["Allow"], "POST")
    refused(s, "OPTIONS", CHAT, None, 405, None, method="OPTIONS")
    refused(s, "another host", "/health", None, 403, None, headers={"Host": "example.com"})
    refused(s, "another origin", CHAT, chat("x"), 403, None, headers={"Origin": "http://example.com"})
    own = "localhost:%d" % s.port
    same("its own origin", s.ask("/health", headers={"Host": own, "Origin": "http://" + own})[0], 200)
    refused(s, "a large body", TEXT, b" " * 70000, 413, None)
    check("no CORS", not any("Access-Control" in h for h in s.ask("/health", headers={"Host": own})[1]))


def raw(s, data, reads=True):
    with socket.create_connection(("127.0.0.1", s.port), timeout=60) as connection:
        connection.sendall(data)
        answer = b""
        while reads:
            try:
                part = connection.recv(65536)
            except ConnectionError:
                break
            if not part:
                break
            answer += part
        return answer


def check_garbage(s):
    for data in (b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\xff" * 5000 + b"\r\n\r\n"):
        raw(s, data, reads=False)
    long = raw(s, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100000 + b"\r\n\r\n")
    check("long headers", long.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")) or long == b"", long[:80])
    raw(s, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"prompt\":", reads=False)
    two = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    same("pipelined requests", raw(s, two * 3 + last).count(b'{"status":"ok"}'), 4)
    huge = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"
    check("a huge body", raw(s, huge).split(b"\r\n")[0].endswith(b"413 Content Too Large") or
          b" 413 " in raw(s, huge).split(b"\r\n")[0], raw(s, huge)[:80])
    same("after garbage", s.ask("/health")[0], 200)


# ------------------------------------------------------------------ clients that go, wait or do not read

def begin(s, path, body, receive_bytes=0):
    """Sends a request and returns its socket, unread."""
    connection = socket.socket()
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.connect(("127.0.0.1", s.port))
    data = json.dumps(body).encode()
    connection.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)))
    connection.sendall(data)
    return connection


def check_gone(s):
    expected = s.ask(TEXT, completion("One day"))[2]["choices"]
    for streams in (False, True):
        before = s.metric("hearth_requests_cancelled_total")
        connection = begin(s, TEXT, dict(LONG, stream=streams))
        s.await_metric("hearth_answers_running", 1)
        same("beside a long answer", s.ask(TEXT, completion("One day"))[2]["choices"], expected) if streams else None
        connection.close()
        s.await_metric("hearth_requests_cancelled_total", before + 1)
        check("nothing is left of it", s.is_idle())
    same("after clients have gone", s.ask(TEXT, completion("One day"))[2]["choices"], expected)


def check_gone_early(s):
    """Clients that go in the midst of their request, their end together with their last bytes: no connection is left of them."""
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
    sockets = "/proc/%d/fd" % s.process.pid
    before = len(os.listdir(sockets))
    for data in (head + b'{"prompt":', head, head[:50]) * 20:
        raw(s, data, reads=False)
    end = time.monotonic() + 20  # the server's --timeout is 60
    while len(os.listdir(sockets)) > before and time.monotonic() < end:
        time.sleep(0.02)
    check("nothing is left of clients that went early", len(os.listdir(sockets)) <= before, (len(os.listdir(sockets)), before))
    with socket.create_connection(("127.0.0.1", s.port), timeout=60) as connection:  # one that only sends no more is answered
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    same("a client that has closed its sending side", answer.count(b'{"status":"ok"}'), 2)


def check_slow(s):
    before = s.metric("hearth_requests_too_slow_total")
    connection = begin(s, TEXT, dict(LONG, n=128, max_tokens=480, logprobs=20, stream=True), 4096)
    s.await_metric("hearth_requests_too_slow_total", before + 1)
    connection.close()
    check("nothing is left of a slow reader", s.is_idle())


def received(connection, end):
    """Returns what comes until it ends so, or there is no more."""
    text = b""
    while not text.endswith(end) and (part := connection.recv(1)):
        text += part
    return text


def check_beats():
    """Streams that have to wait say that they are worked on, and then are as ever."""
    s = Server("--ping-interval", "1", "--parallel", "1", "-t", "1")
    long = begin(s, TEXT, LONG)
    s.await_metric("hearth_answers_running", 1)
    waiting = [(begin(s, path, dict(body, stream=True)), beat, end) for path, body, beat, end in (
        (TEXT, completion("One day"), b": waiting\n\n", b"data: [DONE]\n\n"),
        (MESSAGES, message("x"), b'event: ping\ndata: {"type": "ping"}\n\n', b'data: {"type":"message_stop"}\n\n'))]
    for connection, beat, _ in waiting:
        for _ in range(2):
            check("a stream waits", received(connection, beat).endswith(beat))
    long.close()
    for connection, beat, end in waiting:
        text = received(connection, end)
        check("a stream that has waited", text.endswith(end) and text.count(b"data: ") > 3, text[-300:])
        connection.close()
    s.end()


def check_idle_connections(s):
    idle = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(300)]
    same("beside idle connections", s.ask("/health")[0], 200)
    for connection in idle:
        connection.close()


def check_guesses():
    s = Server("--draft", "7", "--parallel", "2", "-t", "1")
    body = completion("One two three. One two three. One two three. One", max_tokens=60)
    expected = run("-p", body["prompt"], "-n", "60")["text"]
    answers = s.ask(TEXT, dict(body, n=3))[2]["choices"]
    same("answers with guesses", [c["text"] for c in answers], [expected] * 3)
    s.end()


def check_silence():
    """A stream says that it is worked on while the model writes a call of a tool, which is told when it is complete."""
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write("{# <tool_call> #}{{ messages[0].content }}")
        template.flush()
        s = Server("--chat-template", template.name, "--ping-interval", "1", "--parallel", "1", "-t", "1")
    rule = 'root ::= "<tool_call>{\\"name\\": \\"weather\\", \\"arguments\\": {\\"at\\": \\"" [a-z]{300} "\\"}}</tool_call>"'
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    stream = begin(s, CHAT, chat("Tell me", tools=tools, grammar=rule, max_tokens=400, n=128, stream=True))
    s.await_metric("hearth_answers_running", 1)
    text = b""
    stream.settimeout(0.3)
    for _ in range(8):  # time passes while the model writes; the token behind it may be one that completes a call
        s.process.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        s.process.send_signal(signal.SIGCONT)
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            try:
                text += stream.recv(65536)
            except socket.timeout:
                pass
        if text.count(b": waiting\n\n") > 1:
            break
    check("a stream is worked on", text.count(b": waiting\n\n") > 1, text[-300:])
    stream.close()
    s.end()


def check_large_texts():
    """What is short in a request and would be long in memory, or in time."""
    s = Server("-t", "1", "-c", "512")
    text = "a1" * 100000
    status, _, answer = s.ask("/tokenize", {"content": text})
    check("many tokens", status == 200 and answer["count"] == len(answer["tokens"]) > 131072, (status, answer.get("count")))
    refused(s, "many tokens with their pieces", "/tokenize", {"content": text, "with_pieces": True}, 400, "content")
    refused(s, "many tokens whose text is long", "/detokenize", b'{"tokens":[' + b"0," * 3800000 + b"0]}", 400, "tokens")
    items = [{"type": "function_call", "call_id": "", "name": "", "arguments": ""}] * 50000
    status = s.ask(RESPONSES, response([{"role": "user", "content": "Tell me"}] + items))[0]
    check("many calls of tools", status in (200, 400), status)
    s.end()


def check_full():
    s = Server("--parallel", "1", "--queue", "63", "-t", "1")
    connection = begin(s, TEXT, dict(LONG, stream=True))
    s.await_metric("hearth_answers_running", 1)
    status, headers, answer = s.ask(TEXT, completion("x", n=64))
    same("a full queue", (status, answer["error"]["code"], "Retry-After" in headers), (503, "queue_full", True))
    refused(s, "more than ever fit", TEXT, completion("x", n=65), 400, "n")
    refused_as_message(s, "a full queue", MESSAGES, message("x"), 503, "overloaded_error")
    connection.close()
    s.end(signal.SIGINT)


def check_end():
    s = Server("-t", "1")
    streamed, whole = begin(s, TEXT, dict(LONG, stream=True)), begin(s, TEXT, LONG)
    idle = socket.create_connection(("127.0.0.1", s.port))
    s.await_metric("hearth_answers_waiting", 64)
    s.end()
    for what, connection in (("stream", streamed), ("whole answer", whole)):
        text = b""
        while part := connection.recv(65536):
            text += part
        check("the end of a server, told by a " + what, b'"code":"shutting_down"' in text, text[-300:])
    idle.close()


def check_memory():
    """What long requests took goes back to the system."""
    def resident():
        with open("/proc/%d/status" % s.process.pid) as status:
            return [int(line.split()[1]) for line in status if line.startswith("VmRSS")][0]

    s = Server("-t", "1")
    same("a body of nothing", s.ask(TEXT, b" " * (7 << 20))[0], 400)
    before = resident()
    for _ in range(2):
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            same("long bodies", set(pool.map(lambda _: s.ask(TEXT, b" " * (7 << 20))[0], range(12))), {400})
    if "KEEPS_FREED" not in os.environ:
        check("memory is returned", resident() < before + (8 << 10), (before, resident()))
    s.end()


def check_kept():
    prompts = ["%s %s" % (name, "went to the park and saw a big dog there. " * 4) for name in ("Lily", "Tom", "Sue", "Ben", "Max", "Ann")]

    def ask(s):
        answers = [s.ask(TEXT, completion(p))[2] for p in prompts]
        return [a["choices"][0]["text"] for a in answers], [a["usage"]["prompt_tokens_details"]["cached_tokens"] for a in answers]

    with tempfile.TemporaryDirectory() as folder:
        s = Server("--parallel", "2", "-t", "1", "--cache-dir", folder)
        fresh, _ = ask(s)
        again, kept = ask(s)
        same("six texts with two places", again, fresh)
        check("all of them are kept", min(kept) > 40, kept)
        s.end()
        files = sorted(os.listdir(folder))
        check("files for the next start", len(files) >= 6 and all(f.endswith(".seq") for f in files), files)
        with open(os.path.join(folder, files[0]), "r+b") as damaged:
            damaged.seek(200)
            damaged.write(b"\xff" * 64)
        s = Server("--parallel", "2", "-t", "1", "--cache-dir", folder)
        again, kept = ask(s)
        same("after a new start", again, fresh)
        check("what was kept is known, but for the damaged file", sum(k > 40 for k in kept) == 5, kept)
        s.end()
    with tempfile.TemporaryFile("w+") as notes:
        folder = tempfile.mkdtemp()
        s = Server("--parallel", "1", "-t", "1", "--cache-dir", folder, notes=notes)
        ask(s)
        os.rmdir(folder)
        s.end()
        notes.seek(0)
        told = notes.read()
        check("a folder that has gone", "not all that was read is stored: " + folder in told, told)
    s = Server("--parallel", "2", "-t", "1", "--cache-memory", "700K")
    again, _ = ask(s)
    same("in little memory", again, fresh)
    again, kept = ask(s)
    same("again", again, fresh)
    check("only a part is kept", min(kept) < 10, kept)
    s.end()


def check_keys():
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("# keys\n\nfirst-key\nsecond-key\n")
        keys.flush()
        s = Server("--api-key-file", keys.name, "--api-key", "third", "--alias", "story", "-t", "1")
    refused(s, "no key", "/v1/models", None, 401, None)
    refused(s, "no key, no path", "/v1/nothing", None, 401, None)
    for key in ("", "first", "first-key ", "first-kez", "third-key", "# keys"):
        refused(s, "key '%s'" % key, CHAT, chat("x"), 401, None, headers={"Authorization": "Bearer " + key})
    for key in ("first-key", "second-key", "third"):
        same("key " + key, s.ask("/v1/models", headers={"Authorization": "Bearer " + key})[2]["data"][0]["id"], "story")
        same("in its own header", s.ask("/v1/models", headers={"x-api-key": key})[0], 200)
    refused_as_message(s, "no key", MESSAGES, message("x"), 401, "authentication_error")
    refused_as_message(s, "a wrong key", COUNT, message("x"), 401, "authentication_error", headers={"x-api-key": "first"})
    same("a message with a key", s.ask(MESSAGES, message("x"), headers={"x-api-key": "third"})[0], 200)
    same("health without a key", s.ask("/health")[0], 200)
    s.process.send_signal(signal.SIGTERM)
    same("exit status", s.process.wait(60), 0)


def check_large_requests():
    """What is small as text and large in memory, and bodies of those who have no key."""
    s = Server("--api-key", "one", "--body-limit", "100M", "-t", "1", "-c", "512")
    key = {"Authorization": "Bearer one"}
    refused(s, "many lists", TEXT, b'{"prompt":[' + b"[]," * 200000 + b"[]]}", 400, None, headers=key)
    same("brackets in a text", s.ask(TEXT, completion("x", user='\\"[{' * 70000, max_tokens=1), headers=key)[0], 200)
    tool = {"type": "function", "name": "a", "function": {"name": "a"}, "junk": [1] * 50000}
    refused(s, "a large tool", CHAT, chat("x", tools=[tool]), 400, "tools", headers=key)
    refused(s, "a large tool, repeated", "/v1/responses", {"input": "x", "tools": [tool]}, 400, "tools", headers=key)
    refused(s, "probabilities", TEXT, completion([[1] * 500] * 120, echo=True, logprobs=20, max_tokens=0), 400, "logprobs",
            headers=key)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
    waiting = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(6)]
    for connection in waiting: # 600 MB; the bodies of all requests may have 512 MiB
        connection.sendall(head + b" " * 99999990)
    same("beside bodies without a key", s.ask(TEXT, completion("x", user="x" * 1000000, max_tokens=1), headers=key)[0], 200)
    for connection in waiting:
        connection.close()
    s.end()


# ------------------------------------------------------------------ several models

# What each is called by clients; its file.
SEVERAL = {"relu": MODEL, "stories260K": OTHER, "letters & more": GPT2}
SEVERAL_ARGUMENTS = ["relu=" + MODEL, OTHER, "letters & more=" + GPT2]


def check_models():
    s = Server("--parallel", "2", "-t", "1", models=SEVERAL_ARGUMENTS)
    same("models", [m["id"] for m in s.ask("/v1/models")[2]["data"]], list(SEVERAL))
    vocabularies = {}
    for name, path in SEVERAL.items():
        quoted = urllib.parse.quote(name)
        model = s.ask("/v1/models/" + quoted)[2]
        vocabularies[name] = model["meta"]["n_vocab"]
        same("a model", model["id"], name)
        same("settings of a model", s.ask("/props?model=" + quoted)[2]["model"], name)
        same("context of a model", s.ask("/tokenizer_info?model=" + quoted)[2]["model_max_length"], model["meta"]["n_ctx"])
        same("places of a model", [slot["n_ctx"] for slot in s.ask("/slots?model=" + quoted)[2]], 2 * [model["meta"]["n_ctx"]])
        same("layers of a model", s.ask("/live?model=" + quoted)[0], 200)
        tokens = subprocess.run([HEARTH, "tokenize", path, "Once upon"], capture_output=True, text=True, check=True).stdout
        got = s.ask("/tokenize", {"model": name, "content": "Once upon", "add_special": True})[2]["tokens"]
        same("tokens by " + name, " ".join(map(str, got)), tokens.strip())
    check("vocabularies", vocabularies["relu"] != vocabularies["letters & more"], vocabularies)
    same("without a name", (s.ask("/props")[2]["model"], s.ask(TEXT, completion("A"))[2]["model"]), ("relu", "relu"))
    for model in ("", None):
        same("without a name", s.ask(TEXT, completion("A", model=model))[2]["model"], "relu")

    prompts = ["Once upon a time", "One day", "The"]
    bodies = [completion(p, model=name, max_tokens=20) for _ in range(3) for p in prompts for name in SEVERAL]
    expected = {(name, p): run("-p", p, "-n", "20", model=path)["text"] for name, path in SEVERAL.items() for p in prompts}
    check("models differ", len({expected[name, prompts[0]] for name in SEVERAL}) == len(SEVERAL), expected)
    counted = {name: s.metric('hearth_answer_tokens_total{model="%s"}' % name) for name in SEVERAL}

    def tell(what, body, answer):
        name = body["model"]
        counted[name] += answer["usage"]["completion_tokens"]
        same(what, (answer["model"], answer["choices"][0]["text"]), (name, expected[name, body["prompt"]]))

    for body in bodies[:len(SEVERAL) * len(prompts)]:
        tell("one after the other", body, s.ask(TEXT, body)[2])
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        for body, answer in zip(bodies, pool.map(lambda b: s.ask(TEXT, b)[2], bodies)):
            tell("at the same time", body, answer)
    for name in SEVERAL:
        same("tokens of " + name, s.metric('hearth_answer_tokens_total{model="%s"}' % name), counted[name])

    # Beside a long answer of one model another answers, and its answer comes first.
    connection = begin(s, TEXT, dict(LONG, model="relu", stream=True))
    s.await_metric('hearth_answers_running{model="relu"}', 1)
    body = completion("One day", model="stories260K", max_tokens=20)
    same("beside a long answer", s.ask(TEXT, body)[2]["choices"][0]["text"], expected["stories260K", "One day"])
    check("the long answer goes on", s.metric('hearth_answers_running{model="relu"}') > 0)
    connection.close()

    chunks = s.stream(TEXT, completion("Once upon a time", model="stories260K", max_tokens=20))
    same("a stream", ({c["model"] for c in chunks}, "".join(c["choices"][0]["text"] for c in chunks if c["choices"])),
         ({"stories260K"}, expected["stories260K", "Once upon a time"]))
    for path, body in ((CHAT, chat("x")), (MESSAGES, message("x")), (RESPONSES, response("x")), (VECTORS, {"input": "x"})):
        same("the model of " + path, s.ask(path, dict(body, model="stories260K"))[2]["model"], "stories260K")
    refused(s, "an unknown model", TEXT, completion("x", model="none"), 404, None)
    error = s.ask(TEXT, completion("x", model="none"))[2]["error"]
    same("its code", (error["code"], all(name in error["message"] for name in SEVERAL)), ("model_not_found", True))
    refused(s, "an unknown model", "/v1/models/none", None, 404, None)
    refused(s, "an unknown model", "/live?model=none", None, 404, None)
    refused(s, "a model that is no text", TEXT, completion("x", model=1), 400, "model")
    refused_as_message(s, "an unknown model", MESSAGES, message("x", model="none"), 404, "not_found_error")
    check("requests of the server", s.metric("hearth_requests_total") > len(bodies))
    s.end()


def check_models_kept():
    """What each model has read is known after a new start; damage to the files of one is the other's no concern."""
    text = "Lily went to the park and saw a big dog there. " * 5
    names = ("relu", "stories260K")

    def ask(s):
        answers = {name: s.ask(TEXT, completion(text, model=name))[2] for name in names}
        return ({name: a["choices"][0]["text"] for name, a in answers.items()},
                {name: a["usage"]["prompt_tokens_details"]["cached_tokens"] for name, a in answers.items()})

    with tempfile.TemporaryDirectory() as folder:
        options = ("--parallel", "2", "-t", "1", "--cache-dir", folder)
        s = Server(*options, models=SEVERAL_ARGUMENTS[:2])
        fresh, read = ask(s)
        same("nothing is known yet", max(read.values()), 0)
        s.end()
        files = os.listdir(folder)
        same("files of each model", {f.rsplit("-", 1)[0] for f in files}, set(names))
        s = Server(*options, models=SEVERAL_ARGUMENTS[1::-1]) # in the other order
        again, read = ask(s)
        same("after a new start", again, fresh)
        check("what was kept is known", min(read.values()) > 40, read)
        s.end()
        for file in files:
            if file.startswith("relu"):
                os.remove(os.path.join(folder, file))
        s = Server(*options, models=SEVERAL_ARGUMENTS[:2])
        again, read = ask(s)
        same("without the files of one", again, fresh)
        check("the other's are used", read["relu"] < 10 < 40 < read["stories260K"], read)
        s.end()


def main():
    s = Server("--body-limit", "64K", "--parallel", "4", "-t", "1")
    only = sys.argv[3:]
    for part in (check_density, check_state, check_text, check_answers, check_messages, check_responses, check_formats, check_probabilities,
                 check_vectors, check_together, check_errors, check_refusals, check_garbage, check_gone, check_gone_early, check_slow,
                 check_idle_connections):
        if only and part.__name__ not in only:
            continue
        begun = time.monotonic()
        part(s)
        print("%-24s %5.1f s" % (part.__name__, time.monotonic() - begun), flush=True)
    s.end()
    for part in (check_hot_set, check_reasoning, check_tools, check_guesses, check_beats, check_silence, check_large_texts, check_full, check_end, check_memory, check_kept, check_keys,
                 check_large_requests, check_pooling, check_models, check_models_kept):
        if not only or part.__name__ in only:
            part()
    print("%d checks, %d failed" % (checks, failures))
    sys.exit(failures > 0)


try:
    main()
finally:
    for process in processes:
        process.kill()
