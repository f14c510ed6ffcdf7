# cli_package.sh - what is packed: the unit of systemd as systemd sees it, and the package of Debian, file by file.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

packaging=$SOURCE/packaging
if command -v systemd-analyze >/dev/null; then
    # verify wants to find the program and its man page, which are not installed.
    sed -e "s|^ExecStart=hearth|ExecStart=$HEARTH|" -e '/^Documentation=/d' "$packaging/hearth.service" >"$scratch/hearth.service"
    is "systemd-analyze verify" "$(systemd-analyze verify --man=no "$scratch/hearth.service" 2>&1)" ""
    # From 0 (closed) to 10.0; a service without a setting of its own has 9.6.
    systemd-analyze security --offline=true --threshold=15 "$scratch/hearth.service" >"$scratch/out" 2>&1 && pass ||
        fail "the unit is too open: $(tail -n 1 "$scratch/out")"
else
    skip_part "systemd-analyze is absent"
fi
# Every option that the unit's settings and the container name is one of `hearth serve`.
for option in $(grep -ohE -- '--[a-z-]+' "$packaging/serve.env" <(grep '^CMD' "$packaging/Dockerfile")); do
    is "option $option" "$("$HEARTH" complete -- serve "$option" | cut -f 1 | grep -cx -- "$option")" 1
done

if sanitized; then
    finish # nobody packs those
    exit
fi
for tool in cpack dpkg-deb dpkg-shlibdeps; do
    command -v $tool >/dev/null || skip "$tool is absent"
done
cpack --config "$BUILD/CPackConfig.cmake" -B "$scratch/pack" >"$scratch/out" 2>&1 || fail "cpack: $(cat "$scratch/out")"
deb=$(find "$scratch/pack" -maxdepth 1 -name '*.deb')
version=$("$HEARTH" --version | cut -d ' ' -f 2)
is "name" "${deb##*/}" "hearth_${version}_$(dpkg --print-architecture).deb"
has "libraries" "$(dpkg-deb -f "$deb" Depends)" "libc6 (>= *libjansson4 (>= "
is "lines of the description over 80 columns" "$(dpkg-deb -f "$deb" Description | awk 'length > 80' | wc -l)" 0

# Every file that is installed is in this list, and nothing else.
lib=usr/$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
{
    cat <<END
etc/hearth/serve.env
lib/systemd/system/hearth.service
usr/bin/hearth
usr/include/hearth.h
$lib/libhearth.so
$lib/libhearth.so.${version%%.*}
$lib/libhearth.so.$version
$lib/pkgconfig/hearth.pc
usr/share/bash-completion/completions/hearth
usr/share/doc/hearth/changelog.gz
usr/share/doc/hearth/copyright
usr/share/fish/vendor_completions.d/hearth.fish
usr/share/lintian/overrides/hearth
usr/share/zsh/vendor-completions/_hearth
END
    (cd "$SOURCE" && printf 'usr/share/hearth/%s\n' machines/*.json shapes/*.json && cd models && printf 'usr/share/hearth/%s\n' *.gguf)
    mkdir "$scratch/man"
    "$HEARTH" manual "$scratch/man"
    (cd "$scratch/man" && printf 'usr/share/man/man1/%s.gz\n' *.1)
} | LC_ALL=C sort >"$scratch/expected"
dpkg-deb -x "$deb" "$scratch/root"
(cd "$scratch/root" && find . ! -type d -printf '%P\n') | LC_ALL=C sort >"$scratch/packed"
is "files" "$(diff "$scratch/expected" "$scratch/packed")" ""
is "settings" "$(dpkg-deb -I "$deb" conffiles)" "/etc/hearth/serve.env"
is "files that others may write to" "$(find "$scratch/root" ! -type l -perm /022)" ""
for script in postinst prerm postrm; do
    is "$script" "$(dpkg-deb -I "$deb" $script | sh -n 2>&1)" ""
done

# And it works from there.
is "program" "$("$scratch/root/usr/bin/hearth" --version)" "hearth $version"
is "model" "$(env -u HEARTH_MODEL "$scratch/root/usr/bin/hearth" run -p "Once upon a time" --temp 0 -n 8 -q)" ", there was a little girl"
has "man page" "$(zcat "$scratch/root/usr/share/man/man1/hearth-run.1.gz")" ".SH SYNOPSIS"
has "changelog" "$(zcat "$scratch/root/usr/share/doc/hearth/changelog.gz")" "hearth ($version) unstable"
sed -n '5,$p' "$SOURCE/LICENSE" | sed 's/^$/./; s/^/ /' >"$scratch/licence"
is "licence" "$(tail -n "$(wc -l <"$scratch/licence")" "$scratch/root/usr/share/doc/hearth/copyright")" "$(cat "$scratch/licence")"

finish
