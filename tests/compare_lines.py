"""compare_lines: hearth's ids of lines against those of another program. Used by compare_rwkv.py and compare_tiktoken.py."""
import os
import subprocess

from compare_sentencepiece import SEPARATOR


def compare(hearth, vocabulary, lines, encode, scratch):
    """Prints the first lines whose ids are not those of encode(line); returns 0 if there are none, else 1."""
    path = os.path.join(scratch, "lines.txt")
    with open(path, "w", newline="") as file:
        file.write(SEPARATOR.join(lines))
    got = subprocess.run([hearth, "tokenize", vocabulary, "-f", path, "--separator", SEPARATOR], check=True, capture_output=True,
                         text=True).stdout.split("\n")[:-1]
    wrong = [(line, ids) for line, ids in zip(lines, got) if ids.split() != [str(i) for i in encode(line)]]
    for line, ids in wrong[:5]:
        print(f"{line!r}: hearth {ids}, wanted {encode(line)}")
    print(f"{len(lines)} lines, {len(wrong)} differ")
    return 1 if wrong or len(got) != len(lines) else 0
