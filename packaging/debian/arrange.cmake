# arrange.cmake - makes the folder that CPack is about to pack one of Debian's: what is elsewhere there, what only a package
# has, and compressed what Debian compresses.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(usr ${root}${CPACK_PACKAGING_INSTALL_PREFIX})
set(doc ${usr}/share/doc/hearth)

# Settings that are the administrator's to change.
file(MAKE_DIRECTORY ${root}/etc/hearth)
file(RENAME ${usr}/share/hearth/serve.env ${root}/etc/hearth/serve.env)

# Debian's systemd and zsh look here.
file(MAKE_DIRECTORY ${root}/lib ${usr}/share/zsh/vendor-completions)
file(RENAME ${usr}/lib/systemd ${root}/lib/systemd)
file(RENAME ${usr}/share/zsh/site-functions/_hearth ${usr}/share/zsh/vendor-completions/_hearth)
file(REMOVE_RECURSE ${usr}/share/zsh/site-functions)

# The history of the package is that of the tree: its changelog says when it was made. For SOURCE_DATE_EPOCH too.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${CMAKE_CURRENT_LIST_DIR}/changelog.in ${doc}/changelog @ONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/copyright ${doc}/copyright COPYONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/lintian-overrides ${usr}/share/lintian/overrides/hearth COPYONLY)

file(GLOB compressed ${usr}/share/man/man1/*.1 ${doc}/changelog)
execute_process(COMMAND gzip -9n ${compressed} COMMAND_ERROR_IS_FATAL ANY)
