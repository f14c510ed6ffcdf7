"""openai_package.py HEARTH MODEL [PART...] - the Python package `openai` as a client of `hearth serve`.

What an answer must be comes from `hearth run` and `hearth eval logits`, and from the package's own classes, which check
every field. To add a part, write a function and name it in the last line.
"""
import asyncio
import math

import openai
from common import Server, check, commands, greedy, log_probabilities, near, raises, run, same, shell, thinking_server, token_ids, valid

TALK = [{"role": "user", "content": "Tell me"}]
CHAT = {"model": "any", "messages": TALK, "temperature": 0, "max_tokens": 24}
TEXT = {"model": "any", "prompt": "Once upon a time", "temperature": 0, "max_tokens": 24}

server = Server("--chat-template", "chatml", "--body-limit", "64K", "--alias", "story")
told = greedy("--chat-template", "chatml", "--chat", "Tell me", "-n", "24")
continued = greedy("-p", "Once upon a time", "-n", "24")


def client_of(url, kind=openai.OpenAI, **more):
    return kind(base_url=url + "/v1", timeout=120, **{"api_key": "none", "max_retries": 0, **more})


client = client_of(server.url)


def models():
    same("models", [valid(m).id for m in client.models.list()], ["story"])
    same("a model", valid(client.models.retrieve("story")).id, "story")
    error = raises("another model", openai.NotFoundError, lambda: client.models.retrieve("x/y"))
    same("its code", error.code, "model_not_found")


def chat():
    answer = valid(client.chat.completions.create(**CHAT))
    same("a chat", (answer.choices[0].message.role, answer.choices[0].message.content), ("assistant", told["text"]))
    same("its end", answer.choices[0].finish_reason, "length")
    same("its usage", (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens),
         (told["prompt_tokens"], 24, told["prompt_tokens"] + 24))
    parts = [{"role": "user", "content": [{"type": "text", "text": "Tell "}, {"type": "text", "text": "me"}]}]
    same("content in parts", client.chat.completions.create(**{**CHAT, "messages": parts}).choices[0].message.content,
         told["text"])
    stop = told["text"].split()[2]
    answer = valid(client.chat.completions.create(**CHAT, stop=[stop]))
    same("a stop", (answer.choices[0].message.content, answer.choices[0].finish_reason), (told["text"].split(stop)[0], "stop"))
    drawn = {**CHAT, "temperature": 1, "n": 3, "seed": 7}
    several = valid(client.chat.completions.create(**drawn)).choices
    same("choices", [c.index for c in several], [0, 1, 2])
    check("they differ", len({c.message.content for c in several}) > 1, several)
    again = client.chat.completions.create(**drawn).choices
    same("the same seed", [c.message.content for c in again], [c.message.content for c in several])


def chat_stream():
    chunks = [valid(c) for c in client.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True})]
    same("a chat as stream", "".join(c.choices[0].delta.content or "" for c in chunks if c.choices), told["text"])
    same("its end", [c.choices[0].finish_reason for c in chunks if c.choices][-1], "length")
    same("its last chunk", (chunks[-1].choices, chunks[-1].usage.completion_tokens), ([], 24))
    same("ids of its chunks", len({c.id for c in chunks}), 1)
    stop = told["text"].split()[2]
    with client.chat.completions.stream(**CHAT, stop=stop) as stream:  # the package puts the pieces together
        content = [e.content for e in stream if e.type == "content.done"]
        choice = stream.get_final_completion().choices[0]
    same("what the package makes of a stream", (content, choice.message.content, choice.finish_reason),
         ([told["text"].split(stop)[0]], told["text"].split(stop)[0], "stop"))
    with client.chat.completions.with_streaming_response.create(**CHAT, stream=True) as response:
        same("type of a stream", response.headers["content-type"].split(";")[0], "text/event-stream")
    with client.chat.completions.create(**{**CHAT, "max_tokens": 400}, stream=True) as stream:
        next(iter(stream))  # and goes, which must not disturb the next
    same("after a client has gone", client.chat.completions.create(**CHAT).choices[0].message.content, told["text"])


def chat_probabilities():
    wanted = {**CHAT, "logprobs": True, "top_logprobs": 3}
    prompt = token_ids(told["prompt"])
    same("tokens of the prompt", len(prompt), told["prompt_tokens"])
    said = valid(client.chat.completions.create(**wanted)).choices[0].logprobs.content
    same("bytes of the tokens", bytes(b for t in said for b in t.bytes).decode(), told["text"])
    for token in said:
        same("candidates of a token", len(token.top_logprobs), 3)
        same("the likeliest", (token.token, token.logprob), (token.top_logprobs[0].token, token.top_logprobs[0].logprob))
    for token, (expected, is_likeliest) in zip(said, log_probabilities(prompt + told["ids"])[len(prompt) - 1:]):
        near("a probability", token.logprob, expected, 1e-3)
        check("is the likeliest", is_likeliest, token)
    chunks = [valid(c) for c in client.chat.completions.create(**wanted, stream=True)]
    streamed = [t for c in chunks if c.choices[0].logprobs for t in c.choices[0].logprobs.content or []]
    same("tokens of a stream", [t.token for t in streamed], [t.token for t in said])


