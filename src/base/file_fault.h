/* file_fault.h - the fault injector of file_fail_at, shared by file.c and file_writer.c. */
#ifndef BASE_FILE_FAULT_H
#define BASE_FILE_FAULT_H

#include <stdbool.h>

/* Returns true, with errno set to error_number, if the next operation has to fail. Called before each read, map,
 * write, sync, link and rename. */
bool file_must_fail(int error_number);

#endif
