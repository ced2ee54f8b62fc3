/* op_devices.c: which devices run an op. */
#include <stdio.h>

#include "executor/kernel.h"
#include "ops/table.h"
#include "weft/op_table.h"

static const struct {
    const char *name;
    bool (*has_kernel)(int row);
} devices[] = {
    {"cpu", kernel_is_there},
};
enum { NDEVICES = sizeof devices / sizeof *devices };

static size_t print_devices(int row, char *out_text, size_t nbytes) {
    size_t n = 0;
    if (nbytes) *out_text = '\0';
    for (int d = 0; d < NDEVICES; d++) {
        if (row < 0 || !devices[d].has_kernel(row)) continue;
        size_t left = n < nbytes ? nbytes - n : 0;
        n += (size_t)snprintf(left ? out_text + n : NULL, left, "%s%s", n ? ", " : "", devices[d].name);
    }
    return n;
}

size_t weft_op_devices_print(const char *type, char *out_text, size_t nbytes) {
    return print_devices(ops_row_of(type), out_text, nbytes);
}

weft_status weft_op_table_markdown(weft_context *context, char **out_bytes, size_t *out_nbytes) {
    return op_table_markdown(context, print_devices, out_bytes, out_nbytes);
}
