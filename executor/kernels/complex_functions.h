/* complex_functions.h: functions of complex numbers, one element at a time. */
#ifndef EXECUTOR_KERNELS_COMPLEX_FUNCTIONS_H
#define EXECUTOR_KERNELS_COMPLEX_FUNCTIONS_H

#include "executor/kernel.h"

/* Whether the call is of complex tensors, and its op a function that is known of them. */
bool complex_function_fits(const kernel_prepare *p);
/* Stands for the kernel of the call's op. */
extern const kernel kernel_complex_function;

#endif
