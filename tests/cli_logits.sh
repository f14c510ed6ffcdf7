# cli_logits.sh - the families that hearth runs, against the float64 reference: from the folder, from GGUF, through convert.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

# logits NAME MODEL BOUND OPTIONS...: ids and greedy ids of the golden, read in one go
logits() {
    local golden=$DATA/golden/$1 ids
    ids=$(value "$golden/golden.json" ids),$(value "$golden/golden.json" greedy)
    if ! "$HEARTH" eval logits "$2" --ids "$ids" --out "$scratch/logits" --sparsity dense --no-guard "${@:4}"; then
        fail "$1 $2: eval logits failed"
        return
    fi
    close "$1 ${2##*/} ${*:4}" "$scratch/logits" "$golden/logits.f32" "$3"
}

float="llama llama-gqa llama-rope-linear llama-rope-llama3 llama-rope-yarn llama-256 llama-relu llama-relu-gqa
       llama-fatrelu mistral"
for name in $float; do
    logits "$name" "$DATA/golden/$name" 1e-5 --kv f32
    logits "$name" "$DATA/golden/$name/model.gguf" 1e-5 --kv f32
    logits "$name" "$DATA/golden/$name/model.gguf" 2e-3
    "$HEARTH" convert "$DATA/golden/$name" -o "$scratch/$name.gguf" 2>/dev/null
    logits "$name" "$scratch/$name.gguf" 1e-5 --kv f32
    # The same numbers in the same order give the same bytes, whichever file they came from.
    mv "$scratch/logits" "$scratch/converted"
    "$HEARTH" eval logits "$DATA/golden/$name" --kv f32 --out "$scratch/logits" --ids \
        "$(value "$DATA/golden/$name/golden.json" ids),$(value "$DATA/golden/$name/golden.json" greedy)"
    cmp -s "$scratch/logits" "$scratch/converted" && pass || fail "$name: folder and converted file differ"
done

# Block formats: exact with float32 activations, near with those rounded to 8 bits: engine_golden.c derives how near, for
# two layers.
rounded=3.9e-2
block="llama-256-q4_0 llama-256-q4_k_m"
for name in $block; do
    logits "$name" "$DATA/golden/$name/model.gguf" 1e-5 --kv f32 --activations f32
    logits "$name" "$DATA/golden/$name/model.gguf" "$rounded" --kv f32
done

# Our own quantiser: the loss of the format on random weights, as golden/README.md gives it for llama.cpp's.
quantized() { # quantized TYPE BOUND
    "$HEARTH" quantize "$DATA/golden/llama-256" "$scratch/$1.gguf" "$1" 2>/dev/null
    logits llama-256 "$scratch/$1.gguf" "$2" --kv f32
}
quantized f32 1e-5
quantized f16 1e-3
quantized q8_0 5e-2
quantized q6_K 0.14

# Of the formats for which it gives no figure there are files by llama.cpp from the same weights. How far the golden
# logits of such a file are from what the weights say before (held to 1e-5 above) is llama.cpp's loss; ours, with
# the same formats for the same tensors, may be larger by the 5 % that the README allows a quantiser of one's own.
like() { # like GOLDEN TYPE OPTIONS...
    local golden=$DATA/golden/$1 ids loss
    ids=$(value "$golden/golden.json" ids),$(value "$golden/golden.json" greedy)
    "$HEARTH" quantize "$DATA/golden/llama-256" "$scratch/like.gguf" "${@:2}" 2>/dev/null
    "$HEARTH" eval logits "$DATA/golden/llama-256" --ids "$ids" --out "$scratch/before" --kv f32
    "$HEARTH" eval logits "$scratch/like.gguf" --ids "$ids" --out "$scratch/after" --kv f32 --activations f32
    loss=$("$TOOLS/compare_logits" "$golden/logits.f32" "$scratch/before" 1)
    close "quantize $2, llama.cpp loses $loss" "$scratch/after" "$scratch/before" \
        "$(awk -v loss="$loss" 'BEGIN { print 1.05 * loss }')"
}
like llama-256-q4_0 q4_0
like llama-256-q4_k_m q4_K --tensor-type blk.1.attn_v.weight=q6_K --tensor-type blk.1.ffn_down.weight=q6_K

# Every level of the CPU that is there.
levels=$("$HEARTH" devices --json | tr -d ' \n' | grep -o '"name":"[a-z0-9_-]*","present":true' | cut -d'"' -f4)
is "levels" "$(grep -c . <<<"$levels")" "$("$HEARTH" devices --json | grep -c '"present": true')"
for level in $levels; do
    for name in $float; do
        logits "$name" "$DATA/golden/$name/model.gguf" 1e-5 --kv f32 --cpu "$level"
    done
    for name in $block; do
        logits "$name" "$DATA/golden/$name/model.gguf" 1e-5 --kv f32 --activations f32 --cpu "$level"
        logits "$name" "$DATA/golden/$name/model.gguf" "$rounded" --kv f32 --cpu "$level"
    done
done

# The activation can be set by hand: ReLU instead of SiLU is another model.
"$HEARTH" eval logits "$DATA/golden/llama-relu" --ids 1,2,3 --out "$scratch/a" --ffn-activation relu
"$HEARTH" eval logits "$DATA/golden/llama-relu" --ids 1,2,3 --out "$scratch/b"
"$HEARTH" eval logits "$DATA/golden/llama-relu" --ids 1,2,3 --out "$scratch/c" --ffn-activation silu
cmp -s "$scratch/a" "$scratch/b" && pass || fail "--ffn-activation relu changes a ReLU model"
cmp -s "$scratch/a" "$scratch/c" && fail "--ffn-activation silu changes nothing" || pass

# A list of ids from a file, output to standard output.
echo "1, 2 3" >"$scratch/ids"
"$HEARTH" eval logits "$DATA/golden/llama-relu" --ids "@$scratch/ids" --out - >"$scratch/d"
cmp -s "$scratch/b" "$scratch/d" && pass || fail "--ids @FILE --out - gives other bytes"

finish
