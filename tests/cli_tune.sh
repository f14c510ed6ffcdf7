# cli_tune.sh - `hearth tune`: a file appears beside the model and does what the summary says. What stops it, or it refuses:
# cli_tune_stops.sh.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$scratch/stories-relu
text=$scratch/text.txt
said=$scratch/said
cp -r "$DATA/models/stories-relu" "$model" # the tune file appears beside the model
chmod -R u+w "$model"
size=14000
sanitized && size=7000
head -c $size "$SOURCE/models/stories-held.txt" >"$text"
export HEARTH_NO_CACHE=1

tune() { # tune OUT OPTION...: a small tuning whose result is no matter of clocks
    "$HEARTH" tune "$model" --corpus "$text" --out "$1" --choose bytes --recall 0.98 --epochs 2 "${@:2}"
}

# ------------------------------------------------------------------ what comes out
"$HEARTH" tune "$model/" --corpus "$text" --choose bytes --recall 0.98 --epochs 2 --json >"$said" 2>"$scratch/err"
is "standard error" "$(cat "$scratch/err")" ""
is "path" "$(value "$said" path)" "$model.tune"
[ -s "$model.tune" ] && pass || fail "no tune file"
[ ! -e "$model.tune.work" ] && pass || fail "the work folder is still there"
is "bytes" "$(value "$said" bytes)" "$(wc -c <"$model.tune")"
if awk -v s="$(value "$said" spent_bytes)" -v b="$(value "$said" budget_bytes)" 'BEGIN { exit !(s > 0 && s <= b) }'
then pass; else fail "spent $(value "$said" spent_bytes) of $(value "$said" budget_bytes)"; fi

chosen=0
for layer in 0 1 2 3 4 5; do
    exact=$(value "$said" layers.$layer.exact_bytes)
    got=$(value "$said" layers.$layer.chosen_bytes)
    case $(value "$said" layers.$layer.chosen) in
        none) is "bytes of layer $layer" "$got" "$exact" ;;
        *)
            chosen=$((chosen + 1))
            if awk -v g="$got" -v e="$exact" 'BEGIN { exit !(g < 0.97 * e) }'; then pass; else
                fail "layer $layer reads $got, exact $exact"
            fi
            ;;
    esac
    [ -n "$(value "$said" layers.$layer.why)" ] && pass || fail "layer $layer: no reason"
done
[ $chosen -gt 0 ] && pass || fail "no layer got a predictor"

# Every command finds it: predicted runs, is not exact, and is as far from it as was said.
ids=1,403,407,261,378,410,300,282,299,263,298,267,341,350,261,360
for mode in exact predicted pruned; do
    "$HEARTH" eval logits "$model" --ids $ids --sparsity $mode --no-guard --kv f32 --out "$scratch/$mode" 2>/dev/null
done
cmp -s "$scratch/exact" "$scratch/predicted" && fail "predicted is exact" || pass
cmp -s "$scratch/exact" "$scratch/pruned" && fail "pruned is exact" || pass
close "predicted beside exact" "$scratch/predicted" "$scratch/exact" 0.25
loss=$(value "$said" loss.mean_kl)
"$HEARTH" eval kl "$model" "$text" --against exact --sparsity predicted --json >"$scratch/kl" 2>/dev/null
if awk -v p="$loss" -v k="$(value "$scratch/kl" mean_kl)" 'BEGIN { exit !(p > 0 && p < 0.1 && k < 3 * p && p < 3 * k) }'
then pass; else fail "KL was said to be $loss, eval kl says $(value "$scratch/kl" mean_kl)"; fi
echo "  KL: said $loss, eval kl $(value "$scratch/kl" mean_kl)"
"$HEARTH" run "$model" -p "Once upon a time" -n 8 --temp 0 --sparsity predicted --json >"$scratch/run" 2>/dev/null
is "mode" "$(value "$scratch/run" mode)" predicted
is "no recall is held" "$(value "$scratch/run" sparsity.recall)" null

