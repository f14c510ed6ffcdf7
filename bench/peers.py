#!/usr/bin/env python3
"""Runs hearth and other programs on the same model, in turn, and writes what each of them reached.

    build/release/bench/make-model 1b q4_0 1b-q4_0.gguf
    build/release/bench/make-model 1b q4_0 --powerinfer 1b-pi-q4_0.gguf
    bench/peers.py 1b-q4_0.gguf --hearth-model 1b-pi-q4_0.gguf --venv build/peers --out bench/results/peers-1b-q4_0

Every round runs each program once, one after the other, and reads the memory's bandwidth before and after each
run: a shared machine changes its speed within minutes, so only neighbours in time are compared. What is printed are
medians over the rounds, and the median of the ratios within a round, each with the lowest and highest.

A run is a process of its own that loads the model, decodes N tokens to warm up, and then times the prompt and N
decoded tokens apart. Starting anew costs seconds, which are not timed, and buys that no program holds memory, threads
or caches while another is measured, and that all of them come upon the model in the same state: in the page cache.

hearth      `hearth bench` in each mode. Dense runs MODEL; exact and predicted run --hearth-model where there is one,
            for llama.cpp cannot read PowerInfer's files and is given the dense twin.
llama.cpp   llama-cpp-python's low-level calls on MODEL: only llama_decode is timed, of the same tokens, with an F16
            cache, mmap and as many threads. The virtual environment is made where it does not exist (pip compiles
            llama.cpp for this machine: minutes). CC, CXX and CMAKE_ARGS are obeyed: on processors with AMX take
            CC=clang CXX=clang++, since gcc 12 drops the setup of its tiles (SIGILL in llama_decode).
others      --other NAME COMMAND, with {model} {hearth_model} {threads} {prompt} {n} {batch} filled in. Tokens/s are what the
            groups `decode` and `prefill` of --pattern NAME REGEX find in what the command prints; without a pattern, the
            way llama.cpp's programs and PowerInfer report.

--batch 1,2,4 decodes as many sequences at once, in hearth and in others whose command has {batch}; tokens/s are those of all.

OUT.md receives table and machine, OUT.jsonl every run with its command and output; --from OUT.jsonl prints the table
again. Nothing else should run meanwhile. Needs nothing but Python's standard library.
"""
import argparse
import datetime
import json
import os
import platform
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LLAMA = "llama.cpp"

# "prompt eval time = 123.4 ms / 64 tokens (1.9 ms per token, 518.6 tokens per second)", and the same without "prompt"
# for decoding, as llama.cpp's programs and PowerInfer print it.
USUAL_PATTERN = (r"(?P<decode>(?<!\S)(?<!prompt )eval time =[^\n]*?([\d.]+) tokens per second)"
                 r"|(?P<prefill>prompt eval time =[^\n]*?([\d.]+) tokens per second)")


class Failure(Exception):
    """Told in one line."""


# ------------------------------------------------------------------ running

def run(command, timeout):
    """Standard output of a command that must succeed."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"status {done.returncode}"
        raise Failure(f"{shlex.join(command)}: {how}: {lines[-1]}")
    return done.stdout, done.stderr


def run_json(command, timeout):
    text = run(command, timeout)[0]
    try:
        return json.loads(text)
    except ValueError as error:
        raise Failure(f"{shlex.join(command)}: printed no JSON: {error}") from error


def token_ids(count, vocabulary):
    """Tokens without meaning, neighbours far apart (splitmix64); not the first few, which are control tokens."""
    ids = []
    for i in range(1, count + 1):
        x = i * 0x9E3779B97F4A7C15 % 2**64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        ids.append(3 + (x ^ x >> 31) % (vocabulary - 3))
    return ids


def fill(command, values):
    """A command line's words with {name} replaced; a value with blanks stays one word."""
    words = shlex.split(command)
    for name, value in values.items():
        words = [word.replace("{" + name + "}", str(value)) for word in words]
    return words


def without_folders(value):
    """Absolute paths in a log or a command, cut to their last name: whoever reads them has other folders."""
    if isinstance(value, str):
        return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", value)
    if isinstance(value, list):
        return [without_folders(item) for item in value]
    if isinstance(value, dict):
        return {key: without_folders(item) for key, item in value.items()}
    return value


