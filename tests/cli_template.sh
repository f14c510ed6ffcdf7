# cli_template.sh - `hearth template`: published templates, byte for byte, and what it refuses.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

templates=$DATA/golden/templates
# The conversations of the references, as files of their own.
python3 - "$templates" "$scratch" <<'PYTHON'
import json, sys
root = json.load(open(sys.argv[1] + "/messages.json"))
for name, messages in root["conversations"].items():
    json.dump(messages, open(f"{sys.argv[2]}/{name}.json", "w"))
json.dump(root["tools"], open(sys.argv[2] + "/tools.json", "w"))
index = json.load(open(sys.argv[1] + "/index.json"))
with open(sys.argv[2] + "/rows", "w") as f:
    for name, row in index["templates"].items():
        print(name, row["messages"], "yes" if row["tools"] else "no", row["variables"].get("bos_token", ""),
              row["variables"].get("eos_token", ""), sep="\t", file=f)
PYTHON

count=0
while IFS= read -r row; do
    name=$(cut -f1 <<<"$row") messages=$scratch/$(cut -f2 <<<"$row").json
    options=(--set strftime_now=2026-01-02T03:04:05)
    [ "$(cut -f3 <<<"$row")" = no ] || options+=(--tools "$scratch/tools.json")
    bos=$(cut -f4 <<<"$row") eos=$(cut -f5 <<<"$row")
    [ -z "$bos" ] || options+=(--set "bos_token=$bos")
    [ -z "$eos" ] || options+=(--set "eos_token=$eos")
    "$HEARTH" template "$templates/$name.jinja" --messages "$messages" "${options[@]}" >"$scratch/with"
    cmp "$scratch/with" "$templates/$name.gen.txt" && pass || fail "$name with a generation prompt"
    "$HEARTH" template "$templates/$name.jinja" --messages - "${options[@]}" --no-generation-prompt <"$messages" >"$scratch/without"
    cmp "$scratch/without" "$templates/$name.txt" && pass || fail "$name without a generation prompt"
    count=$((count + 1))
done <"$scratch/rows"
is "templates" "$count" 22

# A model's own template comes with its tokens; another one by name or file.
model=$DATA/models/stories-relu
mkdir "$scratch/folder"
for file in "$model"/*; do ln -s "$file" "$scratch/folder/"; done
rm -f "$scratch/folder/tokenizer_config.json"
echo '{"chat_template": [{"name": "default", "template": "{{ bos_token }}own"}, {"name": "other", "template": "other{{ n }}"}]}' \
    >"$scratch/folder/tokenizer_config.json"
is "the model's own" "$("$HEARTH" template "$scratch/folder" --messages "$scratch/plain.json")" "<s>own"
is "another of the model's" "$("$HEARTH" template "$scratch/folder" --messages "$scratch/plain.json" --chat-template other --set n=5)" other5
printf '{{ bos_token }}a file' >"$scratch/folder/chat_template.jinja"
is "a file of the folder" "$("$HEARTH" template "$scratch/folder" --messages "$scratch/plain.json")" "<s>a file"
is "a named one" "$("$HEARTH" template "$scratch/folder" --messages "$scratch/plain.json" --chat-template chatml | head -1)" "<|im_start|>user"
# RWKV's: lines under the role's name, the last system message first, thoughts of earlier answers left out.
echo '[{"role": "user", "content": " a\n"}, {"role": "assistant", "content": "<think>x</think> b"}, {"role": "system", "content": "be brief"},
       {"role": "user", "content": "c"}]' >"$scratch/world.json"
world=("$HEARTH" template "$model" --messages "$scratch/world.json" --chat-template rwkv-world --set "bos_token=")
said=$'System: be brief\n\nUser: a\n\nAssistant: b\n\nUser: c\n\n'
is "RWKV's" "$("${world[@]}" && echo .)" "${said}Assistant:."
is "RWKV's, thinking" "$("${world[@]}" --set enable_thinking=true && echo .)" "${said}Assistant: <think>."
is "RWKV's, not thinking" "$("${world[@]}" --set enable_thinking=false && echo .)" "${said}Assistant: <think>"$'\n</think>.'
is "RWKV's, without a prompt" "$("${world[@]}" --no-generation-prompt && echo .)" "$said."
echo '{"chat_template": "rwkv-world"}' >"$scratch/folder/tokenizer_config.json"
rm "$scratch/folder/chat_template.jinja"
is "a template that is a name" "$("$HEARTH" template "$scratch/folder" --messages "$scratch/world.json" --set "bos_token=" && echo .)" "${said}Assistant:."
printf '{{ x is string }} {{ y is string }} {{ z.a }}' >"$scratch/kinds.jinja"
is "kinds of variables" "$("$HEARTH" template "$scratch/kinds.jinja" --messages "$scratch/plain.json" --set x=true --set 'y=<s>' --set 'z={"a": 1}')" \
    "False True 1"

refused 1 "chat template: the model has none" "$HEARTH" template "$model" --messages "$scratch/plain.json"
refused 2 "there is none named 'nobody'; hearth has chatml, " "$HEARTH" template "$model" --messages "$scratch/plain.json" --chat-template nobody
refused 2 "template: --messages: is missing" "$HEARTH" template "$model"
refused 2 "is not NAME=VALUE" "$HEARTH" template "$scratch/kinds.jinja" --messages "$scratch/plain.json" --set x
refused 2 "is not a time such as" "$HEARTH" template "$scratch/kinds.jinja" --messages "$scratch/plain.json" --set strftime_now=today
echo '{"role": "user"}' >"$scratch/none.json"
refused 2 "none.json: messages: is not a list" "$HEARTH" template "$scratch/kinds.jinja" --messages "$scratch/none.json"
echo '[{"content": "x"}]' >"$scratch/none.json"
refused 2 "none.json: message 1: has no role" "$HEARTH" template "$scratch/kinds.jinja" --messages "$scratch/none.json"
printf 'a\n{{ x' >"$scratch/bad.jinja"
refused 1 "bad.jinja: line 2: '{{' without '}}'" "$HEARTH" template "$scratch/bad.jinja" --messages "$scratch/plain.json"
refused 2 "System role not supported" "$HEARTH" template "$templates/google-gemma-2-2b-it.jinja" --messages "$scratch/system.json" --set bos_token=x
is "what comes before an error" "$(wc -c <"$scratch/out")" 0

finish
