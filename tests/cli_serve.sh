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
refused 2 "--body-limit: 'much' is not a size" "${serve[@]}" --body-limit much
refused 2 "there is none named 'nobody'" "${serve[@]}" -q --chat-template nobody
refused 1 "no-such-model" "$HEARTH" serve no-such-model

command -v python3 >/dev/null || skip "there is no python3"
python3 "$SOURCE/tests/serve_clients.py" "$HEARTH" "$model" </dev/null >"$scratch/clients" 2>&1 && pass ||
    fail "clients: $(grep -v ' s$' "$scratch/clients" | tail -20)"
tail -1 "$scratch/clients"

finish
