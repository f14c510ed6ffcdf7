# cli_pull.sh - `hearth pull`: wrong use, nginx with and without TLS, and servers that misbehave.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

if ! "$HEARTH" pull x 2>"$scratch/err" && grep -q "built where libcurl or libcrypto was missing" "$scratch/err"; then
    skip "libcurl is missing"
fi
unset HF_ENDPOINT HF_TOKEN SSL_CERT_FILE http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY

refused 2 "pull: x: is neither a URL nor of the form OWNER/REPO" "$HEARTH" pull x
refused 2 "pull: arguments: too few" "$HEARTH" pull
refused 2 "--sha256: 'abc' is not 64 hexadecimal digits" "$HEARTH" pull http://127.0.0.1:1/x --sha256 abc
refused 2 "--timeout: 0 is out of range" "$HEARTH" pull http://127.0.0.1:1/x --timeout 0
refused 2 "--retry-delay: 61 is out of range" "$HEARTH" pull http://127.0.0.1:1/x --retry-delay 61
refused 2 "pull: -o: is empty" "$HEARTH" pull http://127.0.0.1:1/x -o ""
refused 2 "--list: is for names on the Hub" "$HEARTH" pull http://127.0.0.1:1/x --list
refused 1 "http://127.0.0.1:1/x: " "$HEARTH" pull http://127.0.0.1:1/x --retries 0

# ------------------------------------------------------------------ nginx

