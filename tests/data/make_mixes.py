#!/usr/bin/env python3
"""Asks llama.cpp's quantiser which format it gives each matrix of golden models, for some mixes; prints mixes-families.json.

usage: tests/data/make_mixes.py LLAMA_CPP GOLDENS

LLAMA_CPP is a source tree of llama.cpp with build/bin/llama-quantize; GOLDENS the folder of the unpacked golden models. Python needs
numpy, which llama.cpp's gguf package reads files with.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

# One of each kind of mixer, latent attention both ways, and those whose matrices have roles or exceptions of their own.
FAMILIES = ["cohere2-moe", "deci", "deepseek2-lite", "deepseek3", "deepseek32", "deepseek4", "minimax-m3", "falcon-40b", "falcon-7b", "gemma3n", "gemma4-e", "glm-dsa", "hy-v4", "glm5-next", "qwen3-8-next",
            "gpt2", "granite-hybrid-moe", "kimi-linear", "lfm2-moe", "ling3", "llama4", "mimo2", "mistral4", "mixtral", "nemotron-h-moe", "phi3", "plm",
            "qwen3-5-moe", "qwen3-next", "rwkv7", "smallthinker"]
MIXES = ["q2_k", "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m", "iq4_xs", "q8_0"]


def formats(gguf, path):
    """Returns {name with * for the layer: [format of each layer that has it]} of the matrices of a file."""
    by_name = {}
    for tensor in gguf.GGUFReader(path).tensors:
        if sum(n > 1 for n in tensor.shape) < 2 or tensor.name.endswith(("ple_conv1d.weight", "compressor_ape.weight")):
            continue  # no matrix that vectors are multiplied with: hearth keeps it as float32, llama.cpp rounds it
        layer = re.match(r"blk\.(\d+)\.", tensor.name)
        name = re.sub(r"^blk\.\d+\.", "blk.*.", tensor.name)
        by_name.setdefault(name, []).append((int(layer[1]) if layer else 0, tensor.tensor_type.name.lower()))
    return {name: [form for _, form in sorted(of)] for name, of in sorted(by_name.items())}


def main(llama, goldens):
    sys.path.insert(0, os.path.join(llama, "gguf-py"))
    import gguf
    rows = []
    for family in FAMILIES:
        for mix in MIXES:
            with tempfile.TemporaryDirectory() as folder:
                out = os.path.join(folder, "out.gguf")
                subprocess.run([os.path.join(llama, "build/bin/llama-quantize"), os.path.join(goldens, family, "model.gguf"), out,
                                mix], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                rows.append(json.dumps({"family": family, "mix": mix, "formats": {
                    name: of[0] if len(set(of)) == 1 else " ".join(of) for name, of in formats(gguf, out).items()}}))
    print("[\n" + ",\n".join(rows) + "\n]")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
