# cli_sparsity.sh - modes at the command line: what they may claim, what they say, and the guard that never shows in an answer.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

pwri=$DATA/golden/pwri
remembered() { find "$XDG_CACHE_HOME" -type f 2>/dev/null | wc -l; }
logits() { # logits OUT MODEL OPTIONS...
    "$HEARTH" eval logits "$2" --verbose --out "$scratch/$1" --ids "$ids" "${@:3}" 2>"$scratch/err" ||
        fail "eval logits ${*:2}: $(cat "$scratch/err")"
}
same() { # same WHAT A B
    cmp -s "$scratch/$2" "$scratch/$3" && pass || fail "$1: other bytes"
}

# Neuron-major files: dense, exact and whatever the guard chose give the same bytes, by any number of threads.
for name in llama/f32 llama/f16 llama/q4_0 bamboo/f32 bamboo/f16 bamboo/q4_0; do
    model=$pwri/$name.gguf
    ids=$(value "$pwri/${name%/*}/cases.json" 0.ids)
    logits dense "$model" --sparsity dense
    has "$name dense" "$(cat "$scratch/err")" "mode dense, guarantee bitwise"
    for threads in 1 2 3; do
        logits exact "$model" --sparsity exact --no-guard -t $threads
        same "$name exact, $threads threads" dense exact
        has "$name exact" "$(cat "$scratch/err")" "mode exact, guarantee bitwise: same answer as dense"
        case "$(cat "$scratch/err")" in
            *guard*) fail "$name: --no-guard and yet a guard" ;;
            *) pass ;;
        esac
        logits first "$model" -t $threads
        has "$name guard" "$(cat "$scratch/err")" "guard: "
        case "$(cat "$scratch/err")" in # the machine may have been busy while tests run
            *"on a busy machine: the next run measures again"*) again="guard: " ;;
            *) again="in an earlier run" ;;
        esac
        logits second "$model" --sparsity exact -t $threads
        has "$name guard, once more" "$(cat "$scratch/err")" "$again"
        same "$name guard" dense first
        same "$name guard, remembered" dense second
    done
done
is "one file for each model and number of threads" "$(remembered)" 18

# What is remembered may be damaged, somebody else's, or impossible to write: no error, the same bytes, a sound file again.
model=$pwri/llama/f16.gguf
rm -r "${scratch:?}/cache"
logits dense "$model" --sparsity dense
is "dense remembers nothing" "$(remembered)" 0
HEARTH_NO_CACHE=1 logits guarded "$model"
is "HEARTH_NO_CACHE" "$(remembered)" 0
logits guarded "$model"
file=$(find "$XDG_CACHE_HOME" -type f)
has "name of the file" "$file" "$XDG_CACHE_HOME/hearth/guard-"
key=$(value "$file" key)
for damage in "" "{" "[]" "{\"key\":\"$key\"}" \
    "{\"hearth.guard\":2,\"key\":\"$key\",\"layers\":[\"stock\",\"stock\"],\"dense_seconds\":1,\"exact_seconds\":1,\"density\":0.1,\"busy\":false}" \
    "{\"hearth.guard\":2,\"key\":\"$key\",\"layers\":[\"dense\"],\"dense_seconds\":1,\"exact_seconds\":1,\"density\":0.1,\"busy\":false}"; do
    printf '%s' "$damage" >"$file"
    logits guarded "$model"
    same "damaged: $damage" dense guarded
    is "written anew behind: $damage" "$(value "$file" key) $(value "$file" layers | tr ',' '\n' | wc -l)" "$key 2"
done
# Layers on both modes, as a file that is sound may say.
for layers in '"dense","sparse"' '"sparse","dense"' '"dense","dense"'; do
    printf '{"hearth.guard":3,"key":"%s","layers":[%s],"dense_seconds":0.0051,"exact_seconds":0.0022,"density":0.12,"busy":false}' \
        "$key" "$layers" >"$file"
    logits guarded "$model"
    same "layers $layers" dense guarded
    case $layers in
        *sparse*) expected="guard: exact in 1 of 2 layers (measured: FFN 5.1 ms dense, 2.2 ms exact; in an earlier run)" ;;
        *) expected="guard: dense in all layers (measured: FFN 5.1 ms dense, 2.2 ms exact; in an earlier run)" ;;
    esac
    has "layers $layers" "$(cat "$scratch/err")" "$expected"
    has "guarantee with layers $layers" "$(cat "$scratch/err")" "guarantee bitwise"
done
logits guarded "$model" --measure-again
same "measured again" dense guarded
case "$(cat "$scratch/err")" in
    *"in an earlier run"*) fail "--measure-again remembered" ;;
    *"guard: "*"measured: FFN "*) pass ;;
    *) fail "--measure-again: $(cat "$scratch/err")" ;;
esac
refused 2 "no-guard measures nothing" "$HEARTH" run "$model" -p x --measure-again --no-guard
cache=$XDG_CACHE_HOME
for folder in /dev/null /proc/nowhere relative; do
    XDG_CACHE_HOME=$folder HOME=/dev/null logits guarded "$model"
    same "cache in $folder" dense guarded
