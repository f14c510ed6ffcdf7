/* measure.h - measures the speed of a device: the figures that `hearth devices` shows and that planning uses. */
#ifndef DEVICE_MEASURE_H
#define DEVICE_MEASURE_H

#include "device.h"

typedef struct device_figures {
    double read_rate;        /* bytes per second that a kernel reads from the device's memory */
    double to_device_rate;   /* bytes per second of copies from pinned memory, in a program */
    double from_device_rate; /* the same in the other direction */
    double start_seconds;    /* of an empty program, from device_start to the end of device_finish */
    double exchange_seconds; /* from the CPU's answer until it sees the next published slot */
    double kernel_seconds;   /* the same with a kernel in between that does no work */
} device_figures;

/* Measures all figures. Uses half of the budget that is left, at most 256 MB, frees it again, and takes a fraction of a
 * second. No program may run meanwhile. HEARTH_NO_MEMORY, HEARTH_DEVICE: from the calls to the device. */
hearth_status device_measure(device *d, device_figures *out, hearth_error *error);

/* Measures read_rate alone. Memory and errors are those of device_measure. */
hearth_status device_measure_read(device *d, double *out, hearth_error *error);

/* Measures bytes per second of rows scattered over the device's memory, a tenth of them for each of STEP_ROWS tokens in one
 * launch: how it reads the neurons that fire, with the product that it uses. row_bytes: a multiple of 64. Memory, duration and
 * errors are those of device_measure. */
hearth_status device_measure_rows(device *d, size_t row_bytes, double *out, hearth_error *error);

#endif
