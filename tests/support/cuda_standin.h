/* cuda_standin.h: the plugin for CUDA on stand-ins for its libraries, in this process. */
#ifndef TESTS_SUPPORT_CUDA_STANDIN_H
#define TESTS_SUPPORT_CUDA_STANDIN_H

#include "executor/device.h"

/* Opens them from the folder of the test's variant; before anything else asks for the device. NULL: the plugin is not
 * built here, and the test is skipped. */
const device_engine *cuda_standin_open(void);
/* In what order streams run from now on. */
void cuda_standin_seed(unsigned seed);

#endif
