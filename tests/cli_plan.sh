# cli_plan.sh - `hearth plan`, and models that place themselves: what is printed, that it is a placement, that answers are
# the same, and wrong input. No test asserts a time.
command -v python3 >/dev/null || skip "python3 is absent"
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$SOURCE/models/stories-relu-q8_0.gguf
said=$scratch/said

# ------------------------------------------------------------------ a model, beside a device

plan() { # plan OPTION...: what it prints goes to $said
    "$HEARTH" plan "$model" "$@" >"$said" 2>"$scratch/err" || fail "plan $*: $(cat "$scratch/err")"
}
plan -t 1 --device host
lines=$(wc -l <"$said")
[ "$lines" -ge 5 ] && [ "$lines" -le 6 ] && pass || fail "a plan of $lines lines"
for word in "machine: " "placed: " "memory: " "predicted: " "instead: "; do
    has "a plan" "$(cat "$said")" "$word"
done
plan -t 1 --device host --gpu-layers 3 --gpu-neurons 100
has "what was asked for" "$(cat "$said")" "placed: 3 of 6 layers on host, 3 of them split (20 % of their neurons there)"

# The placement of a plan is one, with the neurons that were asked for; running it gives the answer of the CPU.
plan -t 1 --device host --gpu-layers 3 --gpu-neurons 100 --json
is "forms" "$(value "$said" layers.0.form) $(value "$said" layers.5.form)" "host split"
is "neurons there" "$(value "$said" layers.5.device_neurons)" 100
is "source" "$(value "$said" costs.kinds.0.cpu.mixer_seconds.source)" measured
is "source of shares" "$(value "$said" costs.change_seconds.source)" derived
is "source of all" "$(value "$said" predicted.source)" derived # the least certain of what it uses
python3 - "$said" "$scratch/place.json" <<'END'
import json, sys
plan = json.load(open(sys.argv[1]))
terms = plan["predicted"]["terms"]
assert abs(sum(terms.values()) - plan["predicted"]["token_seconds"]) < 1e-9, "terms do not add up"
assert plan["bound"] == max(terms, key=terms.get), "bound"
assert sum(l["device_bytes"] for l in plan["layers"]) <= plan["budget"]["device"]["weights"] + 1
json.dump(plan["placement"], open(sys.argv[2], "w"))
END
"$HEARTH" run "$model" -p "Once" -n 30 --temp 0 --activations f32 --no-guard -q >"$scratch/alone" || fail "alone"
"$HEARTH" run "$model" -p "Once" -n 30 --temp 0 --activations f32 -t 1 --device host --place "$scratch/place.json" -q \
    >"$scratch/placed" || fail "placed"
is "a placed story" "$(cat "$scratch/placed")" "$(cat "$scratch/alone")"

# A run places itself, says so in at most seven lines with its line of status, and gives the same answer.
"$HEARTH" run "$model" -p "Once" -n 30 --temp 0 --activations f32 -t 1 --device host >"$scratch/itself" 2>"$scratch/err" ||
    fail "run: $(cat "$scratch/err")"
is "a story that placed itself" "$(cat "$scratch/itself")" "Once$(cat "$scratch/alone")"
[ "$(grep -vc '^note: ' "$scratch/err")" -le 7 ] && pass || fail "too many lines: $(cat "$scratch/err")"
has "where it lies" "$(cat "$scratch/err")" "placed: "
"$HEARTH" run "$model" -p "Once" -n 3 --temp 0 -t 1 --device host --json >"$said" 2>/dev/null || fail "run --json"
# Which plan it makes depends on what it measured, and so does whether start_seconds and change_seconds are among its figures.
expected=$(python3 - "$said" <<'END'
import json, sys
layers = json.load(open(sys.argv[1]))["plan"]["layers"]
print("measured" if all(layer["form"] == "host" for layer in layers) else "derived")
END
)
is "where the plan of a run is from" "$(value "$said" plan.predicted.source)" "$expected"
"$HEARTH" run "$model" -p "Once" -n 30 --temp 0 -t 1 --device host --json -v >"$said" 2>"$scratch/err" || fail "run --json -v"
python3 - "$said" <<'END' || fail "parts of a run: $(cat "$said")"
import json, sys
run = json.load(open(sys.argv[1]))["plan"]["run"]
assert run["token_seconds"]["achieved"] > 0 and run["token_seconds"]["predicted"] > 0
if "mixers" in run:  # else something was faster than the plan when they were tried
    parts = [run[part]["achieved"] for part in ("mixers", "neurons", "rest")]
    assert abs(sum(parts) - run["token_seconds"]["achieved"]) < 1e-9 and min(parts[:2]) > 0
END
grep -q "^achieved: .* ms per token, predicted " "$scratch/err" && pass || fail "run -v: $(cat "$scratch/err")"
"$HEARTH" run "$model" -p "Once" -n 3 --temp 0 -t 1 --device host -ngl 6 --json >"$said" || fail "run -ngl --json"
is "no plan where it is placed by hand" "$(value "$said" plan)" null

# Too little memory leaves everything on the CPU.
plan -t 1 --device host --vram 1000
has "without memory" "$(cat "$said")" "placed: everything on the CPU"

# ------------------------------------------------------------------ a GPU, which nobody names

