#!/usr/bin/env python3
"""serve.py MODEL [--hearth PATH] [--clients N] [--prompt N] [--answer N] [--rounds N] [OPTION-OF-SERVE...]

What HTTP costs: a server of MODEL is asked by one client, then by many at once, and `hearth bench` measures the same model
without a server, in turns. Prompts are lists of random tokens, answers are streamed. Prints medians over the rounds:

    one client    tokens per second of its answer, over those of `hearth bench`
    N clients     tokens per second of all answers together once all prompts are read, over those of `hearth bench --batch N`;
                  how long clients waited between two tokens: median, P99, the longest
"""
import argparse
import http.client
import json
import random
import re
import statistics
import subprocess
import sys
import threading
import time


def start(arguments, options):
    server = subprocess.Popen(
        [arguments.hearth, "serve", arguments.model, "--port", "0", "--parallel", str(arguments.clients), *options],
        stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    found = re.match(r"listening on http://([^:]+):(\d+)", line)
    if not found:
        sys.exit(f"serve.py: the server says {line!r}")
    return server, found.group(1), int(found.group(2))


def ask(where, prompt, answer):
    """Returns the times at which tokens came."""
    connection = http.client.HTTPConnection(*where, timeout=600)
    body = {"prompt": prompt, "max_tokens": answer, "temperature": 0, "stream": True, "ignore_eos": True}
    connection.request("POST", "/v1/completions", json.dumps(body))
    reply = connection.getresponse()
    if reply.status != 200:
        sys.exit(f"serve.py: status {reply.status}: {reply.read()!r}")
    times = []
    for line in reply:
        if line.startswith(b"data: {"):
            if b'"error"' in line:
                sys.exit(f"serve.py: {line!r}")
            times.append(time.monotonic())
    connection.close()
    return times


def tokens(count, vocabulary):
    return [random.randrange(3, vocabulary) for _ in range(count)]


def one(where, arguments, vocabulary):
    times = ask(where, tokens(arguments.prompt, vocabulary), arguments.answer)
    return (len(times) - 1) / (times[-1] - times[0])


def many(where, arguments, vocabulary):
    """Returns tokens per second while all clients had an answer, and all waits."""
    all_times = [None] * arguments.clients

    def client(i):
        all_times[i] = ask(where, tokens(arguments.prompt, vocabulary), arguments.answer)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(arguments.clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    begin, end = max(t[0] for t in all_times), min(t[-1] for t in all_times)
    if end <= begin:
        sys.exit("serve.py: some answers ended before others began: longer answers are needed")
    inside = sum(begin < t <= end for times in all_times for t in times)
    waits = [b - a for times in all_times for a, b in zip(times, times[1:])]
    return inside / (end - begin), waits


def bench(arguments, batch, options):
    out = subprocess.run(
        [arguments.hearth, "bench", arguments.model, "--json", "--prompt-lengths", str(arguments.prompt), "--contexts", "0",
         "--batch", str(batch), "-n", str(min(arguments.answer, 64)), "-r", "3", *options], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(out.stdout)["rows"][-1]["decode_tokens_per_second"]


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
            row = {"one": one(where, arguments, vocabulary), "bench one": bench(arguments, 1, options)}
            row["many"], waits = many(where, arguments, vocabulary)
            row["bench many"] = bench(arguments, arguments.clients, options)
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
          f"{median(lambda r: r['many'] / r['bench many']):.3f} of hearth bench --batch {arguments.clients}")
    print(f"between tokens, ms: median {median(lambda r: r['median']):.1f}, P99 {median(lambda r: r['P99']):.1f} "
          f"({median(lambda r: r['P99'] / r['median']):.2f} times it), longest {median(lambda r: r['longest']):.1f}")


if __name__ == "__main__":
    main()
