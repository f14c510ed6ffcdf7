#!/usr/bin/env python3
"""drive.py [URL] [--pictures PREFIX]: uses the page in headless Chromium as a person would, and checks what comes of it.
Without a URL it starts mock.py; with the URL of a hearth serve that runs, checks that need the mock's replies are skipped.
The last line is "page: N passed, N failed, N skipped"; the exit status is 1 if something failed, 77 without Chromium."""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import threading
import time
import traceback
import urllib.request

import mock
from browser import Browser, find_chromium
from visit import BUSY, CONTRAST, LAST, LIVE, WIDER, Page, equal, expect

CHECKS = []


def is_live(url):
    return url.split("?")[0].endswith("/live")


def check(needs_mock=False):
    """Registers a check; each begins with a fresh page without conversations."""
    def register(function):
        CHECKS.append((function, needs_mock))
        return function
    return register


@check()
def chat_streams(page):
    """An answer grows on the screen, and its tokens are counted."""
    page.slow_down()
    page.send("slow, please: tell me a long story")
    first = page.wait(LAST)
    page.wait(f"({LAST}).length > {len(first)}")
    expect(page.run(BUSY) or page.finish(), "nothing was answered")
    page.press("Escape")
    page.finish()
    page.ask("a second message")
    expect("tokens" in page.text(".stats"), "no tokens are counted")
    equal(len(page.shown()), 4, "messages on the screen")


@check()
def stop_and_escape(page):
    """The button and Escape stop an answer; what came stays."""
    page.slow_down()
    for how in ("button", "Escape"):
        page.send(f"slow {how}: tell me a very long story about a very long river")
        page.wait(f"{BUSY} && ({LAST}).length > 5")
        if how == "button":
            page.click("#send")
        else:
            page.press("Escape")
        page.wait(f"!{BUSY}")
        text = page.run(LAST)
        expect(len(text) > 5, "what had come is gone")
        time.sleep(0.3)
        equal(page.run(LAST), text, "the text after it was stopped")
        expect("stopped" in page.text(".message:last-child .stats"), "does not say stopped")


@check(needs_mock=True)
def stop_reaches_the_server(page):
    """A stopped answer closes its connection, so that the server need not write on."""
    page.send("slow one")
    page.wait(f"({LAST}).length > 5")
    page.press("Escape")
    end = time.monotonic() + 5
    while page.mock("seen")["cut_off"] == 0:
        expect(time.monotonic() < end, "the server still writes")
        time.sleep(0.05)


@check()
def retry_and_branches(page):
    """Retry makes a second alternative; one can walk between them, and what follows belongs to its branch."""
    page.ask("hello there")
    first = page.run(LAST)
    page.click("[aria-label='Answer again']")
    second = page.finish()
    equal(page.text(".branches span"), "2 / 2", "the branch that is shown")
    page.ask("only in the second")
    equal(len(page.shown()), 4, "messages of the second branch")
    page.click("[aria-label='Alternative before this one']")
    equal(page.shown()[1:], [first], "the first branch")
    page.click("[aria-label='Alternative after this one']")
    equal(page.shown()[1], second, "the second branch")
    equal(len(page.shown()), 4, "messages of the second branch, again")


@check()
def edit(page):
    """An edited message begins a branch; Escape leaves it as it was."""
    page.ask("the first wording")
    page.click("[aria-label='Edit this message']")
    page.wait("document.activeElement.ariaLabel === 'Edit the message'")
    page.press("Escape")
    equal(page.shown()[0], "the first wording", "after Escape")
    page.run("document.getElementById('message').focus()")
    page.press("ArrowUp")
    page.wait("document.activeElement.ariaLabel === 'Edit the message'")
    page.run("document.activeElement.select()")
    page.type("the second wording")
    page.press("Enter", "Control")
    page.wait("document.querySelector('.said').textContent === 'the second wording'")
    page.finish()
    equal(page.text(".message.user .branches span"), "2 / 2", "alternatives")
    page.click(".message.user [aria-label='Alternative before this one']")
    equal(page.shown()[0], "the first wording", "the first alternative")