def parse_speeds(pattern, text):
    """Last match of each group. A group may hold more than the number: then the last number group inside it counts."""
    found = {}
    for match in re.finditer(pattern, text):
        for name in ("decode", "prefill"):
            value = match.groupdict().get(name)
            if value is not None:
                found[name] = float(re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", value)[-1])
    if not found:
        raise Failure(f"nothing in what was printed matches {pattern!r}")
    return found


# ------------------------------------------------------------------ programs

class Program:
    """name, and measure() -> the figures of one run: decode, prefill (tokens/s), output, maybe bytes_per_token."""

    def __init__(self, name, command, measure, batch=1):
        self.name, self.command, self.measure, self.batch = name, command, measure, batch


def hearth_program(options, mode, ids_path, batch):
    model = options.hearth_model if options.hearth_model and mode != "dense" else options.model
    command = [options.hearth, "bench", model, "--json", "--sparsity", mode, "--no-guard", "-r", "1", "-n",
               str(options.predict), "--prompt-lengths", str(options.prompt_length), "--contexts", "0", "-t",
               str(options.threads), "--kv", "f16", "--ids", "@" + ids_path, "--batch", str(batch),
               *shlex.split(options.hearth_args)]

    def measure():
        result = run_json(command, options.timeout)
        row = result["rows"][0]
        if row["mode"] != mode:
            raise Failure(f"hearth ran {row['mode']} rather than {mode}")
        return {"decode": row["decode_tokens_per_second"], "prefill": row["prefill_tokens_per_second"],
                "bytes_per_token": row["bytes_per_token"], "density": row.get("density"),
                "guarantee": row.get("guarantee", result.get("guarantee")), "output": result}
    return Program("hearth " + mode, command, measure, batch)


def llama_program(options, python, flash, ids_path):
    command = [python, os.path.abspath(__file__), options.model, "--llama-child", "--threads", str(options.threads),
               "--prompt-length", str(options.prompt_length), "--predict", str(options.predict), "--flash",
               "on" if flash else "off", "--ids-file", ids_path] + ["--as-stored"] * options.as_stored

    def measure():
        result = run_json(command, options.timeout)
        return {"decode": result["decode"], "prefill": result["prefill"], "output": result}
    return Program(LLAMA + (" flash" if flash else ""), command, measure)


def other_program(options, name, command, pattern, batch):
    words = fill(command, {"model": options.model, "hearth_model": options.hearth_model or options.model,
                           "threads": options.threads, "prompt": options.prompt_length, "n": options.predict,
                           "batch": batch})

    def measure():
        text = "".join(run(words, options.timeout))
        try:
            return {**parse_speeds(pattern, text), "output": text}
        except Failure as error:
            raise Failure(f"{name}: {error}") from error
    return Program(name, words, measure, batch)


def llama_python(options):
    """The interpreter of an environment that has llama-cpp-python, made where there is none."""
    python = os.path.join(options.venv, "bin", "python3")
    if not os.path.exists(python):
        print(f"making {options.venv}", file=sys.stderr)
        run([sys.executable, "-m", "venv", options.venv], options.timeout)
    probe = [python, "-c", "import llama_cpp"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        print("installing llama-cpp-python, which compiles llama.cpp: a quarter of an hour on two cores", file=sys.stderr)
        run([python, "-m", "pip", "install", "--quiet", options.package], 7200)
    return python


def llama_child(options):
    """Within the environment: one run, printed as JSON."""
    import llama_cpp as lib
    if not options.verbose:
        silent = lib.llama_log_callback(lambda level, text, user: None)
        lib.llama_log_set(silent, None)
    with open(options.ids_file, encoding="ascii") as file:
        ids = [int(word) for word in file.read().split(",")]
    lib.llama_backend_init()
    wanted = lib.llama_model_default_params()
    wanted.n_gpu_layers, wanted.use_mmap = 0, True
    wanted.use_extra_bufts = not options.as_stored
    model = lib.llama_model_load_from_file(options.model.encode(), wanted)
    if not model:
        raise Failure(f"{options.model}: llama.cpp cannot load it")
    wanted = lib.llama_context_default_params()
    wanted.n_ctx = (len(ids) + 255) // 256 * 256
    wanted.n_batch = wanted.n_ubatch = max(512, options.prompt_length)
    wanted.n_threads = wanted.n_threads_batch = options.threads
    wanted.type_k = wanted.type_v = 1   # GGML_TYPE_F16
    if hasattr(wanted, "flash_attn_type"):
        wanted.flash_attn_type = int(options.flash == "on")
    else:
        wanted.flash_attn = options.flash == "on"
    context = lib.llama_init_from_model(model, wanted)
    if not context:
        raise Failure(f"{options.model}: llama.cpp made no context")

    def decode(tokens):
        """Seconds inside llama_decode."""
        array = (lib.llama_token * len(tokens))(*tokens)
        batch = lib.llama_batch_get_one(array, len(tokens))
        start = time.perf_counter()
        status = lib.llama_decode(context, batch)
        lib.llama_synchronize(context)
        seconds = time.perf_counter() - start
        if status != 0:
            raise Failure(f"llama_decode: status {status}")
        return seconds

    def forget():
        lib.llama_memory_clear(lib.llama_get_memory(context), True)

    prompt, rest = ids[:options.prompt_length], ids[options.prompt_length:]
    for token in ids[:options.predict]:
        decode([token])
    forget()
    prefill = decode(prompt)
    seconds = [decode([token]) for token in rest]
    print(json.dumps({"prefill": len(prompt) / prefill, "decode": len(rest) / sum(seconds),
                      "decode_seconds": seconds, "version": lib.__version__,
                      "system": lib.llama_print_system_info().decode()}))


# ------------------------------------------------------------------ the machine

def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return re.search(r"^model name\s*: (.*)$", file.read(), re.M)[1]
    except (OSError, TypeError):
        return platform.processor() or platform.machine()


def read_devices(options):
    return run_json([options.hearth, "devices", "--json"], options.timeout)


def bandwidth(devices, threads):
    """Bytes per second with as many threads, or the most measured."""
    reads = {row["threads"]: row["bytes_per_second"] for row in devices["read_bandwidth"]}
    return reads.get(threads, max(reads.values()))


def describe_machine(options, devices):
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True,
                            check=False).stdout.strip()
    return {"cpu": cpu_name(), "processors": os.cpu_count(), "memory_bytes": devices["memory_bytes"],
            "cache_bytes": devices["cache_bytes"], "kernel": f"{platform.system()} {platform.release()}",
            "level": devices["best_level"], "threads": options.threads,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"), "commit": commit,
            "model": os.path.basename(options.model),
            "hearth_model": os.path.basename(options.hearth_model) if options.hearth_model else None,
            "prompt_length": options.prompt_length, "predict": options.predict, "rounds": options.rounds}


# ------------------------------------------------------------------ the table

def spread(values, digits):
    """"12.3 (11.9 .. 12.5)": median, lowest, highest."""
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} .. {high})"


