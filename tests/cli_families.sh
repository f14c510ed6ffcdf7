# cli_families.sh - the commands on families of every kind: converted, packed, profiled, tuned and evaluated, each model
# answers as its folder does, and skipping costs what it may.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

export HEARTH_NO_CACHE=1
ids=1,37,87,38,232,268,49,242,36,135,108,175,193,251,137,221,206,103,214,222,262,250,271,32
said=$scratch/said
text=$scratch/text
size=6000
sanitized && size=2500
head -c $size "$SOURCE/models/stories-held.txt" >"$text"

logits() { # logits MODEL FILE OPTION...
    "$HEARTH" eval logits "$1" --ids $ids --kv f32 --activations f32 --out "$2" "${@:3}" 2>"$scratch/err" ||
        fail "eval logits ${*##*/}: $(cat "$scratch/err")"
}

perplexity() { # perplexity MODEL MODE OPTION...
    "$HEARTH" eval ppl "$1" "$text" --sparsity "$2" --no-guard --json "${@:3}" >"$said" 2>"$scratch/err" ||
        fail "eval ppl ${1##*/} in mode $2: $(cat "$scratch/err")"
    value "$said" perplexity
}

# everyone FAMILY MODES OPTION...: what all can do; the options name the activation.
everyone() {
    local name=$1 model=$scratch/$1.gguf modes=$2 as=("${@:3}") mode dense
    "$HEARTH" convert "$DATA/golden/$name" -o "$model" "${as[@]}" >"$said" 2>"$scratch/err" ||
        fail "convert $name: $(cat "$scratch/err")"
    logits "$DATA/golden/$name" "$scratch/folder" --sparsity dense --no-guard "${as[@]}"
    logits "$model" "$scratch/got" --sparsity dense --no-guard
    cmp -s "$scratch/folder" "$scratch/got" && pass || fail "$name: the GGUF is not the folder"

    # The GGUF of another program, which has a tokenizer, packed.
    "$HEARTH" pack "$DATA/golden/$name/model.gguf" "$model" "${as[@]}" >"$said" 2>"$scratch/err" ||
        fail "pack $name: $(cat "$scratch/err")"
    has "guarantee of $name" "$(cat "$said")" "guarantee bitwise"
    logits "$model" "$scratch/dense" --sparsity dense --no-guard
    close "$name, packed" "$scratch/dense" "$scratch/folder" 2e-3 # the folder's weights are float16, the file's float32

    "$HEARTH" profile "$model" --corpus "$text" --json >"$said" 2>"$scratch/err" ||
        fail "profile $name: $(cat "$scratch/err")"
    near "density of $name" "$(value "$said" density)" 0.5 0.5
    rm "$model.tune"
    "$HEARTH" tune "$model" --corpus "$text" --choose bytes --recall 0.98 --epochs 1 --json >"$said" 2>"$scratch/err" ||
        fail "tune $name: $(cat "$scratch/err")"
    [ -s "$model.tune" ] && pass || fail "tune $name: no tune file"
    "$HEARTH" inspect "$model" --json >"$said" 2>/dev/null
    near "highest level of $name" "$(value "$said" tune.prune_levels.9)" 0.95 0.0500001

    dense=$(perplexity "$model" dense)
    for mode in $modes; do
        # a tenth of the activations more than zeros are left out, or what predictors miss: little in random models
        near "perplexity of $name in mode $mode, relative" \
            "$(perplexity "$model" "$mode" | awk -v d="$dense" '{ print $1 / d }')" 1 0.15
    done
    "$HEARTH" eval kl "$model" "$text" --against dense --no-guard --json >"$said" 2>"$scratch/err"
    near "divergence of $name in its own mode" "$(value "$said" mean_kl)" 0 1e-6
    "$HEARTH" eval sparsity "$model" "$text" --no-speed --json >"$said" 2>"$scratch/err" ||
        fail "eval sparsity $name: $(cat "$scratch/err")"
    is "first setting of $name" "$(value "$said" rows.0.setting)" dense
    has "second setting of $name" "$modes" "$(value "$said" rows.1.mode)"
    "$HEARTH" run "$model" -p "Once upon a time" -n 4 --temp 0 --json >"$said" 2>"$scratch/err" ||
        fail "run $name: $(cat "$scratch/err")"
    is "run of $name" "$(value "$said" guarantee)" bitwise
}

