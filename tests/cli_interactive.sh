# cli_interactive.sh - `hearth run` at a terminal: lines, words with a slash, Ctrl-C, Ctrl-D, history; the progress line.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit
has_terminal || skip "there are no pseudo-terminals"

export XDG_STATE_HOME=$scratch/state TERM=dumb
model=$scratch/model.gguf
"$HEARTH" convert "$DATA/models/stories-relu" -o "$model" 2>/dev/null

# A new text is new in everything: what was drawn and said before has no say in it.
said=$(echo "Once upon a time" | "$HEARTH" run "$model" --seed 7 --temp 1 --repeat-penalty 1.3 -n 12 2>/dev/null)
is "after a reset" "$(printf 'Once upon a time\n/reset\nOnce upon a time\n' |
    "$HEARTH" run "$model" --seed 7 --temp 1 --repeat-penalty 1.3 -n 12 2>/dev/null)" "$said"$'\n'"$said"

# From a pipe a slash that is not a known word begins text; what does not fit says how to go on.
is "a slash from a pipe" "$(printf '/etc is\n' | "$HEARTH" run "$model" --temp 0 -n 8 2>/dev/null)" \
    "$("$HEARTH" run "$model" -p "/etc is" --temp 0 -n 8 --json 2>/dev/null >"$scratch/slash.json" &&
        value "$scratch/slash.json" text)"
echo "Once upon a time there was" | "$HEARTH" run "$model" -c 4 >/dev/null 2>"$scratch/err" && fail "a full context"
has "a full context" "$(cat "$scratch/err")" "the line has 7 tokens, the context only 4; -c makes it larger"

# A context that is full does not end a dialogue: it goes on without the oldest half, as a new dialogue would that begins
# with the newest one, and says so in one line. 20 tokens: BOS, 10 of the text so far with the line in it, and the answer.
printf 'Once upon a time there was a\n\n\n' | "$HEARTH" run "$model" -c 20 --temp 0 >"$scratch/long" 2>"$scratch/err" &&
    pass || fail "a dialogue beyond its context: $(cat "$scratch/err")"
is "lines of it" "$(wc -l <"$scratch/long")" 3
is "lines that say so" "$(grep -c '^note: context full: goes on without the oldest 10 of 21 tokens$' "$scratch/err")" 2
is "an error where there was none" "$(grep -c '^hearth: ' "$scratch/err")" 0

# Quiet: the answer and nothing else, for one prompt and for lines.
plain=$("$HEARTH" run "$model" -p "Once upon a time" --temp 0 -n 12 --json >"$scratch/quiet.json" 2>/dev/null &&
    value "$scratch/quiet.json" text)
is "a quiet answer" "$("$HEARTH" run "$model" -p "Once upon a time" --temp 0 -n 12 --quiet 2>"$scratch/err")" "$plain"
is "what a quiet run says" "$(cat "$scratch/err")" ""
is "a quiet line" "$(echo "Once upon a time" | "$HEARTH" run "$model" --temp 0 -n 12 -q 2>"$scratch/err")" "$plain"
is "what a quiet dialogue says" "$(cat "$scratch/err")" ""
printf 'Once upon a time there was a\n\n' | "$HEARTH" run "$model" -c 20 --temp 0 -q >/dev/null 2>"$scratch/err"
is "what a quiet dialogue says beyond its context" "$(cat "$scratch/err")" ""
refused 1 "nowhere.gguf" "$HEARTH" run "$scratch/nowhere.gguf" -p x -q
refused 2 "run: --stop: is empty" "$HEARTH" run "$model" -p x --stop named --stop ""

# The seed that was drawn gives the same answer again; without temperature there is none.
"$HEARTH" run "$model" -p "Once" -n 12 --json >"$scratch/drawn.json"
"$HEARTH" run "$model" -p "Once" -n 12 --json --seed "$(value "$scratch/drawn.json" seed)" >"$scratch/again.json"
is "the drawn seed" "$(value "$scratch/again.json" ids)" "$(value "$scratch/drawn.json" ids)"
echo "Once" | "$HEARTH" run "$model" -n 12 --seed 7 >/dev/null 2>"$scratch/err"
has "seed" "$(cat "$scratch/err")" "; seed 7"
echo "Once" | "$HEARTH" run "$model" -n 12 --temp 0 >/dev/null 2>"$scratch/err"
grep -q "seed" "$scratch/err" && fail "a seed for nothing" || pass

