# cli_logits.sh - the families that hearth runs, against the float64 reference: from the folder, from GGUF, through convert.
. "$SOURCE/tests/lib.sh"
need "$SHARED/golden/llama"

# logits NAME MODEL BOUND OPTIONS...: ids and greedy ids of the golden, read in one go
logits() {
    local golden=$SHARED/golden/$1 ids
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
    logits "$name" "$SHARED/golden/$name" 1e-5 --kv f32
    logits "$name" "$SHARED/golden/$name/model.gguf" 1e-5 --kv f32
    logits "$name" "$SHARED/golden/$name/model.gguf" 2e-3
    "$HEARTH" convert "$SHARED/golden/$name" -o "$scratch/$name.gguf" 2>/dev/null
    logits "$name" "$scratch/$name.gguf" 1e-5 --kv f32
    # The same numbers in the same order give the same bytes, whichever file they came from.
    mv "$scratch/logits" "$scratch/converted"
    "$HEARTH" eval logits "$SHARED/golden/$name" --kv f32 --out "$scratch/logits" --ids \
        "$(value "$SHARED/golden/$name/golden.json" ids),$(value "$SHARED/golden/$name/golden.json" greedy)"
    cmp -s "$scratch/logits" "$scratch/converted" && pass || fail "$name: folder and converted file differ"
done

# Block formats: exact with float32 activations, near with those rounded to 8 bits.
for name in llama-256-q4_0 llama-256-q4_k_m; do
    logits "$name" "$SHARED/golden/$name/model.gguf" 1e-5 --kv f32 --activations f32
    logits "$name" "$SHARED/golden/$name/model.gguf" 8e-2 --kv f32
done

# Our own quantiser: the loss of the format on random weights, and no more.
quantized() { # quantized TYPE BOUND
    "$HEARTH" quantize "$SHARED/golden/llama-256" "$scratch/$1.gguf" "$1" 2>/dev/null
    logits llama-256 "$scratch/$1.gguf" "$2" --kv f32
}
quantized f32 1e-5
quantized f16 2e-3
quantized q8_0 5e-2
quantized q6_K 0.16
quantized q4_K 0.45
quantized q4_0 0.6

# Every level of the CPU that is there.
for level in $("$HEARTH" devices --json | tr -d ' \n' | grep -o '"name":"[a-z0-9_]*","present":true' | cut -d'"' -f4); do
    logits llama "$SHARED/golden/llama/model.gguf" 1e-5 --kv f32 --cpu "$level"
    logits llama-256-q4_k_m "$SHARED/golden/llama-256-q4_k_m/model.gguf" 8e-2 --kv f32 --cpu "$level"
done

# The activation can be set by hand: ReLU instead of SiLU is another model.
"$HEARTH" eval logits "$SHARED/golden/llama-relu" --ids 1,2,3 --out "$scratch/a" --ffn-activation relu
"$HEARTH" eval logits "$SHARED/golden/llama-relu" --ids 1,2,3 --out "$scratch/b"
"$HEARTH" eval logits "$SHARED/golden/llama-relu" --ids 1,2,3 --out "$scratch/c" --ffn-activation silu
cmp -s "$scratch/a" "$scratch/b" && pass || fail "--ffn-activation relu changes a ReLU model"
cmp -s "$scratch/a" "$scratch/c" && fail "--ffn-activation silu changes nothing" || pass

# A list of ids from a file, output to standard output.
echo "1, 2 3" >"$scratch/ids"
"$HEARTH" eval logits "$SHARED/golden/llama-relu" --ids "@$scratch/ids" --out - >"$scratch/d"
cmp -s "$scratch/b" "$scratch/d" && pass || fail "--ids @FILE --out - gives other bytes"

finish