# A recall that is held lets through more than the predictors as they are where it is higher, and less where it is lower.
through=$(value "$scratch/run" sparsity.computed)
for recall in 0.999 0.6; do
    "$HEARTH" run "$model" -p "Once upon a time" -n 200 --ignore-eos --temp 0 --sparsity predicted --recall $recall --json \
        >"$scratch/held" 2>"$scratch/err" || fail "run --recall: $(cat "$scratch/err")"
    is "target" "$(value "$scratch/held" sparsity.recall_target)" $recall
    near "recall by probes" "$(value "$scratch/held" sparsity.recall)" $recall 0.1
    echo "  recall $recall: $(value "$scratch/held" sparsity.recall), $(value "$scratch/held" sparsity.computed) let through (as tuned $through)"
    if awk -v r=$recall -v h="$(value "$scratch/held" sparsity.computed)" -v t="$through" 'BEGIN { exit !(r > 0.9 ? h > t : h < t) }'
    then pass; else fail "recall $recall lets through $(value "$scratch/held" sparsity.computed), as tuned $through"; fi
done
"$HEARTH" run "$model" -p "Once upon a time" -n 8 --temp 0 --sparsity predicted --recall 0.9 >/dev/null 2>"$scratch/err"
has "the line of status" "$(cat "$scratch/err")" " by probes, target 0.9"
refused 2 "--recall: needs --sparsity predicted, and no --threshold" "$HEARTH" run "$model" --sparsity exact --recall 0.9 -p x
refused 2 "--recall: needs --sparsity predicted, and no --threshold" \
    "$HEARTH" run "$model" --sparsity predicted --threshold 0 --recall 0.9 -p x
refused 2 "recall 1: must be above 0 and below 1" "$HEARTH" run "$model" --sparsity predicted --recall 1 -p x

# The summary for people names each layer and the command to go on with.
tune "$scratch/again.tune" >"$said" 2>/dev/null
has "summary" "$(cat "$said")" "run it: hearth run $model --tune $scratch/again.tune --sparsity predicted"
has "summary" "$(cat "$said")" "tokens that training did not see: KL"
"$HEARTH" inspect "$model" --json >"$scratch/inspected"
for layer in 0 1 2 3 4 5; do # as counted, in every layer
    near "layer $layer fires" "$(awk -v l=$layer '$1 == l && $3 == "%" { print $2 }' "$said")" \
        "$(awk -v d="$(value "$scratch/inspected" tune.layers.$layer.density)" 'BEGIN { print 100 * d }')" 0.051
done
cmp -s "$scratch/again.tune" "$model.tune" && pass || fail "the same tuning gave another file"

# ------------------------------------------------------------------ the folder kept
# The folder kept: another recall goes on from the hidden states. Another text begins anew, and says so.
tune "$scratch/kept.tune" --keep-work >/dev/null 2>&1
before=$(stat -c %Y.%i "$scratch/kept.tune.work/layer-0.states")
tune "$scratch/kept.tune" --keep-work --recall 0.95 >/dev/null 2>"$scratch/err"
is "hidden states" "$(stat -c %Y.%i "$scratch/kept.tune.work/layer-0.states")" "$before"
is "standard error" "$(cat "$scratch/err")" ""
head -c 5000 "$text" >"$scratch/other.txt"
"$HEARTH" tune "$model" --corpus "$scratch/other.txt" --out "$scratch/kept.tune" --choose bytes --epochs 1 >/dev/null \
    2>"$scratch/err"
has "another text" "$(cat "$scratch/err")" "begun anew"

# ------------------------------------------------------------------ ids, several texts, SiLU
"$HEARTH" tokenize "$model" -f "$text" >"$scratch/ids"
"$HEARTH" tune "$model" --ids "$scratch/ids" --out "$scratch/ids.tune" --choose bytes --epochs 1 --json >"$said"
is "tokens of ids" "$(value "$said" tokens)" "$(wc -w <"$scratch/ids")"
"$HEARTH" tune "$DATA/models/stories260K" --corpus "$scratch/other.txt" "$text" --out "$scratch/silu.tune" >"$said"
has "SiLU" "$(cat "$said")" "never exactly zero"
# What is recommended costs no more than promised, and is what --sparsity pruned does; where no level is that good none is
# taken unasked.
silu=$DATA/models/stories260K
"$HEARTH" inspect "$silu" --tune "$scratch/silu.tune" --json >"$scratch/inspected"
best=-1
for level in 1 2 3 4 5 6 7 8 9; do
    loss=$(value "$scratch/inspected" tune.prune_losses.$level)
    if awk -v l="$loss" 'BEGIN { exit !(l <= 0.01) }'; then best=$level; fi
