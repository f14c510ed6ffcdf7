"""anthropic_package.py HEARTH MODEL [PART...] - the Python package `anthropic` as a client of `hearth serve`.

What an answer must be comes from `hearth run`, and from the package's own classes, which check every field. To add a part,
write a function and name it in the last line.
"""
import asyncio
import time

import anthropic
from common import Server, check, commands, greedy, raises, run, same, shell, thinking_server, valid

TALK = [{"role": "user", "content": "Tell me"}]
# The package has no argument for the temperature any more; what it does not know goes in extra_body.
MESSAGE = {"model": "any", "messages": TALK, "max_tokens": 24, "extra_body": {"temperature": 0}}

server = Server("--chat-template", "chatml", "--body-limit", "64K")
told = greedy("--chat-template", "chatml", "--chat", "Tell me", "-n", "24")


def client_of(url, kind=anthropic.Anthropic, **more):
    return kind(base_url=url, timeout=120, **{"api_key": "none", "max_retries": 0, **more})


client = client_of(server.url)


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def messages():
    answer = valid(client.messages.create(**MESSAGE))
    same("a message", (answer.role, [b.type for b in answer.content], text_of(answer)), ("assistant", ["text"], told["text"]))
    same("its end", (answer.stop_reason, answer.stop_sequence), ("max_tokens", None))
    same("its usage", (answer.usage.input_tokens + answer.usage.cache_read_input_tokens, answer.usage.output_tokens),
         (told["prompt_tokens"], 24))
    stop = told["text"].split()[2]
    answer = valid(client.messages.create(**MESSAGE, stop_sequences=[stop]))
    same("a stop", (text_of(answer), answer.stop_reason, answer.stop_sequence), (told["text"].split(stop)[0], "stop_sequence", stop))
    expected = greedy("--chat-template", "chatml", "--chat", "Tell me", "--system", "You tell stories", "-n", "24")
    system = [{"type": "text", "text": "You tell", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": " stories"}]
    for given in ("You tell stories", system):
        same("a system", text_of(client.messages.create(**MESSAGE, system=given)), expected["text"])
    history = TALK + [{"role": "assistant", "content": answer.content}, {"role": "user", "content": "More"}]
    check("an answer that is sent back", text_of(valid(client.messages.create(**{**MESSAGE, "messages": history}))))


def message_stream():
    events = [valid(e) for e in client.messages.create(**MESSAGE, stream=True)]
    same("its events", [e.type for e in events if e.type != "content_block_delta"],
         ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"])
    same("a message as stream", "".join(e.delta.text for e in events if e.type == "content_block_delta"), told["text"])
    with client.messages.stream(**MESSAGE) as stream:  # the package puts the pieces together
        text = "".join(stream.text_stream)
        final = valid(stream.get_final_message())
    same("what the package makes of a stream", (text, text_of(final), final.stop_reason), (told["text"], told["text"], "max_tokens"))
    same("its usage", final.usage.output_tokens, 24)
    with client.messages.create(**{**MESSAGE, "max_tokens": 400}, stream=True) as stream:
        next(iter(stream))  # and goes, which must not disturb the next
    same("after a client has gone", text_of(client.messages.create(**MESSAGE)), told["text"])


def count_tokens():
    same("tokens", valid(client.messages.count_tokens(model="any", messages=TALK)).input_tokens, told["prompt_tokens"])
    more = client.messages.count_tokens(model="any", messages=TALK, system="You tell stories").input_tokens
    check("tokens with a system", more > told["prompt_tokens"], more)


def thinking():
    other = thinking_server()
    asked = {**MESSAGE, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    answer = valid(client_of(other.url).messages.create(**asked))
    same("blocks", [b.type for b in answer.content], ["thinking"])
    with client_of(other.url).messages.stream(**asked) as stream:
        thoughts = "".join(e.thinking for e in stream if e.type == "thinking")
        final = valid(stream.get_final_message())
    same("thoughts as stream", (thoughts, final.content[0].thinking), (answer.content[0].thinking,) * 2)
    history = TALK + [{"role": "assistant", "content": answer.content + [{"type": "text", "text": "So"}]},
                      {"role": "user", "content": "More"}]
    same("thoughts that are sent back", valid(client.messages.create(**{**MESSAGE, "messages": history})).role, "assistant")
    other.end()


def errors():
    create = client.messages.create
    for what, call, name in (
            ("a temperature", lambda: create(**{**MESSAGE, "extra_body": {"temperature": 1000}}), "temperature"),
            ("no messages", lambda: create(**{**MESSAGE, "messages": []}), "messages"),
            ("a long message", lambda: create(**{**MESSAGE, "messages": [{"role": "user", "content": "word " * 600}]}), "messages"),
            ("a stream", lambda: create(**{**MESSAGE, "extra_body": {"top_p": 7}}, stream=True), "top_p"),
            ("a summary", lambda: create(**{**MESSAGE, "extra_body": {"compaction": {"type": "summary"}}}), "compaction"),
            ("tokens", lambda: client.messages.count_tokens(model="any", messages=[]), "messages")):
        error = raises(what, anthropic.BadRequestError, call)
        same("%s: status and type" % what, (error.status_code, error.body["error"]["type"]), (400, "invalid_request_error"))
        check("%s: message" % what, error.body["error"]["message"].startswith(name), error.body)
    thread = {**MESSAGE, "extra_body": {"thread": {"type": "create"}}}
    error = raises("a thread", anthropic.types.ThreadUnsupportedRequestError, lambda: create(**thread))
    same("its status and details", (error.status_code, error.body["error"]["details"]),
         (400, {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}))
    raises("no such path", anthropic.NotFoundError, lambda: client.post("/v1/nothing", cast_to=object))
    raises("a large body", anthropic.RequestTooLargeError,
           lambda: create(**{**MESSAGE, "messages": [{"role": "user", "content": "x" * 70000}]}))
    raises("nobody listens", anthropic.APIConnectionError, lambda: client_of("http://127.0.0.1:9").messages.create(**MESSAGE))


def keys():
    guarded = Server("--chat-template", "chatml", "--api-key", "right")
    same("the right key", text_of(client_of(guarded.url, api_key="right").messages.create(**MESSAGE)), told["text"])
    bearer = client_of(guarded.url, api_key=None, auth_token="right")
    same("the right key in its other form", text_of(bearer.messages.create(**MESSAGE)), told["text"])
    for stream in (False, True):
        error = raises("a wrong key", anthropic.AuthenticationError,
                       lambda: client_of(guarded.url, api_key="wrong").messages.create(**MESSAGE, stream=stream))
        same("its type", error.body["error"]["type"], "authentication_error")
    guarded.end()


def together():
    """Sixteen at once, plain and as streams, must get what each gets alone."""
    asked = [{**MESSAGE, "messages": [{"role": "user", "content": "Number %d is" % i}], "max_tokens": 8 + i} for i in range(16)]
    alone = [text_of(client.messages.create(**a)) for a in asked]

    async def one(other, number, body):
        if number % 2:
            async with other.messages.stream(**body) as stream:
                return await stream.get_final_text()
        return text_of(await other.messages.create(**body))

    async def all_of_them():
        async with client_of(server.url, anthropic.AsyncAnthropic) as other:
            return await asyncio.gather(*(one(other, i, a) for i, a in enumerate(asked)))

    for number, (got, expected) in enumerate(zip(asyncio.run(all_of_them()), alone)):
        same("number %d of sixteen" % number, got, expected)


def models():
    name = "stories-relu-q8_0"
    same("models", [(valid(m).id, m.display_name) for m in client.models.list()], [(name, name)])
    same("a model", valid(client.models.retrieve(name)).id, name)
    check("its time", abs(client.models.retrieve(name).created_at.timestamp() - time.time()) < 3600)
    raises("another model", anthropic.NotFoundError, lambda: client.models.retrieve("x/y"))


def page():
    """The command of docs/serve.md prints an answer."""
    told = [c for c in commands("ANTHROPIC_BASE_URL", server.url) if "python3" in c]
    same("commands of the page", len(told), 1)
    check("what they print", shell(told[0]).strip())


def end():
    server.end()


run(messages, message_stream, count_tokens, thinking, models, errors, keys, together, page, end)