@check()
def reload_keeps(page):
    """Messages, branches and the draft are there after a reload, also what had come of an answer that was cut."""
    page.ask("remember me")
    page.click("[aria-label='Answer again']")
    page.finish()
    page.click("[aria-label='Alternative before this one']")
    before = page.shown()
    page.run("document.querySelector('#message').focus()")
    page.type("a draft")
    page.reload()
    page.ready()
    equal(page.shown(), before, "messages after the reload")
    equal(page.run("document.getElementById('message').value"), "a draft", "the draft")
    equal(page.text(".branches span"), "1 / 2", "the branch that was chosen")
    equal(page.run("document.querySelectorAll('.conversation').length"), 1, "conversations in the list")


@check(needs_mock=True)
def reload_in_an_answer(page):
    page.send("slow one")
    time.sleep(2.2)  # it is stored every second
    page.reload()
    page.ready()
    expect("word1" in page.run(LAST), "what had come is gone")
    expect("was closed before" in page.text(".notice"), "does not say why it ends")


@check()
def conversations(page):
    """New, open, rename, delete, undo; the browser's way back."""
    page.ask("about apples")
    page.press("n", "Alt")
    page.wait("!document.querySelector('#welcome').hidden")
    page.ask("about pears")
    titles = "[...document.querySelectorAll('.conversation > span:first-child')].map((node) => node.textContent)"
    equal(page.run(titles), ["about pears", "about apples"], "the list")
    page.click(".conversation[title='about apples']")
    equal(page.shown()[0], "about apples", "the opened conversation")
    page.run("history.back()")
    page.wait("document.querySelector('.said')?.textContent === 'about pears'")
    page.click("[aria-label='Rename']")
    page.type("Fruit")
    page.press("Enter")
    equal(page.run(titles), ["Fruit", "about apples"], "the list after renaming")
    page.click("[aria-label='Delete']")
    page.wait("document.querySelectorAll('.conversation').length === 1")
    page.click("#toast button")
    page.wait("document.querySelectorAll('.conversation').length === 2")
    time.sleep(0.3)  # until it is stored
    page.reload()
    page.ready()
    equal(page.run(titles), ["Fruit", "about apples"], "the list after a reload")


@check()
def export(page):
    """A conversation is saved as JSON with all its branches."""
    page.ask("to be exported")
    page.click("[aria-label='Answer again']")
    page.finish()
    with tempfile.TemporaryDirectory() as folder:
        page.browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=folder)
        page.click("[aria-label='Export as JSON']")
        file = pathlib.Path(folder, "to-be-exported.json")
        end = time.monotonic() + 10
        while not file.exists():
            expect(time.monotonic() < end, f"no file; there are {os.listdir(folder)}")
            time.sleep(0.05)
        saved = json.loads(file.read_text(encoding="utf-8"))
    equal(saved["format"], "hearth-conversation-1", "format")
    roles = sorted(message.get("role", "root") for message in saved["messages"].values())
    equal(roles, ["assistant", "assistant", "root", "user"], "roles")


@check(needs_mock=True)
def settings(page):
    """What is set is sent; empty fields are not; wrong numbers are refused; they last."""
    page.wait("document.querySelector('#model-name').textContent !== ''")
    page.ask("with nothing set")
    sent = page.seen()[-1]["body"]
    equal(sorted(sent), ["messages", "model", "stream", "stream_options"], "fields without settings")
    equal([sent["stream"], sent["stream_options"], sent["model"]], [True, {"include_usage": True}, "stories-1b-relu"],
          "values")
    page.press("Escape")
    page.press(",", "Alt")
    for name, value in (("temperature", "9"), ("top_p", "0.9"), ("max_tokens", "77"), ("seed", "5"),
                        ("system", "Be brief.")):
        page.run(f"document.getElementById('set-{name}').focus()")
        page.type(value)
    page.press("Enter") if page.run("document.activeElement.tagName === 'INPUT'") else page.click("#settings .strong")
    page.wait("document.getElementById('settings-error').textContent.includes('Temperature must be')")
    page.run("document.getElementById('set-temperature').value = '0,5'")
    page.click("#settings .strong")
    page.wait("!document.querySelector('dialog[open]')")
    page.reload()
    page.ready()
    page.ask("with all set")
    sent = page.seen()[-1]["body"]
    equal({name: sent[name] for name in ("temperature", "top_p", "max_tokens", "seed")},
          {"temperature": 0.5, "top_p": 0.9, "max_tokens": 77, "seed": 5}, "what was sent")
    equal(sent["messages"][0], {"role": "system", "content": "Be brief."}, "system prompt")


