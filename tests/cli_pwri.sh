# cli_pwri.sh - files whose down matrix lies a row per neuron, as the program makes them: exact is dense to the byte in
# every number format, with any number of threads, and near the stock layout it came from.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit
"$HEARTH" pack --help >/dev/null 2>&1 || skip "there is no hearth pack"

ids=1,12,200,77,31,8,254,101,55,174,179,213,54,229,103,18,12,26
logits() { # logits OUT MODEL OPTIONS...
    "$HEARTH" eval logits "$2" --out "$scratch/$1" --ids "$ids" --no-guard "${@:3}" 2>"$scratch/err" ||
        fail "eval logits ${*:2}: $(cat "$scratch/err")"
}
same() { # same WHAT A B
    cmp -s "$scratch/$2" "$scratch/$3" && pass || fail "$1: other bytes"
}
make() { # make WHAT COMMAND...
    "${@:2}" >"$scratch/out" 2>&1 || fail "$1: $(tail -n 1 "$scratch/out")"
}

# check_packed WHAT STOCK PACKED BOUND: on the packed file exact is dense, and dense is near that of the stock layout.
check_packed() {
    logits stock "$2" --sparsity dense --activations f32 --kv f32
    logits plain "$3" --sparsity dense --activations f32 --kv f32
    close "$1, packed against stock" "$scratch/plain" "$scratch/stock" "$4"
    logits dense "$3" --sparsity dense
    for threads in 1 2 3; do
        logits exact "$3" --sparsity exact -t $threads
        same "$1, exact with $threads threads" dense exact
        logits exact "$3" --sparsity exact --activations f32 --kv f32 -t $threads
        same "$1, exact with $threads threads, float32" plain exact
    done
}

# Rounding down_t of a block file once more moves logits by about what rounding to 8 bits costs; floats lose nothing.
bound() {
    case $1 in
        f32 | f16 | bf16) echo 1e-5 ;;
        *) echo 3e-2 ;;
    esac
}

for name in llama-relu llama-relu-gqa llama-fatrelu bamboo; do
    for type in f32 f16 bf16 q8_0 q4_0; do
        make "$name as $type" "$HEARTH" convert "$DATA/golden/$name" --type $type -o "$scratch/$name-$type.gguf"
        make "$name-$type packed" "$HEARTH" pack "$scratch/$name-$type.gguf" "$scratch/packed.gguf"
        check_packed "$name $type" "$scratch/$name-$type.gguf" "$scratch/packed.gguf" "$(bound $type)"
        logits exact "$scratch/$name-$type.gguf" --sparsity exact --activations f32 --kv f32
        close "$name $type, transposed at load" "$scratch/exact" "$scratch/stock" "$(bound $type)"
        rm -f "$scratch/packed.gguf" "$scratch/$name-$type.gguf"
    done
done

# K-quants want 256 columns: a wide model, read as if its activation were ReLU.
wide=$DATA/golden/llama-256
make "llama-256 as q4_K" "$HEARTH" convert "$wide" --type q4_K --ffn-activation relu -o "$scratch/wide.gguf"
for down in q8_0 q4_K q6_K; do
    make "llama-256 packed as $down" "$HEARTH" pack "$scratch/wide.gguf" "$scratch/packed.gguf" --down-type $down
    check_packed "llama-256 q4_K with down $down" "$scratch/wide.gguf" "$scratch/packed.gguf" 0.2
    rm -f "$scratch/packed.gguf"
done

# The demo model, whichever way it is packed. The order of the neurons changes only the order of additions.
"$HEARTH" convert "$DATA/models/stories-relu" -o "$scratch/float.gguf" 2>/dev/null
"$HEARTH" quantize "$scratch/float.gguf" "$scratch/stock.gguf" q8_0 2>/dev/null
for model in "$DATA/models/stories-relu" "$scratch/stock.gguf"; do
    [ -e "$model" ] || continue
    case $model in *.gguf) type=q8_0 ;; *) type=bf16 ;; esac
    make "$model packed" "$HEARTH" pack "$model" "$scratch/packed.gguf"
    check_packed "stories-relu $type" "$model" "$scratch/packed.gguf" "$(bound $type)"
    make "$model ordered" "$HEARTH" pack "$model" "$scratch/ordered.gguf" --order hotness
    check_packed "stories-relu $type, by hotness" "$model" "$scratch/ordered.gguf" "$(bound $type)"
    logits plain "$scratch/packed.gguf" --sparsity exact --activations f32 --kv f32
    logits ordered "$scratch/ordered.gguf" --sparsity exact --activations f32 --kv f32
    close "stories-relu $type, by hotness against packed" "$scratch/ordered" "$scratch/plain" 1e-5
    rm -f "$scratch/packed.gguf" "$scratch/ordered.gguf"
done

finish
