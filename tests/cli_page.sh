# cli_page.sh - the page of `hearth serve` in a browser: by itself, beside a server of made-up answers that can fail in every
# way (tests/page/mock.py), and as the server gives it out.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$SOURCE/models/stories-relu-q8_0.gguf
sanitized && skip "the page is the same in builds with sanitizers"
command -v python3 >/dev/null || skip "there is no python3"
command -v chromium >/dev/null || skip "chromium is missing"

# drive WHAT [URL]
drive() {
    local what=$1
    shift
    python3 "$SOURCE/tests/page/drive.py" "$@" </dev/null >"$scratch/$what" 2>&1 && pass ||
        fail "$what: $(grep -iv '^ok' "$scratch/$what" | tail -20)"
    echo "$what: $(tail -1 "$scratch/$what")"
}

drive mock
"$HEARTH" serve "$model" --port 0 --sparsity exact --no-guard >"$scratch/out" 2>"$scratch/err" &
server=$!
for _ in $(seq 100); do
    grep -q "^listening on" "$scratch/out" && break
    sleep 0.1
done
url=$(sed -n 's/^listening on //p' "$scratch/out")
if [ -n "$url" ]; then
    drive served "$url"
    curl_like="import urllib.request, sys; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())"
    live=$(python3 -c "$curl_like" "$url/live")
    has "live: layers" "$live" '"form":"host"'
    has "live: bytes" "$live" '"bytes_per_token":'
    printf '%s' "$live" >"$scratch/live.json"
    fired=$(value "$scratch/live.json" layers.0.fired)
    awk -v f="$fired" 'BEGIN { exit !(f > 0 && f < 512) }' && pass || fail "live: $fired of 512 neurons fired"
elif grep -q "built where libmicrohttpd was missing" "$scratch/err"; then
    skip_part "the page of a server: libmicrohttpd is missing"
else
    fail "the server does not start: $(cat "$scratch/err")"
fi
kill "$server" 2>/dev/null || true
wait "$server" 2>/dev/null || true

finish