def completions():
    answer = valid(client.completions.create(**TEXT))
    same("a completion", (answer.choices[0].text, answer.choices[0].finish_reason), (continued["text"], "length"))
    chunks = [valid(c) for c in client.completions.create(**TEXT, stream=True)]
    same("as stream", "".join(c.choices[0].text for c in chunks), continued["text"])
    ids = token_ids("Once upon a time")
    for prompt, count in ((ids, 1), ([ids, ids], 2), (["Once upon a time"] * 3, 3)):
        answer = valid(client.completions.create(**{**TEXT, "prompt": prompt}))
        same("prompt %r" % prompt, [c.text for c in answer.choices], [continued["text"]] * count)
    answer = valid(client.completions.create(**TEXT, echo=True))
    same("an echo", answer.choices[0].text, "Once upon a time" + continued["text"])
    answer = valid(client.completions.create(**TEXT, extra_body={"top_k": 1, "min_p": 0.1, "repeat_penalty": 1.0}))
    same("fields that the package does not know", answer.choices[0].text, continued["text"])


def completion_probabilities():
    text = "Lily and Tom went to the park. They saw a big dog."
    ids = token_ids(text)
    for prompt in (text, ids):
        answer = valid(client.completions.create(**{**TEXT, "prompt": prompt, "max_tokens": 1}, echo=True, logprobs=2))
        said = answer.choices[0].logprobs
        same("tokens of an echo", len(said.tokens), len(ids) + 1)
        same("the first token", (said.token_logprobs[0], said.top_logprobs[0]), (None, None))
        for got, top, (expected, is_likeliest) in zip(said.token_logprobs[1:], said.top_logprobs[1:], log_probabilities(ids)):
            near("a probability of an echo", got, expected, 1e-3)
            same("is the likeliest", got == max(top.values()), is_likeliest)
    answer = valid(client.completions.create(**{**TEXT, "prompt": ids, "max_tokens": 0}, echo=True, logprobs=1))
    same("an echo alone", (len(answer.choices[0].logprobs.tokens), answer.usage.completion_tokens), (len(ids), 0))


def embeddings():
    """The package asks for base64 unless it is told otherwise."""
    texts = ["Once upon a time", "Tell me", "Number 7 is"]
    answer = valid(client.embeddings.create(model="any", input=texts))
    numbers = valid(client.embeddings.create(model="any", input=texts, encoding_format="float"))
    same("order", [e.index for e in answer.data], [0, 1, 2])
    same("usage", answer.usage.prompt_tokens, sum(len(token_ids(t)) for t in texts))
    for one, other, text in zip(answer.data, numbers.data, texts):
        near("length of a vector", math.fsum(v * v for v in one.embedding), 1, 1e-6)
        near("as base64 and as numbers", max(map(abs, map(float.__sub__, one.embedding, other.embedding))), 0, 1e-7)
        ids = client.embeddings.create(model="any", input=token_ids(text)).data[0].embedding
        near("of tokens", math.fsum(map(float.__mul__, one.embedding, ids)), 1, 1e-6)
    short = client.embeddings.create(model="any", input=texts[0], dimensions=8).data[0].embedding
    part = answer.data[0].embedding[:8]
    for got, whole in zip(short, part, strict=True):
        near("the first dimensions", got, whole / math.hypot(*part), 1e-6)
    error = raises("no text", openai.BadRequestError, lambda: client.embeddings.create(model="any", input=""))
    same("its field", error.param, "input")

    async def at_once():
        async with client_of(server.url, openai.AsyncOpenAI) as other:
            return await asyncio.gather(*(other.embeddings.create(model="any", input=texts[i % 3]) for i in range(16)))

    for number, got in enumerate(asyncio.run(at_once())):
        same("number %d of sixteen" % number, got.data[0].embedding, answer.data[number % 3].embedding)


def responses():
    answer = valid(client.responses.create(model="any", input="Tell me", temperature=0, max_output_tokens=24))
    same("a response", (answer.output_text, answer.status), (told["text"], "incomplete"))
    events = [valid(e) for e in client.responses.create(model="any", input=TALK, temperature=0, max_output_tokens=24, stream=True)]
    same("as stream", "".join(e.delta for e in events if e.type == "response.output_text.delta"), told["text"])
    same("its end", (events[-1].type, events[-1].response.output_text), ("response.incomplete", told["text"]))