def by_program(runs, figure):
    """{program: {round: figure}} in the order of the runs; programs without the figure are left out."""
    found = {}
    for entry in runs:
        if entry.get(figure) is not None:
            found.setdefault(entry["program"], {})[entry["round"]] = entry[figure]
    return found


def ratios(figures, reference):
    """Each round's figure over the reference's of the same round."""
    return [figures[i] / reference[i] for i in figures if i in reference]


def choose_reference(names):
    for name in names:
        if name.startswith(LLAMA):
            return name
    return next((name for name in names if not name.startswith("hearth ")), names[0])


def shares(runs):
    """Of the bandwidth, by program: bytes of a token times tokens/s. Programs that do not tell read MODEL whole. Of several
    sequences nobody tells what they read together."""
    runs = [entry for entry in runs if entry.get("batch", 1) == 1]
    dense = {entry["round"]: entry["bytes_per_token"] for entry in runs if entry["program"] == "hearth dense"}
    found = {}
    for entry in runs:
        size = entry.get("bytes_per_token") or dense.get(entry["round"])
        if size and entry.get("decode"):
            mean = (entry["bandwidth_before"] + entry["bandwidth_after"]) / 2
            found.setdefault(entry["program"], []).append((size, entry["decode"] * size / mean))
    return found


def decode_table(runs, batch=1):
    runs = [entry for entry in runs if entry.get("batch", 1) == batch]
    figures, share = by_program(runs, "decode"), shares(runs)
    if not figures:
        return []
    reference = choose_reference(list(figures))
    what = "decoding" if batch == 1 else f"decoding {batch} sequences"
    lines = [f"| {what} | tokens/s | times {reference} | MB per token | share of the bandwidth |",
             "|---|---|---|---|---|"]
    for name, values in figures.items():
        size = f"{statistics.median(s for s, _ in share[name]) / 1e6:.0f}" if name in share else "-"
        part = f"{statistics.median(p for _, p in share[name]):.2f}" if name in share else "-"
        compared = ratios(values, figures[reference])
        lines.append(f"| {name} | {spread(list(values.values()), 2)} | {spread(compared, 2) if compared else '-'} | "
                     f"{size} | {part} |")
    return lines + [""]


