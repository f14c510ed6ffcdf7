#!/usr/bin/env python3
"""Writes the configs that transformers makes of those of the goldens: what a model has that was trained further and saved.

usage: tests/data/make_saved.py FOLDER OUT      for example: tests/data/make_saved.py build/release/test-data/golden saved/configs

FOLDER holds the goldens; OUT gets NAME.json of each that transformers knows, and pack.py makes the archive of it. Python needs
transformers.
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


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    folder, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    for path in sorted(glob.glob(os.path.join(folder, "*", "model.safetensors"))):
        name = os.path.basename(os.path.dirname(path))
        with open(os.path.join(folder, name, "config.json")) as file:
            config = json.load(file)
        config = None if name in LEFT_OUT else saved(config)
        if config is None:
            print(f"{name}: left out")
            continue
        with open(os.path.join(out, name + ".json"), "w") as file:
            json.dump(config, file, indent=1)


if __name__ == "__main__":
    main()
