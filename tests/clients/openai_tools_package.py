"""openai_tools_package.py HEARTH MODEL [PART...] - tools and formats, as programs that use the package `openai` ask for them.

The model writes what a grammar or a schema demands: a call in the form of its template, or an object. What comes of it is what
the package makes of it, and must fit the schema. To add a part, write a function and name it in the last line.
"""
import json
from typing import List, Literal, Optional

import openai
from common import check, fits, run, same, tool_server, valid
from pydantic import BaseModel, Field

ASK = [{"role": "user", "content": "How is the weather in Ulm?"}]
WEATHER = {"type": "object", "properties": {"at": {"type": "string", "description": "A town", "maxLength": 12},
                                            "days": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1}},
           "required": ["at", "days"], "additionalProperties": False}
CLOCK = {"type": "object", "properties": {"zone": {"type": "string", "enum": ["UTC", "CET"]}}, "required": ["zone"]}
SCHEMAS = {"weather": WEATHER, "clock": CLOCK}
TOOLS = [{"type": "function", "function": {"name": name, "description": "Says it", "parameters": schema}}
         for name, schema in SCHEMAS.items()]
FLAT = [{"type": "function", "strict": False, **t["function"]} for t in TOOLS]  # as /v1/responses has them
CHAT = {"model": "any", "messages": ASK, "tools": TOOLS, "temperature": 0, "max_tokens": 200}

CALL = r'"<tool_call>\n{\"name\": \"%s\", \"arguments\": {\"%s\": \"" %s "\"}}\n</tool_call>"'
TOWN, ZONE = CALL % ("weather", "at", "[A-Z] [a-z]{2,5}"), CALL % ("clock", "zone", '"CET"')
ONE, TWO = "root ::= " + TOWN, r'root ::= "Wait. " %s "\n" %s' % (TOWN, ZONE)

server = tool_server()
client = openai.OpenAI(base_url=server.url + "/v1", timeout=120, api_key="none", max_retries=0)


def told(call):
    """Returns the name of a call in a chat, with its arguments."""
    return call.function.name, json.loads(call.function.arguments)


def chosen(name):
    return {"type": "function", "function": {"name": name}}


def written(grammar):
    return {"extra_body": {"grammar": grammar}}


def calls():
    choice = valid(client.chat.completions.create(**CHAT, **written(ONE), tool_choice="auto")).choices[0]
    same("the end of a call", (choice.finish_reason, choice.message.content), ("tool_calls", None))
    same("a call", [(c.type, told(c)[0], list(told(c)[1])) for c in choice.message.tool_calls], [("function", "weather", ["at"])])
    choice = valid(client.chat.completions.create(**CHAT, **written(TWO))).choices[0]
    same("two calls", [told(c)[0] for c in choice.message.tool_calls], ["weather", "clock"])
    same("text before calls", choice.message.content.strip(), "Wait.")
    same("their ids", len({c.id for c in choice.message.tool_calls}), 2)
    single = valid(client.chat.completions.create(**CHAT, **written(TWO), parallel_tool_calls=False)).choices[0]
    same("one call at most", [told(c) for c in single.message.tool_calls], [told(choice.message.tool_calls[0])])
    choice = client.chat.completions.create(**CHAT, **written(ONE), tool_choice="none").choices[0]
    same("no call", (choice.message.tool_calls, choice.finish_reason), (None, "stop"))


def call_stream():
    """As the package's users put calls together: by their index, arguments piece by piece."""
    whole = client.chat.completions.create(**CHAT, **written(TWO)).choices[0].message
    made, text, ends = {}, "", []
    for chunk in client.chat.completions.create(**CHAT, **written(TWO), stream=True):
        choice = valid(chunk).choices[0]
        text += choice.delta.content or ""
        ends += [choice.finish_reason] if choice.finish_reason else []
        for piece in choice.delta.tool_calls or []:
            if piece.index not in made:
                made[piece.index] = {"id": piece.id, "type": piece.type, "name": piece.function.name, "arguments": ""}
            made[piece.index]["arguments"] += piece.function.arguments or ""
    same("indexes", sorted(made), [0, 1])
    same("calls as stream", [(m["type"], m["name"], m["arguments"]) for m in made.values()],
         [(c.type, c.function.name, c.function.arguments) for c in whole.tool_calls])
    check("their ids", all(m["id"] for m in made.values()), made)
    same("text before them, and the end", (text, ends), (whole.content, ["tool_calls"]))
    with client.chat.completions.stream(**CHAT, **written(TWO)) as stream:  # and as the package does
        done = [(e.name, json.loads(e.arguments)) for e in stream if e.type == "tool_calls.function.arguments.done"]
        final = stream.get_final_completion().choices[0]
    same("events of calls", done, [told(c) for c in whole.tool_calls])
    same("what the package makes of a stream", ([told(c) for c in final.message.tool_calls], final.finish_reason),
         ([told(c) for c in whole.tool_calls], "tool_calls"))


