"""agents_package.py HEARTH MODEL [PART...] - what an agent that writes programs asks for, as OpenAI's chat and as Anthropic's
messages, sent by the packages `openai` and `anthropic`.

A file in recorded/ has what all requests of a conversation have in common, then line by line the messages that each adds, and
the tool that is called next. Every request brings the conversation up to there, as it was recorded, so that what our model
says does not matter: it must be answered in the form of the API, know again what the one before has brought, and, where a call
is demanded, have arguments that the tool's schema allows. To add a part, write a function and name it in the last line.
"""
import json
import pathlib

import anthropic
import openai
from common import check, fits, raises, run, same, token_ids, tool_server, valid

# Our model seldom ends a text or a list. With this it does, so that few demanded calls are cut by max_tokens.
ENDS = [o for end in ('"', "]") for o in ("--logit-bias", "%d=12" % token_ids("a" + end)[-1])]

server = tool_server("--parallel", "2", "--seed", "3", *ENDS)
chats = openai.OpenAI(base_url=server.url + "/v1", timeout=120, api_key="none", max_retries=0)
messages = anthropic.Anthropic(base_url=server.url, timeout=120, api_key="none", max_retries=0)


def recorded(name):
    """Returns what the requests have in common, and for each turn all messages so far with the tool that is called next."""
    path = pathlib.Path(__file__).parent / "recorded" / (name + ".jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    said, turns = [], []
    for line in lines[1:]:
        said = said + line["messages"]
        turns.append((said, line["calls"]))
    return lines[0]["request"], turns


class Chat:
    """One answer to a chat, put together from its stream."""

    name, refusal = "openai", openai.BadRequestError

    def __init__(self, request, **changed):
        body = {**request, **changed}
        self.calls, self.end, self.usage = {}, None, None
        with chats.chat.completions.create(model=body.pop("model"), messages=body.pop("messages"), stream=body.pop("stream"),
                                           extra_body=body) as stream:
            for chunk in stream:
                self.add(valid(chunk))
        self.prompt, self.cached = self.usage.prompt_tokens, self.usage.prompt_tokens_details.cached_tokens

    def add(self, chunk):
        self.usage = chunk.usage or self.usage
        for choice in chunk.choices:
            self.end = choice.finish_reason or self.end
            for piece in choice.delta.tool_calls or []:
                call = self.calls.setdefault(piece.index, {"name": piece.function.name, "arguments": ""})
                call["arguments"] += piece.function.arguments or ""

    def demanded(self):
        """Returns name and arguments of the only call; None: max_tokens has cut it."""
        if self.end == "length":
            return None
        same("the end of a demanded call", (self.end, list(self.calls)), ("tool_calls", [0]))
        return self.calls[0]["name"], json.loads(self.calls[0]["arguments"])

    @staticmethod
    def schemas(request):
        return {t["function"]["name"]: t["function"]["parameters"] for t in request["tools"]}

    @staticmethod
    def choice(name):
        return {"type": "function", "function": {"name": name}} if name else "required"


class Message:
    """One message, put together from its stream."""

    name, refusal = "anthropic", anthropic.BadRequestError

    def __init__(self, request, **changed):
        body = {**request, **changed}
        self.calls, self.end = {}, None
        with messages.messages.create(model=body.pop("model"), messages=body.pop("messages"), stream=body.pop("stream"),
                                      max_tokens=body.pop("max_tokens"), extra_body=body, extra_query={"beta": "true"},
                                      extra_headers={"anthropic-beta": "interleaved-thinking-2025-05-14"}) as stream:
            for event in stream:
                self.add(valid(event))

    def add(self, event):
        if event.type == "message_start":
            self.prompt = event.message.usage.input_tokens
        elif event.type == "content_block_start" and event.content_block.type == "tool_use":
            self.calls[event.index] = {"name": event.content_block.name, "arguments": ""}
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            self.calls[event.index]["arguments"] += event.delta.partial_json
        elif event.type == "message_delta":
            self.end, self.cached = event.delta.stop_reason, event.usage.cache_read_input_tokens
            same("tokens of a prompt, before and after it is read", event.usage.input_tokens + self.cached, self.prompt)

    def demanded(self):
        if self.end == "max_tokens":
            return None
        same("the end of a demanded call", (self.end, list(self.calls)), ("tool_use", [0]))
        return self.calls[0]["name"], json.loads(self.calls[0]["arguments"])

    @staticmethod
    def schemas(request):
        return {t["name"]: t["input_schema"] for t in request["tools"]}

    @staticmethod
    def choice(name):
        return {"type": "tool", "name": name} if name else {"type": "any"}


def replay(form):
    request, turns = recorded(form.name)
    schemas, before, tokens, whole, asked = form.schemas(request), 0, [], 0, 0
    for number, (said, name) in enumerate(turns):
        what = "%s, turn %d" % (form.name, number)
        answer = form(request, messages=said, max_tokens=24)
        check("%s: its end" % what, answer.end, answer.end)
        check("%s: what is known again" % what, answer.cached >= before - 64, (answer.cached, before))
        tokens.append((answer.cached, answer.prompt))
        before = answer.prompt
        if not name:
            continue
        call = form(request, messages=said, max_tokens=600, temperature=1, tool_choice=form.choice(name))
        check("%s: what is known of it" % what, call.cached >= before - 64, (call.cached, before))
        made = call.demanded()
        asked, whole = asked + 1, whole + bool(made)
        if made:
            same("%s: the call" % what, made[0], name)
            fits("%s: %s" % (what, name), made[1], schemas[name])
    check("most calls are whole", 2 * whole > asked, whole)
    print("  %s: cached of prompt tokens %s; %d of %d calls whole" % (form.name, tokens, whole, asked))


def demand(form):
    """A call of each tool, and of any."""
    request, turns = recorded(form.name)
    schemas, whole = form.schemas(request), []
    first = {"messages": turns[0][0], "max_tokens": 600, "temperature": 1}
    for name, schema in schemas.items():
        call = form(request, **first, tool_choice=form.choice(name)).demanded()
        whole += [name] if call else []
        if call:
            fits("%s: %s" % (form.name, name), call[1], schema)
    call = form(request, **first, tool_choice=form.choice(None)).demanded()
    if call:
        fits("%s: any: %s" % (form.name, call[0]), call[1], schemas[call[0]])
    check("most calls are whole", 2 * len(whole) > len(schemas), whole)
    print("  %s: whole calls of %s" % (form.name, ", ".join(whole)))
    name, schema = list(schemas.items())[-1]
    schema["not"] = {} # what hearth does not know: no call of this tool can be demanded, nor one of any while it is offered
    for choice in form.choice(name), form.choice(None):
        error = raises("%s: a call beyond schemas" % form.name, form.refusal, lambda: form(request, **first, tool_choice=choice))
        check("%s: what is unknown" % name, "not:" in str(error) and "tool_choice" in str(error), error)


def as_recorded():
    """A request with nothing changed, whose client goes after some pieces; and one that counts."""
    request, turns = recorded("openai")
    body = {**request, "messages": turns[-1][0]}
    with chats.chat.completions.create(model=body.pop("model"), messages=body.pop("messages"), stream=True, extra_body=body) as stream:
        valid(next(iter(stream)))
    request, turns = recorded("anthropic")
    counted = messages.messages.count_tokens(model="any", messages=turns[-1][0], system=request["system"], tools=request["tools"])
    same("tokens that are counted", valid(counted).input_tokens, Message(request, messages=turns[-1][0], max_tokens=24).prompt)


def chat():
    replay(Chat)


def message():
    replay(Message)


def demanded_chat():
    demand(Chat)


def demanded_message():
    demand(Message)


def end():
    server.end()


run(chat, message, demanded_chat, demanded_message, as_recorded, end)
