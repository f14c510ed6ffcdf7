# cli_chat.sh - `hearth run` as a chat: one message, lines from a pipe, words with a slash, and what is read of a
# conversation. The storyteller knows no chat; what is tested is what it is given to read.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

export XDG_STATE_HOME=$scratch/state TERM=dumb
model=$scratch/model.gguf
"$HEARTH" convert "$DATA/models/stories-relu" -o "$model" 2>/dev/null
# Turns that are short, so that a few of them fit into the context of 512 tokens.
printf '%s' "{% for m in messages %}{{ m.role[0] }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}{{ 'a:' }}{% endif %}" >"$scratch/short.jinja"
chat=("$HEARTH" run "$model" --chat-template "$scratch/short.jinja" --temp 0 -n 8)

# One message is the text that the template makes of it, continued.
printf 's: Be kind.\nu: Tell me\na:' >"$scratch/prompt"
"$HEARTH" run "$model" -f "$scratch/prompt" --temp 0 -n 8 --json >"$scratch/raw.json" 2>/dev/null
"${chat[@]}" --chat "Tell me" --system "Be kind." --json >"$scratch/chat.json" 2>/dev/null
is "ids of a message" "$(value "$scratch/chat.json" ids)" "$(value "$scratch/raw.json" ids)"
is "tokens of a message" "$(value "$scratch/chat.json" prompt_tokens)" "$(value "$scratch/raw.json" prompt_tokens)"
is "the rendered text" "$(value "$scratch/chat.json" prompt)" "$(cat "$scratch/prompt")"
is "no reasoning" "$(value "$scratch/chat.json" reasoning)" null
is "the answer alone" "$("${chat[@]}" --chat "Tell me" --system "Be kind." 2>/dev/null)" "$(value "$scratch/chat.json" text)"
is "-sys" "$("${chat[@]}" --chat "Tell me" -sys "Be kind." 2>/dev/null)" "$(value "$scratch/chat.json" text)"

# Reasoning that the template opens is told from the answer: it never comes to standard output of a pipe.
printf '<think>' >"$scratch/think.jinja"
"$HEARTH" run "$model" --chat-template "$scratch/think.jinja" --temp 0 -n 8 --chat x >"$scratch/out" 2>"$scratch/err"
is "an answer of nothing but thoughts" "$(cat "$scratch/out")" ""
"$HEARTH" run "$model" --chat-template "$scratch/think.jinja" --temp 0 -n 8 --chat x --json >"$scratch/think.json" 2>/dev/null
has "thoughts on standard error" "$(cat "$scratch/err")" "$(value "$scratch/think.json" reasoning)"
is "text without thoughts" "$(value "$scratch/think.json" text)" ""

# A conversation from a pipe: every answer is that of a run which reads the same from the beginning.
printf 'Tell me\nMore\n' | "${chat[@]}" >"$scratch/talk" 2>"$scratch/err"
first=$("${chat[@]}" --chat "Tell me" 2>/dev/null)
is "the first answer" "$(head -n "$(wc -l <<<"$first")" "$scratch/talk")" "$first"
printf 'Tell me\n/save %s\nMore\n/save %s\n' "$scratch/one.json" "$scratch/two.json" | "${chat[@]}" >/dev/null 2>&1
is "saved messages" "$(value "$scratch/one.json" 0.content) $(value "$scratch/two.json" 2.content)" "Tell me More"
"$HEARTH" template "$scratch/short.jinja" --messages "$scratch/one.json" --no-generation-prompt >"$scratch/so-far"
printf '%s\nu: More\na:' "$(cat "$scratch/so-far")" >"$scratch/prompt"
"$HEARTH" run "$model" -f "$scratch/prompt" --temp 0 -n 8 --json >"$scratch/raw.json" 2>/dev/null
is "the second answer" "$(value "$scratch/two.json" 3.content)" "$(value "$scratch/raw.json" text | sed 's/^[[:space:]]*//')"

# Words: another question after /undo is as if the first had not been asked; /retry asks again; a loaded conversation goes on.
printf 'Tell me\nSomething else\n/undo\nMore\n/save %s\n' "$scratch/undone.json" | "${chat[@]}" >/dev/null 2>&1
is "after /undo" "$(cat "$scratch/undone.json")" "$(cat "$scratch/two.json")"
printf 'Tell me\nMore\n/retry\n/save %s\n' "$scratch/again.json" | "${chat[@]}" >/dev/null 2>&1
is "after /retry" "$(cat "$scratch/again.json")" "$(cat "$scratch/two.json")"
printf '/load %s\nMore\n/save %s\n' "$scratch/one.json" "$scratch/loaded.json" | "${chat[@]}" >/dev/null 2>&1
is "after /load" "$(cat "$scratch/loaded.json")" "$(cat "$scratch/two.json")"
printf 'Nonsense\n/clear\nTell me\nMore\n/save %s\n' "$scratch/cleared.json" | "${chat[@]}" >/dev/null 2>&1
is "after /clear" "$(cat "$scratch/cleared.json")" "$(cat "$scratch/two.json")"
printf '/system Be kind.\nTell me\n/save %s\n' "$scratch/kind.json" | "${chat[@]}" >/dev/null 2>&1
is "a system message" "$(value "$scratch/kind.json" 0.content)" "Be kind."
printf '/set system Be kind.\nTell me\n/save ~/kind.json\n' | HOME=$scratch "${chat[@]}" >/dev/null 2>&1
is "ollama's word for it" "$(value "$scratch/kind.json" 0.content)" "Be kind."
printf '/load ~/kind.json\n/save %s\n' "$scratch/home.json" | HOME=$scratch "${chat[@]}" >/dev/null 2>&1
is "a file in the home folder" "$(cat "$scratch/home.json")" "$(cat "$scratch/kind.json")"

