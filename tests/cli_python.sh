# cli_python.sh - bindings/python: its structs are the header's; it loads, streams, forks and says what goes wrong.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

if sanitized; then
    pass # a sanitized library needs its runtime in the program, which is Python's
    finish
    exit
fi
command -v python3 >/dev/null || skip "there is no python3"
HEARTH_LIBRARY=$(find "$BUILD" -maxdepth 1 -name 'libhearth.so.0' | head -1)
[ -n "$HEARTH_LIBRARY" ] || skip "the shared library is not built"
export HEARTH_LIBRARY PYTHONPATH=$SOURCE/bindings/python PYTHONDONTWRITEBYTECODE=1

# ------------------------------------------------------------------ structs
python3 -c 'import ctypes, hearth
for name, struct in sorted(hearth.STRUCTS.items()):
    print(name, ctypes.sizeof(struct), *(getattr(struct, field[0]).offset for field in struct._fields_))' >"$scratch/python"
{
    echo '#include <hearth.h>
#include <stdio.h>
int main(void) {'
    python3 -c 'import hearth
for name, struct in sorted(hearth.STRUCTS.items()):
    offsets = "".join(f", offsetof({name}, {field[0]})" for field in struct._fields_)
    print("printf(\"%s %%zu%s\\n\", sizeof(%s)%s);" % (name, " %zu" * len(struct._fields_), name, offsets))'
    echo 'return 0; }'
} >"$scratch/sizes.c"
cc -std=c11 -I"$SOURCE/include" "$scratch/sizes.c" -o "$scratch/sizes"
"$scratch/sizes" >"$scratch/c"
diff "$scratch/c" "$scratch/python" && pass || fail "structs differ from hearth.h"

# ------------------------------------------------------------------ a model
golden=$DATA/golden/real/stories-relu/golden.json
value "$golden" prompts.0.greedy_text >"$scratch/expected"
"$HEARTH" eval logits "$DATA/models/stories-relu" --ids 1,403,407,261 --out "$scratch/logits" --sparsity exact --no-guard --kv f16 2>/dev/null
cat >"$scratch/use.py" <<'END'
import array
import sys

import hearth

path, scratch = sys.argv[1:]
with hearth.Model(path, mode="exact", sequences=3, context=128) as model:
    assert model.mode == "exact" and model.guarantee == "exact", (model.mode, model.guarantee)
    assert model.info.layer_count == 6 and model.info.vocabulary_size == 512
    ids = model.tokenize("Once upon a time")
    assert ids[0] == model.info.bos and model.detokenize(ids) == "Once upon a time", ids

    pieces = list(model.generate("Once upon a time", max_tokens=48, temperature=0))
    expected = open(scratch + "/expected", encoding="utf-8").read().rstrip("\n")
    assert "".join(pieces) == expected, pieces
    assert len(pieces) > 20, "it does not come piece by piece"

    # A conversation, by a template of hearth's: BOS comes from the vocabulary.
    talk = model.render([{"role": "user", "content": "Hi"}], template="chatml")
    assert talk == model.tokenize("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"), talk

    # A stop ends the answer and is not part of it; another sequence does not know of the first.
    assert "".join(model.generate(ids, temperature=0, stops=[" Lily"], sequence=1)) == ", there was a little girl named"

    # What a rule says, and nothing else.
    model.truncate(0, sequence=1)
    assert "".join(model.generate(ids, grammar='root ::= "a" | "bc"', seed=4, sequence=1)) in ("a", "bc")
    model.truncate(0, sequence=1)
    assert "".join(model.generate(ids, schema={"const": [1]}, sequence=1)) == "[1]"

    # The last logits are the command's (whose head reads four rows at once, and rounds otherwise), and a fork goes on as its source does.
    model.truncate(0)
    model.feed([1, 403, 407, 261])
    all_logits = array.array("f")
    all_logits.frombytes(open(scratch + "/logits", "rb").read())
    got, wanted = model.logits(), all_logits[-512:]
    assert max(abs(a - b) for a, b in zip(got, wanted)) <= 1e-5 * max(map(abs, wanted)), "logits differ"
    assert len(model.hidden()) == 1 and len(model.hidden()[0]) == model.info.embedding_length
    last = model.hidden()[0]
    model.truncate(0, sequence=1)
    model.feed([1, 403, 407, 261], sequence=1, outputs=2)
    assert len(model.hidden()) == 2
    assert max(abs(a - b) for a, b in zip(model.hidden()[1], last)) <= 1e-5 * max(map(abs, last)), "hidden states differ"
    assert max(abs(a - b) for a, b in zip(model.logits(), got)) <= 1e-5 * max(map(abs, wanted)), "logits of two outputs differ"
    model.truncate(0, sequence=1)
    model.fork(0, 2)
    assert model.length(2) == 4
    model.feed([378])
    first = model.logits()
    model.feed([378], sequence=2)
    assert model.logits() == first, "a fork goes another way"

    # A full context ends an answer; the next call finds no room.
    assert len(model.tokenize("".join(model.generate(ids, temperature=0, sequence=2)), special=False)) > 50
    for call, status, words in ((lambda: model.feed([1] * 200), 6, "context"), (lambda: list(model.generate([1] * 200)), 6, "context"),
                                (lambda: list(model.generate([])), 5, ""), (lambda: model.feed([512]), 5, "512"),
                                (lambda: model.fork(0, 3), 5, "sequence"), (lambda: model.truncate(9999), 5, "")):
        try:
            call()
        except hearth.HearthError as error:
            assert error.status == status and words in str(error), (error.status, str(error))
        else:
            raise AssertionError(f"{words}: nothing was raised")
assert model.info.family == b"llama" and model.info.path == path.encode(), "what is known of a model ends with it"
try:
    model.feed([1])
except ValueError as error:
    assert "closed" in str(error)
else:
    raise AssertionError("a closed model reads")
for arguments, kind, words in (((path + "-missing",), hearth.HearthError, "cannot open"),
                               ((path, "frob"), ValueError, "unknown mode 'frob'")):
    try:
        hearth.Model(arguments[0], mode=arguments[1] if len(arguments) > 1 else "auto")
    except kind as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(words)
print("done")
END
is "use" "$(python3 "$scratch/use.py" "$DATA/models/stories-relu" "$scratch" 2>&1 | tail -n 3)" "done"
is "version" "hearth $(python3 -c 'import hearth; print(hearth.version())')" "$("$HEARTH" --version)"

finish
