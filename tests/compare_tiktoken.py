"""compare_tiktoken.py HEARTH VOCABULARIES SCRATCH [LINES]: hearth's ids of a tiktoken.model against those of the tiktoken package.

The pieces are those of GPT-2, which gpt-2.gguf in VOCABULARIES has in the order of their ranks; texts are cut by the expression of
Moonshot's models (tokenization_kimi.py). Random lines are encoded by the package and by hearth. Prints what differs; exits with 1 if
anything does.
"""
import base64
import os
import sys

import gguf
import tiktoken
from compare_lines import compare
from compare_sentencepiece import random_lines

UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI = "|".join([r"[\p{Han}]+", rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDINGS}", rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDINGS}",
                 r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def byte_of_character():
    """The characters by which GPT-2's vocabulary spells bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


def main():
    hearth, vocabularies, scratch = sys.argv[1:4]
    of = byte_of_character()
    tokens = gguf.GGUFReader(os.path.join(vocabularies, "gpt-2.gguf")).fields["tokenizer.ggml.tokens"].contents()
    pieces = [bytes(of[character] for character in token) for token in tokens if token != "<|endoftext|>"]
    path = os.path.join(scratch, "tiktoken.model")
    with open(path, "w") as file:
        file.writelines(f"{base64.b64encode(piece).decode()} {rank}\n" for rank, piece in enumerate(pieces))
    published = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks={piece: rank for rank, piece in enumerate(pieces)},
                                  special_tokens={})
    words = [piece.decode().strip() for piece in pieces if piece.isascii() and len(piece) > 2]
    lines = random_lines(words, int(sys.argv[4]) if len(sys.argv) > 4 else 10000)
    sys.exit(compare(hearth, path, lines, published.encode_ordinary, scratch))


if __name__ == "__main__":
    main()
