# cli_reader.sh - an independent reader, gguf from PyPI, sees in our files what we put there.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

python_packages || skip "$no_python_packages"

compare() { # compare A B BOUND: largest relative distance of a tensor, decoded by gguf
    "$python" "$SOURCE/tests/compare_gguf.py" "$@" && pass || fail "compare_gguf $*"
}

# The folder, converted, holds the tensors and the keys of the reference file.
for name in llama llama-gqa llama-256 llama-rope-llama3 mistral; do
    "$HEARTH" convert "$DATA/golden/$name" -o "$scratch/$name.gguf" 2>/dev/null
    compare "$scratch/$name.gguf" "$DATA/golden/$name/model.gguf" 1e-6
done

# What gguf decodes from our blocks is what hearth decodes; and it is no further from the source than ggml's own quantiser
# gets on rows of like kind (its mean over the reference rows, and the 5 % that golden/README.md allows).
i=0
while type=$(value "$DATA/golden/quants/index.json" types.$i.type); do
    case $type in
        f16 | bf16 | q8_0 | q6_K | q4_K | q4_0)
            bound=$(value "$DATA/golden/quants/index.json" types.$i.relative_rmse | awk '{ print 1.05 * $1 }')
            "$HEARTH" quantize "$scratch/llama-256.gguf" "$scratch/$type.gguf" "$type" 2>/dev/null
            "$HEARTH" quantize "$scratch/$type.gguf" "$scratch/decoded.gguf" f32 2>/dev/null
            compare "$scratch/$type.gguf" "$scratch/decoded.gguf" 0
            compare "$scratch/$type.gguf" "$scratch/llama-256.gguf" "$bound"
            ;;
    esac
    i=$((i + 1))
done
[ $i -gt 20 ] && pass || fail "the index of formats ends at $i"

# The vocabulary survives.
"$HEARTH" convert "$DATA/models/stories-relu" -o "$scratch/stories.gguf" 2>/dev/null
is "vocabulary" "$("$python" - "$scratch/stories.gguf" <<'PYTHON'
import sys, gguf
fields = gguf.GGUFReader(sys.argv[1]).fields
tokens = fields["tokenizer.ggml.tokens"].contents()
print(len(tokens), tokens[403].replace("\u2581", " ").strip(), fields["general.architecture"].contents())
PYTHON
)" "512 $("$HEARTH" tokenize "$scratch/stories.gguf" --back 403) llama"

finish