@check(needs_mock=True)
def api_key(page):
    """A server with a key: the page asks for it, sends it, and keeps it only if that was wished."""
    page.mock("set?key=secret")
    page.open()
    page.wait("document.querySelector('#banner').textContent.includes('wants an API key')")
    page.ask("without a key")
    expect("wants an API key" in page.text(".notice"), "the answer does not say why")
    for keep, value, said in (("", "wrong", "did not accept"), ("", "secret", ""), ("keep", "secret", "")):
        page.click("#settings-open")
        page.run("document.querySelector('#set-key').select()")
        page.type(value)
        if keep:
            page.click("#key-keep")
        page.click("#settings .strong")
        page.wait(f"document.querySelector('#banner').textContent.includes('{said}') &&"
                  f" document.querySelector('#banner').hidden === {json.dumps(said == '')}")
        equal(page.run("localStorage.getItem('hearth.key')"), '"secret"' if keep else None, "what is kept")
    page.click("[aria-label='Answer again']")
    page.finish()
    equal(page.seen()[-1]["authorization"], "Bearer secret", "the header")
    expect(not page.has(".branches"), "the failed answer is left as an alternative")


@check(needs_mock=True)
def failures(page):
    """Each failure is told in words, and a retry is offered."""
    for text, words in (("fails now", "The server failed (status 500)."), ("inside it", "the device was lost"),
                        ("break it", "ended before the answer was complete"), ("silent", "The model said nothing."),
                        ("cut", "cut off at the token limit"), ("busy", "to: busy")):
        page.ask(text)
        shown = page.text(".message:last-child")
        expect(words in shown, f"{text}: shows {shown!r}, expected {words!r}")
        expect(page.has(".message:last-child [aria-label='Answer again']"), f"{text}: no retry")
        if text == "break it":
            page.picture("failed")


@check(needs_mock=True)
def busy_server(page):
    """503 is waited for, as long as the server says, with words; Escape ends the waiting."""
    page.send("busy")
    page.wait("document.querySelector('.notice').textContent.includes('The server is busy. Trying again in 1 second.')")
    page.press("Escape")
    page.wait(f"!{BUSY}")
    equal(page.text(".stats"), "stopped", "the state")
    page.mock("set?models=503")
    page.reload()
    page.wait("document.querySelector('#banner').textContent.includes('The model is being loaded. Trying again in')")
    page.wait("document.querySelector('#banner').hidden", 6)
    equal(page.text("#model-name"), "stories-1b-relu", "the model")


@check(needs_mock=True)
def missing_addresses(page):
    """A server without /props, /v1/models and /live: the page works and says what is not known."""
    page.mock("set?models=404&props=404&live=404")
    page.open()
    expect(page.run("document.querySelector('#banner').hidden"), "a banner")
    expect(not page.has("#facts dt"), "facts from nowhere")
    page.press("l", "Alt")
    page.ask("hello")
    page.wait("document.querySelector('#live-note').textContent === 'This server does not tell about its neurons.'")
    expect("model" not in page.seen()[-1]["body"], "a model was named")
    count = sum(is_live(url) for url in page.browser.requests)
    page.ask("hello again")
    equal(sum(is_live(url) for url in page.browser.requests), count, "requests of what is not there")


@check(needs_mock=True)
def without_a_template(page):
    """A model without a chat template continues the text."""
    page.mock("set?no-template=1")
    page.open()
    page.wait("document.querySelector('#welcome').textContent.includes('continues what you write')")
    equal(page.ask("Once upon a time"), "Answer 1 to: Once upon a time (Ωλ — 火 🔥)", "the answer")
    page.ask("And then")
    sent = page.seen()[-1]["body"]
    equal(sent["prompt"], "Once upon a time\nAnswer 1 to: Once upon a time (Ωλ — 火 🔥)\nAnd then", "the text so far")
    expect("messages" not in sent and sent["stream"] is True, f"sent {sorted(sent)}")


