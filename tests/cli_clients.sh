# cli_clients.sh - programs that were not written for hearth as clients of `hearth serve`: the Python packages openai and
# anthropic, and lm-eval, whose results must be those of `hearth eval` (tests/clients/README.md).
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

if sanitized; then
    pass # cli_serve asks sanitized servers the same, and more; here it is about the clients
    finish
    exit
fi
model=$SOURCE/models/stories-relu-q8_0.gguf
if ! "$HEARTH" serve "$model" --port 0 --host 192.0.2.1 2>"$scratch/err" &&
    grep -q "built where libmicrohttpd was missing" "$scratch/err"; then
    skip "libmicrohttpd is missing"
fi
command -v python3 >/dev/null || skip "there is no python3"

# A Python of its own, since these packages bring other versions of what the packages of other tests need.
list=$SOURCE/tests/requirements-clients.txt
python=$BUILD/clients/bin/python
install() {
    cmp -s "$list" "$BUILD/clients/installed" && return
    rm -rf "$BUILD/clients"
    python3 -m venv "$BUILD/clients" &&
        timeout 300 "$python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps -r "$list" &&
        cp "$list" "$BUILD/clients/installed"
}
begun=$SECONDS
install >"$scratch/pip" 2>&1 || skip "Python has not the packages of tests/requirements-clients.txt, and pip cannot install them"
echo "packages: $((SECONDS - begun)) s, $(du -sm "$BUILD/clients" | cut -f1) MB"

export PYTHONPYCACHEPREFIX=$BUILD/clients/pycache # not in the tree
for script in "$SOURCE"/tests/clients/*_package.py; do
    name=$(basename "$script" .py)
    "$python" "$script" "$HEARTH" "$model" </dev/null >"$scratch/$name" 2>&1 && pass ||
        fail "$name: $(grep -v ' s$' "$scratch/$name" | tail -20)"
    sed "s/^/$name: /" "$scratch/$name" | grep -v FAIL
done

finish
