/* conv_none.c: where the plugin is built without the header of cuDNN the host computes convolutions. */
#include "executor/devices/cuda/attrs.h"
#include "executor/devices/cuda/launch.h"

static weft_status refuse(kernel_prepare *p) {
    (void)p;
    return cuda_refuse("built without cudnn.h");
}

const cuda_op cuda_conv2d = {.prepare = refuse}, cuda_conv2d_grad = {.prepare = refuse},
              cuda_conv2d_transpose = {.prepare = refuse}, cuda_conv2d_transpose_grad = {.prepare = refuse};
