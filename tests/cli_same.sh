# cli_same.sh - the same file, options and prompt give the same bytes, on any number of threads, every time.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$scratch/model.gguf
"$HEARTH" quantize "$DATA/models/stories260K-relu" "$model" q8_0 2>/dev/null
ids=$(value "$DATA/golden/real/stories260K-relu/golden.json" prompts.2.ids)

for model in "$scratch/model.gguf" "$DATA/models/stories260K"; do
    for kv in f16 f32; do
        "$HEARTH" eval logits "$model" --ids "$ids" --out "$scratch/one" --kv $kv -t 1
        for t in 2 3; do
            "$HEARTH" eval logits "$model" --ids "$ids" --out "$scratch/more" --kv $kv -t $t
            cmp -s "$scratch/one" "$scratch/more" && pass || fail "$t threads differ from one, kv $kv, ${model##*/}"
        done
    done
done

model=$scratch/model.gguf
"$HEARTH" run "$model" -p "Once upon a time" -n 40 --seed 7 -t 2 2>/dev/null >"$scratch/first"
for i in $(seq 1 100); do
    "$HEARTH" run "$model" -p "Once upon a time" -n 40 --seed 7 -t 2 2>/dev/null >"$scratch/again"
    cmp -s "$scratch/first" "$scratch/again" || fail "run $i differs"
done
pass
echo "  100 runs: $(cksum <"$scratch/first")"

# Another seed is another answer.
"$HEARTH" run "$model" -p "Once upon a time" -n 40 --seed 8 2>/dev/null >"$scratch/other"
cmp -s "$scratch/first" "$scratch/other" && fail "the seed changes nothing" || pass

finish
