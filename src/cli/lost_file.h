/* lost_file.h - what becomes of a program whose mapped file is cut short by another. */
#ifndef CLI_LOST_FILE_H
#define CLI_LOST_FILE_H

/* SIGBUS: one line that names the file, and exit status 1. There is nothing to return to. */
void lost_file_install(void);

#endif