# Starts nginx at free ports, with TLS where openssl makes a certificate; sets server, http and https (empty: without TLS). The
# site is $scratch/site.
start_nginx() {
    local attempt tls=
    mkdir -p "$scratch/site" "$scratch/nginx"
    if command -v openssl >/dev/null &&
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
            -keyout "$scratch/nginx/key" -out "$scratch/nginx/certificate" 2>/dev/null; then
        tls=1
    fi
    for attempt in 1 2 3 4 5 6 7 8 9; do
        local port=$((20000 + (RANDOM * 32768 + RANDOM) % 40000))
        http=http://127.0.0.1:$port https=
        [ -z "$tls" ] || https=https://127.0.0.1:$((port + 1))
        cat >"$scratch/nginx/conf" <<CONF
daemon off; master_process off; pid $scratch/nginx/pid; error_log $scratch/nginx/log;
events {}
http {
    access_log off; default_type application/octet-stream;
    client_body_temp_path $scratch/nginx/a; proxy_temp_path $scratch/nginx/b; fastcgi_temp_path $scratch/nginx/c;
    uwsgi_temp_path $scratch/nginx/d; scgi_temp_path $scratch/nginx/e;
    server {
        listen 127.0.0.1:$port;
        root $scratch/site;
        location /api/ { rewrite ^/api/models/(.*)/tree/main\$ /\$1.json break; }
        location ~ ^/(.*)/resolve/main/(.*)\$ { return 302 $http/files/\$2; }
        location /slow/ { alias $scratch/site/; limit_rate_after 400k; limit_rate 4k; }
    }
CONF
        [ -z "$https" ] || cat >>"$scratch/nginx/conf" <<CONF
    server {
        listen ${https#https://} ssl http2;
        ssl_certificate $scratch/nginx/certificate; ssl_certificate_key $scratch/nginx/key;
        root $scratch/site;
        location /down/ { return 302 $http/; }
    }
CONF
        echo "}" >>"$scratch/nginx/conf"
        "$nginx" -p "$scratch/nginx" -c "$scratch/nginx/conf" 2>"$scratch/nginx/said" &
        server=$!
        for _ in $(seq 100); do
            "$HEARTH" pull "$http/none" --retries 0 2>"$scratch/err" || ! grep -q "HTTP status 404" "$scratch/err" || return 0
            kill -0 "$server" 2>/dev/null || break # the port is taken
            sleep 0.05
        done
        kill "$server" 2>/dev/null || true
    done
    return 1
}

pull() { # pull ARGUMENTS...: what it says is in $scratch/said
    got=0
    said=$(cd "$scratch/here" && "$HEARTH" pull "$@" 2>"$scratch/err" </dev/null) || got=$?
}

nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || nginx=
if [ -z "$nginx" ]; then
    skip_part "nginx is missing"
elif ! start_nginx; then
    fail "nginx: $(cat "$scratch/nginx/said" "$scratch/nginx/log" 2>/dev/null | tail -3)"
else
    trap 'kill "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT
    mkdir -p "$scratch/here" "$scratch/site/files" "$scratch/site/me"
    cp "$SOURCE/models/stories-relu-q8_0.gguf" "$scratch/site/files/"
    model=$scratch/site/files/stories-relu-q8_0.gguf
    sum=$(sha256sum <"$model")
    sum=${sum%% *}

    pull "$http/files/stories-relu-q8_0.gguf" --sha256 "$sum"
    is "a file from nginx ($(cat "$scratch/err"))" "$got $said" "0 stories-relu-q8_0.gguf"
    cmp -s "$model" "$scratch/here/$said" && pass || fail "a file from nginx differs"
    is "it runs" "$("$HEARTH" run "$scratch/here/$said" -p "Once upon a time" --temp 0 -n 5 -q)" ", there was a little"
    rm "$scratch/here/"*

    # Interrupted, and gone on with: 400 kB come at once, the rest would take minutes.
    timeout -s INT 2 "$HEARTH" pull "$http/slow/files/stories-relu-q8_0.gguf" -o "$scratch/here/a" 2>"$scratch/err" && fail "not slow" ||
        is "status after Ctrl-C" "$?" 124
    has "what Ctrl-C says" "$(cat "$scratch/err")" "interrupted; the same command goes on behind the 4?? kB in "
    sed -i 's/limit_rate 4k/limit_rate 0/' "$scratch/nginx/conf"
    kill "$server"
    wait "$server" 2>/dev/null || true
    "$nginx" -p "$scratch/nginx" -c "$scratch/nginx/conf" 2>/dev/null &
    server=$!
    pull "$http/slow/files/stories-relu-q8_0.gguf" -o a --json
    printf '%s\n' "$said" >"$scratch/json"
    is "the second run ($(cat "$scratch/err"))" "$got $(value "$scratch/json" files.0.state)" "0 resumed"
    is "its digest" "$(value "$scratch/json" files.0.sha256)" "$sum"
    received=$(value "$scratch/json" files.0.received)
    [ "$received" -gt 0 ] && [ "$received" -lt "$(($(wc -c <"$model") - 400000))" ] && pass || fail "received again: $received"
    rm "$scratch/here/"*

    # Every n-th allocation fails: the whole file, or one line and status 1.
    library=$TOOLS/libfail_malloc.so
    if [ -e "$library" ]; then # sanitizers have a malloc of their own
        mkdir "$scratch/memory"
        limited() { # limited NAME=VALUE
            env "$@" LD_PRELOAD="$library" "$HEARTH" pull "$http/files/stories-relu-q8_0.gguf" -o "$scratch/memory/a" \
                --sha256 "$sum" -q >/dev/null 2>"$scratch/err"
        }
        limited FAIL_MALLOC_COUNT="$scratch/count" && pass || fail "without a failure: $(cat "$scratch/err")"
        errors=0
        for ((n = 0; n < $(cat "$scratch/count"); n++)); do
            rm -f "$scratch/memory/"*
            got=0
            limited FAIL_MALLOC_AT="$n" || got=$?
            if [ $got -eq 0 ]; then
                cmp -s "$model" "$scratch/memory/a" && pass || fail "the file where allocation $n fails"
                continue
            fi
            errors=$((errors + 1))
            is "status and lines where allocation $n fails" "$got $(wc -l <"$scratch/err")" "1 1"
            has "the line where allocation $n fails" "$(cat "$scratch/err")" "memory"
            [ -e "$scratch/memory/a" ] && fail "a file where allocation $n fails" || pass
        done
        [ "$errors" -gt 8 ] && pass || fail "only $errors errors where allocations fail"
    fi

    # A repository, whose files nginx redirects.
    printf '[{"type": "file", "path": "stories-relu-q8_0.gguf", "size": %d, "lfs": {"oid": "%s"}}]' "$(wc -c <"$model")" "$sum" \
        >"$scratch/site/me/stories.json"
    pull me/stories:Q8_0 --endpoint "$http"
    is "a repository ($(cat "$scratch/err"))" "$got $said" "0 stories-relu-q8_0.gguf"
    has "a repository" "$(cat "$scratch/err")" "; SHA-256 as expected"
    pull me/stories --endpoint "$http"
    has "a repository again" "$(cat "$scratch/err")" "is there already"
    rm "$scratch/here/"*

    if [ -z "$https" ]; then
        skip_part "openssl is missing"
    else
        export SSL_CERT_FILE=$scratch/nginx/certificate
        pull "$https/files/stories-relu-q8_0.gguf" --sha256 "$sum"
        is "TLS ($(cat "$scratch/err"))" "$got $said" "0 stories-relu-q8_0.gguf"
        rm "$scratch/here/"*
        refused 1 "redirects from https to http: $http/" "$HEARTH" pull "$https/down/x" --retries 0
        unset SSL_CERT_FILE
        refused 1 "$https/files/x: " "$HEARTH" pull "$https/files/x"
        has "a certificate that nobody vouches for" "$(cat "$scratch/err")" "ertificate"
    fi
    kill "$server"
    wait "$server" 2>/dev/null || true
fi

# ------------------------------------------------------------------ servers that misbehave

command -v python3 >/dev/null || skip "there is no python3"
python3 "$SOURCE/tests/pull_faults.py" "$HEARTH" </dev/null >"$scratch/faults" 2>&1 && pass || fail "$(grep -v ' s$' "$scratch/faults" | tail -30)"
tail -1 "$scratch/faults"

finish
