"""compare_sentencepiece.py HEARTH TEXT SCRATCH [LINES]: hearth's ids against those of the sentencepiece package.

Vocabularies of several kinds and normalisations are trained on TEXT, and random lines are encoded by the package and by
hearth. Prints what differs; exits with 1 if anything does.
"""
import os
import random
import subprocess
import sys

import sentencepiece

SEPARATOR = "\x1e"

# What is trained: everything that changes how a text is cut.
KINDS = {
    "nmt_nfkc": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc"},
    "identity": {"model_type": "unigram", "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "bytes": {"model_type": "unigram", "normalization_rule_name": "nfkc_cf", "byte_fallback": True},
    "no-prefix": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf", "add_dummy_prefix": False},
    "across-words": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc", "split_by_whitespace": False},
    "bpe": {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc", "byte_fallback": True},
}

COMPOSED = "éüßñçøåœ½ﬁ①Ａｱカﾞ™…‘“”—\u2581\u3000\u00a0"
SCRIPTS = [*range(0x4E00, 0x4E40), *range(0x3040, 0x3090), *range(0xAC00, 0xAC40), *range(0x300, 0x310)]


def random_character():
    kind = random.random()
    if kind < 0.45:
        return random.choice("abcdefghijklmnopqrstuvwxyz")
    if kind < 0.6:
        return " "
    if kind < 0.7:
        return random.choice("ABCXYZ0123456789.,!?'\"-\t")
    if kind < 0.8:
        return random.choice(COMPOSED)
    if kind < 0.9:
        return chr(random.choice(SCRIPTS))
    code = random.randint(0x20, 0x2FFFF)
    return "" if 0xD800 <= code < 0xE000 else chr(code)


def random_lines(words, count):
    random.seed(1)
    lines = ["", "  ", " a", "a ", "  a  b  ", "\u2581x", "x\u2581 "]
    for i in range(count):
        length = random.randint(1, 60)
        if i % 4:
            lines.append("".join(random_character() for _ in range(length)))
        else:
            lines.append(" ".join(random.choice(words) for _ in range(length)))
    return lines


def main():
    hearth, text, scratch = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 10000
    with open(text) as f:
        lines = random_lines(f.read().split(), count)
    wrong = 0
    for name, options in KINDS.items():
        prefix = os.path.join(scratch, name + "-tokenizer")
        sentencepiece.SentencePieceTrainer.train(
            input=text, model_prefix=prefix, vocab_size=1200, minloglevel=2, hard_vocab_limit=False, **options)
        processor = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
        done = subprocess.run([hearth, "tokenize", prefix + ".model", "--no-special", "--separator", SEPARATOR],
                              input=SEPARATOR.join(lines).encode(), stdout=subprocess.PIPE, check=True)
        got = done.stdout.decode().split("\n")[:-1]
        different = [i for i, line in enumerate(lines) if " ".join(map(str, processor.encode(line))) != got[i]]
        for i in different[:3]:
            print(f"{name}: {lines[i]!r}: expected {processor.encode(lines[i])}, got {got[i]}")
        print(f"{name}: {len(lines)} lines, {len(different)} differ")
        wrong += len(different) + (len(got) != len(lines))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
