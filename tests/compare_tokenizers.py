"""compare_tokenizers.py HEARTH TOKENIZERS SCRATCH [LINES]: hearth's ids against those of the tokenizers package.

For each vocabulary of bytes in the folder TOKENIZERS (golden/tokenizers) a tokenizer.json is written, with the
pre-tokenizer as the model's publisher spells it, and random lines are encoded by the package, by hearth from that
tokenizer.json, and by hearth from the GGUF file. Prints what differs; exits with 1 if anything does.
"""

import glob
import json
import os
import random
import subprocess
import sys
import unicodedata

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, trainers
from tokenizers.pre_tokenizers import ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split

SEPARATOR = "\n=====\n"

words = ByteLevel(add_prefix_space=False, use_regex=True)
only_bytes = ByteLevel(add_prefix_space=False, use_regex=False)


def isolate(pattern):
    return Split(Regex(pattern), "isolated")


ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cl100k(digits):
    return isolate(ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|" + LINES)


def o200k(ending, digits):
    lead = r"[^\r\n\p{L}\p{N}]?"
    return isolate(lead + UPPER + "*" + LOWER + "+" + ending + "|" + lead + UPPER + "+" + LOWER + "*" + ending
                   + "|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + LINES)


# The pre-tokenizers as in the published tokenizer.json of a model that GGUF names so.
PRE = {
    "gpt-2": words,
    "mpt": words,
    "llama-bpe": Sequence([cl100k(r"\p{N}{1,3}"), only_bytes]),
    "qwen2": Sequence([cl100k(r"\p{N}"), only_bytes]),
    "qwen35": Sequence([isolate(ENDINGS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
                                + LINES), only_bytes]),
    "starcoder": Sequence([Digits(individual_digits=True), words]),
    "refact": Sequence([Digits(individual_digits=True), words]),
    "command-r": Sequence([Digits(individual_digits=True), words]),
    "falcon": Sequence([Punctuation("contiguous"), words, isolate("[0-9][0-9][0-9]")]),
    "deepseek-coder": Sequence([isolate("[\r\n]"), isolate(r"\s?\p{L}+"), isolate(r"\s?\p{P}+"),
                                isolate("[一-龥ࠀ-一가-퟿]+"), Digits(individual_digits=True), only_bytes]),
    "tekken": Sequence([o200k("", r"\p{N}"), only_bytes]),
    "gpt-4o": Sequence([o200k(ENDINGS + "?", r"\p{N}{1,3}"), only_bytes]),
    "deepseek-v3": Sequence([isolate(r"\p{N}{1,3}"), isolate("[一-龥぀-ゟ゠-ヿ]+"), isolate(
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        r"""| ?[\p{P}\p{S}]+[\r\n]*|""" + LINES), only_bytes]),
    "bailingmoe": Sequence([isolate(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"),
        only_bytes]),
}
IGNORES_MERGES = {"llama-bpe", "tekken"}
TYPE_CONTROL, TYPE_USER = 3, 4


def random_lines(count):
    """Words, numbers, blanks, marks, and characters that every table of Unicode since version 3.2 knows."""
    draw = random.Random(20)
    old = unicodedata.ucd_3_2_0
    pool = [chr(c) for c in range(0x30000) if old.category(chr(c)) not in ("Cn", "Cs", "Co", "Cc")]
    common = "The quick brown fox Don't WE'LL I'm can't naïve Straße Übung mañana 東京 Привет мир שלום".split()
    marks = list(" \t\n\r'’\u00a0\u3000\u180e\u200b\u0085\u2028ſK²½Ⅷ٣१,.;:!?()[]{}<>|`~^$+=-_*/\\\"#@%&éαβ한中の🙂👍")

    def part():
        kind = draw.random()
        if kind < 0.35:
            return draw.choice(common)
        if kind < 0.55:
            return draw.choice(marks)
        if kind < 0.65:
            return " " * draw.randint(1, 6)
        if kind < 0.75:
            return str(draw.randint(0, 10 ** draw.randint(1, 9)))
        if kind < 0.85:
            return draw.choice(["'s", "'LL", "'Re", "'ſ", "\n\n", " \n\t", "\r\n"])
        return "".join(draw.choice(pool) for _ in range(draw.randint(1, 4)))

    lines = ("".join(part() for _ in range(draw.randint(1, 30))) for _ in range(count))
    return [line.replace("=====", "") for line in lines]


def strings(reader, key):
    field = reader.fields[key]
    return [bytes(field.parts[i]).decode() for i in field.data]


def build(path, pre, normalizer=None):
    """The package's tokenizer of a GGUF vocabulary."""
    reader = GGUFReader(path)
    tokens = strings(reader, "tokenizer.ggml.tokens")
    field = reader.fields["tokenizer.ggml.token_type"]
    types = [int(field.parts[i][0]) for i in field.data]
    vocabulary = {}
    for number, text in enumerate(tokens):
        vocabulary.setdefault(text, number)
    merges = [tuple(merge.split(" ")) for merge in strings(reader, "tokenizer.ggml.merges")]
    merges = [merge for merge in merges if merge[0] in vocabulary and merge[1] in vocabulary]
    result = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=pre in IGNORES_MERGES))
    result.pre_tokenizer = PRE[pre]
    if normalizer:
        result.normalizer = normalizer
    result.add_tokens([AddedToken(text, normalized=False) for text, kind in zip(tokens, types) if kind == TYPE_USER])
    return result


def ids_of(hearth, model, lines):
    run = subprocess.run([hearth, "tokenize", model, "-f", "-", "--no-special", "--separator", SEPARATOR],
                         input=SEPARATOR.join(lines).encode(), capture_output=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{model}: {run.stderr.decode()}")
    return [[int(number) for number in line.split()] for line in run.stdout.decode().split("\n")[:-1]]


def compare(what, expected, got, lines):
    different = [i for i, ids in enumerate(expected) if ids != got[i]]
    print(f"{what}: {len(lines)} lines, {len(different)} differ")
    for i in different[:3]:
        print(f"  {lines[i]!r}\n    tokenizers {expected[i]}\n    hearth     {got[i]}")
    return not different and len(got) == len(expected)


def pieces(lines, scheme, split):
    """A small vocabulary of pieces that spell blanks as U+2581, trained here, with a special token that cuts lines."""
    result = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    result.pre_tokenizer = Metaspace(prepend_scheme=scheme, split=split)
    first = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=first, show_progress=False)
    result.train_from_iterator(lines[:2000], trainer)
    written = json.loads(result.to_str())  # bytes are pieces like others
    written["added_tokens"] = [token for token in written["added_tokens"] if not token["content"].startswith("<0x")]
    result = Tokenizer.from_str(json.dumps(written))
    result.add_tokens([AddedToken("[INST]", normalized=False)])
    return result


def main():
    hearth, folder, scratch = sys.argv[1:4]
    lines = random_lines(int(sys.argv[4]) if len(sys.argv) > 4 else 10000)
    cases = []
    for path in sorted(glob.glob(os.path.join(folder, "*.gguf"))):
        reader = GGUFReader(path)
        pre = strings(reader, "tokenizer.ggml.pre")[0]
        if pre in PRE and "tokenizer.ggml.merges" in reader.fields:
            cases.append((pre, path, True, None))
    gpt2, qwen2 = (os.path.join(folder, name) for name in ("gpt-2.gguf", "qwen2-trimmed.gguf"))
    cases += [(pre, gpt2, False, None) for pre in ("tekken", "gpt-4o", "deepseek-v3", "bailingmoe")]
    cases += [("qwen2", qwen2, False, form) for form in
              (normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD())]
    same = True
    for number, (pre, path, has_file, normalizer) in enumerate(cases):
        reference = build(path, pre, normalizer)
        expected = [encoding.ids for encoding in reference.encode_batch(lines, add_special_tokens=False)]
        written = os.path.join(scratch, f"{number}.tokenizer.json")
        reference.save(written)
        name = pre + (f" with {type(normalizer).__name__}" if normalizer else "")
        same &= compare(name + ", tokenizer.json", expected, ids_of(hearth, written, lines), lines)
        if has_file:
            same &= compare(name + ", GGUF", expected, ids_of(hearth, path, lines), lines)
    cut = [line[:5] + "[INST]" + line[5:] if number % 2 else "[INST]" + line for number, line in enumerate(lines)]
    for scheme in ("first", "always", "never"):
        for split in (True, False):
            reference = pieces(lines, scheme, split)
            written = os.path.join(scratch, f"{scheme}-{split}.tokenizer.json")
            reference.save(written)
            expected = [encoding.ids for encoding in reference.encode_batch(lines + cut, add_special_tokens=False)]
            same &= compare(f"Metaspace {scheme}, split {split}", expected, ids_of(hearth, written, lines + cut), lines + cut)
    sys.exit(0 if same else 1)


main()
