"""compare_rwkv.py HEARTH SCRATCH [LINES]: hearth's ids of RWKV's vocabulary against those of its publisher's rwkv package.

Random lines are encoded by the package and by hearth, from the list of pieces that comes with the package. Prints what differs;
exits with 1 if anything does.
"""
import os
import random
import subprocess
import sys

import rwkv.rwkv_tokenizer as published
from compare_sentencepiece import SEPARATOR, random_lines

PIECES = os.path.join(os.path.dirname(published.__file__), "rwkv_vocab_v20230424.txt")


def main():
    hearth, scratch = sys.argv[1:3]
    tokenizer = published.TRIE_TOKENIZER(PIECES)
    words = [piece.decode() for piece in tokenizer.idx2token.values() if len(piece) > 2 and piece.isascii()]
    lines = random_lines(words, int(sys.argv[3]) if len(sys.argv) > 3 else 10000)
    lines += ["".join(random.choice(words) for _ in range(20)) for _ in range(1000)]
    path = os.path.join(scratch, "rwkv-lines.txt")
    with open(path, "w", newline="") as file:
        file.write(SEPARATOR.join(lines))
    got = subprocess.run([hearth, "tokenize", PIECES, "-f", path, "--separator", SEPARATOR], check=True, capture_output=True,
                         text=True).stdout.split("\n")[:-1]
    wrong = [(line, ids) for line, ids in zip(lines, got) if ids.split() != [str(i) for i in tokenizer.encode(line)]]
    for line, ids in wrong[:5]:
        print(f"{line!r}: hearth {ids}, rwkv {tokenizer.encode(line)}")
    print(f"{len(lines)} lines, {len(wrong)} differ")
    sys.exit(1 if wrong or len(got) != len(lines) else 0)


if __name__ == "__main__":
    main()
