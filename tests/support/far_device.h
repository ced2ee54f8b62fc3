/* far_device.h: a device whose memory the host cannot touch. It shows whatever reaches for values behind the device's
 * back: that faults. */
#ifndef TESTS_SUPPORT_FAR_DEVICE_H
#define TESTS_SUPPORT_FAR_DEVICE_H

#include "executor/device.h"

/* "far": for device_register. */
extern const device_engine device_far;

/* What the far device has done since the program began, of all its runs. */
typedef struct far_counts {
    long ninstrs, ncopied_in, ncopied_out, nguards, nenqueued;
    long nfreed_early; /* blocks of an executor that went while it had rings */
} far_counts;
far_counts far_device_counts(void);

#endif