done
is "what level 0 costs" "$(value "$scratch/inspected" tune.prune_losses.0 | sed 's/\.0*$//')" 0
if [ $best -ge 0 ]; then
    has "SiLU" "$(cat "$said")" "--sparsity pruned -p TEXT"
    share=$(value "$scratch/inspected" tune.prune_levels.$best)
    "$HEARTH" run "$silu" --tune "$scratch/silu.tune" --sparsity pruned -p "Once upon" -n 2 --json >"$said" 2>"$scratch/err"
    near "share that is pruned" "$(value "$said" pruning.share)" "$share" 1e-6
    near "loss that is told" "$(value "$said" pruning.most_loss)" "$(value "$scratch/inspected" tune.prune_losses.$best)" 1e-6
else
    case "$(cat "$said")" in *"--sparsity pruned -p"*) fail "a level that costs too much is recommended" ;; *) pass ;; esac
    refused 1 "(KL) at most: " "$HEARTH" run "$silu" --tune "$scratch/silu.tune" --sparsity pruned -p x -n 1
fi
refused 1 "no level of its tune file costs 0 nats (KL) at most: " \
    "$HEARTH" run "$silu" --tune "$scratch/silu.tune" --sparsity pruned --prune-loss 0 -p x -n 1
"$HEARTH" run "$silu" --tune "$scratch/silu.tune" --sparsity pruned --prune 0.5 -p "Once upon" -n 2 -v >/dev/null 2>"$scratch/err"
has "level and loss" "$(cat "$scratch/err")" "pruned: 50.0 % of all activations count as zero; KL "

# ------------------------------------------------------------------ a model in Q4_0
# Copies in 2 bits and 1 bit are tried, reach the recall on text that was held out, and one of them is run.
"$HEARTH" quantize "$SOURCE/models/stories-relu-q8_0.gguf" "$scratch/q4_0.gguf" q4_0 >/dev/null
"$HEARTH" tune "$scratch/q4_0.gguf" --corpus "$text" --choose bytes --recall 0.95 --epochs 1 --budget 20% --json >"$said"
coarse=0
for layer in 0 1 2 3 4 5; do
    tried=
    for number in 0 1 2; do
        [ "$(value "$said" layers.$layer.candidates.$number.kind 2>/dev/null)" = coarse ] || continue
        tried="$tried $(value "$said" layers.$layer.candidates.$number.format)"
        if awk -v r="$(value "$said" layers.$layer.candidates.$number.recall)" 'BEGIN { exit !(r >= 0.9499) }'
        then pass; else fail "layer $layer:$tried misses the recall"; fi
    done
    is "copies of layer $layer" "$tried" " levels2 signs1"
    case $(value "$said" layers.$layer.chosen) in "coarse signs1" | "coarse levels2") coarse=$((coarse + 1)) ;; esac
done
[ $coarse -gt 0 ] && pass || fail "no layer got a coarse copy"
"$HEARTH" inspect "$scratch/q4_0.gguf" --json >"$scratch/inspected"
case $(cat "$scratch/inspected") in *'"signs1"'* | *'"levels2"'*) pass ;; *) fail "inspect names no copy" ;; esac
for mode in exact predicted; do
    "$HEARTH" eval logits "$scratch/q4_0.gguf" --ids $ids --sparsity $mode --no-guard --kv f32 --out "$scratch/$mode" 2>/dev/null
done
cmp -s "$scratch/exact" "$scratch/predicted" && fail "predicted is exact" || pass
close "predicted beside exact, copies" "$scratch/predicted" "$scratch/exact" 0.25
# No file gets such a format.
refused 2 "signs1: cannot be written" "$HEARTH" quantize "$scratch/q4_0.gguf" "$scratch/none.gguf" signs1
refused 2 "levels2: cannot be written" "$HEARTH" convert "$model" -o "$scratch/none.gguf" --type levels2

# By the clock: whatever it chose is told with its time.
"$HEARTH" tune "$DATA/models/stories260K-relu" --corpus "$scratch/other.txt" --out "$scratch/time.tune" --epochs 1 \
    --budget 50% --json >"$said"
is "choice" "$(value "$said" choice)" time
if awk -v s="$(value "$said" layers.0.candidates.0.exact_seconds)" 'BEGIN { exit !(s > 0 && s < 1) }'; then pass; else
    fail "no time was measured"
fi

finish
