/* lost_file.h - ends the program cleanly when another process truncates a mapped file. */
#ifndef CLI_LOST_FILE_H
#define CLI_LOST_FILE_H

/* Installs a handler for SIGBUS that prints one line naming the file and exits with status 1; returning is not
 * possible. */
void lost_file_install(void);

#endif
