# cli_grammar.sh - hearth run --grammar and --json-schema: answers of every seed fit, also behind messages and with guesses; files
# that say nothing usable are refused by name.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$SOURCE/models/stories-relu-q8_0.gguf
printf 'root ::= ("yes" | "no") [!?]{2}\n' >"$scratch/rules"
printf '%s' '{"type": "object", "properties": {"name": {"enum": ["Lily", "Tom"]}, "age": {"type": "integer", "minimum": 0,
    "maximum": 99}}, "required": ["name", "age"]}' >"$scratch/schema"

# fits PATTERN OPTIONS...: the whole answer is one of these, and ended by itself
fits() {
    local pattern=$1
    shift
    "$HEARTH" run "$model" --json "$@" >"$scratch/json" 2>"$scratch/err" </dev/null || fail "$*: $(cat "$scratch/err")"
    is "$* stops" "$(value "$scratch/json" stop_reason)" end
    if value "$scratch/json" text | grep -qxE "$pattern"; then pass; else fail "$*: $(value "$scratch/json" text)"; fi
}
person='\{"name": ?"(Lily|Tom)", ?"age": ?[0-9]{1,2}\}'
for seed in 1 2 3 4 5 6; do
    fits '(yes|no)[!?][!?]' -p "Is it so? " --grammar "$scratch/rules" --seed "$seed" --temp 1
    fits "$person" -p "Once" --json-schema "$scratch/schema" --seed "$seed" --temp 1
    fits "$person" -p "Once" --json-schema " $(cat "$scratch/schema")" --seed "$seed" --temp 1
    fits 'yes|no' -p "Is it so? " --grammar 'root ::= "yes" | "no"' --seed "$seed" --temp 1
    fits "$person" -p "Once" --json-schema "$scratch/schema" --seed "$seed" --temp 1 --draft 7 --ignore-eos
    fits "$person" --chat "Who is it?" --chat-template chatml --json-schema "$scratch/schema" --seed "$seed" --temp 1
done

# Each line is answered by the same rules.
lines=$(printf 'One\nTwo\n' | "$HEARTH" run "$model" -q --chat-template chatml --grammar "$scratch/rules" --seed 1 2>&1)
is "answers to lines" "$(grep -cxE '(yes|no)[!?][!?]' <<<"$lines")" 2

held=("$HEARTH" run "$model" -p x -n 4)
printf 'root ::= other\n' >"$scratch/bad"
printf '{"type": "strin"}' >"$scratch/wrong"
refused 1 "/bad: " "${held[@]}" --grammar "$scratch/bad"
refused 1 "rules: schema: line 1" "${held[@]}" --json-schema "$scratch/rules"
refused 1 "/wrong: " "${held[@]}" --json-schema "$scratch/wrong"
refused 1 "no-such-file" "${held[@]}" --grammar no-such-file
refused 2 "json-schema: excludes --grammar" "${held[@]}" --grammar "$scratch/rules" --json-schema "$scratch/schema"
finish
