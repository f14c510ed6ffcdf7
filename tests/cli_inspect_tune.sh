# cli_inspect_tune.sh - the tune file from outside: `hearth inspect` shows it, every command finds it, one that is damaged
# or of another model is ignored or, where it is needed, refused by name, and PowerInfer gets its predictors.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

cp -r "$DATA/models/stories-relu" "$scratch/relu"
chmod -R u+w "$scratch/relu"
head -c 6000 "$SOURCE/models/stories-held.txt" >"$scratch/corpus.txt"
is "no tune file" "$("$HEARTH" inspect "$scratch/relu" --json | "$TOOLS/json_value" - tune)" null

# What was counted: tokens, and for every layer how many neurons fire.
"$HEARTH" profile "$scratch/relu" --corpus "$scratch/corpus.txt" --probe-tokens 0 --json >"$scratch/out" 2>&1 ||
    fail "profile: $(cat "$scratch/out")"
[ -f "$scratch/relu.tune" ] && pass || fail "no $scratch/relu.tune"
"$HEARTH" inspect "$scratch/relu/" --json >"$scratch/model.json"
tokens=$(value "$scratch/model.json" tune.tokens)
[ "$tokens" -gt 1000 ] && pass || fail "tokens: $tokens"
is "no predictors" "$(value "$scratch/model.json" tune.predictors)" null
density=$(value "$scratch/model.json" tune.layers.0.density)
hot=$(value "$scratch/model.json" tune.layers.0.hot_share)
awk -v d="$density" -v h="$hot" 'BEGIN { exit !(d > 0 && d < h && h < 0.8) }' && pass || # 80 % of them do with fewer
    fail "density $density, share of hot neurons $hot"
has "for people" "$("$HEARTH" inspect "$scratch/relu")" "profile   $tokens tokens; "
# 80 % of activations: the same figures as the profile said, of a layer's neurons (the mean) and of the model's.
said=$(awk -v m="$(value "$scratch/out" hot_share_80)" -v layers="$(for i in 0 1 2 3 4 5; do
    value "$scratch/out" layers.$i.hot_share_80
done | tr '\n' ' ')" 'BEGIN {
    n = split(layers, l, " ")
    for (i in l) sum += l[i]
    printf "come from %.1f %% of a layer'"'"'s neurons, %.1f %% of the model'"'"'s", 100 * sum / n, 100 * m
}')
has "hot neurons" "$("$HEARTH" inspect "$scratch/relu")" "$said"
has "what was read" "$("$HEARTH" inspect "$scratch/relu")" "corpus $scratch/corpus.txt"
identity=$(value "$scratch/model.json" model.fingerprint)
has "identity" "$("$HEARTH" inspect "$scratch/relu")" "identity  $identity"
has "not wanted" "$("$HEARTH" inspect "$scratch/relu" --tune none --json)" '"tune": null'

# By itself it says whose it is.
is "whose it is" "$("$HEARTH" inspect "$scratch/relu.tune" --json | "$TOOLS/json_value" - tune_file.fingerprint)" "$identity"
has "whose it is, for people" "$("$HEARTH" inspect "$scratch/relu.tune")" "tune file of the model with the fingerprint $identity"

# What convert and pack make of the model is the same model.
"$HEARTH" convert "$scratch/relu" -o "$scratch/relu.gguf" 2>/dev/null
"$HEARTH" pack "$scratch/relu.gguf" "$scratch/packed.gguf" >/dev/null 2>&1
is "of a packed file" "$("$HEARTH" inspect "$scratch/packed.gguf" --tune "$scratch/relu.tune" --json |
    "$TOOLS/json_value" - tune.tokens)" "$tokens"

# With SiLU it says what firing means.
smooth=$DATA/models/stories260K
if [ -e "$smooth" ]; then
    "$HEARTH" profile "$smooth" --corpus "$scratch/corpus.txt" --probe-tokens 0 --out "$scratch/smooth.tune" >/dev/null 2>&1
    has "silu" "$("$HEARTH" inspect "$smooth" --tune "$scratch/smooth.tune")" "silu is never zero: a neuron fires where"
fi

# One that was asked for by name and is another model's, damaged or not there is refused.
other=$DATA/models/stories260K-relu
if [ -e "$other" ]; then
    refused 1 "relu.tune: is the tune file of another model" \
        "$HEARTH" run "$other" -p x -n 1 --tune "$scratch/relu.tune"
    refused 1 "another model" "$HEARTH" inspect "$other" --tune "$scratch/relu.tune"