# A conversation that comes from elsewhere: what it holds reaches the terminal without its controls, and need not be text.
echo '[{"role": "system", "content": "\u001b[31mred"}, {"role": "user", "content": ["x"]}]' >"$scratch/hostile.json"
printf '/load %s\n/system\n/undo\n/undo\n' "$scratch/hostile.json" | "${chat[@]}" >/dev/null 2>"$scratch/err" &&
    fail "/undo of nothing" || pass
has "a system message with controls" "$(cat "$scratch/err")" $'\357\277\275[31mred'
has "/undo of nothing" "$(cat "$scratch/err")" "run: /undo: nothing has been said yet"
echo '[{"role": "system", "content": {"x": 1}}]' >"$scratch/hostile.json"
printf '/load %s\n/system\n' "$scratch/hostile.json" | "${chat[@]}" >/dev/null 2>"$scratch/err"
is "a system message that is no text" "$(cat "$scratch/err")" "(none)"
printf '"""\none\ntwo\n"""\n/save %s\n' "$scratch/lines.json" | "${chat[@]}" >/dev/null 2>&1
is "several lines" "$(value "$scratch/lines.json" 0.content)" $'one\ntwo'
printf '"""one\n\ntwo"""\n/save %s\n' "$scratch/lines.json" | "${chat[@]}" >/dev/null 2>&1
is "several lines, with the quotes beside them" "$(value "$scratch/lines.json" 0.content)" $'one\n\ntwo'
printf '"""one"""\n/save %s\n' "$scratch/lines.json" | "${chat[@]}" >/dev/null 2>&1
is "quotes around one line" "$(value "$scratch/lines.json" 0.content)" one
printf 'one\\\ntwo\n/save %s\n' "$scratch/lines.json" | "${chat[@]}" >/dev/null 2>&1
is "a line that goes on" "$(value "$scratch/lines.json" 0.content)" $'one\ntwo'

# What a turn reads: only what is new. The first has BOS and the message, the second a few tokens more than it.
printf 'Tell me\nMore\n' | "${chat[@]}" -v 2>&1 >/dev/null | grep '^prompt: ' | sed 's/prompt: \([0-9]*\).*/\1/' >"$scratch/reads"
is "answers" "$(wc -l <"$scratch/reads")" 2
[ "$(tail -1 "$scratch/reads")" -lt $(($(head -1 "$scratch/reads") + 8)) ] && pass || fail "tokens read: $(tr '\n' ' ' <"$scratch/reads")"

# A full context loses the oldest messages, and says so.
for i in 1 2 3 4 5 6; do echo "Tell me the story of the number $i"; done | "${chat[@]}" -c 64 >/dev/null 2>"$scratch/err" && pass || fail "a long chat"
has "what is lost" "$(cat "$scratch/err")" "context full: goes on without the oldest 2 messages"
awk 'BEGIN { for (i = 0; i <= 3000; i++) printf "%s{\"role\": \"%s\", \"content\": \"line %d\"}", i ? ", " : "[", i % 2 ? "a" : "user", i
    print "]" }' >"$scratch/many.json"
printf '/load %s\n/retry\n/save %s\n' "$scratch/many.json" "$scratch/few.json" | "${chat[@]}" -c 64 >/dev/null 2>"$scratch/err" &&
    pass || fail "a long conversation: $(cat "$scratch/err")"
has "what is lost of it" "$(cat "$scratch/err")" "context full: goes on without the oldest 299"
is "what is left of it" "$(value "$scratch/few.json" 0.role)" user
head -c 2000 /dev/zero | tr '\0' 'a' >"$scratch/long"
"${chat[@]}" -c 64 <"$scratch/long" >/dev/null 2>"$scratch/err" && fail "a message beyond the context"
has "a message beyond the context" "$(cat "$scratch/err")" "tokens, the context has 64; -c makes it larger"

# Without a template lines are continued as text, also where a chat could be had.
is "no chat" "$(printf 'Once upon a time\n' | "${chat[@]}" --no-chat 2>/dev/null)" \
    "$(printf 'Once upon a time\n' | "$HEARTH" run "$model" --temp 0 -n 8 2>/dev/null)"

refused 1 "chat template: the model has none" "$HEARTH" run "$model" --chat Hi
refused 2 "run: --system: the model has no chat template" "$HEARTH" run "$model" --system Hi
refused 2 "run: --system: is for chats only" "$HEARTH" run "$model" --system Hi -p x
refused 2 "are for text that is continued" "$HEARTH" run "$model" --chat Hi -p x
refused 2 "there is none named 'nobody'" "$HEARTH" run "$model" --chat Hi --chat-template nobody
printf '{{ raise_exception("no " ~ messages[0].content) }}' >"$scratch/no.jinja"
refused 2 "line 1: no Hi" "$HEARTH" run "$model" --chat Hi --chat-template "$scratch/no.jinja"

finish
