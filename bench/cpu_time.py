#!/usr/bin/env python3
"""Processor time per token of hearth and of llama.cpp, with one thread, in turn: for machines that others use as well.

    bench/cpu_time.py -r 3 --python VENV/bin/python dense=nano.gguf exact=nano-nm.gguf llama.cpp=nano.gguf

Each MODE=FILE is a process of its own: hearth by bindings/python/hearth.py (HEARTH_LIBRARY says which library), llama.cpp
by llama-cpp-python's low-level calls, which --python has. Both read the same made-up tokens: four to warm up, the prompt,
then one after the other. What is taken is the time of the process, which goes on only while it runs, of each feed and each
llama_decode. So other programs disturb by the memory and caches that they use, not by the processor's share; of the
tokens the fastest and the median are printed, of each round. With more threads this says nothing: waiting counts.
"""
import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "bindings", "python")]
import peers  # pylint: disable=wrong-import-position


def hearth_feeder(path, mode, positions):
    """A function that feeds tokens, and one that forgets them."""
    import hearth  # pylint: disable=import-outside-toplevel
    model = hearth.Model(path, mode=mode, context=positions, threads=1)
    return model.feed, lambda: model.truncate(0)


def llama_feeder(path, positions, batch):
    """The same of llama.cpp, with an F16 cache and without flash attention."""
    import llama_cpp as lib  # pylint: disable=import-outside-toplevel,import-error
    llama_feeder.silent = lib.llama_log_callback(lambda level, text, user: None)
    lib.llama_log_set(llama_feeder.silent, None)
    lib.llama_backend_init()
    wanted = lib.llama_model_default_params()
    wanted.n_gpu_layers = 0
    model = lib.llama_model_load_from_file(path.encode(), wanted)
    wanted = lib.llama_context_default_params()
    wanted.n_ctx = (positions + 255) // 256 * 256
    wanted.n_batch = wanted.n_ubatch = max(512, batch)
    wanted.n_threads = wanted.n_threads_batch = 1
    wanted.type_k = wanted.type_v = 1
    wanted.flash_attn_type = 0
    context = lib.llama_init_from_model(model, wanted)

    def feed(tokens):
        array = (lib.llama_token * len(tokens))(*tokens)
        if lib.llama_decode(context, lib.llama_batch_get_one(array, len(tokens))) != 0:
            sys.exit("llama_decode failed")
        lib.llama_synchronize(context)
    return feed, lambda: lib.llama_memory_clear(lib.llama_get_memory(context), True)


def child(mode, path, options):
    """One run; prints seconds per token of the prompt, and those of each token after it."""
    ids = peers.token_ids(options.prompt_length + options.predict, options.vocabulary)
    feed, forget = llama_feeder(path, len(ids), options.prompt_length) if mode == peers.LLAMA else \
        hearth_feeder(path, mode, len(ids))

    def timed(tokens):
        start = time.process_time()
        feed(tokens)
        return time.process_time() - start
    for token in ids[:4]:
        timed([token])
    forget()
    prompt = timed(ids[:options.prompt_length]) / options.prompt_length
    print(json.dumps({"prompt": prompt, "decode": sorted(timed([token]) for token in ids[options.prompt_length:])}))


def main():
    p = argparse.ArgumentParser(prog="cpu_time.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("runs", nargs="+", metavar="MODE=FILE")
    p.add_argument("-r", "--rounds", type=int, default=3)
    p.add_argument("-n", "--predict", type=int, default=24)
    p.add_argument("--prompt-length", type=int, default=4)
    p.add_argument("--vocabulary", type=int, default=32000, help="ids are below that; 32000")
    p.add_argument("--python", default=sys.executable, help="that has llama-cpp-python")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = p.parse_args()
    runs = [run.split("=", 1) for run in options.runs]
    if options.child:
        child(*runs[0], options)
        return
    print("round,program,file,prompt_ms_per_token,decode_ms_least,decode_ms_median")
    for number in range(options.rounds):
        for mode, path in runs:
            command = [options.python if mode == peers.LLAMA else sys.executable, os.path.abspath(__file__), "--child",
                       f"{mode}={path}", "-n", str(options.predict), "--prompt-length", str(options.prompt_length),
                       "--vocabulary", str(options.vocabulary)]
            found = json.loads(peers.run(command, 3600)[0])
            decode = found["decode"]
            print(f"{number},{mode},{os.path.basename(path)},{found['prompt'] * 1e3:.2f},{decode[0] * 1e3:.2f},"
                  f"{decode[len(decode) // 2] * 1e3:.2f}", flush=True)


if __name__ == "__main__":
    main()