done
[ -e relative ] && fail "a relative XDG_CACHE_HOME was taken" || pass
XDG_CACHE_HOME=$cache

# Predicted: lossy, and says so; the threshold decides what is let through.
logits predicted "$model" --sparsity predicted
has "guarantee of predicted" "$(cat "$scratch/err")" "mode predicted, guarantee lossy"
cmp -s "$scratch/predicted" "$scratch/dense" && fail "predicted gives what dense gives" || pass
logits all "$model" --sparsity predicted --threshold -1e30
same "a threshold below all scores" dense all
logits none "$model" --sparsity predicted --threshold 1e30
cmp -s "$scratch/none" "$scratch/predicted" && fail "the threshold changes nothing" || pass

# A placement says for each layer what is skipped: no guard looks after it.
part='"assignments":[{"side":"cpu","neurons":[[0,1056]]}]'
cat >"$scratch/place.json" <<END
{"sides":["cpu"],"kv":"cpu","embedding":"cpu","head":"cpu",
 "layers":[{"form":"host","selector":"sign",$part},{"form":"host","selector":"all",$part}]}
END
logits placed "$model" --place "$scratch/place.json"
same "placement" dense placed
is "mode of a placement" "$(grep -c 'mode exact\|guard' "$scratch/err")" 1

# What cannot be: the file, the reason, and what to do.
silu=$DATA/golden/llama/model.gguf
refused 1 "$silu: mode exact: the activation silu" "$HEARTH" eval logits "$silu" --ids 1 --out "$scratch/no" --sparsity exact
refused 1 "$silu: mode predicted: the model has no predictors" "$HEARTH" eval logits "$silu" --ids 1 --out "$scratch/no" \
    --sparsity predicted
ids=1,2,3
logits silu "$silu"
has "auto without zeros" "$(cat "$scratch/err")" "mode dense, guarantee bitwise: every neuron"

# Stock layout: transposed, within rounding of dense; block formats are rounded once more, and that is said.
stock=$DATA/golden/llama-relu/model.gguf
logits dense "$stock" --sparsity dense
logits exact "$stock" --sparsity exact --no-guard
has "guarantee of a transposed float file" "$(cat "$scratch/err")" "guarantee exact: only zeros are skipped"
close "stock layout, exact" "$scratch/exact" "$scratch/dense" 1e-5
demo=$scratch/demo.gguf
"$HEARTH" convert "$DATA/models/stories-relu" -o "$scratch/float.gguf" 2>/dev/null
"$HEARTH" quantize "$scratch/float.gguf" "$demo" q8_0 2>/dev/null
"$HEARTH" run "$demo" -p "Once upon a time" -n 12 --temp 0 --no-guard --verbose >"$scratch/text" 2>"$scratch/err"
has "memory of the copies" "$(cat "$scratch/err")" ", transposed "
has "guarantee of a transposed block file" "$(cat "$scratch/err")" "guarantee requantised"
has "what was rounded" "$(cat "$scratch/err")" "note: down was rounded again, to Q8_0"
has "what was skipped" "$(cat "$scratch/err")" "; 8? % of neurons skipped, "
"$HEARTH" run "$demo" -p "Once upon a time" -n 12 --temp 0 --sparsity dense --verbose >"$scratch/text" 2>"$scratch/err"
has "dense skips nothing" "$(cat "$scratch/err")" "; no neurons skipped, "
is "dense copies nothing" "$(grep -c 'transposed\|note' "$scratch/err" || true)" 0

# The same for programs.
"$HEARTH" run "$demo" -p "Once upon a time" -n 12 --temp 0 --no-guard --json >"$scratch/run.json"
is "mode" "$(value "$scratch/run.json" mode) $(value "$scratch/run.json" guarantee)" "exact requantised"
is "no guard" "$(value "$scratch/run.json" guard)" null
near "density" "$(value "$scratch/run.json" sparsity.density)" 0.15 0.1
is "computed" "$(value "$scratch/run.json" sparsity.computed)" 1
less=$(awk -v a="$(value "$scratch/run.json" sparsity.bytes_per_token)" \
    -v b="$(value "$scratch/run.json" sparsity.dense_bytes_per_token)" 'BEGIN { print (a > 0 && a < 0.8 * b) }')
is "fewer bytes than dense" "$less" 1
"$HEARTH" run "$demo" -p "Once upon a time" -n 12 --temp 0 --json >"$scratch/run.json"
is "layers under guard" "$(value "$scratch/run.json" guard.layers)" 6
is "exact loses nothing to speak of" "$(value "$scratch/run.json" ids)" \
    "$("$HEARTH" run "$demo" -p "Once upon a time" -n 12 --temp 0 --json --sparsity dense | value - ids)"
echo "One day a little cat named Max found a red ball in the park." >"$scratch/words"
"$HEARTH" eval ppl "$demo" "$scratch/words" --json --sparsity exact --no-guard >"$scratch/ppl.json"
is "mode of eval ppl" "$(value "$scratch/ppl.json" mode) $(value "$scratch/ppl.json" guarantee)" "exact requantised"

finish