open_terminal "'$HEARTH' run '$model' --temp 0 -n 10"
await "greeting" "/help says more"
await "prompt" "> "
printf 'Once upon a time\n' >&3
await "answer" "there was a little girl"
await "status" "10 tokens, "
await "prompt" "> "
printf 'Once upon a time\n' >&3
await "a later status" "10 tokens, "
await "prompt" "> "
is "what is the same for all answers is said" "$(grep -c guarantee "$scratch/shown")" 1
printf '/nonsense and more\n' >&3
await "unknown word" "unknown command /nonsense; /help lists what there is"
printf '/reset 3\n' >&3
await "an argument too many" "/reset: takes no argument"
printf '/help\n' >&3
await "help" "Ctrl-C stops an answer"
await "prompt" "> "
printf '\003' >&3
await "prompt after Ctrl-C" "> "
printf '\003' >&3
await "a second Ctrl-C" "Ctrl-D or /quit leaves."
printf '/quit\n' >&3
close_terminal "a dialogue"
if [ -e "$scratch/state/hearth/history" ]; then # with libedit only
    has "history" "$(sed 's/\\040/ /g' "$scratch/state/hearth/history")" "Once upon a time"
fi

# Ctrl-C stops the answer, not the program; /reset starts a new text; Ctrl-D leaves.
open_terminal "'$HEARTH' run '$model' --temp 0 -n 480 --ignore-eos -t 1 --cpu scalar"
await "prompt" "> "
printf 'Once upon a time\n' >&3
await "answer" "there was"
printf '\003' >&3
await "stop" "tokens/s, cancelled"
await "prompt after Ctrl-C" "> "
printf '/reset\n' >&3
await "prompt after a reset" "> "
printf 'Lily and Tom went to the park. They saw a big\n' >&3
await "answer after a reset" "tree with lots of flowers"
printf '\003' >&3
await "prompt after an answer" "> "
printf '\004' >&3
close_terminal "Ctrl-D"

# What is typed during an answer is not shown in it, but at the next prompt. What is pasted is one text, with its lines.
if [ -e "$scratch/state/hearth/history" ]; then
    open_terminal "'$HEARTH' run '$model' --temp 0 -n 480 --ignore-eos -t 1 --cpu scalar"
    await "prompt" "> "
    printf 'Once upon a time\n' >&3
    await "answer" "there was"
    printf 'typed early' >&3
    await "status" "480 tokens, "
    is "typed into the answer" "$(head -c "$seen" "$scratch/shown" | grep -c early)" 0
    await "prompt" "> "
    await "typed early" "typed early"
    printf '\003' >&3
    await "prompt after Ctrl-C" "> "
    printf '/reset\n' >&3
    await "prompt after a reset" "> "
    printf 'on\033[200~ce\r~\nthree é\033[201~ ~ \n' >&3
    await "answer to what was pasted" "480 tokens, "
    close_terminal "a paste"
    grep -qF 'once\012~\012three' "$scratch/state/hearth/history" && pass || fail "a paste is no single line"
fi

# What is typed is read whole, whatever the locale says: the answer is that to the same text given with -p.
text="Zoé met Müller."
"$HEARTH" run "$model" -p "$text" --temp 0 -n 12 --json >"$scratch/typed.json"
for locale in C C.UTF-8 nowhere; do
    open_terminal "LC_ALL=$locale '$HEARTH' run '$model' --temp 0 -n 12 -c 26"
    await "prompt in locale $locale" "> "
    printf '%s\n' "$text" >&3
    await "answer in locale $locale" "$(value "$scratch/typed.json" text)"
    await "prompt after the answer" "> "
    printf '\n' >&3
    await "report of a full context" "stopped by context"
    await "what comes next" "note: the next line goes on without the oldest half"
    printf '\n' >&3
    await "what a full context loses" "context full: goes on without the oldest 13 of 27 tokens"
    printf '/quit\n' >&3
    close_terminal "locale $locale"
done

# Controls in a text reach a pipe as they are, a terminal never.
printf 'a\033[31mb\177c\302\233d\te' >"$scratch/controls"
"$HEARTH" run "$model" -f "$scratch/controls" --temp 0 -n 1 2>/dev/null >"$scratch/piped"
cmp -s -n "$(wc -c <"$scratch/controls")" "$scratch/piped" "$scratch/controls" && pass || fail "a pipe changes the text"
open_terminal "'$HEARTH' run '$model' -f '$scratch/controls' --temp 0 -n 1"
await "controls at a terminal" "$(printf 'a\357\277\275[31mb\357\277\275c\357\277\275d')"
await "a tab" "$(printf '\t')"
close_terminal "controls"

finish
