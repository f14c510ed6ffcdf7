"""compare_gemma.py HEARTH MODEL GOLDEN SCRATCH [LINES]: hearth on Gemma 3 270M, against SentencePiece and llama.cpp.

MODEL is the GGUF file, GOLDEN the folder golden/real/gemma3-270m. The ids of random lines are compared with those of the
sentencepiece package, which gets the vocabulary of the file as a model of its own. The greedy ids in golden.json come
from llama.cpp, which rounds activations to 8 bits as hearth does, but not to the same bits; so they are right only within
that noise. It is measured here, position by position, as the difference of hearth's own logits with 8-bit and with float
activations. Prints what differs; exits with 1 if anything does.
"""
import json
import os
import struct
import subprocess
import sys

import numpy
import sentencepiece
from compare_sentencepiece import SEPARATOR, random_lines
from gguf import GGUFReader

# A gap of two logits is off by SIGMAS * sqrt(2) * noise at most: each of the two has the standard deviation `noise`, and
# a normal deviate is beyond four once in 16,000, for some 300 positions with a handful of candidates each.
SIGMAS = 4


def number(value):
    """value as protobuf's variable-length integer."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(key, value):
    """A field of a protobuf message."""
    if isinstance(value, bytes):
        return number(key << 3 | 2) + number(len(value)) + value
    if isinstance(value, float):
        return number(key << 3 | 5) + struct.pack("<f", value)
    return number(key << 3) + number(value)


def sentencepiece_model(path):
    """The vocabulary of a GGUF file as SentencePiece's ModelProto (sentencepiece_model.proto)."""
    fields = GGUFReader(path).fields

    def column(name, convert):
        f = fields["tokenizer.ggml." + name]
        return [convert(f.parts[i]) for i in f.data]

    types = column("token_type", lambda part: int(part[0]))
    types[int(fields["tokenizer.ggml.unknown_token_id"].parts[-1][0])] = 2  # UNKNOWN; the file says CONTROL
    texts = column("tokens", bytes)
    for i, kind in enumerate(types):
        if kind == 4:  # USER_DEFINED: the file has them as they are in a text, SentencePiece as in its pieces
            texts[i] = texts[i].replace(b" ", "\u2581".encode())
    rows = zip(texts, column("scores", lambda part: float(part[0])), types)
    pieces = b"".join(field(1, field(1, text) + field(2, score) + field(3, kind)) for text, score, kind in rows)
    trainer = field(3, 2) + field(35, 1)  # BPE, with bytes for what has no piece
    trainer += field(40, 3) + field(41, 2) + field(42, 1) + field(43, 0)  # ids: unknown, BOS, EOS, padding
    return pieces + field(2, trainer) + field(3, field(1, b"identity") + field(3, 0) + field(4, 0))


def check_ids(hearth, path, count):
    """How many of the random lines have other ids than SentencePiece gives them."""
    with open(os.path.join(os.path.dirname(__file__), "../models/stories-held.txt")) as f:
        lines = random_lines(f.read().split(), count)
    # Where a text has U+2581 itself, SentencePiece finds it in the user-defined pieces of blanks; GGUF files have those with
    # real blanks, and it is not found, in llama.cpp either.
    lines = [line for line in lines if "\u2581" not in line]
    processor = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(path))
    done = subprocess.run([hearth, "tokenize", path, "--no-special", "--separator", SEPARATOR],
                          input=SEPARATOR.join(lines).encode(), stdout=subprocess.PIPE, check=True)
    got = done.stdout.decode().split("\n")[:-1]
    different = [i for i, line in enumerate(lines) if " ".join(map(str, processor.encode(line))) != got[i]]
    for i in different[:3]:
        print(f"{lines[i]!r}: expected {processor.encode(lines[i])}, got {got[i]}")
    print(f"{len(lines)} lines, {len(different)} differ")
    return len(different) + (len(got) != len(lines))


def logits(hearth, path, ids, activations, scratch):
    """[ids][vocabulary]: what comes after each of the ids."""
    out = os.path.join(scratch, activations + ".f32")
    subprocess.run([hearth, "eval", "logits", path, "--ids", ",".join(map(str, ids)), "--out", out, "--kv", "f32",
                    "--activations", activations], check=True, stderr=subprocess.DEVNULL)
    return numpy.fromfile(out, "<f4").reshape(len(ids), -1)


def check_greedy(hearth, path, prompt, scratch):
    """How many positions contradict the reference's greedy ids; and how many of them could."""
    reference, given = prompt["greedy_ids"], len(prompt["ids"])
    read = prompt["ids"] + reference[:-1]
    rounded = logits(hearth, path, read, "auto", scratch)[given - 1:]
    whole = logits(hearth, path, read, "f32", scratch)[given - 1:]
    bound = SIGMAS * 2 ** .5 * (rounded - whole).std(axis=1)
    behind = whole.max(axis=1) - whole[range(len(reference)), reference]  # 0: the reference took the best
    best_two = numpy.sort(whole, axis=1)[:, -2:]
    is_clear = best_two[:, 1] - best_two[:, 0] > bound
    wrong = behind > bound

    # What `run` says is the reference up to a place where either of two tokens may come.
    done = subprocess.run([hearth, "run", path, "-p", prompt["text"], "-n", str(len(reference)), "--temp", "0", "--json",
                           "--kv", "f32", "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    said = json.loads(done.stdout)["ids"]
    same = next((i for i, (a, b) in enumerate(zip(said, reference)) if a != b), len(reference))
    parts_clearly = same < len(reference) and is_clear[same]
    print(f"{prompt['text']!r}: run says {same} of the reference's {len(reference)} ids; of those forced {wrong.sum()} are "
          f"wrong, {is_clear.sum()} clear; they are behind the best by {(behind / bound).max():.2f} of the bound at most")
    return int(wrong.sum()) + int(parts_clearly) + (len(said) != len(reference)), int(is_clear.sum())


def main():
    hearth, path, golden, scratch = sys.argv[1:5]
    with open(os.path.join(golden, "golden.json")) as f:
        prompts = json.load(f)["prompts"]
    wrong = check_ids(hearth, path, int(sys.argv[5]) if len(sys.argv) > 5 else 10000)
    clear = 0
    for prompt in prompts:
        more_wrong, more_clear = check_greedy(hearth, path, prompt, scratch)
        wrong += more_wrong
        clear += more_clear
    total = sum(len(prompt["greedy_ids"]) for prompt in prompts)
    print(f"{clear} of {total} positions are clear")
    if clear < 0.8 * total:  # else the comparison above would say little
        wrong += 1
    sys.exit(wrong > 0)


main()