# Those with zeros: exact is dense byte for byte, in the order of hotness too.
skipping() {
    local name=$1 model=$scratch/$1.gguf as=("${@:2}")
    everyone "$name" "exact predicted pruned" "${as[@]}"
    logits "$model" "$scratch/got" --sparsity exact --no-guard
    cmp -s "$scratch/dense" "$scratch/got" && pass || fail "$name: exact is not dense"
    "$HEARTH" pack "$DATA/golden/$name/model.gguf" "$scratch/hot.gguf" --order hotness --profile "$text" "${as[@]}" \
        --json >"$said" 2>"$scratch/err" || fail "pack $name --order hotness: $(cat "$scratch/err")"
    is "order of $name" "$(value "$said" order)" hotness
    logits "$scratch/hot.gguf" "$scratch/got" --sparsity exact --no-guard
    close "$name, hot neurons first" "$scratch/got" "$scratch/dense" 1e-5
    rm "$model" "$model.tune" "$scratch/hot.gguf"
}

# Those without.
whole() {
    local name=$1 model=$scratch/$1.gguf
    everyone "$name" pruned
    refused 1 "is never exactly zero" "$HEARTH" pack "$DATA/golden/$name/model.gguf" "$scratch/hot.gguf" --order hotness
    refused 1 "is never exactly zero" "$HEARTH" eval ppl "$model" "$text" --sparsity exact
    refused 1 "has no predictors" "$HEARTH" eval ppl "$model" "$text" --sparsity predicted
    rm "$model" "$model.tune"
}

skipping opt
skipping falcon-7b --ffn-activation relu
skipping nemotron
skipping bitnet
skipping nemotron-h
whole gemma3
whole gpt2

# Experts: their neurons are predicted and left out like those of a layer; what is not supported is said by name.
experts() {
    local name=$1 model=$scratch/$1.gguf
    everyone "$name" "exact predicted pruned"
    "$HEARTH" tune "$DATA/golden/$name/model.gguf" --corpus "$text" --choose bytes --epochs 1 --out "$scratch/stock.tune" \
        >"$said" 2>"$scratch/err" || fail "tune $name in the stock layout: $(cat "$scratch/err")"
    refused 1 "neurons of experts stay where they are" \
        "$HEARTH" pack "$DATA/golden/$name/model.gguf" "$scratch/hot.gguf" --order hotness --profile "$text"
    refused 1 "PowerInfer cannot run predictors of experts" \
        "$HEARTH" tune "$model" --corpus "$text" --for-powerinfer --out "$scratch/pi.tune"
    "$HEARTH" eval sparsity "$model" "$text" --no-speed --settings hot-only=0.5 --json >"$said" 2>"$scratch/err" ||
        fail "eval sparsity $name: $(cat "$scratch/err")"
    is "hot neurons of $name" "$(value "$said" rows.0.setting)" hot-only=0.5
    rm "$model" "$model.tune"
}
experts smallthinker
experts nemotron-h-latent
"$HEARTH" tune "$DATA/golden/gpt-oss/model.gguf" --corpus "$text" --out "$scratch/oss.tune" >"$said" 2>"$scratch/err" ||
    fail "tune gpt-oss: $(cat "$scratch/err")"
has "pruning of gpt-oss" "$(cat "$said")" "there are no thresholds for this activation"
refused 1 "mode pruned: is not made for the activation swiglu_clamped" \
    "$HEARTH" eval ppl "$DATA/golden/gpt-oss/model.gguf" "$text" --sparsity pruned --threshold 0.1

# ------------------------------------------------------------------ PowerInfer's kind of file, of its other families
for family in opt falcon-40b; do
    source=$DATA/golden/$family/model.gguf
    as=()
    [ $family = falcon-40b ] && as=(--ffn-activation relu)
    "$HEARTH" tune "$source" --corpus "$text" --for-powerinfer --recall 0.98 --epochs 1 --out "$scratch/pi.tune" "${as[@]}" \
        >"$said" 2>"$scratch/err" || fail "tune $family --for-powerinfer: $(cat "$scratch/err")"
    "$HEARTH" convert "$source" -o "$scratch/pi.gguf" --type f32 --predictors "$scratch/pi.tune" "${as[@]}" \
        >"$said" 2>"$scratch/err" || fail "convert $family --predictors: $(cat "$scratch/err")"
    is "magic of $family" "$(head -c 4 "$scratch/pi.gguf")" PWRI
    logits "$source" "$scratch/dense" --sparsity dense --no-guard "${as[@]}"
    logits "$scratch/pi.gguf" "$scratch/got" --sparsity dense --no-guard
    close "$family with predictors, dense" "$scratch/got" "$scratch/dense" 1e-5
    logits "$source" "$scratch/dense" --sparsity predicted --no-guard --tune "$scratch/pi.tune" "${as[@]}"
    logits "$scratch/pi.gguf" "$scratch/got" --sparsity predicted --no-guard
    close "$family with predictors, predicted" "$scratch/got" "$scratch/dense" 0.2 # one threshold lets more through
done

finish