def prefill_table(runs, length):
    figures = by_program([entry for entry in runs if entry.get("batch", 1) == 1], "prefill")
    if not figures:
        return []
    reference = choose_reference(list(figures))
    lines = [f"| prompt of {length} | tokens/s | times {reference} |", "|---|---|---|"]
    for name, values in figures.items():
        compared = ratios(values, figures[reference])
        lines.append(f"| {name} | {spread(list(values.values()), 1)} | {spread(compared, 2) if compared else '-'} |")
    return lines + [""]


def render(machine, runs):
    """The whole report as Markdown."""
    reads = [entry[key] / 1e9 for entry in runs for key in ("bandwidth_before", "bandwidth_after")]
    files = machine["model"] + (f", hearth's sparse modes: {machine['hearth_model']}" if machine["hearth_model"] else "")
    lines = [f"# {files}", "",
             f"{machine['cpu']}, {machine['processors']} processors, {machine['memory_bytes'] / 2**30:.0f} GiB, "
             f"{machine['kernel']}; hearth {machine['commit']} ({machine['level']}); {machine['date']}.",
             f"{machine['threads']} threads, {1 + max(entry['round'] for entry in runs)} rounds in which each program "
             f"ran once, {machine['predict']} tokens decoded behind a prompt of {machine['prompt_length']}. Median "
             "(lowest .. highest); ratios are taken within a round.",
             f"Memory read {spread(reads, 1)} GB/s before and after the runs.", ""]
    for build in sorted({f"llama-cpp-python {entry['output']['version']} ({entry['output']['system'].strip(' |')})"
                         for entry in runs
                         if entry["program"].startswith(LLAMA) and isinstance(entry["output"], dict)}): # not an --other
        lines += [f"llama.cpp: {build}", ""]
    for batch in sorted({entry.get("batch", 1) for entry in runs}):
        lines += decode_table(runs, batch)
    lines += prefill_table(runs, machine["prompt_length"])
    lines.append("Commands, with the last number of sequences:\n" if any("batch" in entry for entry in runs)
                 else "Commands:\n")
    commands = {entry["program"]: shlex.join(entry["command"]) for entry in runs}
    lines += [f"    {command}" for command in commands.values()]
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------ all of it

def measure_all(options, programs, log):
    """Every program once per round; returns the runs, each written to the log as soon as it is done."""
    runs = []
    before = bandwidth(read_devices(options), options.threads)
    for number in range(options.rounds):
        for program in programs:
            start = time.time()
            figures = program.measure()
            seconds = time.time() - start
            after = bandwidth(read_devices(options), options.threads)
            entry = {"round": number, "program": program.name, "batch": program.batch, "command": program.command,
                     "started": start,
                     "seconds": seconds, "load": os.getloadavg()[0], "bandwidth_before": before,
                     "bandwidth_after": after, **figures}
            entry = without_folders(entry)
            log.write(json.dumps(entry) + "\n")
            log.flush()
            runs.append(entry)
            before = after
            print(f"round {number + 1} of {options.rounds}: {program.name:18} decode {figures.get('decode', 0):8.2f}, "
                  f"prompt {figures.get('prefill', 0):8.1f} tokens/s, memory {after / 1e9:.1f} GB/s", file=sys.stderr)
    return runs


