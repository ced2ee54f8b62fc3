/* calibrate.c: a machine is measured: every number that a model asks for is there, and the file reads back. What the
 * numbers are is the machine's. */
#include <stdio.h>
#include <string.h>

#include "tests/support/plain.h"
#include "weft/calibrate.h"

int main(void) {
    weft_context *context;
    weft_cluster c, d;
    char *bytes;
    size_t nbytes;
    must(weft_context_create(NULL, &context));
    weft_calibrate_options options = {WEFT_CALIBRATE_OPTIONS_INIT, .nranks = 2, .most_nbytes = 8192, .nsteps = 3};
    must(weft_calibrate(context, &options, &c));
    check(c.flops > 0 && c.bytes > 0 && c.op_seconds > 0, "c.flops > 0 && c.bytes > 0 && c.op_seconds > 0");
    check(c.compute_beside_collective >= 1 && c.collective_beside_compute >= 1,
          "c.compute_beside_collective >= 1 && c.collective_beside_compute >= 1");
    check(c.nlinks == 1 && c.links[0].bytes > 0 && c.links[0].seconds > 0,
          "c.nlinks == 1 && c.links[0].bytes > 0 && c.links[0].seconds > 0");
    const weft_cluster_products *p = &c.products;
    check(p->npoints > 4 && p->rows[0] < p->rows[1], "products of several rows");
    for (size_t i = 0; i < p->npoints; i++) check(p->flops[i] > 0, "a product has a rate");
    check(c.ntables == 4, "c.ntables == 4");
    for (size_t t = 0; t < c.ntables; t++) {
        check(c.tables[t].nranks == 2 && c.tables[t].npoints == 4,
              "c.tables[t].nranks == 2 && c.tables[t].npoints == 4");
        check(c.tables[t].nbytes[0] == 1024 && c.tables[t].nbytes[3] == 8192 && c.tables[t].seconds[0] > 0,
              "c.tables[t].nbytes[0] == 1024 && c.tables[t].nbytes[3] == 8192 && c.tables[t].seconds[0] > 0");
    }
    must(weft_cluster_print(context, &c, &bytes, &nbytes));
    must(weft_cluster_parse(context, bytes, nbytes, "printed", &d));
    check(memcmp(&c, &d, sizeof c) == 0, "memcmp(&c, &d, sizeof c) == 0");
    weft_bytes_free(context, bytes, nbytes);
    options.nranks = 0;
    weft_status status = weft_calibrate(context, &options, &c);
    check(weft_status_code(status) == WEFT_INVALID_ARGUMENT, "weft_status_code(status) == WEFT_INVALID_ARGUMENT");
    weft_status_free(status);
    weft_context_destroy(context);
    return report_checks();
}