# With a driver that needs no GPU (tests/fake_cuda.c): it is found, measured and planned for. Where it fails nothing is lost.
fake=$BUILD/tests/fake
if [ -e "$fake/libcuda.so.1" ] && ! sanitized; then
    beside() { # beside NAME=VALUE... WORD...: a run, what it says in err
        rm -f "$scratch"/cache/hearth/survey-*
        env "LD_LIBRARY_PATH=$fake" "OCL_ICD_VENDORS=$fake" "$@" run "$model" -p "Once" -n 30 --temp 0 --activations f32 \
            >"$scratch/itself" 2>"$scratch/err" || fail "beside $*: $(cat "$scratch/err")"
        is "a story beside $*" "$(cat "$scratch/itself")" "Once$(cat "$scratch/alone")"
    }
    beside "$HEARTH"
    has "a GPU" "$(cat "$scratch/err")" "cuda:0 fake device 0"
    beside FAKE_CUDA_FAULT=200 "$HEARTH"
    # While layers are timed; or while the machine is described, where that was not stored because the machine is busy.
    has "a GPU that fails" "$(cat "$scratch/err")" "cuda:0: running a program: "
    has "a GPU that fails" "$(cat "$scratch/err")" "on the CPU"
    beside FAKE_CUDA_FAULT=5 "$HEARTH"
    has "a GPU that fails at once" "$(cat "$scratch/err")" "warning: cuda:0: "
    beside FAKE_CUDA_MEMORY=1000 "$HEARTH"
    has "a GPU that is full" "$(cat "$scratch/err")" "warning: cuda: measuring: "
    env "LD_LIBRARY_PATH=$fake" "OCL_ICD_VENDORS=$fake" FAKE_CUDA_MEMORY=1000 "$HEARTH" plan "$model" >"$said" \
        2>"$scratch/err" || fail "plan beside a full GPU: $(cat "$scratch/err")"
    has "a plan beside a full GPU" "$(cat "$said")" "placed: everything on the CPU"
    env "LD_LIBRARY_PATH=$fake" "OCL_ICD_VENDORS=$fake" "$HEARTH" run "$model" -p x --sparsity predicted >/dev/null \
        2>"$scratch/err" && fail "predicted without predictors"
    is "lines of an error that is not the GPU's" "$(wc -l <"$scratch/err")" 1
    beside FAKE_CUDA_MEMORY=1000000 "$HEARTH"
    has "a GPU with little memory" "$(cat "$scratch/err")" "placed: "
    got=0
    env "LD_LIBRARY_PATH=$fake" "OCL_ICD_VENDORS=$fake" FAKE_CUDA_FAULT=5 "$HEARTH" run "$model" -p x --device cuda \
        >/dev/null 2>"$scratch/err" || got=$?
    is "exit status where it was asked for" $got 1
    has "where it was asked for" "$(cat "$scratch/err")" "hearth: cuda:0: "
fi

# ------------------------------------------------------------------ what is not at hand

for machine in "$SOURCE"/machines/*.json; do
    for shape in llama-relu-70b smallthinker-21b; do
        before=999999
        for vram in 1M 1G 4G 8G 200G; do
            "$HEARTH" plan --machine "$machine" --shape $shape --format q4_0 --vram $vram --ram 500G --json >"$said" ||
                fail "$machine $shape $vram"
            now=$(value "$said" predicted.token_seconds)
            awk -v now="$now" -v before=$before 'BEGIN { exit !(now > 0 && now <= before) }' && pass ||
                fail "$machine $shape: $vram makes it slower: $now after $before"
            before=$now
        done
    done
done
"$HEARTH" plan --machine pc-high --shape opt-30b --sparsity predicted --svg "$scratch/plan.svg" >"$said" || fail "svg"
has "a picture" "$(cat "$scratch/plan.svg")" "OPT-30B: what lies where"
has "a plan of a shape" "$(cat "$said")" "NVIDIA GeForce RTX 4090"

# ------------------------------------------------------------------ what is wrong

refused 1 "no-such-machine" "$HEARTH" plan --machine no-such-machine --shape opt-30b
refused 1 "no-such-shape" "$HEARTH" plan --machine pc-high --shape no-such-shape
echo '{"name": "x", "cpu": {"threads": 0}}' >"$scratch/machine.json"
refused 1 "machine.json: cpu" "$HEARTH" plan --machine "$scratch/machine.json" --shape opt-30b
refused 2 "takes the place of MODEL" "$HEARTH" plan "$model" --shape opt-30b
refused 2 "needs --shape" "$HEARTH" plan "$model" --machine pc-high
refused 2 "is for --shape" "$HEARTH" plan "$model" --format f16
refused 2 "is not a size" "$HEARTH" plan "$model" --vram much
refused 2 "run: --vram: 'much' is not a size" "$HEARTH" run "$model" -p x --vram much # also where nothing is planned
refused 2 "the plan says what lies where" "$HEARTH" plan "$model" --place x.json
refused 1 "main memory has" "$HEARTH" plan --machine laptop-8g --shape opt-175b
refused 1 "does not fit" "$HEARTH" plan "$model" --device host,memory=200K --gpu-layers 6
refused 1 "cannot create" "$HEARTH" plan "$model" --svg "$scratch/no/plan.svg"

finish