@check(needs_mock=True)
def two_models(page):
    """With several models one is chosen, asked, and remembered."""
    page.mock("set?two-models=1")
    page.open()
    page.wait("document.querySelectorAll('#model-choice option').length === 2")
    expect(page.run("document.querySelector('#model-choice').checkVisibility()"), "the choice is hidden")
    page.run("""(() => { const choice = document.querySelector('#model-choice');
        choice.value = 'other-7b'; choice.dispatchEvent(new Event('change')); })()""")
    page.reload()
    page.wait("document.querySelector('#model-choice').value === 'other-7b'")
    begin = len(page.browser.requests)
    page.press("l", "Alt")
    page.ask("hello")
    equal(page.seen()[-1]["body"]["model"], "other-7b", "the model that is asked")
    asked = {url.split("/")[-1] for url in page.browser.requests[begin:] if is_live(url)}
    equal(asked, {"live?model=other-7b"}, "the model that the live view shows")


@check(needs_mock=True)
def reasoning(page):
    page.ask("think about it")
    equal(page.text(".reasoning summary"), "Reasoning", "the title")
    expect(not page.run("document.querySelector('.reasoning').open"), "the reasoning is not folded")
    expect("First I look" in page.text(".reasoning-text"), "no reasoning")
    expect("First I look" not in page.run(LAST), "the reasoning is in the answer")


@check(needs_mock=True)
def markdown(page):
    page.ask("markdown")
    for selector in ("h4", "ol ul li", "table td.right", "blockquote em", ".code pre code", "input[type=checkbox]",
                     "del", "a[href='https://example.org/a_(b)'][rel~=noopener]"):
        expect(page.has(f".text {selector}"), f"no {selector}")
    page.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.click(".code [aria-label='Copy this code']")
    page.wait("document.querySelector('.code button').ariaLabel === 'Copied'")
    expect(page.run("navigator.clipboard.readText()").startswith("for (uint32_t i = 0;"), "the code is not in the clipboard")
    page.picture("light")


@check(needs_mock=True)
def hostile_markdown(page):
    """What a model or a person says can neither run nor load anything."""
    page.ask(mock.HOSTILE.split("\n", maxsplit=1)[0])
    page.ask("hostile")
    time.sleep(0.3)
    equal(page.run("window.hacked ?? null"), None, "a script that ran")
    expect(not page.has("#messages :is(script, img, iframe, style, object, embed, form, [style])"), "a node that acts")
    equal(page.run("""[...document.querySelectorAll('#messages *')].flatMap((node) => [...node.attributes])
        .map((attribute) => attribute.name).filter((name) => name.startsWith('on'))"""), [], "attributes that act")
    equal(page.run("""[...document.querySelectorAll('#messages a')].map((link) => link.protocol)
        .filter((protocol) => !/^(https?|mailto):$/.test(protocol))"""), [], "links")
    expect("an unclosed fence" in page.text(".code code"), "no unclosed fence")


@check(needs_mock=True)
def files(page):
    """Dropped text goes with the message; what is no text is refused."""
    drop = """((name, bytes) => {{
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], name));
        for (const type of ['dragenter', 'dragover', 'drop'])
            document.querySelector('#main').dispatchEvent(
                new DragEvent(type, {{ dataTransfer: data, bubbles: true, cancelable: true }}));
    }})({}, {})"""
    for name, content in (("photo.png", [0x89, 0x50, 255]), ("zeros.bin", [65, 0, 66])):
        page.run(drop.format(f"'{name}'", content))
        page.wait(f"document.querySelector('#toast').textContent.includes('{name} is not text')")
    page.run(drop.format("'large.txt'", "{ length: 1000001 }"))
    page.wait("document.querySelector('#toast').textContent === 'large.txt is larger than 1 MB.'")
    page.run(drop.format("'notes.txt'", list("``` Ω\n".encode())))
    page.wait("document.querySelector('#files').textContent.includes('notes.txt (7 bytes)')")
    page.ask("what is in it?")
    sent = page.seen()[-1]["body"]["messages"][-1]["content"]
    equal(sent, "File notes.txt:\n````\n``` Ω\n````\n\nwhat is in it?", "content")
    equal(page.text(".said summary"), "notes.txt (7 bytes)", "what is shown")