fi
refused 1 "missing.tune: cannot open" "$HEARTH" run "$scratch/relu" -p x -n 1 --tune "$scratch/missing.tune"
head -c 5000 "$scratch/relu.tune" >"$scratch/relu.gguf.tune"
refused 1 "relu.gguf.tune: tensor " "$HEARTH" run "$scratch/relu.gguf" -p x -n 1 --tune "$scratch/relu.gguf.tune"

# One that merely lies beside the model is ignored with one line, and the answer is that of `--tune none`; what needs it
# is refused. inspect only tells.
answer() { # answer OUT ARGUMENTS...
    "$HEARTH" run "$scratch/relu.gguf" -p "Once upon a time" -n 8 --temp 0 "${@:2}" >"$1" 2>"$1.err" ||
        fail "run ${*:2}: $(cat "$1.err")"
}
answer "$scratch/none" --tune none
ignored() { # ignored WHAT PATTERN: what $scratch/relu.gguf.tune holds now
    answer "$scratch/ignored"
    is "$1: answer" "$(cat "$scratch/ignored")" "$(cat "$scratch/none")"
    is "$1: warnings" "$(grep -c '^warning: ' "$scratch/ignored.err")" 1
    has "$1: warning" "$(grep '^warning: ' "$scratch/ignored.err")" "$2"
    has "$1: what follows" "$(grep '^warning: ' "$scratch/ignored.err")" "; it is ignored"
    for mode in predicted pruned; do
        refused 1 "$scratch/relu.gguf: needs its tune file, which is ignored: $2" \
            "$HEARTH" run "$scratch/relu.gguf" -p x -n 1 --sparsity $mode
    done
}
is "warnings without a bad file" "$(grep -c '^warning: ' "$scratch/none.err")" 0
ignored "cut short" "$scratch/relu.gguf.tune: tensor "
has "inspect tells" "$("$HEARTH" inspect "$scratch/relu.gguf")" "tune      $scratch/relu.gguf.tune: tensor "
has "in JSON" "$("$HEARTH" inspect "$scratch/relu.gguf" --json)" '"why": "'
if [ -e "$other" ]; then
    "$HEARTH" profile "$other" --corpus "$scratch/corpus.txt" --probe-tokens 0 --out "$scratch/other.tune" >/dev/null 2>&1
    cp "$scratch/other.tune" "$scratch/relu.gguf.tune"
    ignored "another model's" "$scratch/relu.gguf.tune: is the tune file of another model"
fi
rm "$scratch/relu.gguf.tune"

# Predictors for PowerInfer.
refused 1 "relu.tune: predictors: it holds none; \`hearth tune --for-powerinfer\` makes them" \
    "$HEARTH" convert "$scratch/relu" --predictors "$scratch/relu.tune" -o "$scratch/pi.gguf"
if "$HEARTH" tune "$scratch/relu" --corpus "$scratch/corpus.txt" --for-powerinfer --epochs 1 --out "$scratch/pi.tune" \
    >"$scratch/out" 2>&1; then
    "$HEARTH" inspect "$scratch/relu" --tune "$scratch/pi.tune" --json >"$scratch/tuned.json"
    is "predictors" "$(value "$scratch/tuned.json" tune.predictors)" 6
    "$HEARTH" inspect "$scratch/relu" --tune "$scratch/pi.tune" >"$scratch/tuned"
    has "the loss, for people" "$(cat "$scratch/tuned")" "loss: tokens "
    has "levels, for people" "$(cat "$scratch/tuned")" " % of all activations count as zero"
    is "their kind" "$(value "$scratch/tuned.json" tune.layers.5.predictor.kind)" low-rank
    is "their input" "$(value "$scratch/tuned.json" tune.layers.5.predictor.input)" residual
    "$HEARTH" convert "$scratch/relu" --predictors "$scratch/pi.tune" -o "$scratch/pi.gguf" 2>/dev/null
    is "PowerInfer's file" "$("$HEARTH" inspect "$scratch/pi.gguf" --json | "$TOOLS/json_value" - model.powerinfer)" true
    is "its identity" "$("$HEARTH" inspect "$scratch/pi.gguf" --json | "$TOOLS/json_value" - model.fingerprint)" "$identity"
    refused 2 "pi.tune: is what would be read" \
        "$HEARTH" convert "$scratch/relu" --predictors "$scratch/pi.tune" -o "$scratch/pi.tune"
    "$HEARTH" eval logits "$scratch/pi.gguf" --ids 1,5,9,100 --sparsity predicted -o "$scratch/pi.f32" 2>/dev/null && pass ||
        fail "predicted of the PowerInfer file"
else
    fail "tune --for-powerinfer: $(cat "$scratch/out")"
fi

finish
