"""compare_gguf.py A B BOUND - the same tensors, decoded by the gguf package, within a relative distance of each."""
import sys

import gguf
import numpy as np


def tensors(path):
    return {t.name: gguf.quants.dequantize(t.data, t.tensor_type).reshape(-1).astype(np.float64)
            for t in gguf.GGUFReader(path).tensors}


def main():
    a, b, bound = tensors(sys.argv[1]), tensors(sys.argv[2]), float(sys.argv[3])
    if a.keys() != b.keys():
        sys.exit(f"tensors differ: {sorted(a.keys() ^ b.keys())}")
    worst, where = 0.0, ""
    for name in a:
        if a[name].shape != b[name].shape:
            sys.exit(f"{name}: {a[name].shape} against {b[name].shape}")
        distance = np.linalg.norm(a[name] - b[name]) / max(np.linalg.norm(b[name]), 1e-30)
        if distance > worst:
            worst, where = distance, name
    print(f"  {len(a)} tensors, largest distance {worst:.3g} {where}")
    sys.exit(int(worst > bound))


main()