@check()
def live_view(page):
    """The live view asks only while it is open and an answer is made, and shows what came."""
    def asked():
        return sum(is_live(url) for url in page.browser.requests)
    begin = asked()
    page.ask("closed")
    equal(asked(), begin, "requests while the view is closed")
    page.press("l", "Alt")
    time.sleep(0.6)
    equal(asked(), begin, "requests while nothing is answered")
    page.slow_down()
    page.send("slow again, tell me a long story")
    page.wait(LIVE)
    page.press("Escape")
    page.finish()
    time.sleep(0.6)
    count = asked()
    expect(count > begin, "nothing was asked")
    time.sleep(1)
    equal(asked(), count, "requests after the answer")


@check(needs_mock=True)
def live_figures(page):
    page.press("l", "Alt")
    page.send("slow one")
    page.wait("document.querySelectorAll('#live-map g').length > 4")
    page.picture("live")
    page.press("Escape")
    page.wait("document.querySelectorAll('#live-rows tr').length === 24")
    equal([page.text("#live-achieved"), page.text("#live-predicted")], ["64.8 tokens/s", "70.1 tokens/s"], "speeds")
    equal(page.run("[0, 9, 17, 23].map((i) => document.querySelectorAll('#live-rows tr')[i].cells[3].textContent)"),
          ["device", "split", "ffn on cpu", "cpu"], "places")
    rows = page.run("""[...document.querySelectorAll('#live-rows tr')].map((row) => [
        ...['.fired', '.hot'].map((bar) => Number(row.querySelector(bar).getAttribute('width'))),
        row.title, row.cells[2].textContent, row.cells[4].textContent])""")
    for fired, hot, title, share, hot_words in rows:
        number = int(title.split()[0])
        expect(abs(fired - 100 * number / 11008) < 1e-6, f"a bar of {fired} for {title}")
        expect(abs(float(share.split()[0]) - 100 * number / 11008) <= 0.5, f"{share} for {title}")
        expect(abs(hot - 100 * int(hot_words) / 11008) < 1e-6, f"a bar of {hot} for {hot_words}")
    page.mock("set?live=null")
    page.ask("without values")
    page.wait("document.querySelector('#live-fired').textContent === 'not known'")
    texts = page.run("""[...document.querySelectorAll(
        '#live-bytes, #live-achieved, #live-predicted, #live-rows td.number')].map((node) => node.textContent)""")
    equal(set(texts), {"not known"}, "figures without values")
    equal(page.run(WIDER), [], "sticks out")


@check(needs_mock=True)
def dark(page):
    """Dark as the system, or by the switch, which lasts; text has contrast in both."""
    page.press("l", "Alt")
    page.ask("markdown")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.run(ground)
    equal(page.run(CONTRAST), [], "low contrast, light")
    page.set_media(prefers_color_scheme="dark")
    by_system = page.run(ground)
    expect(by_system != light, "the system's choice changes nothing")
    equal(page.run(CONTRAST), [], "low contrast, dark")
    page.picture("dark")
    page.click("#theme-toggle")
    equal(page.run(ground), light, "light by the switch")
    page.reload()
    page.ready()
    equal(page.run(ground), light, "light after a reload")
    page.set_media()
    page.click("#theme-toggle")
    equal(page.run(ground), by_system, "dark by the switch")
    page.click("#settings-open")
    equal(page.run(CONTRAST), [], "low contrast, settings")
    page.picture("settings")
    page.run("document.querySelector('#set-theme').value = 'auto'")
    page.click("#settings .strong")
    equal(page.run(ground), light, "as the system")


