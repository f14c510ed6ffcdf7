/* times.h - how long every command of a device's programs takes: the key `times` of a spec.
 *
 * A stamp follows each command of the main queue, and a program's mean times are written to the file when it is destroyed: a row
 * of CSV for all launches of a kernel with the same items, for all copies of the same size, and for all exchanges of a kind. The
 * stamps take time too (on an H200 about a microsecond each), and they are in the figures. The file appears when the device is
 * closed, complete or not at all. */
#ifndef DEVICE_TIMES_H
#define DEVICE_TIMES_H

#include "driver.h"

/* Begins the file. HEARTH_IO: it cannot be made. */
hearth_status times_open(device *d, hearth_error *error);
void times_close(device *d);

/* Adds the stamps to a program that is about to be sealed, if its device is timed. */
hearth_status times_record(device_program *p, hearth_error *error);
/* Adds up the times of a run that has ended. */
void times_note(device_program *p);
/* Writes the rows of a program that was run, and frees what times_record made. */
void times_write(device_program *p);

#endif
