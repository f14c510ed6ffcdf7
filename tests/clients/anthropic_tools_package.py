"""anthropic_tools_package.py HEARTH MODEL [PART...] - tools and formats, as programs that use the package `anthropic` ask for them.

The model writes what a grammar or a schema demands: a call in the form of its template, or an object. What comes of it is what
the package makes of it, and must fit the schema. To add a part, write a function and name it in the last line.
"""
import json
from typing import List, Literal, Optional

import anthropic
from common import check, fits, run, same, tool_server, valid
from pydantic import BaseModel, Field

ASK = [{"role": "user", "content": "How is the weather in Ulm?"}]
WEATHER = {"type": "object", "properties": {"at": {"type": "string", "description": "A town", "maxLength": 12},
                                            "days": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1}},
           "required": ["at", "days"], "additionalProperties": False}
CLOCK = {"type": "object", "properties": {"zone": {"type": "string", "enum": ["UTC", "CET"]}}, "required": ["zone"]}
SCHEMAS = {"weather": WEATHER, "clock": CLOCK}
TOOLS = [{"name": name, "description": "Says it", "input_schema": schema} for name, schema in SCHEMAS.items()]

CALL = r'"<tool_call>\n{\"name\": \"%s\", \"arguments\": {\"%s\": \"" %s "\"}}\n</tool_call>"'
TOWN, ZONE = CALL % ("weather", "at", "[A-Z] [a-z]{2,5}"), CALL % ("clock", "zone", '"CET"')
ONE, TWO = "root ::= " + TOWN, r'root ::= "Wait. " %s "\n" %s' % (TOWN, ZONE)

server = tool_server()
client = anthropic.Anthropic(base_url=server.url, timeout=120, api_key="none", max_retries=0)


def asked(grammar=None, temperature=0, **more):
    """Returns a request; the package has no argument for what goes in extra_body."""
    extra = {"temperature": temperature, **({"grammar": grammar} if grammar else {})}
    return {"model": "any", "messages": ASK, "tools": TOOLS, "max_tokens": 200, "extra_body": extra, **more}


def blocks(message):
    """Returns names and inputs of the calls of a message."""
    return [(b.name, b.input) for b in message.content if b.type == "tool_use"]


def calls():
    answer = valid(client.messages.create(**asked(ONE), tool_choice={"type": "auto"}))
    same("a call", [(b.type, b.name, list(b.input)) for b in answer.content], [("tool_use", "weather", ["at"])])
    same("its end", answer.stop_reason, "tool_use")
    answer = valid(client.messages.create(**asked(TWO)))
    same("text and calls", [b.type for b in answer.content], ["text", "tool_use", "tool_use"])
    same("the text", answer.content[0].text.strip(), "Wait.")
    same("their ids", len({b.id for b in answer.content[1:]}), 2)
    single = valid(client.messages.create(**asked(TWO), tool_choice={"type": "auto", "disable_parallel_tool_use": True}))
    same("one call at most", blocks(single), blocks(answer)[:1])
    answer = valid(client.messages.create(**asked(ONE), tool_choice={"type": "none"}))
    same("no call", ([b.type for b in answer.content], answer.stop_reason), (["text"], "end_turn"))


def call_stream():
    whole = client.messages.create(**asked(TWO))
    made, ends = {}, []
    for event in client.messages.create(**asked(TWO), stream=True):  # as the package's users put blocks together
        valid(event)
        if event.type == "content_block_start":
            made[event.index] = [event.content_block, ""]
        elif event.type == "content_block_delta":
            made[event.index][1] += event.delta.partial_json if event.delta.type == "input_json_delta" else event.delta.text
        elif event.type == "message_delta":
            ends.append(event.delta.stop_reason)
    same("blocks", [b.type for b, _ in made.values()], ["text", "tool_use", "tool_use"])
    same("an input begins empty", [b.input for b, _ in made.values() if b.type == "tool_use"], [{}, {}])
    same("calls as stream", [(b.name, json.loads(text)) for b, text in made.values() if b.type == "tool_use"], blocks(whole))
    same("text before them, and the end", (made[0][1], ends), (whole.content[0].text, ["tool_use"]))
    with client.messages.stream(**asked(TWO)) as stream:  # and as the package does
        inputs = [e.snapshot for e in stream if e.type == "input_json"]
        final = valid(stream.get_final_message())
    same("what the package makes of a stream", (blocks(final), final.stop_reason), (blocks(whole), "tool_use"))
    check("its events", inputs and inputs[-1] == blocks(whole)[-1][1], inputs)