@check()
def phone(page):
    """At 360 pixels nothing sticks out, the list slides in, the live view leaves room."""
    page.browser.call("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
    page.browser.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=5)
    page.reload()
    page.ready()
    expect(not page.run("document.querySelector('#conversations').checkVisibility()"), "the list covers the page")
    page.click("#message")
    page.type("markdown " + "averyveryverylongwordwithoutanyspace" * 3)
    page.press("Enter")
    expect(page.run("document.querySelector('#message').value").endswith("\n"), "Enter is no new line on a touch screen")
    page.click("#send")
    page.finish()
    equal(page.run(WIDER), [], "sticks out")
    page.picture("phone")
    page.click("#live-toggle")
    page.click("#message")
    page.type("slow story, please")
    page.click("#send")
    page.wait(LIVE)
    equal(page.run(WIDER), [], "sticks out, live view")
    expect(page.run("document.querySelector('#scroll').clientHeight") > 150, "the live view leaves no room")
    page.picture("phone-live")
    page.press("Escape")
    page.finish()
    page.click("#list-toggle")
    expect(page.run("document.querySelector('#conversations').checkVisibility()"), "the list does not open")
    equal(page.run(WIDER), [], "sticks out, list")
    page.picture("phone-list")
    page.press("Escape")
    expect(not page.run("document.querySelector('#conversations').checkVisibility()"), "Escape does not close the list")
    if page.mock("seen"):
        page.run("document.querySelector('#message').focus()")
        page.type("wide")
        page.click("#send")
        page.finish()
        equal(page.run(WIDER), [], "sticks out, wide answer")
    small = page.run("""[...document.querySelectorAll('button')].filter((b) => b.checkVisibility() &&
        (b.getBoundingClientRect().width < 24 || b.getBoundingClientRect().height < 24))
        .map((b) => b.outerHTML.slice(0, 80))""")
    equal(small, [], "buttons below 24 pixels")


@check()
def keyboard(page):
    """Shift+Enter is a new line; shortcuts open dialogs; everything that can be focused shows it."""
    page.type("one")
    page.press("Enter", "Shift")
    page.type("two")
    equal(page.run("document.querySelector('#message').value"), "one\ntwo", "after Shift+Enter")
    page.press("Enter")
    page.finish()
    page.run("document.activeElement.blur()")
    page.press("?", "Shift")
    page.wait("document.querySelector('#shortcuts').open")
    page.picture("shortcuts")
    page.press("Escape")
    page.wait("!document.querySelector('#shortcuts').open")
    page.run("document.activeElement.blur()")
    page.press("/")
    equal(page.run("[document.activeElement.id, document.querySelector('#message').value]"), ["message", ""], "after /")
    seen = set()
    for _ in range(40):
        page.press("Tab")
        seen.add(page.run("""(() => {
            const node = document.activeElement;
            const style = getComputedStyle(node);
            const shadow = getComputedStyle(node.closest('.field') ?? node).boxShadow;
            const visible = style.outlineStyle !== 'none' || shadow !== 'none';
            return `${node.id || node.ariaLabel || node.tagName} ${visible || node === document.body}`;
        })()"""))
    equal([s for s in seen if s.endswith("false")], [], "focused without a sign")
    for name in ("send", "settings-open", "live-toggle", "list-toggle", "attach", "message"):
        expect(f"{name} true" in seen or name == "send", f"Tab does not reach {name}: {sorted(seen)}")


@check()
def screen_reader(page):
    """Landmarks and names; the answer is announced in pieces, and is no live region itself."""
    page.run("""window.said = [];
        new MutationObserver(() => said.push(document.querySelector('#announcement').textContent))
            .observe(document.querySelector('#announcement'), { childList: true, characterData: true, subtree: true })""")
    page.ask("hello. there")
    said = page.run("said")
    equal(said[0], "The answer begins.", "first words")
    expect("The answer is complete." in said[-1], f"last words: {said[-1]!r}")
    expect(len(said) < 6, f"announced {len(said)} times")
    page.run("said.length = 0")
    begin = time.monotonic()
    page.ask("long story, please")
    most = 4 + (time.monotonic() - begin) / 4
    expect(len(page.run("said")) <= most, f"a long answer was announced {len(page.run('said'))} times")
    expect(not page.has(":is([aria-live], [role=log], [role=status]) #messages"), "the answer is a live region")
    nodes = page.browser.call("Accessibility.getFullAXTree")["nodes"]
    named = [(node.get("role", {}).get("value"), node.get("name", {}).get("value", "").strip())
             for node in nodes if not node.get("ignored")]
    for role in ("main", "navigation", "banner"):
        expect(any(r == role for r, _ in named), f"no landmark {role}")
    wanted = ("button", "link", "textbox", "combobox", "checkbox", "navigation")
    equal([role for role, name in named if role in wanted and not name], [], "without a name")


@check()
def reduced_motion(page):
    page.set_media(prefers_reduced_motion="reduce")
    page.slow_down()
    page.send("slow story, please")
    page.wait(LAST)
    equal(page.run("document.getAnimations().length"), 0, "animations")
    page.press("Escape")


