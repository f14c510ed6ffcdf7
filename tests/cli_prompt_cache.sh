# cli_prompt_cache.sh - hearth run --prompt-cache: another process goes on where one has stopped reading, with the same answer;
# files of other models, damaged and cut short are refused by name.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$DATA/models/stories-relu
file=$scratch/read.seq
text="Once upon a time there was a little dog who"

# answer OPTIONS...: one object
answer() { "$HEARTH" run "$model" -n 24 --temp 0.7 --seed 3 --repeat-penalty 1.1 --json "$@"; }
# field NAME JSON
field() { printf '%s' "$2" >"$scratch/json" && value "$scratch/json" "$1"; }

fresh=$(answer -p "$text sang")
first=$(answer -p "$text" --prompt-cache "$file")
is "first run reuses nothing" "$(field reused_tokens "$first")" 0
again=$(answer -p "$text" --prompt-cache "$file")
is "same prompt, same answer" "$(field ids "$again")" "$(field ids "$first")"
is "all but the last token is reused" "$(field reused_tokens "$again")" $(($(field prompt_tokens "$first") - 1))
longer=$(answer -p "$text sang" --prompt-cache "$file")
is "a longer prompt gets the answer that it gets without" "$(field ids "$longer")" "$(field ids "$fresh")"
is "tokens of the prompt" "$(field prompt_tokens "$longer")" "$(field prompt_tokens "$fresh")"
[ "$(field reused_tokens "$longer")" -gt 5 ] && pass || fail "a longer prompt reuses too little: $longer"
other=$(answer -p "Lily" --prompt-cache "$file")
is "another prompt reuses nothing" "$(field ids "$other")" "$(field ids "$(answer -p Lily)")"

# refused WHAT PATTERN OPTIONS...
refused() {
    local what=$1 pattern=$2 said status=0
    shift 2
    said=$("$HEARTH" run "$@" 2>&1 >/dev/null) || status=$?
    is "$what: status" "$status" "${expected:-1}"
    has "$what" "$said" "$pattern"
}
answer -p "$text" --prompt-cache "$file" >/dev/null
expected=2 refused "another model" "read.seq: is of another model" "$DATA/models/stories260K" -p Hi --prompt-cache "$file"
expected=2 refused "another format" "read.seq: its keys and values have another format" "$model" -p Hi --kv f32 --prompt-cache "$file"
cp "$file" "$scratch/whole"
printf x >>"$file"
refused "longer" "read.seq: is longer than it says" "$model" -p Hi --prompt-cache "$file"
head -c 5000 "$scratch/whole" >"$file"
refused "cut short" "read.seq: is cut short" "$model" -p Hi --prompt-cache "$file"
head -c 5000 "$scratch/whole" >"$file" && printf '\377' >>"$file" && tail -c +5002 "$scratch/whole" >>"$file"
refused "damaged" "read.seq: is damaged" "$model" -p Hi --prompt-cache "$file"
refused "a folder" "$scratch" "$model" -p Hi --prompt-cache "$scratch"
refused "no folder" "nowhere" "$model" -p "$text" -n 1 --prompt-cache "$scratch/nowhere/read.seq"
expected=2 refused "no prompt" "--prompt-cache: needs a prompt" "$model" --prompt-cache "$file"

finish
