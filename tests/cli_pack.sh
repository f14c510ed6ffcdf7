# cli_pack.sh - packed files answer as the originals do, orders are kept, predictors make PowerInfer files, wrong use is
# one line and leaves nothing behind.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

golden=$DATA/golden/pwri/llama
ids=1,272,204,165,88,100,15,26,8,58,260,208,292,162,195,310
f16=$scratch/f16.gguf
packed=$scratch/packed.gguf
hot=$scratch/hot.gguf
said=$scratch/said

logits() { # logits MODEL IDS MODE FILE
    "$HEARTH" eval logits "$1" --ids "$2" --sparsity "$3" --no-guard --kv f32 --activations f32 --out "$4" 2>"$scratch/err"
}

# ------------------------------------------------------------------ floats: the same answer, any order, any mode
"$HEARTH" convert "$DATA/models/stories260K-relu" -o "$f16" --type f16 2>/dev/null
story=$(value "$DATA/golden/real/stories260K-relu/golden.json" prompts.2.ids)
for source in "$golden/plain-f16.gguf:$ids" "$f16:$story"; do
    model=${source%%:*}
    list=${source#*:}
    logits "$model" "$list" dense "$scratch/wanted"
    "$HEARTH" pack "$model" "$packed" --json >"$said" 2>/dev/null
    is "guarantee of ${model##*/}" "$(value "$said" guarantee)" bitwise
    is "down type of ${model##*/}" "$(value "$said" down_type)" f16
    "$HEARTH" pack "$model" "$hot" --order hotness --json >"$said" 2>/dev/null
    is "order of ${model##*/}" "$(value "$said" order)" hotness
    is "profile of ${model##*/}" "$(value "$said" profile_tokens)" 512
    if awk -v a="$(value "$said" hotter_half_share)" 'BEGIN { exit !(a > 0.5 && a <= 1) }'; then pass; else
        fail "the hotter half of ${model##*/} is $(value "$said" hotter_half_share)"
    fi
    for mode in dense exact; do
        logits "$packed" "$list" $mode "$scratch/got"
        close "packed ${model##*/}, $mode" "$scratch/got" "$scratch/wanted" 1e-5
        logits "$hot" "$list" $mode "$scratch/got"
        close "ordered ${model##*/}, $mode" "$scratch/got" "$scratch/wanted" 1e-5
    done
done

# ------------------------------------------------------------------ those that fire together are neighbours
# The order changes the last digits of sums, as any order does; in the packed file skipping zeros changes no bit.
"$HEARTH" convert "$DATA/models/stories-relu" -o "$scratch/stories.gguf" --type f16 2>/dev/null
logits "$scratch/stories.gguf" "$ids" dense "$scratch/wanted"
"$HEARTH" pack "$scratch/stories.gguf" "$packed" --order together --json >"$said" 2>/dev/null
is "order by what fires together" "$(value "$said" order)" together
is "its guarantee" "$(value "$said" guarantee)" bitwise
is "its profile" "$(value "$said" profile_tokens)" 512
if awk -v a="$(value "$said" mean_run)" -v b="$(value "$said" mean_run_by_hotness)" 'BEGIN { exit !(a > b && b >= 1) }'
then pass; else fail "runs of $(value "$said" mean_run), by hotness of $(value "$said" mean_run_by_hotness)"; fi
for mode in dense exact; do
    logits "$packed" "$ids" $mode "$scratch/got.$mode"
    close "by what fires together, $mode" "$scratch/got.$mode" "$scratch/wanted" 1e-5
done
cmp -s "$scratch/got.dense" "$scratch/got.exact" && pass || fail "by what fires together, exact is not bitwise dense"
for t in 1 3; do
    "$HEARTH" pack "$scratch/stories.gguf" "$scratch/again.gguf" --order together -t $t 2>/dev/null >&2
    cmp -s "$packed" "$scratch/again.gguf" && pass || fail "what fires together on $t threads gives another file"
done

# ------------------------------------------------------------------ again: nothing changes
"$HEARTH" pack "$packed" "$scratch/again.gguf" >"$said" 2>"$scratch/err"
cmp -s "$packed" "$scratch/again.gguf" && pass || fail "packing a packed file changes it"
has "what a second pack says" "$(cat "$said")" "guarantee bitwise: every weight is what it was"
"$HEARTH" pack "$hot" "$scratch/again.gguf" 2>/dev/null >&2
cmp -s "$hot" "$scratch/again.gguf" && pass || fail "packing an ordered file changes it"
for t in 1 3; do
    "$HEARTH" pack "$f16" "$scratch/again.gguf" --order hotness -t $t 2>/dev/null >&2
    cmp -s "$hot" "$scratch/again.gguf" && pass || fail "ordering on $t threads gives another file"
done

# ------------------------------------------------------------------ blocks: rounded once more, and what that costs
q8=$scratch/q8.gguf
n=0
"$HEARTH" quantize "$f16" "$q8" q8_0 2>/dev/null
{
    echo "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
    echo "One day, she saw a big dog. The dog was very friendly and wanted to play with her."
} >"$scratch/text"
"$HEARTH" pack "$q8" "$packed" --loss "$scratch/text" --json >"$said" 2>/dev/null
# Rows of 64 in down's 172 columns have no blocks: down is f16 there, and nothing is rounded again.
is "guarantee of stories260K-relu q8_0" "$(value "$said" guarantee)" bitwise
for model in "$q8" "$packed"; do # in float32: 8-bit activations alone make 61 tokens differ by 6e-3
    n=$((n + 1))
    "$HEARTH" eval ppl "$model" "$scratch/text" --sparsity dense --activations f32 --kv f32 --json 2>/dev/null >"$said.$n"
done
near "loss of nothing" "$(value "$said.2" perplexity)" "$(value "$said.1" perplexity)" 1e-5
"$HEARTH" quantize "$DATA/golden/llama-256" "$q8" q4_0 2>/dev/null
"$HEARTH" pack "$q8" "$packed" --json >"$said" 2>/dev/null
is "guarantee of llama-256 q4_0" "$(value "$said" guarantee)" requantised
is "down type of llama-256 q4_0" "$(value "$said" down_type)" q8_0
near "relative error of llama-256 q4_0" "$(value "$said" relative_error)" 0.005 0.004
"$HEARTH" pack "$f16" "$packed" --down-type q4_0 --loss "$scratch/text" >"$said" 2>"$scratch/err"
has "down type" "$(cat "$said")" "the down matrices were rounded to q4_0"
has "loss" "$(cat "$said")" "loss on $scratch/text, "
has "how to measure again" "$(cat "$said")" "again: hearth eval ppl $f16 $scratch/text --sparsity dense"
before=$("$HEARTH" eval ppl "$f16" "$scratch/text" --sparsity dense --json 2>/dev/null >"$said.1" && value "$said.1" perplexity)
has "loss before is eval ppl's" "$(cat "$said")" "perplexity $(printf '%.4f' "$before") -> "
# With a separator both losses are of documents: what eval ppl says of them.
sed 's/^One day/<end>One day/' "$scratch/text" >"$scratch/documents"
"$HEARTH" pack "$f16" "$packed" --down-type q4_0 --loss "$scratch/documents" --separator '<end>' --json >"$said" 2>/dev/null
"$HEARTH" eval ppl "$f16" "$scratch/documents" --separator '<end>' --sparsity dense --json >"$said.1" 2>/dev/null
is "windows of documents" "$(value "$said.1" windows)" 2
is "tokens of documents" "$(value "$said" perplexity_tokens)" "$(value "$said.1" tokens)"
near "loss before, of documents" "$(value "$said" perplexity_before)" "$(value "$said.1" perplexity)" 1e-6
refused 2 "separator: is for the text of --loss" "$HEARTH" pack "$f16" "$scratch/none.gguf" --separator x
"$HEARTH" pack "$f16" "$hot" --order hotness --profile "$scratch/text" >"$said" 2>/dev/null
has "profile of a text" "$(cat "$said")" "ordered by hotness after "
"$HEARTH" pack "$f16" "$hot" --order together --profile "$scratch/text" >"$said" 2>/dev/null
has "a text for what fires together" "$(cat "$said")" "ordered by what fires together after "

# ------------------------------------------------------------------ PowerInfer's
"$HEARTH" convert "$golden/hf" --predictors "$golden/hf/predictors" -o "$scratch/pi.gguf" 2>/dev/null
is "magic" "$(head -c 4 "$scratch/pi.gguf")" PWRI
if python_packages; then
    "$python" "$SOURCE/tests/reference/pwri.py" "$golden/f16.gguf" --sums | grep '\.weight' | sort >"$scratch/sums.1"
    "$python" "$SOURCE/tests/reference/pwri.py" "$scratch/pi.gguf" --sums | grep '\.weight' | sort >"$scratch/sums.2"
    cmp -s "$scratch/sums.1" "$scratch/sums.2" && pass || fail "converted with predictors: other tensors"
else
    skip_part "$no_python_packages"
fi
for mode in predicted dense; do
    reference=$golden/f16.$([ $mode = predicted ] && echo reference || echo dense).f32
    logits "$scratch/pi.gguf" $ids $mode "$scratch/got"
    close "with predictors, $mode" "$scratch/got" "$reference" 1e-5
    "$HEARTH" pack "$scratch/pi.gguf" "$hot" --order hotness 2>/dev/null >&2
    is "magic of a packed one" "$(head -c 4 "$hot")" GGUF
    logits "$hot" $ids $mode "$scratch/got"
    close "with predictors, ordered, $mode" "$scratch/got" "$reference" 1e-5
done
"$HEARTH" quantize "$scratch/pi.gguf" "$scratch/pi-q4.gguf" q4_0 2>/dev/null
is "magic of a quantised one" "$(head -c 4 "$scratch/pi-q4.gguf")" PWRI

# ------------------------------------------------------------------ wrong use
out=$scratch/none.gguf
refused 2 "pack: --profile: is the text for --order hotness and together" "$HEARTH" pack "$f16" "$out" --profile "$scratch/text"
refused 2 "pack: q9: cannot be written" "$HEARTH" pack "$f16" "$out" --down-type q9
refused 2 "is what would be read: choose another name" "$HEARTH" pack "$f16" "$f16"
refused 1 "missing: cannot open" "$HEARTH" pack "$f16" "$out" --loss "$scratch/missing"
refused 1 "missing: cannot open" "$HEARTH" pack "$f16" "$out" --order hotness --profile "$scratch/missing"
refused 1 "stories260K: hotness: the activation of its neurons, silu, is never exactly zero" \
    "$HEARTH" pack "$DATA/models/stories260K" "$out" --order hotness
refused 1 "stories260K: together: the activation of its neurons, silu, is never exactly zero" \
    "$HEARTH" pack "$DATA/models/stories260K" "$out" --order together
refused 1 "llama-256: tokenizer: " "$HEARTH" pack "$DATA/golden/llama-256" "$out" --loss "$scratch/text"
refused 1 "predictors: is not a folder" "$HEARTH" convert "$golden/hf" --predictors "$scratch/text" -o "$out"
refused 1 "predictors: a PowerInfer file is of a model whose neurons are often zero" \
    "$HEARTH" convert "$DATA/models/stories260K" --predictors "$golden/hf/predictors" -o "$out"
refused 1 "fc2.weight: is 64 x 1056, expected 64 x " \
    "$HEARTH" convert "$DATA/golden/llama-relu" --predictors "$golden/hf/predictors" -o "$out"
[ -e "$out" ] && fail "an error left a file" || pass

finish
