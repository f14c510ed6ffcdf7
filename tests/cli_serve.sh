# cli_serve.sh - `hearth serve`: what it answers, what it refuses, clients that go, and its end.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$SOURCE/models/stories-relu-q8_0.gguf
serve=("$HEARTH" serve "$model" --port 0)
if ! "${serve[@]}" --host 192.0.2.1 2>"$scratch/err" && grep -q "built where libmicrohttpd was missing" "$scratch/err"; then
    skip "libmicrohttpd is missing"
fi

refused 1 "192.0.2.1, port 0: listen: " "${serve[@]}" -q --host 192.0.2.1
refused 1 "no.such.host.invalid, port 0: " "${serve[@]}" -q --host no.such.host.invalid
refused 2 "--port: 65536 is out of range" "$HEARTH" serve "$model" --port 65536
refused 2 "--parallel: 0 is out of range" "${serve[@]}" --parallel 0
refused 2 "serve: --api-key: is empty" "${serve[@]}" --api-key ""
refused 1 "no-such-file" "${serve[@]}" --api-key-file no-such-file
printf '# nothing but a comment\n' >"$scratch/keys"
refused 2 "has no key" "${serve[@]}" --api-key-file "$scratch/keys"
refused 1 "no-such-folder: is no folder" "${serve[@]}" -q --cache-dir no-such-folder
refused 2 "--cache-memory: 'much' is not a size" "${serve[@]}" --cache-memory much
refused 2 "do not hold the keys and values of one token" "${serve[@]}" -q --cache-memory 8
refused 2 "token is 512, expected 0 to 511" "${serve[@]}" -q --logit-bias 512=1
refused 2 "--pooling" "${serve[@]}" --pooling max
refused 2 "--body-limit: 'much' is not a size" "${serve[@]}" --body-limit much
refused 2 "there is none named 'nobody'" "${serve[@]}" -q --chat-template nobody
refused 1 "no-such-model" "$HEARTH" serve no-such-model

# Several models: what is wrong is said before the first is loaded, but for a file that does not open.
several=("$HEARTH" serve "$model" "other=$model" --port 0)
refused 2 "have one name, stories-relu-q8_0: NAME=MODEL gives another" "$HEARTH" serve "$model" "$model"
refused 2 "have one name, other" "${several[@]}" "other=$model"
refused 2 "--alias: names one model" "${several[@]}" --alias name
refused 2 "--tune: belongs to one model, but 2 are to be served" "${several[@]}" --tune no-such-file
refused 2 "--place: belongs to one model" "${several[@]}" --place no-such-file
refused 2 "--ffn-activation: belongs to one model" "${several[@]}" --ffn-activation relu
refused 2 "--threshold: belongs to one model" "${several[@]}" --sparsity predicted --threshold 0
refused 2 "serve: MODEL: is empty" "$HEARTH" serve "$model" other=
refused 1 "no-such-model" "${several[@]}" no-such-model
refused 1 "./a=b.gguf" "$HEARTH" serve "$model" ./a=b.gguf

# The commands of docs/serve.md, asked of a server at another port.
: >"$scratch/listening"
"${serve[@]}" -q --chat-template chatml >"$scratch/listening" 2>"$scratch/err" </dev/null &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT
for _ in $(seq 600); do
    url=$(sed -n 's/^listening on //p' "$scratch/listening")
    [ -z "$url" ] || break
    sleep 0.05
done
if command -v curl >/dev/null; then
    awk '
        /^    > / && open { command = command " " substr($0, 7); next }
        open { print command; open = 0 }
        /^    \$ curl / { command = substr($0, 7); open = 1 }
    ' "$SOURCE/docs/serve.md" >"$scratch/commands"
    while IFS= read -r command; do
        eval "${command//http:\/\/127.0.0.1:8080/$url}" >"$scratch/answer" 2>&1 </dev/null && pass || fail "$command: $?"
        case "$command" in
            *top_p*) has "$command" "$(cat "$scratch/answer")" '"param":"top_p"' ;;
            *) is "$command: errors ($(head -c 200 "$scratch/answer"))" "$(grep -c '"error":{' "$scratch/answer" || true)" 0 ;;
        esac
    done <"$scratch/commands"
    [ "$(wc -l <"$scratch/commands")" -ge 11 ] && pass || fail "commands of docs/serve.md: $(cat "$scratch/commands")"
else
    skip_part "curl is missing"
fi
kill "$server"
wait "$server" && pass || fail "the end of a server: $?"

command -v python3 >/dev/null || skip "there is no python3"
if ! sanitized && [ -e "$BUILD/libhearth.so.0" ]; then # for vectors by their definition; a sanitized one cannot be loaded
    export HEARTH_LIBRARY=$BUILD/libhearth.so.0 PYTHONPATH=$SOURCE/bindings/python PYTHONDONTWRITEBYTECODE=1
fi
! sanitized || export KEEPS_FREED=1 # a sanitizer keeps what is freed for a while
python3 "$SOURCE/tests/serve_clients.py" "$HEARTH" "$model" </dev/null >"$scratch/clients" 2>&1 && pass ||
    fail "clients: $(grep -v ' s$' "$scratch/clients" | tail -20)"
tail -1 "$scratch/clients"

finish
