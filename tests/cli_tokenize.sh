# cli_tokenize.sh - SentencePiece vocabularies through `hearth tokenize`, against llama.cpp's ids; and back.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

# texts FILE: its texts as $scratch/text.0, text.1 ...; prints how many. Byte for byte: some end in \r\n.
texts() {
    rm -f "$scratch"/text.*
    awk -v out="$scratch/text." -v RS='\n__ggml_vocab_test__\n' '{ printf "%s", $0 > (out (NR - 1)) } END { print NR }' \
        "$1"
}

# ids VOCABULARY TEXTS EXPECTED OPTIONS...
ids() {
    local count i=0 got wrong=0 expected
    count=$(texts "$2")
    while [ $i -lt "$count" ]; do
        : >>"$scratch/text.$i"
        expected=$(sed -n "$((i + 1))p" "$3")
        got=$("$HEARTH" tokenize "$1" -f "$scratch/text.$i" "${@:4}") || got="exit status $?"
        if [ "$got" = "${expected# }" ]; then # llama.cpp's lists begin with a blank
            pass
        else
            wrong=$((wrong + 1))
            fail "${2##*/} text $i: got '$got', expected '$expected'"
        fi
        i=$((i + 1))
    done
    printf '  %-44s %d texts, %d wrong\n' "${1##*/} ${2##*/} ${*:4}" "$count" "$wrong"
}

for name in llama-spm phi-3-trimmed; do
    vocabulary=$DATA/golden/tokenizers/$name
    ids "$vocabulary.gguf" "$vocabulary.inp" "$vocabulary.out" --no-special
    ids "$vocabulary.gguf" "$DATA/golden/tokenizers/extra.inp" "$vocabulary.extra.out" --no-special
    ids "$vocabulary.gguf" "$vocabulary.special.inp" "$vocabulary.special.out"
done

# There and back again, also through standard input.
vocabulary=$DATA/golden/tokenizers/llama-spm.gguf
text='Hello, wörld! 你好 🦙  two  blanks'
is "there and back" "$("$HEARTH" tokenize "$vocabulary" "$text" | "$HEARTH" tokenize "$vocabulary" --back)" "$text"
is "ids as arguments" "$("$HEARTH" tokenize "$vocabulary" --back 1 15043)" Hello
is "ids of nothing" "$("$HEARTH" tokenize "$vocabulary" "" --no-special | wc -w)" 0
is "nothing and back" "$("$HEARTH" tokenize "$vocabulary" "" --no-special | "$HEARTH" tokenize "$vocabulary" --back | od -An -c)" \
    "$(echo | od -An -c)"
is "no special" "$("$HEARTH" tokenize "$vocabulary" --no-special Hello)" 15043
is "special" "$("$HEARTH" tokenize "$vocabulary" Hello)" "1 15043"
printf -- --back >"$scratch/option"
is "a text that looks like an option" "$("$HEARTH" tokenize "$vocabulary" -- --back)" \
    "$("$HEARTH" tokenize "$vocabulary" -f "$scratch/option")"

refused 1 tokenizer "$HEARTH" tokenize "$DATA/golden/llama" Hello
refused 2 "is not a list" "$HEARTH" tokenize "$vocabulary" --back twelve
refused 2 "token 32000: is not one of the vocabulary's 32000" "$HEARTH" tokenize "$vocabulary" --back 15043 32000
is "what comes before a wrong id" "$(wc -c <"$scratch/out")" 0
refused 2 "quote it" "$HEARTH" tokenize "$vocabulary" two words

finish