def choose_programs(options, ids_path, batch):
    """In the order in which they take turns."""
    ours = [hearth_program(options, mode, ids_path, batch) for mode in options.modes.split(",") if mode]
    peers = []
    if not options.no_llama and batch == 1:
        python = llama_python(options)
        for flash in {"off": [False], "on": [True], "both": [False, True]}[options.flash]:
            peers.append(llama_program(options, python, flash, ids_path))
    patterns = dict(options.pattern)
    unknown = set(patterns) - {name for name, _ in options.other}
    if unknown:
        raise Failure(f"--pattern {unknown.pop()}: there is no --other of that name")
    peers += [other_program(options, name, command, patterns.get(name, USUAL_PATTERN), batch)
              for name, command in options.other if batch == 1 or "{batch}" in command]
    return ours[:1] + peers + ours[1:]


def compare(options):
    for path in (options.model, options.hearth_model):
        if path and not os.path.exists(path):
            raise Failure(f"{path}: there is no such file")
    options.modes = options.modes or ("dense,exact,predicted" if options.hearth_model else "dense,exact")
    devices = read_devices(options)
    options.threads = options.threads or devices["cores"]
    vocabulary = run_json([options.hearth, "inspect", options.model, "--json"],
                          options.timeout)["model"]["vocabulary_size"]
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        ids_path = os.path.join(folder, "ids")
        with open(ids_path, "w", encoding="ascii") as file:
            file.write(",".join(map(str, token_ids(options.prompt_length + options.predict, vocabulary))))
        programs = [program for batch in options.batch for program in choose_programs(options, ids_path, batch)]
        machine = describe_machine(options, devices)
        with open(options.out + ".jsonl", "w", encoding="utf-8") as log:
            log.write(json.dumps({"machine": machine}) + "\n")
            runs = measure_all(options, programs, log)
    text = render(machine, runs)
    with open(options.out + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    print(text, end="")


def print_again(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.strip()]
    if not lines or "machine" not in lines[0] or len(lines) < 2:
        raise Failure(f"{path}: is not a log of this program")
    print(render(lines[0]["machine"], lines[1:]), end="")


def self_test():
    """What needs no model: figures, patterns, the table."""
    assert spread([3.0, 1.0, 2.0], 1) == "2.0 (1.0 .. 3.0)"
    assert spread([1.0, 2.0], 2) == "1.50 (1.00 .. 2.00)"
    printed = ("llama_print_timings: prompt eval time =  120.0 ms /  64 tokens ( 1.87 ms per token,  533.33 tokens per "
               "second)\nllama_print_timings:        eval time =  990.0 ms /  31 runs ( 31.9 ms per token,    31.31 "
               "tokens per second)\n")
    assert parse_speeds(USUAL_PATTERN, printed) == {"decode": 31.31, "prefill": 533.33}
    assert parse_speeds(r"tg: (?P<decode>\S+)", "tg: 10.5\ntg: 12.5\n") == {"decode": 12.5}
    assert parse_speeds(r"(?P<prefill>[\d.]+e\+\d+) t/s", "1.5e+03 t/s") == {"prefill": 1500.0}
    try:
        parse_speeds(USUAL_PATTERN, "Segmentation fault")
        raise AssertionError("a text without figures was understood")
    except Failure:
        pass
    assert fill("run -m {model} -t {threads} 'a b'", {"model": "x y.gguf", "threads": 2}) == \
        ["run", "-m", "x y.gguf", "-t", "2", "a b"]
    ids = token_ids(1000, 300)
    assert len(set(ids)) > 250 and min(ids) >= 3 and max(ids) < 300 and ids == token_ids(1000, 300)
    assert without_folders({"a": ["/x/y.z/hearth -i @/tmp/ids", "9 / 64 tokens/s", 3]}) == \
        {"a": ["hearth -i @ids", "9 / 64 tokens/s", 3]}
    assert choose_reference(["hearth dense", "x", "llama.cpp", "hearth exact"]) == "llama.cpp"
    assert choose_reference(["hearth dense", "x"]) == "x" and choose_reference(["hearth dense"]) == "hearth dense"
    assert bandwidth({"read_bandwidth": [{"threads": 1, "bytes_per_second": 5.0},
                                         {"threads": 2, "bytes_per_second": 9.0}]}, 1) == 5.0
    # Twice the speed in every round, though the machine slows down: the ratio says 2.00 and nothing else.
    runs = []
    for number, speed in enumerate((40.0, 20.0, 30.0)):
        for name, times, size in (("hearth dense", 1, 1e9), ("llama.cpp", 1, None), ("hearth exact", 2, 5e8)):
            runs.append({"round": number, "program": name, "command": [name], "decode": speed * times,
                         "bytes_per_token": size, "bandwidth_before": 50e9, "bandwidth_after": 30e9})
    table = decode_table(runs)
    assert "| hearth exact | 60.00 (40.00 .. 80.00) | 2.00 (2.00 .. 2.00) | 500 | 0.75 |" in table, table
    assert "| llama.cpp | 30.00 (20.00 .. 40.00) | 1.00 (1.00 .. 1.00) | 1000 | 0.75 |" in table, table
    assert prefill_table(runs, 64) == []
    assert decode_table(runs, 2) == [] and decode_table([{**run, "batch": 2} for run in runs]) == []
    assert decode_table([{**run, "batch": 2} for run in runs], 2)[2].endswith("| 1.00 (1.00 .. 1.00) | - | - |")
    print("ok")


def parse_arguments(arguments):
    p = argparse.ArgumentParser(prog="peers.py", description=__doc__.split("\n\n", 1)[0],
                                epilog=__doc__.split("\n\n", 1)[1],
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", help="dense GGUF file that every program reads")
    p.add_argument("--hearth-model", metavar="FILE", help="the same model neuron-major, for hearth's sparse modes")
    p.add_argument("--hearth", default=os.path.join(ROOT, "build", "release", "hearth"), metavar="PROGRAM")
    p.add_argument("--hearth-args", default="", metavar="WORDS", help="more options for `hearth bench`")
    p.add_argument("--modes", metavar="LIST", help="dense,exact; with --hearth-model dense,exact,predicted")
    p.add_argument("-t", "--threads", type=int, default=0, help="of every program; else one per core")
    p.add_argument("-r", "--rounds", type=int, default=7, help="7, for medians that mean something")
    p.add_argument("-n", "--predict", type=int, default=32, help="tokens decoded; 32")
    p.add_argument("--batch", type=lambda text: [int(word) for word in text.split(",")], default=[1], metavar="LIST",
                   help="sequences that are decoded at once, each number a table of its own; 1")
    p.add_argument("--prompt-length", type=int, default=64, metavar="P", help="tokens of the prompt; 64")
    p.add_argument("--venv", default=os.path.join(ROOT, "build", "peers"), metavar="DIR",
                   help="virtual environment with llama-cpp-python, made if absent; build/peers")
    p.add_argument("--package", default="llama-cpp-python", help="what pip installs, with a version if need be")
    p.add_argument("--no-llama", action="store_true", help="leave llama.cpp out")
    p.add_argument("--flash", choices=("off", "on", "both"), default="off", help="llama.cpp's flash attention; off")
    p.add_argument("--as-stored", action="store_true",
                   help="llama.cpp must not rearrange weights when it loads them (which it does for speed)")
    p.add_argument("--other", nargs=2, action="append", default=[], metavar=("NAME", "COMMAND"))
    p.add_argument("--pattern", nargs=2, action="append", default=[], metavar=("NAME", "REGEX"))
    p.add_argument("--out", default="peers", metavar="PREFIX", help="writes PREFIX.md and PREFIX.jsonl; peers")
    p.add_argument("--from", dest="log", metavar="LOG", help="print the table of a log and stop")
    p.add_argument("--timeout", type=float, default=1800, metavar="SECONDS", help="of one run; 1800")
    p.add_argument("--self-test", action="store_true", help="check what needs no model and stop")
    p.add_argument("--verbose", action="store_true", help="llama.cpp's own messages")
    p.add_argument("--llama-child", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--ids-file", help=argparse.SUPPRESS)
    options = p.parse_args(arguments)
    if not options.model and not options.log and not options.self_test:
        p.error("MODEL is missing")
    if min(options.rounds, options.predict, options.prompt_length, *options.batch) < 1 or options.threads < 0:
        p.error("rounds, tokens and threads must be positive")
    return options


def main():
    options = parse_arguments(sys.argv[1:])
    try:
        if options.self_test:
            self_test()
        elif options.log:
            print_again(options.log)
        elif options.llama_child:
            llama_child(options)
        else:
            compare(options)
    except (Failure, OSError, ValueError) as error:
        sys.exit(f"peers.py: {error}")


if __name__ == "__main__":
    main()