def reasoning():
    thinking = thinking_server()
    other = client_of(thinking.url)
    message = valid(other.chat.completions.create(**CHAT)).choices[0].message
    check("thoughts", message.reasoning_content and not message.content, message)
    chunks = [valid(c) for c in other.chat.completions.create(**CHAT, stream=True)]
    same("as stream", "".join(getattr(c.choices[0].delta, "reasoning_content", None) or "" for c in chunks),
         message.reasoning_content)
    thinking.end()


def biases():
    """Those of the command hold where a request has none of its own."""
    likeliest = told["ids"][0]
    biased = Server("--chat-template", "chatml", "--logit-bias", "%d=-inf" % likeliest)
    other = client_of(biased.url)
    expected = greedy("--chat-template", "chatml", "--chat", "Tell me", "-n", "24", "--logit-bias", "%d=-inf" % likeliest)["text"]
    check("a bias changes the answer", expected != told["text"], expected)
    same("the command's", other.chat.completions.create(**CHAT).choices[0].message.content, expected)
    same("none instead", other.chat.completions.create(**CHAT, logit_bias={}).choices[0].message.content, told["text"])
    same("a request's", client.chat.completions.create(**CHAT, logit_bias={likeliest: -100}).choices[0].message.content, expected)
    biased.end()


def errors():
    create, complete = client.chat.completions.create, client.completions.create
    for what, call, param in (
            ("a temperature", lambda: create(**{**CHAT, "temperature": 1000}), "temperature"),
            ("no messages", lambda: create(**{**CHAT, "messages": []}), "messages"),
            ("a long chat", lambda: create(**{**CHAT, "messages": [{"role": "user", "content": "word " * 600}]}), "messages"),
            ("a long prompt", lambda: complete(**{**TEXT, "prompt": "word " * 600}), "prompt"),
            ("no such token", lambda: complete(**{**TEXT, "prompt": [1 << 20]}), "prompt"),
            ("a stream", lambda: create(**{**CHAT, "temperature": "hot"}, stream=True), "temperature")):
        error = raises(what, openai.BadRequestError, call)
        same("%s: status and field" % what, (error.status_code, error.param), (400, param))
        check("%s: message" % what, error.body["message"].startswith(param + ":"), error.body)
    raises("no such path", openai.NotFoundError, lambda: client.post("/nothing", cast_to=object))
    raises("what is not there", openai.NotFoundError, lambda: client.files.list())
    raises("a large body", openai.APIStatusError, lambda: complete(**{**TEXT, "prompt": "x" * 70000}))
    raises("nobody listens", openai.APIConnectionError, lambda: client_of("http://127.0.0.1:9").models.list())


def keys():
    guarded = Server("--chat-template", "chatml", "--api-key", "right")
    same("the right key", valid(client_of(guarded.url, api_key="right").chat.completions.create(**CHAT)).choices[0].message.content,
         told["text"])
    for stream in (False, True):
        error = raises("a wrong key", openai.AuthenticationError,
                       lambda: client_of(guarded.url, api_key="wrong").chat.completions.create(**CHAT, stream=stream))
        same("its status", error.status_code, 401)
    guarded.end()


def full():
    """A full queue is an error of its own class, which the package waits for and asks again."""
    narrow = Server("--parallel", "1", "--queue", "63", "-t", "1")
    many = {**TEXT, "max_tokens": 400, "n": 64, "extra_body": {"ignore_eos": True}}
    busy = client_of(narrow.url).completions.create(**many, stream=True)
    next(iter(busy))
    error = raises("a full queue", openai.InternalServerError, lambda: client_of(narrow.url).completions.create(**many))
    same("its status and code", (error.status_code, error.code), (503, "queue_full"))
    busy.close()
    again = client_of(narrow.url, max_retries=8).completions.create(**TEXT)
    same("once there is room", again.choices[0].text, continued["text"])
    narrow.end()


def together():
    """Sixteen at once, plain and as streams, must get what each gets alone."""
    asked = [{**CHAT, "messages": [{"role": "user", "content": "Number %d is" % i}], "max_tokens": 8 + i} for i in range(16)]
    alone = [client.chat.completions.create(**a).choices[0].message.content for a in asked]

    async def one(other, number, body):
        if number % 2:
            stream = await other.chat.completions.create(**body, stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream])
        return (await other.chat.completions.create(**body)).choices[0].message.content

    async def all_of_them():
        async with client_of(server.url, openai.AsyncOpenAI) as other:
            return await asyncio.gather(*(one(other, i, a) for i, a in enumerate(asked)))

    for number, (got, expected) in enumerate(zip(asyncio.run(all_of_them()), alone)):
        same("number %d of sixteen" % number, got, expected)


def page():
    """The command of docs/serve.md prints an answer."""
    told = [c for c in commands("OPENAI_BASE_URL", server.url) if "python3" in c]
    same("commands of the page", len(told), 1)
    check("what they print", shell(told[0]).strip())


def end():
    server.end()


run(models, chat, chat_stream, chat_probabilities, completions, completion_probabilities, embeddings, responses, reasoning, biases,
    errors, keys, full, together, page, end)
