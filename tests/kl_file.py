#!/usr/bin/env python3
"""A second implementation of llama.cpp's logits file and of what is computed from it, after its description
(docs/files.md), with nothing but the standard library.

    kl_file.py ids FILE                        n_ctx n_vocab n_chunk, then the tokens, one line
    kl_file.py write FILE N VOCABULARY TOKENS LOGITS...
                                               a file of tokens 1,2,3..., of windows of N; LOGITS: per window the float32
                                               logits after each of its tokens, BOS in place of the first
    kl_file.py check FILE LOGITS...            whether the file says of each scored position what its logits say
    kl_file.py measure FILE LOGITS...          the figures of a model against the file, as JSON
"""
import array
import json
import math
import struct
import sys


def floats(path):
    values = array.array("f")
    with open(path, "rb") as f:
        values.frombytes(f.read())
    return values


class File:
    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        magic, self.n_ctx, self.n_vocab, self.n_chunk = struct.unpack_from("<8s3i", data)
        assert magic == b"_logits_", magic
        count = self.n_ctx * self.n_chunk
        self.tokens = struct.unpack_from(f"<{count}i", data, 20)
        self.first = self.n_ctx // 2
        self.scored = self.n_ctx - 1 - self.first
        row = 2 * ((self.n_vocab + 1) // 2) + 4
        at = 20 + 4 * count
        assert len(data) == at + 2 * row * self.scored * self.n_chunk, len(data)
        self.rows = []
        for _ in range(self.scored * self.n_chunk):
            scale, least = struct.unpack_from("<2f", data, at)
            self.rows.append((scale, least, struct.unpack_from(f"<{self.n_vocab}H", data, at + 8)))
            at += 2 * row


def encode(logits):
    """scale, min_log_prob, values of one row."""
    top = max(logits)
    bottom = max(min(logits), top - 16)
    scale = (top - bottom) / 65535
    least = bottom - top - math.log(sum(math.exp(x - top) for x in logits))
    return scale, least, [round((x - bottom) / scale) if scale and x > bottom else 0 for x in logits]


def scored_rows(n_ctx, n_vocab, paths):
    """The logits of the scored positions of all windows, in order."""
    for path in paths:
        logits = floats(path)
        assert len(logits) >= (n_ctx - 1) * n_vocab, path
        for p in range(n_ctx // 2, n_ctx - 1):
            yield logits[p * n_vocab:(p + 1) * n_vocab]


def write(path, n_ctx, n_vocab, tokens, paths):
    with open(path, "wb") as f:
        f.write(struct.pack("<8s3i", b"_logits_", n_ctx, n_vocab, len(paths)))
        f.write(struct.pack(f"<{n_ctx * len(paths)}i", *tokens[:n_ctx * len(paths)]))
        for logits in scored_rows(n_ctx, n_vocab, paths):
            scale, least, values = encode(logits)
            f.write(struct.pack("<2f", scale, least) + struct.pack(f"<{n_vocab}H", *values) + b"\0\0" * (n_vocab % 2))


def check(file, paths):
    """A value may be one beside where rounding is close."""
    rows = 0
    for row, logits in zip(file.rows, scored_rows(file.n_ctx, file.n_vocab, paths)):
        scale, least, values = encode(logits)
        assert abs(row[0] - scale) <= 1e-6 * scale, (rows, row[0], scale)
        assert abs(row[1] - least) <= 4e-6, (rows, row[1], least)
        worst = max(abs(a - b) for a, b in zip(row[2], values))
        assert worst <= 1, (rows, worst)
        rows += 1
    assert rows == len(file.rows), (rows, len(file.rows))
    print(rows)


def percentile(values, share):
    place = share * (len(values) - 1)
    at = int(place)
    after = values[min(at + 1, len(values) - 1)]
    return values[at] + (place - at) * (after - values[at])


def measure(file, paths):
    kl, same, nll, base_nll, change = [], 0, 0, 0, []
    for n, logits in enumerate(scored_rows(file.n_ctx, file.n_vocab, paths)):
        scale, least, values = file.rows[n]
        window, place = divmod(n, file.scored)
        token = file.tokens[window * file.n_ctx + file.first + place + 1]
        top = max(logits)
        shift = top + math.log(sum(math.exp(x - top) for x in logits))
        logs = [least + scale * q for q in values]
        kl.append(sum(math.exp(p) * (p - x + shift) for p, x in zip(logs, logits) if p > -16))
        same += max(range(file.n_vocab), key=lambda i: logits[i]) == max(range(file.n_vocab), key=lambda i: values[i])
        nll += shift - logits[token]
        base_nll -= logs[token]
        change.append(math.exp(logits[token] - shift) - math.exp(logs[token]))
    n = len(kl)
    kl.sort()
    print(json.dumps({
        "tokens": n, "mean_kl": sum(kl) / n, "median_kl": percentile(kl, 0.5), "p90_kl": percentile(kl, 0.9),
        "most_kl": kl[-1], "same_top": same / n, "perplexity": math.exp(nll / n),
        "base_perplexity": math.exp(base_nll / n), "right_token_mean": sum(change) / n,
        "right_token_rms": math.sqrt(sum(c * c for c in change) / n)}))


def main(arguments):
    what, path = arguments[:2]
    if what == "write":
        tokens = [int(t) for t in arguments[4].split(",")]
        write(path, int(arguments[2]), int(arguments[3]), tokens, arguments[5:])
        return
    file = File(path)
    if what == "ids":
        print(file.n_ctx, file.n_vocab, file.n_chunk, *file.tokens)
    elif what == "check":
        check(file, arguments[2:])
    else:
        measure(file, arguments[2:])


main(sys.argv[1:])
