"""lm_eval_package.py HEARTH MODEL [PART...] - the Python package `lm_eval` as a client of `hearth serve`.

Its tasks are those of the folder tasks/, their texts stories of models/stories-held.txt; there is no network. It knows
nothing of the model: it lets the server tokenize. What it must find comes from `hearth eval ppl` and `hearth eval logits`.
To add a task, write its file and its documents, and compare what it finds.
"""
import glob
import json
import math
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

from common import EXACT, MODEL, Server, check, commands, hearth, log_probabilities, near, run, same, token_ids

HERE = pathlib.Path(__file__).resolve().parent
CONTEXT = 512
SEPARATOR = "<|endoftext|>"
BOUND = 1e-3  # nats

stories = [s.strip() for s in (HERE.parent.parent / "models" / "stories-held.txt").read_text().split(SEPARATOR)]
folder = tempfile.TemporaryDirectory()
server = Server("--alias", "stories")


def questions(parts, count):
    """Of pairs of a beginning and what comes next, the first `count`: each with four choices, of which three are from the
    pairs behind it. The right one comes at another place each time."""
    made = []
    for turn, (begin, right) in enumerate(parts[:count]):
        others = list(dict.fromkeys(other for _, other in parts[turn + 1:] + parts[:turn] if other != right))[:3]
        made.append({"begin": begin, "choices": others[:turn % 4] + [right] + others[turn % 4:], "answer": turn % 4})
    return made


def endings(count):
    """Five sentences of a story; the sixth."""
    parts = [" ".join(s.split()).split(". ") for s in stories]
    return questions([(". ".join(p[:5]) + ".", p[5] + ".") for p in parts if len(p) > 6], count)


def words(count, first=0):
    """A story's first sentence but for its last word; that word."""
    sentences = [s.split(". ")[0].split() for s in stories[first:]]
    return questions([(" ".join(p[:-1]), p[-1]) for p in sentences if 8 < len(p) < 30], count)


def short(count):
    return [s for s in stories if 200 < len(s) < 900][:count]


def write(name, documents):
    lines = "".join(json.dumps(d) + "\n" for d in documents)
    pathlib.Path(folder.name, name + ".jsonl").write_text(lines)