def demanded():
    for choice, names in (("required", ["weather", "clock"]), (chosen("weather"), ["weather"]), (chosen("clock"), ["clock"])):
        for seed in range(3):
            drawn = {**CHAT, "tool_choice": choice, "temperature": 1, "seed": seed}
            answer = valid(client.chat.completions.create(**drawn)).choices[0]
            name, arguments = told(answer.message.tool_calls[0])
            check("%s: its name" % choice, name in names and len(answer.message.tool_calls) == 1, answer)
            same("%s: the end" % choice, (answer.finish_reason, answer.message.content), ("tool_calls", None))
            fits("%s" % choice, arguments, SCHEMAS[name])
            chunks = [valid(c).choices[0] for c in client.chat.completions.create(**drawn, stream=True)]
            pieces = [p for c in chunks for p in c.delta.tool_calls or []]
            same("%s: as stream" % choice, (pieces[0].function.name, json.loads("".join(p.function.arguments for p in pieces))),
                 (name, arguments))


def loop():
    """Question, call, result, answer: each request brings what the one before has said, as the package's object."""
    messages, asked = list(ASK), {**CHAT, "tool_choice": "auto"}
    first = valid(client.chat.completions.create(**{**asked, "messages": messages}, **written(ONE)))
    messages.append(first.choices[0].message)
    for call in first.choices[0].message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps({"celsius": 21, **told(call)[1]})})
    second = valid(client.chat.completions.create(**{**asked, "messages": messages}, **written('root ::= "It is " [0-9]{2} "."')))
    answer = second.choices[0]
    check("the answer", answer.message.content.strip().startswith("It is ") and not answer.message.tool_calls, answer)
    same("its end", answer.finish_reason, "stop")
    check("the beginning is known", second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens - 64, second.usage)
    text = client.post("%s/apply-template" % server.url, cast_to=object, body={"messages": [
        m if isinstance(m, dict) else m.to_dict() for m in messages], "tools": TOOLS})["prompt"]
    for part in ('<tool_call>\n{"name": "weather", "arguments": {"at": ', '<tool_response>\n{"celsius": 21'):
        check("%r is in the prompt" % part, part in text, text[-400:])


class Fruit(BaseModel):
    name: Literal["apple", "pear"]
    weight: float = Field(ge=0, le=9)


class Basket(BaseModel):
    """What is bought."""
    fruits: List[Fruit] = Field(min_length=1, max_length=3)
    count: int = Field(description="How many", ge=0, le=99)
    note: Optional[str] = Field(max_length=8)
    is_paid: bool


def formats():
    plain = {k: v for k, v in CHAT.items() if k != "tools"}
    named = {"type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": WEATHER}}
    for seed in range(3):
        drawn = {**plain, "temperature": 1, "seed": seed}
        answer = valid(client.chat.completions.create(**drawn, response_format=named)).choices[0]
        fits("a schema", json.loads(answer.message.content), WEATHER)
        same("its end", answer.finish_reason, "stop")
        answer = valid(client.chat.completions.create(**drawn, response_format={"type": "json_object"})).choices[0]
        check("an object", answer.finish_reason == "length" or isinstance(json.loads(answer.message.content), dict), answer)
        basket = client.chat.completions.parse(**drawn, response_format=Basket).choices[0].message
        check("what is parsed", isinstance(basket.parsed, Basket) and basket.parsed == Basket.model_validate_json(basket.content), basket)
    with client.chat.completions.stream(**plain, response_format=Basket) as stream:
        final = stream.get_final_completion().choices[0].message
    check("what is parsed of a stream", isinstance(final.parsed, Basket), final)


