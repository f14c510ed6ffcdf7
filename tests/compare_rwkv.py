"""compare_rwkv.py HEARTH SCRATCH [LINES]: hearth's ids of RWKV's vocabulary against those of its publisher's rwkv package.

Random lines are encoded by the package and by hearth, from the list of pieces that comes with the package. Prints what differs;
exits with 1 if anything does.
"""
import os
import random
import sys

import rwkv.rwkv_tokenizer as published
from compare_lines import compare
from compare_sentencepiece import random_lines

PIECES = os.path.join(os.path.dirname(published.__file__), "rwkv_vocab_v20230424.txt")


def main():
    hearth, scratch = sys.argv[1:3]
    tokenizer = published.TRIE_TOKENIZER(PIECES)
    words = [piece.decode() for piece in tokenizer.idx2token.values() if len(piece) > 2 and piece.isascii()]
    lines = random_lines(words, int(sys.argv[3]) if len(sys.argv) > 3 else 10000)
    lines += ["".join(random.choice(words) for _ in range(20)) for _ in range(1000)]
    sys.exit(compare(hearth, PIECES, lines, tokenizer.encode, scratch))


if __name__ == "__main__":
    main()
