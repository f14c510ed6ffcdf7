/* measure.h - what a device can do: the figures that `hearth devices` shows and that a plan is made of. */
#ifndef DEVICE_MEASURE_H
#define DEVICE_MEASURE_H

#include "device.h"

typedef struct device_figures {
    double read_rate;      /* bytes per second that a kernel reads from the device's memory           */
    double to_device_rate; /* bytes per second of copies from pinned memory, in a program              */
    double from_device_rate;
    double start_seconds;    /* an empty program, from device_start to the end of device_finish        */
    double exchange_seconds; /* the CPU answers, the device goes on and publishes the next slot, the CPU sees it */
    double kernel_seconds;   /* the same with a kernel in between that has nothing to do               */
} device_figures;

/* Takes half of the budget that is left, at most 256 MB, and a fraction of a second; gives the memory back. No program
 * may run meanwhile. HEARTH_NO_MEMORY, HEARTH_DEVICE as the calls below it. */
hearth_status device_measure(device *d, device_figures *out, hearth_error *error);

#endif
