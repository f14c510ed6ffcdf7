#!/usr/bin/env python3
"""serve.py MODEL [--hearth PATH] [--clients N] [--prompt N] [--answer N] [--rounds N] [OPTION-OF-SERVE...]

What HTTP costs: a server of MODEL is asked by one client, then by many at once, and `hearth bench` measures the same model
without a server, in turns. Prompts are lists of random tokens, answers are streamed. Prints medians over the rounds:

    one client    tokens per second of its answer, over those of `hearth bench`
    N clients     tokens per second of all answers together while all are written, over those of `hearth bench --batch N`;
                  the time that `hearth bench` would need for all prompts and then for all answers, over the time from the first
                  request to the last token; how long clients waited between two tokens: median, P99, the longest
"""
import argparse
import http.client
import json
import random
import re
import selectors
import socket
import statistics
import subprocess
import sys
import time

PIECE = b"data: {"  # of each piece of an answer


def start(arguments, options):
    server = subprocess.Popen(
        [arguments.hearth, "serve", arguments.model, "--port", "0", "--parallel", str(arguments.clients), *options],
        stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    found = re.match(r"listening on http://([^:]+):(\d+)", line)
    if not found:
        sys.exit(f"serve.py: the server says {line!r}")
    return server, found.group(1), int(found.group(2))


def request(where, prompt, answer):
    """Sends a request and returns its socket."""
    body = json.dumps({"prompt": prompt, "max_tokens": answer, "temperature": 0, "stream": True, "ignore_eos": True})
    connection = socket.create_connection(where, timeout=600)
    connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return connection


def ask(where, prompts, answer):
    """Returns for each prompt the times at which tokens came. What is read is only searched for what begins a piece: a client
    that took its time would take it from the server, which computes with the same cores."""
    times, before = [[] for _ in prompts], [b""] * len(prompts)
    with selectors.DefaultSelector() as selector:
        for i, prompt in enumerate(prompts):
            selector.register(request(where, prompt, answer), selectors.EVENT_READ, i)
        while selector.get_map():
            for key, _ in selector.select():
                i, data = key.data, key.fileobj.recv(1 << 16)
                now, piece = time.monotonic(), before[i] + data
                if b'"error"' in piece or (not data and b"[DONE]" not in piece):
                    sys.exit(f"serve.py: {piece!r}")
                times[i] += [now] * (piece.count(PIECE) - before[i].count(PIECE))
                before[i] = piece[-len(PIECE):]
                if b"[DONE]" in piece:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
    return [t[:answer] for t in times]  # behind the last token comes a piece that says why the answer has ended


def tokens(count, vocabulary):
    return [random.randrange(3, vocabulary) for _ in range(count)]


def one(where, arguments, vocabulary):
    [times] = ask(where, [tokens(arguments.prompt, vocabulary)], arguments.answer)
    return (len(times) - 1) / (times[-1] - times[0])


def many(where, arguments, vocabulary):
    """Returns tokens per second while all answers were written, the seconds of all that, and all waits."""
    start = time.monotonic()
    all_times = ask(where, [tokens(arguments.prompt, vocabulary) for _ in range(arguments.clients)], arguments.answer)
    begin, end = max(t[0] for t in all_times), min(t[-1] for t in all_times)
    inside = [[t for t in times if begin <= t <= end] for times in all_times]
    if min(map(len, inside)) < 2:
        sys.exit("serve.py: hardly a token came while all answers were written: longer answers are needed")
    speed = sum((len(times) - 1) / (times[-1] - times[0]) for times in inside)
    waits = [b - a for times in all_times for a, b in zip(times, times[1:])]
    return speed, max(t[-1] for t in all_times) - start, waits


def bench(arguments, batch, options):
    """Returns tokens per second of reading a prompt, and of decoding behind it."""
    out = subprocess.run(
        [arguments.hearth, "bench", arguments.model, "--json", "--prompt-lengths", str(arguments.prompt), "--contexts", "0",
         "--batch", str(batch), "-n", str(arguments.answer), "-r", "3", *options], check=True, stdout=subprocess.PIPE, text=True)
    row = json.loads(out.stdout)["rows"][-1]
    return row["prefill_tokens_per_second"], row["decode_tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--hearth", default="build/release/hearth")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--answer", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    arguments, options = parser.parse_known_args()
    server, *where = start(arguments, options)
    try:
        connection = http.client.HTTPConnection(*where)
        connection.request("GET", "/v1/models")
        vocabulary = json.load(connection.getresponse())["data"][0]["meta"]["n_vocab"]
        rows = []
        for _ in range(arguments.rounds):
            row = {"one": one(where, arguments, vocabulary)}
            read, row["bench one"] = bench(arguments, 1, options)
            row["many"], row["seconds"], waits = many(where, arguments, vocabulary)
            _, row["bench many"] = bench(arguments, arguments.clients, options)
            row["bench seconds"] = arguments.clients * (arguments.prompt / read + arguments.answer / row["bench many"])
            waits.sort()
            row["median"], row["P99"], row["longest"] = (1e3 * waits[int(p * (len(waits) - 1))] for p in (0.5, 0.99, 1))
            rows.append(row)
            print(", ".join(f"{k} {v:.1f}" for k, v in row.items()), flush=True)
    finally:
        server.terminate()
        server.wait()

    def median(of):
        return statistics.median(map(of, rows))

    print(f"one client: {median(lambda r: r['one']):.1f} tokens/s, "
          f"{median(lambda r: r['one'] / r['bench one']):.3f} of hearth bench")
    print(f"{arguments.clients} clients: {median(lambda r: r['many']):.1f} tokens/s, "
          f"{median(lambda r: r['many'] / r['bench many']):.3f} of hearth bench --batch {arguments.clients}; "
          f"all in {median(lambda r: r['seconds']):.2f} s, {median(lambda r: r['bench seconds'] / r['seconds']):.3f} of its speed")
    print(f"between tokens, ms: median {median(lambda r: r['median']):.1f}, P99 {median(lambda r: r['P99']):.1f} "
          f"({median(lambda r: r['P99'] / r['median']):.2f} times it), longest {median(lambda r: r['longest']):.1f}")


if __name__ == "__main__":
    main()
