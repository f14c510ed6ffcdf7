# cli_tokenizers.sh - ids of random Unicode lines, against the tokenizers package of Hugging Face and against SentencePiece.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

[ -e "$DATA/golden/tokenizers/gpt-2.gguf" ] || skip "the reference vocabularies are not there"
python_packages || skip "$no_python_packages"

lines=4000
sanitized && lines=500
if "$python" "$SOURCE/tests/compare_tokenizers.py" "$HEARTH" "$DATA/golden/tokenizers" "$scratch" "$lines"; then
    pass
else
    fail "hearth's ids differ from those of the tokenizers package"
fi

if "$python" "$SOURCE/tests/compare_sentencepiece.py" "$HEARTH" "$SOURCE/models/stories-held.txt" "$scratch" "$lines"; then
    pass
else
    fail "hearth's ids differ from those of SentencePiece"
fi

if ! python_packages rwkv.rwkv_tokenizer; then
    echo "not compared: Python has no package rwkv"
elif "$python" "$SOURCE/tests/compare_rwkv.py" "$HEARTH" "$scratch" "$lines"; then
    pass
else
    fail "hearth's ids differ from those of the rwkv package"
fi

if ! python_packages tiktoken; then
    echo "not compared: Python has no package tiktoken"
elif "$python" "$SOURCE/tests/compare_tiktoken.py" "$HEARTH" "$DATA/golden/tokenizers" "$scratch" "$lines"; then
    pass
else
    fail "hearth's ids differ from those of the tiktoken package"
fi

finish
