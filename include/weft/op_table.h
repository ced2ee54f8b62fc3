/* weft/op_table.h: what Weft knows of each op type: the rows of its op table, as text.
 *
 * Slots are written "X, Y?, Rest*". A slot with ? may be absent or empty, one with * takes any number of arguments. An
 * output "Out=X" may share the memory of input X. Attrs are written "axis: int = -1" with their defaults. All strings
 * are static. */
#ifndef WEFT_OP_TABLE_H
#define WEFT_OP_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_op_info {
    const char *type;
    const char *family; /* ops of one family share source files */
    const char *summary;
    const char *inputs, *outputs, *attrs;
    uint32_t effects;   /* weft_op_effects_print */
    bool has_inference; /* types of outputs follow from those of inputs; else declared types hold */
} weft_op_info;

/* Rows in the table's order; `index` < weft_op_info_count(). */
size_t weft_op_info_count(void);
weft_op_info weft_op_info_at(size_t index);
/* False if there is no op of that type in the table: then it is legal in programs and passes, and cannot run. */
bool weft_op_info_find(const char *type, weft_op_info *out_info);

/* "collective, linear": effects as text, cut to nbytes - 1 bytes; returns the bytes that all of them need. */
size_t weft_op_effects_print(uint32_t effects, char *out_text, size_t nbytes);

/* "cpu": the devices that have a kernel for ops of that type. Cut to nbytes - 1 bytes; returns the bytes that all of
 * them need. It returns 0 where the planner does the op's work, or nothing runs it. */
size_t weft_op_devices_print(const char *type, char *out_text, size_t nbytes);
/* Whether ops of that type run: a device has a kernel for them, or the planner does their work or puts others in their
 * place. */
bool weft_op_can_run(const char *type);

/* Why ops of that type run on the host where the executor's device is `device`, with copies there and back; NULL: they
 * do not, or nothing runs them. Types of arguments may be another reason (weft_executor_options.strict_device). A device
 * that is opened at run time is looked for, and not used. Static. */
WEFT_MUST_USE weft_status weft_op_host_reason(weft_context *context, const char *device, const char *type,
                                              const char **out_why);

/* What versions of Paddle disagree on, of one op type. */
typedef struct weft_op_version {
    const char *type;
    int64_t since;           /* programs of an older version get `before`; 0: no program does, since it is wrong */
    const char *versions;    /* since 0: the versions of Paddle that compute `before`; else NULL */
    const char *before, *now;
    bool is_older;           /* of an op: its program is of an older version */
} weft_op_version;

/* Rows in the table's order; false behind the last. */
bool weft_op_version_at(size_t index, weft_op_version *out_version);
/* The row of an op's type, and whether the op's program is of an older version. False: there is none. */
bool weft_op_version_find(const weft_op *op, weft_op_version *out_version);

/* The whole table as Markdown: docs/ops.md. Owned by the caller (weft_bytes_free). */
WEFT_MUST_USE weft_status weft_op_table_markdown(weft_context *context, char **out_bytes, size_t *out_nbytes);

#ifdef __cplusplus
}
#endif
#endif