def demanded():
    for choice, names in (({"type": "any"}, ["weather", "clock"]), ({"type": "tool", "name": "weather"}, ["weather"]),
                          ({"type": "tool", "name": "clock", "disable_parallel_tool_use": True}, ["clock"])):
        for _ in range(3):
            answer = valid(client.messages.create(**asked(temperature=1, tool_choice=choice)))
            same("%s: blocks and end" % choice, ([b.type for b in answer.content], answer.stop_reason), (["tool_use"], "tool_use"))
            (name, value), = blocks(answer)
            check("%s: its name" % choice, name in names, answer)
            fits("%s" % choice, value, SCHEMAS[name])
        with client.messages.stream(**asked(tool_choice=choice)) as stream:
            (name, value), = blocks(valid(stream.get_final_message()))
        fits("%s as stream" % choice, value, SCHEMAS[name])


def loop():
    """Question, calls, results, answer: each request brings what the one before has said, as the package's object."""
    first = valid(client.messages.create(**asked(TWO)))
    results = [{"type": "tool_result", "tool_use_id": b.id, "content": [{"type": "text", "text": "21 degrees"}]}
               for b in first.content if b.type == "tool_use"]
    results[1].update(content="no such clock", is_error=True)
    messages = ASK + [{"role": first.role, "content": first.content}, {"role": "user", "content": results}]
    second = valid(client.messages.create(**asked('root ::= "It is warm."', messages=messages)))
    same("the answer", ([b.text.strip() for b in second.content], second.stop_reason), (["It is warm."], "end_turn"))
    used = second.usage
    before = first.usage.input_tokens + first.usage.cache_read_input_tokens
    check("the beginning is known", used.cache_read_input_tokens >= before - 64, used)
    counted = client.messages.count_tokens(model="any", messages=messages, tools=TOOLS).input_tokens
    same("tokens that are counted", counted, used.input_tokens + used.cache_read_input_tokens)


def runner():
    """The package's own loop: it makes the schema of a function, calls it with what the model asks for, sends the result. At
    first it wants the server to keep the conversation ("thread"), and sends all of it once it is told that nothing is kept."""
    told = []

    @anthropic.beta_tool
    def forecast(at: Literal["Ulm", "Kiel"], days: Literal[1, 2, 3], unit: Literal["C", "F"] = "C") -> str:
        """Says how the weather will be.

        Args:
            at: A town.
            days: How many days.
        """
        told.append((at, days, unit))
        return "sunny"

    turns = [valid(m) for m in client.beta.messages.tool_runner(
        **{**asked(temperature=1), "tools": [forecast]}, tool_choice={"type": "tool", "name": "forecast"}, max_iterations=3)]
    check("the conversation grows", turns[-1].usage.cache_read_input_tokens > turns[0].usage.input_tokens, turns[-1].usage)
    same("turns", [m.stop_reason for m in turns], ["tool_use"] * 3)
    check("calls of the function", len(told) >= 2, told)
    for at, days, unit in told:
        check("what it is called with", at in ("Ulm", "Kiel") and days in (1, 2, 3) and unit in ("C", "F"), told)


class Fruit(BaseModel):
    name: Literal["apple", "pear"]
    count: int


class Basket(BaseModel):
    """What is bought."""
    fruits: List[Fruit]
    is_paid: bool
    note: Optional[Literal["soon", "late"]] = None


def formats():
    schema = {"type": "json_schema", "schema": WEATHER}
    for _ in range(3):
        answer = valid(client.messages.create(**{**asked(temperature=1, output_config={"format": schema}), "tools": []}))
        fits("a schema", json.loads(answer.content[0].text), WEATHER)
        same("its end", answer.stop_reason, "end_turn")
    plain = {k: v for k, v in asked().items() if k != "tools"}
    answer = client.messages.parse(**plain, output_format=Basket)
    check("what is parsed", isinstance(answer.parsed_output, Basket), answer)
    with client.messages.stream(**plain, output_format=Basket) as stream:
        same("and of a stream", stream.get_final_message().parsed_output, answer.parsed_output)


def end():
    server.end()


run(calls, call_stream, demanded, loop, runner, formats, end)