@check(needs_mock=True)
def two_at_once(page):
    """An answer goes on while another conversation is read, and answers there too; the list shows it."""
    page.send("slow one")
    page.wait(f"({LAST}).length > 5")
    page.press("n", "Alt")
    equal(page.run(BUSY), False, "the new conversation is busy")
    page.ask("quick")
    equal(page.run("document.querySelectorAll('.running').length"), 1, "conversations that are being answered")
    page.click(".conversation[title='slow one']")
    length = page.run(f"({LAST}).length")
    page.wait(f"({LAST}).length > {length + 10}")
    page.press("Escape")
    page.finish()
    equal(page.run("document.querySelectorAll('.running').length"), 0, "conversations that are being answered, at the end")


@check(needs_mock=True)
def huge_answers(page):
    """A large answer that comes at once does not make the page stand still."""
    page.run("""window.gaps = []; (function tick(last) {
        requestAnimationFrame((now) => { gaps.push(now - last); tick(now); }); })(performance.now())""")
    page.ask("huge")
    equal(page.run("document.querySelectorAll('.text li').length"), 2000, "items")
    longest = page.run("Math.max(...gaps)")
    expect(longest < 2000, f"{longest:.0f} ms between frames")


@check(needs_mock=True)
def long_answers(page):
    """Whoever reads further up is not moved; a button leads to the end."""
    page.send("long")
    page.wait(f"({LAST}).length > 3000")
    page.run("document.querySelector('#scroll').scrollTop = 10")
    page.wait("!document.querySelector('#to-end').hidden")
    page.finish()
    equal(page.run("document.querySelector('#scroll').scrollTop"), 10, "where the reader was")
    page.click("#to-end")
    page.wait("document.querySelector('#to-end').hidden")


@check()
def policy(page):
    """The page works under its Content-Security-Policy, which the server sends, and holds nothing that needs more."""
    with urllib.request.urlopen(page.base, timeout=10) as reply:
        equal(reply.headers["Content-Security-Policy"], mock.POLICY, "the policy")
        html = reply.read().decode()
    for word in ("<style", " style=", "<script>", " onclick"):
        expect(word not in html, f"index.html has {word}")
    for file in mock.PAGE.glob("*.js"):
        text = file.read_text(encoding="utf-8")
        for word in ("innerHTML =", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            expect(word not in text, f"{file.name} has {word}")
    total = sum(file.stat().st_size for file in mock.PAGE.iterdir() if file.suffix in mock.TYPES)
    expect(total < 120_000, f"the page has {total} bytes")


def run_units(browser, address):
    """The checks of unit.js; returns (passed, failures)."""
    browser.open(address)
    result = browser.run("import('/tests/unit.js').then((unit) => unit.run())")
    return result["passed"], result["failures"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--pictures", metavar="PREFIX", help="save screenshots as PREFIXname.png")
    parser.add_argument("--only", metavar="NAME", help="run the checks whose name holds NAME")
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        print("skipped: no Chromium")
        return 77
    server = mock.start()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    own = f"http://127.0.0.1:{server.server_address[1]}/"
    base = options.url.rstrip("/") + "/" if options.url else own
    browser = Browser(chromium)
    page = Page(browser, base, options.pictures)
    failed = skipped = 0
    passed, unit_failures = run_units(browser, own)
    for words in unit_failures:
        print(f"unit: {words}")
    failed += len(unit_failures)
    for function, needs_mock in CHECKS:
        name = function.__name__
        if (needs_mock and base != own) or (options.only and options.only not in name):
            skipped += 1
            continue
        try:
            page.fresh()
            function(page)
            equal(browser.errors, [], "errors in the console")
            passed += 1
        except Exception as error:  # pylint: disable=broad-exception-caught
            failed += 1
            print(f"{name}: {error}")
            if not isinstance(error, AssertionError):
                print(traceback.format_exc(limit=-2))
            page.picture(f"failed-{name}")
    elsewhere = sorted({url for url in browser.requests if not url.startswith((base, own, "data:", "blob:", "about:"))})
    if elsewhere:
        failed += 1
        print(f"requests elsewhere: {elsewhere[:5]}")
    browser.close()
    server.shutdown()
    print(f"page: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
