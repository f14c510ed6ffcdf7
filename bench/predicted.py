#!/usr/bin/env python3
"""Compares what plans predict with what runs achieve: models that place themselves beside slow and fast devices.

    bench/predicted.py build/release --devices host,host:speed=0.5,host:speed=0.25,opencl --out results.jsonl

Makes small models of four kinds (dense, exact, predicted, experts), and for each of them and each device runs `hearth run`
twice: the first run measures, plans and tries, the second one is compared. The CPU gets one thread and plain C kernels, so
that a device made of the same cores is worth using. Prints a line per pair and the median and the worst error."""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

MODELS = {  # kind: shape, format, options of make-model; mode
    "dense": (["--activation", "silu", "--neuron-major", "--layers", "6", "--head", "q8_0", "1b", "q8_0"], "dense"),
    "exact": (["--neuron-major", "--layers", "8", "--head", "q8_0", "1b", "q4_0"], "exact"),
    "predicted": (["--powerinfer", "--layers", "8", "--head", "q8_0", "1b", "q4_0"], "predicted"),
    "experts": (["--neuron-major", "--layers", "3", "--head", "q8_0", "smallthinker-21b", "q4_0"], "exact"),
}


def run(hearth, model, mode, device, options, cache, more=()):
    command = [hearth, "run", model, "--no-chat", "-p", "1 2 3", "-n", str(options.tokens), "--ignore-eos", "--seed", "7",
               "--sparsity", mode, "--device", device.replace(":", ",", 1) if "=" in device else device, "-t", "1",
               "--cpu", options.cpu, "-c", "256", "--json", "-q"] + (["--vram", options.vram] if options.vram else []) + list(more)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": cache})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def beside_plain(hearth, model, mode, device, options, cache, layers):
    """Decodes in turn as planned, on the CPU alone, and with so many whole layers on the device: medians of ms per token."""
    ways = {"plan": [], "CPU": ["--gpu-layers", "0"], f"{layers} layers": ["--gpu-layers", str(layers)]}
    times = {way: [] for way in ways}
    for _ in range(options.plain):
        for way, more in ways.items():
            got = run(hearth, model, mode, device, options, cache, more)
            times[way].append(1e3 * got["decode_seconds"] / got["decode_tokens"])
    medians = {way: statistics.median(values) for way, values in times.items()}
    best = min(medians["CPU"], medians[f"{layers} layers"])
    return ", ".join(f"{way} {value:.2f} ms" for way, value in medians.items()) + \
        f"; plan over the better of both {medians['plan'] / best:.2f}"


def forms(plan):
    counts = {}
    for layer in plan["layers"]:
        counts[layer["form"]] = counts.get(layer["form"], 0) + 1
    return " ".join(f"{count} {form}" for form, count in counts.items()) + (", head" if plan["head"] != "cpu" else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--devices", default="host,host:speed=0.5,host:speed=0.25,opencl")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--cpu", default="scalar", help="level of the CPU's kernels")
    parser.add_argument("--vram", help="that plans may take")
    parser.add_argument("--plain", type=int, metavar="N",
                        help="also runs everything on the CPU, and the most whole layers, N times in turn with the plan")
    parser.add_argument("--out", help="a JSON line per pair is appended here")
    options = parser.parse_args()
    hearth, make = os.path.join(options.build, "hearth"), os.path.join(options.build, "bench", "make-model")
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.models.split(","):
            words, mode = MODELS[kind]
            model = os.path.join(folder, kind + ".gguf")
            subprocess.run([make, *words, model], check=True, stdout=subprocess.DEVNULL)
            for device in options.devices.split(","):
                cache = tempfile.mkdtemp(dir=folder)
                run(hearth, model, mode, device, options, cache)
                got = run(hearth, model, mode, device, options, cache)
                plan = got["plan"]
                used = plan["predicted"]
                way = plan["achieved"]["used"] if plan["achieved"] else "plan"
                on_cpu = way == "cpu"
                # A plain way that is used is known from being tried.
                predicted = used["token_seconds"] if way == "plan" else \
                    plan["achieved"]["cpu_seconds" if on_cpu else "whole_layers_seconds"]
                achieved = got["decode_seconds"] / got["decode_tokens"]
                errors.append(abs(achieved / predicted - 1))
                print(f"{kind:9} {device:16} predicted {1e3 * predicted:7.2f} ms, achieved {1e3 * achieved:7.2f} "
                      f"({100 * (achieved / predicted - 1):+5.1f} %)  {forms(plan)}"
                      f"{f', but {way}' if way != 'plan' else ''}", flush=True)
                if options.plain:
                    print("          " + beside_plain(hearth, model, mode, device, options, cache, used["whole_layers"]),
                          flush=True)
                if options.out:
                    with open(options.out, "a", encoding="utf-8") as out:
                        out.write(json.dumps({"kind": kind, "device": device, "cpu": options.cpu, "predicted": predicted,
                                              "achieved": achieved, "terms": used["terms"], "tried": plan["achieved"],
                                              "forms": forms(plan), "on_cpu": on_cpu}) + "\n")
            os.remove(model)
    print(f"median error {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %, {len(errors)} pairs")


if __name__ == "__main__":
    main()
