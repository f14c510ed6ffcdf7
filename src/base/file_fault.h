/* file_fault.h - between file.c and file_writer.c: the fault injector behind file_fail_at. */
#ifndef BASE_FILE_FAULT_H
#define BASE_FILE_FAULT_H

#include <stdbool.h>

/* To be asked before each read, map, write, sync, link and rename: true where it has to fail,
 * with errno set to error_number. */
bool file_must_fail(int error_number);

#endif
