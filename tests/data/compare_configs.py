#!/usr/bin/env python3
"""Changes every setting of the goldens' configs, one by one, and compares hearth's logits with transformers'.

usage: tests/data/compare_configs.py HEARTH GOLDENS CONFIGS SCRATCH [NAME ...]
for example: tests/data/compare_configs.py build/release/hearth build/release/test-data/golden build/release/test-data/saved/configs /tmp/configs

Prints each change after which hearth reads the model otherwise than transformers does; a change that one of them refuses, or that does
not fit the tensors, is left out. Run by hand: after a family was added, and with a new version of transformers. Python needs torch and
transformers.
"""
import contextlib
import copy
import glob
import json
import logging
import os
import subprocess
import sys
import warnings

import numpy as np
import torch
import transformers

# Names of tokens and files, what only training reads, and sizes that tensors have.
LEFT_OUT = {"architectures", "model_type", "dtype", "torch_dtype", "transformers_version", "bos_token_id", "eos_token_id", "pad_token_id",
            "use_cache", "initializer_range", "vocab_size", "num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads",
            "head_dim", "attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop", "max_position_embeddings",
            "tie_word_embeddings", "vision_config", "text_config", "id2label", "label2id"}
ACTIVATIONS = {"silu", "gelu", "relu", "relu2", "gelu_new", "gelu_pytorch_tanh"}
CLOSE = 1e-3


def others(value):
    """Values that a setting could have instead."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [value * 1.5 if value else 0.25]
    if isinstance(value, str):
        return (["silu"] if value == "relu" else ["relu"]) if value in ACTIVATIONS else []
    if isinstance(value, list) and value and all(isinstance(x, (int, float)) for x in value):
        return [value[::-1], [others(x)[0] for x in value]]
    if isinstance(value, list) and len({str(x) for x in value}) > 1:
        return [value[::-1]]
    return [2, 0.5, True] if value is None else []


def changes(config, before=()):
    """(path, other value) of each setting, also of those in objects."""
    for key, value in config.items():
        if key in LEFT_OUT:
            continue
        if isinstance(value, dict):
            yield from changes(value, before + (key,))
        for other in others(value):
            yield before + (key,), other


def changed(config, path, value):
    config = copy.deepcopy(config)
    part = config
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return config


def write(folder, config):
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)


def theirs(folder, config, ids):
    """transformers' logits; None where it does not read the folder, or not all of it."""
    kind = transformers.AutoModelForImageTextToText if "vision_config" in config else transformers.AutoModelForCausalLM
    write(folder, config)
    try:
        model, loaded = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        with torch.no_grad():
            logits = model.eval()(input_ids=torch.tensor([ids])).logits[0].float().numpy()
    except Exception:
        return None
    unused = [key for key in loaded["unexpected_keys"] if "visual" not in key]
    return logits if not loaded["missing_keys"] and not loaded["mismatched_keys"] and not unused and np.isfinite(logits).all() else None


def ours(hearth, folder, ids):
    out = os.path.join(folder, "logits.f32")
    done = subprocess.run([hearth, "eval", "logits", folder, "--ids", ",".join(map(str, ids)), "--out", out, "--sparsity", "dense",
                           "--no-guard", "--kv", "f32", "--activations", "f32"], capture_output=True)
    return np.fromfile(out, "<f4").reshape(len(ids), -1) if done.returncode == 0 else None


def distance(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def compare(hearth, golden, config, folder):
    """Prints what differs of one golden; (changes that both read, differences)."""
    with open(os.path.join(golden, "golden.json")) as file:
        reference = json.load(file)
    name, ids = os.path.basename(golden), reference["ids"] + reference["greedy"]
    os.makedirs(folder, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink(os.path.abspath(os.path.join(golden, "model.safetensors")), os.path.join(folder, "model.safetensors"))
    want, got = theirs(folder, config, ids), ours(hearth, folder, ids)
    if want is None or got is None or distance(got, want) > CLOSE:
        print(f"{name}: is not the same to begin with", flush=True)
        return 0, 0
    both = differing = 0
    part = ("text_config",) if "text_config" in config else ()
    for path, value in changes(config[part[0]] if part else config):
        new = theirs(folder, changed(config, part + path, value), ids)
        got = ours(hearth, folder, ids) if new is not None else None
        if got is None:
            continue
        both += 1
        if distance(got, new) > CLOSE:
            differing += 1
            print(f"{name}: {'.'.join(path)}: {value}: {distance(got, new):.2g} apart; transformers changed by "
                  f"{distance(new, want):.2g}", flush=True)
    return both, differing


def main():
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    hearth, goldens, configs, scratch = sys.argv[1:5]
    names = sys.argv[5:] or sorted(os.path.basename(path)[:-len(".json")] for path in glob.glob(os.path.join(configs, "*.json")))
    totals = np.zeros(2, int)
    for name in names:
        with open(os.path.join(configs, name + ".json")) as file:
            config = json.load(file)
        if "quantization_config" not in config:
            totals += compare(hearth, os.path.join(goldens, name), config, os.path.join(scratch, name))
    print(f"{totals[0]} changes that both read, {totals[1]} of them otherwise")


if __name__ == "__main__":
    main()
