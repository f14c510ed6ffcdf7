#!/usr/bin/env python3
"""Makes the archives of tests/data from a folder that holds the unpacked data.

usage: tests/data/pack.py FOLDER [NAME...]     for example: tests/data/pack.py build/release/test-data golden/llama

A NAME is a folder below FOLDER; without one, all of golden/*, models/* and corpora are packed. An archive is a tar file
compressed with xz, and the same input gives the same bytes.

Many models lie there twice: as float32 in a GGUF file and as BF16 in safetensors. The upper halves of such float32
values are the BF16 values, so a GGUF file whose archive gets smaller by it is stored as two members: NAME.high, the upper
16 bits of every 32, and NAME.low, the lower 16 bits and what is left over at the end. tests/join_halves.c puts them together.
"""
import io
import lzma
import os
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))


def halves(data):
    """(high, low): the upper and the lower 16 bits of each 32; up to three bytes at the end go to low."""
    whole = len(data) // 4 * 4
    words = memoryview(data)[:whole].cast("H")
    return words[1::2].tobytes(), words[0::2].tobytes() + data[whole:]


def members(folder, split):
    """(path within the folder, bytes) of every file, in order."""
    for root, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(root, name)
            within = os.path.relpath(path, folder)
            with open(path, "rb") as file:
                data = file.read()
            if split and name.endswith(".gguf"):
                high, low = halves(data)
                yield within + ".high", high
                yield within + ".low", low
            else:
                yield within, data


def archive(folder, name, split):
    """The bytes of the compressed archive; nothing of the clock or of the user is in it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        # Without *.high and *.low side by side the compressor's window would have to span the lows: put those last.
        for within, data in sorted(members(folder, split), key=lambda m: (m[0].endswith(".low"), m[0])):
            entry = tarfile.TarInfo(f"{name}/{within}")
            entry.size = len(data)
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(data))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 3, "lp": 1, "pb": 1}]
    return lzma.compress(out.getvalue(), lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=filters)


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        print(__doc__.strip())
        return 0 if arguments else 2
    top = arguments[0]
    names = arguments[1:]
    if not names:
        names = [f"{group}/{case}" for group in ("golden", "models") for case in sorted(os.listdir(f"{top}/{group}"))
                 if os.path.isdir(f"{top}/{group}/{case}")] + ["corpora"]
    for name in names:
        folder = f"{top}/{name}"
        if not os.path.isdir(folder):
            print(f"pack.py: {folder}: no such folder", file=sys.stderr)
            return 1
        best = min((archive(folder, name, split) for split in (False, True)), key=len)
        path = f"{HERE}/{name.replace('/', '-')}.tar.xz"
        with open(path + ".part", "wb") as file:
            file.write(best)
        os.replace(path + ".part", path)
        print(f"{len(best):9d} {os.path.basename(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
