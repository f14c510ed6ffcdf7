# check_fails.sh - what the tests of checks of the tree share. Sourced; expects CHECK in $1, and $subject: the file of a tree
# of its own, $root, that a case writes.
set -eu
check=$1
root=$(mktemp -d "${TMPDIR:-/tmp}/check fails XXXXXX")
trap 'rm -rf "$root"' EXIT

# expect STATUS TEXT: the check ends so and says so about the subject, which holds standard input.
expect() {
    cat >"$root/$subject"
    status=0
    said=$("$check" "$root" 2>&1) || status=$?
    if [ "$status" -ne "$1" ] || ! echo "$said" | grep -qF "$2"; then
        echo "expected status $1 and \"$2\", got $status and: $said"
        exit 1
    fi
}
