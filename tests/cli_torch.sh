# cli_torch.sh - folders whose weights torch.save wrote: the same model, byte for byte, as from safetensors.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

for name in llama qwen3-moe; do
    folder=$DATA/golden/$name
    "$HEARTH" convert "$folder" -o "$scratch/$name.gguf" 2>"$scratch/err" || fail "$name: $(cat "$scratch/err")"
    for shards in 1 3; do
        mkdir -p "$scratch/$shards/$name"
        python3 "$SOURCE/tests/make_torch_folder.py" "$folder" "$scratch/$shards/$name" "$shards"
        "$HEARTH" convert "$scratch/$shards/$name" -o "$scratch/torch.gguf" 2>"$scratch/err" ||
            fail "$name in $shards: $(cat "$scratch/err")"
        cmp "$scratch/$name.gguf" "$scratch/torch.gguf" && pass || fail "$name in $shards files of torch"
    done
done

# The same answer, too, and the same refusals: a shard that is missing, cut short, or no archive.
is "logits" "$("$HEARTH" eval logits "$scratch/3/llama" --ids 1,5,9 --out - 2>/dev/null | md5sum)" \
    "$("$HEARTH" eval logits "$DATA/golden/llama" --ids 1,5,9 --out - 2>/dev/null | md5sum)"
shard=$scratch/3/llama/pytorch_model-00002-of-00003.bin
head -c 5000 "$shard" >"$scratch/short"
cp "$scratch/short" "$shard"
refused 1 "pytorch_model-00002-of-00003.bin: archive: was cut short" "$HEARTH" inspect "$scratch/3/llama"
echo text >"$shard"
refused 1 "pytorch_model-00002-of-00003.bin: header: is not an archive of torch.save" "$HEARTH" inspect "$scratch/3/llama"
rm "$shard"
refused 1 "pytorch_model-00002-of-00003.bin: " "$HEARTH" inspect "$scratch/3/llama"

finish