def evaluate(*tasks):
    """Runs the command of docs/serve.md with other tasks. Returns the results and samples of each."""
    out = tempfile.mkdtemp(dir=folder.name)
    told = commands("lm_eval", server.url)
    same("commands of the page", len(told), 1)
    told = told[0].replace("\\\n", " ").replace("--limit 100", "").replace("hellaswag", ",".join(tasks))
    words = shlex.split(told)
    check("its tasks", ",".join(tasks) in words, words)
    environment = dict(os.environ, HF_HOME=out, HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1")
    done = subprocess.run([sys.executable, "-m", *words, "--include_path", str(HERE / "tasks"), "--output_path", out, "--log_samples"],
                          cwd=folder.name, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=500)
    check("lm_eval", done.returncode == 0, done.stderr[-600:])
    results = json.loads(pathlib.Path(glob.glob(out + "/**/results_*.json", recursive=True)[0]).read_text())["results"]
    samples = {}
    for task in tasks:
        lines = pathlib.Path(glob.glob(out + "/**/samples_%s_*.jsonl" % task, recursive=True)[0]).read_text().splitlines()
        samples[task] = sorted(map(json.loads, lines), key=lambda s: s["doc_id"])
    return results, samples


def likelihood(ids, scored):
    """Returns the log-probability of the last `scored` of ids, and whether each of them was the likeliest."""
    found = log_probabilities(ids)[-scored:]
    return sum(p for p, _ in found), all(is_likeliest for _, is_likeliest in found)


def compare_perplexity(results):
    """Stories that fit into the context, as `hearth eval ppl` scores them."""
    texts = short(24)
    path = pathlib.Path(folder.name, "texts")
    path.write_text(SEPARATOR.join(texts))
    expected = json.loads(hearth("eval", "ppl", MODEL, str(path), "--separator", SEPARATOR, "--json", *EXACT, "-c", str(CONTEXT)))
    same("windows", expected["windows"], len(texts))
    size = sum(len(t.encode()) for t in texts)
    loss = results["bits_per_byte,none"] * math.log(2) * size / expected["tokens"]
    near("loss", loss, expected["mean_nll"], BOUND)
    near("bytes", math.log(results["byte_perplexity,none"]) * size / expected["tokens"], expected["mean_nll"], BOUND)
    count = sum(len(t.split()) for t in texts)
    near("words", math.log(results["word_perplexity,none"]) * count / expected["tokens"], expected["mean_nll"], BOUND)
    print("  loss %.6f in %d tokens (hearth eval ppl: %.6f)" % (loss, expected["tokens"], expected["mean_nll"]))


def long_text():
    return "\n".join(short(60)[24:40])


def compare_windows(results):
    """A longer text: lm_eval asks for windows of max_length - 1 tokens, of which all but the first are scored, save that
    the last is filled up with tokens that the one before it has scored."""
    ids, text, total = token_ids(long_text())[1:], long_text(), 0
    bos, step = token_ids("x")[0], CONTEXT - 2
    check("it is long", len(ids) > 3 * CONTEXT, len(ids))
    for begin in range(0, len(ids), step):
        end = min(begin + step, len(ids))
        total += likelihood([bos] + ids[:end] if begin == 0 else ids[end - step - 1:end], end - begin)[0]
    loss = results["bits_per_byte,none"] * math.log(2) * len(text.encode()) / len(ids)
    near("loss of windows", loss, -total / len(ids), BOUND)
    print("  loss %.6f in %d tokens (hearth eval logits: %.6f)" % (loss, len(ids), -total / len(ids)))


def compare_choices(task, documents, results, samples):
    """Every choice of every document, then what is made of all of them."""
    right = {"acc": 0, "acc_norm": 0}
    closest, worst = math.inf, 0
    same("documents of %s" % task, [s["doc"] for s in samples], documents)
    for document, sample in zip(documents, samples):
        scores = []
        for number, choice in enumerate(document["choices"]):
            asked = sample["arguments"]["gen_args_%d" % number]
            check("a question", asked["arg_0"].endswith(document["begin"]) and asked["arg_1"] == " " + choice, asked)
            before, whole = token_ids(asked["arg_0"])[1:], token_ids(asked["arg_0"] + asked["arg_1"])[1:]
            expected, is_likeliest = likelihood(whole, len(whole) - len(before))
            got, said = sample["filtered_resps"][number]
            near("a choice of %s" % task, float(got), expected, BOUND)
            same("is the likeliest", str(said), str(is_likeliest))
            worst = max(worst, abs(float(got) - expected))
            scores.append(expected)
        norm = [s / len(c) for s, c in zip(scores, document["choices"])]
        for name, values in (("acc", scores), ("acc_norm", norm)):
            right[name] += max(values) == values[document["answer"]]
            best = sorted(values)[-2:]
            closest = min(closest, best[1] - best[0])
    for name, count in right.items():
        near("%s of %s" % (name, task), results[name + ",none"], count / len(documents), 1e-9)
    check("no rounding decides between choices", closest > 2 * worst, (closest, worst))
    print("  %s: acc %.3f, acc_norm %.3f of %d documents, log-likelihoods within %.1e" %
          (task, results["acc,none"], results["acc_norm,none"], len(documents), worst))


def tasks():
    ending, word = endings(12), words(12, 100)
    write("stories_perplexity", [{"text": t} for t in short(24)])
    write("stories_windows", [{"text": long_text()}])
    write("stories_ending", ending)
    write("stories_word", word)
    write("stories_examples", words(2, 60))
    names = ("stories_perplexity", "stories_windows", "stories_ending", "stories_word")
    results, samples = evaluate(*names)
    compare_perplexity(results["stories_perplexity"])
    compare_windows(results["stories_windows"])
    compare_choices("stories_ending", ending, results["stories_ending"], samples["stories_ending"])
    compare_choices("stories_word", word, results["stories_word"], samples["stories_word"])
    check("examples come first", samples["stories_word"][0]["arguments"]["gen_args_0"]["arg_0"].startswith(words(2, 60)[0]["begin"]),
          samples["stories_word"][0]["arguments"])


def end():
    server.end()
    folder.cleanup()


run(tasks, end)