class Order(BaseModel):
    """Orders fruits."""
    count: int = Field(ge=1, le=9)
    gift: Optional[Literal["red", "blue"]] = None
    to: List[Literal["Ulm", "Kiel"]] = Field(min_length=1, max_length=2)


def parsed_tools():
    """Tools that the package makes of classes: schemas with titles, and all fields required."""
    tools = [openai.pydantic_function_tool(Order, name="order")]
    asked = {**CHAT, "tools": tools, "tool_choice": chosen("order"), "temperature": 1, "seed": 4}
    call = client.chat.completions.parse(**asked).choices[0].message.tool_calls[0]
    check("arguments that are parsed", isinstance(call.function.parsed_arguments, Order), call)
    with client.chat.completions.stream(**asked) as stream:
        parsed = [e.parsed_arguments for e in stream if e.type == "tool_calls.function.arguments.done"]
    same("and those of a stream", parsed, [call.function.parsed_arguments])


def responses():
    asked = {"model": "any", "input": ASK, "tools": FLAT, "temperature": 0, "max_output_tokens": 200}
    answer = valid(client.responses.create(**asked, **written(ONE)))
    same("items", [(i.type, i.name, i.status) for i in answer.output], [("function_call", "weather", "completed")])
    answer = valid(client.responses.create(**asked, **written(TWO)))
    same("more of them", [i.type for i in answer.output], ["message", "function_call", "function_call"])
    single = valid(client.responses.create(**asked, **written(TWO), parallel_tool_calls=False))
    same("one call at most", [i.type for i in single.output], ["message", "function_call"])
    for choice, name in (("required", None), ({"type": "function", "name": "clock"}, "clock")):
        item = valid(client.responses.create(**asked, tool_choice=choice)).output[0]
        check("%s: its name" % choice, name in (None, item.name), item)
        fits("%s" % choice, json.loads(item.arguments), SCHEMAS[item.name])
    events = [valid(e) for e in client.responses.create(**asked, **written(TWO), stream=True)]
    done = [e for e in events if e.type == "response.function_call_arguments.done"]
    expected = [(i.name, i.arguments) for i in answer.output[1:]]
    same("events of calls", [e.arguments for e in done], [i.arguments for i in answer.output[1:]])
    same("their items", [(e.item.name, e.item.arguments) for e in events if e.type == "response.output_item.done" and
                         e.item.type == "function_call"], expected)
    for end in done:
        same("their pieces", "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta" and
                                     e.item_id == end.item_id), end.arguments)
    same("items of the end", [(i.name, i.arguments) for i in events[-1].response.output[1:]], expected)
    with client.responses.stream(**asked, **written(TWO)) as stream:
        final = valid(stream.get_final_response())
    same("what the package makes of a stream", [(i.name, i.arguments) for i in final.output[1:]], expected)
    items = ASK + answer.output + [{"type": "function_call_output", "call_id": i.call_id, "output": "21 degrees"}
                                   for i in answer.output if i.type == "function_call"]
    last = valid(client.responses.create(**{**asked, "input": items}, **written('root ::= "It is warm."')))
    same("the answer", (last.output_text.strip(), last.status), ("It is warm.", "completed"))
    check("the beginning is known", last.usage.input_tokens_details.cached_tokens >= answer.usage.input_tokens - 64, last.usage)


def parsed_responses():
    asked = {"model": "any", "input": ASK, "temperature": 0, "max_output_tokens": 200}
    answer = client.responses.parse(**asked, text_format=Basket)
    check("what is parsed", isinstance(answer.output_parsed, Basket), answer)
    with client.responses.stream(**asked, text_format=Basket) as stream:
        same("and of a stream", stream.get_final_response().output_parsed, answer.output_parsed)
    tools = [openai.pydantic_function_tool(Order, name="order")["function"]]
    answer = client.responses.parse(**asked, tools=[{"type": "function", **tools[0]}], tool_choice={"type": "function", "name": "order"})
    check("arguments that are parsed", isinstance(answer.output[0].parsed_arguments, (Order, dict)), answer)
    Order.model_validate_json(answer.output[0].arguments)


def end():
    server.end()


run(calls, call_stream, demanded, loop, formats, parsed_tools, responses, parsed_responses, end)
