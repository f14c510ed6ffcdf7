#!/usr/bin/env python3
"""Trains a small unigram vocabulary and encodes lines with it: make_unigram_cases.py TEXT FOLDER

Writes FOLDER/unigram-tokenizer.model and FOLDER/unigram-cases.json: its compiled normalisation in base64, and texts with
their ids. Needs the packages sentencepiece and protobuf. The tree has what it made of models/stories-held.txt.
"""
import base64
import json
import os
import random
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

# What the normalisation replaces: code points in hexadecimal, by code points.
RULES = "41\t61\nFB01\t66 69\nE9\t65\n65 301\t65\n3000\t20\n9\t20\n200B\t\n"


def train(text, path):
    with tempfile.TemporaryDirectory() as scratch:
        rules = os.path.join(scratch, "rules.tsv")
        with open(rules, "w") as f:
            f.write(RULES)
        prefix = os.path.join(scratch, "small")
        sentencepiece.SentencePieceTrainer.train(
            input=text, model_prefix=prefix, vocab_size=300, minloglevel=2, hard_vocab_limit=False,
            normalization_rule_tsv=rules, model_type="unigram", max_sentencepiece_length=6)
        with open(prefix + ".model", "rb") as f, open(path, "wb") as out:
            out.write(f.read())


def lines(text):
    random.seed(1)
    with open(text) as f:
        words = f.read().split()
    letters = "abcdefghijklmnopqrstuvwxyzAAXZ   .,!?'\"0123\u00e9e\u0301\ufb01\u3000\t\u200b\u2581\u4f60\U0001f999\u00df"
    yield from ["", " ", "  ", "a", " a", "a ", "  a  b  ", "\u2581x", "x\u2581 ", "\t", "zzzz", "\u4f60\u4f60a\u4f60"]
    for _ in range(200):
        yield "".join(random.choice(letters) for _ in range(random.randint(1, 50)))
    for _ in range(100):
        yield " ".join(random.choice(words) for _ in range(random.randint(1, 20)))


def main():
    text, folder = sys.argv[1:]
    path = os.path.join(folder, "unigram-tokenizer.model")
    train(text, path)
    model = sentencepiece_model_pb2.ModelProto()
    with open(path, "rb") as f:
        model.ParseFromString(f.read())
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    charsmap = base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    cases = [{"text": line, "ids": processor.encode(line)} for line in lines(text)]
    with open(os.path.join(folder, "unigram-cases.json"), "w") as f:
        f.write('{"charsmap": "' + charsmap + '", "cases": [\n')
        f.write(",\n".join(json.dumps(case) for case in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
