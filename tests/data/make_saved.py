#!/usr/bin/env python3
"""Writes the configs that transformers makes of those of the goldens: what a model has that was trained further and saved; and what
transformers takes for settings that a config leaves out.

usage: tests/data/make_saved.py FOLDER OUT      for example: tests/data/make_saved.py build/release/test-data/golden saved

FOLDER holds the goldens; of each that transformers knows OUT gets configs/NAME.json and defaults/NAME.json, a value for each setting
that the golden's config has. pack.py makes the archives of both. Python needs transformers.
"""
import copy
import glob
import json
import os
import sys
import tempfile

from transformers import AutoConfig

# Its config says how many positions there are under two names, and not the same.
LEFT_OUT = {"gpt2"}
# Ways of rounding of which transformers rewrites the description.
ROUNDED = {"gptq", "awq", "compressed-tensors", "modelopt"}
# Settings that say nothing of what is computed.
NOT_READ = {"model_type", "dtype", "torch_dtype", "transformers_version", "bos_token_id", "eos_token_id", "pad_token_id"}


def saved(config):
    """What transformers writes of a config; None where it does not know the model."""
    try:
        made = AutoConfig.for_model(**copy.deepcopy(config))
    except ValueError:
        return None
    made.architectures = config.get("architectures")
    with tempfile.TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        with open(os.path.join(folder, "config.json")) as file:
            return json.load(file)


def defaults(config):
    """What transformers takes for each setting of a config (or of its part for text) where that lacks it."""
    found = {}
    if "Infinity" in json.dumps(config):  # which is no JSON, and is read in folders alone
        return found
    for key in config.get("text_config", config):
        without = copy.deepcopy(config)
        del without.get("text_config", without)[key]
        try:
            made = saved(without)
        except Exception:  # it is one that must be there
            continue
        value = made and made.get("text_config", made).get(key)
        if isinstance(value, (bool, int, float, str)) or key == "rope_parameters":
            found[key] = value
    return {key: value for key, value in found.items() if key not in NOT_READ and value is not None}


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    folder, out = sys.argv[1:]
    for kind in ("configs", "defaults"):
        os.makedirs(os.path.join(out, kind), exist_ok=True)
    for path in sorted(glob.glob(os.path.join(folder, "*", "model.safetensors"))):
        name = os.path.basename(os.path.dirname(path))
        with open(os.path.join(folder, name, "config.json")) as file:
            config = json.load(file)
        rounded = config.get("quantization_config", {}).get("quant_method") in ROUNDED
        made = None if name in LEFT_OUT or rounded else saved(config)
        if made is None:
            print(f"{name}: left out")
            continue
        for kind, content in (("configs", made), ("defaults", defaults(config))):
            with open(os.path.join(out, kind, name + ".json"), "w") as file:
                json.dump(content, file, indent=1)


if __name__ == "__main__":
    main()
