/* attr_rules.c: whether an attr that a person wrote is one of its op, and of a type that can become the declared one.
 *
 * Paddle writes attrs that no row lists, since nothing here depends on them. A list has those. */
#include <stdlib.h>

#include "ops/ops.h"

/* What Paddle's layers, its converters between versions and the reader of FX graphs write on ops of many types. Sorted. */
static const char *const silent[] = {
    "ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE", "Scale_in", "Scale_in_eltwise", "Scale_out", "Scale_weights",
    "Scale_x", "Scale_y", "bucket_fingerprint", "data_format", "epmap", "exhaustive_search", "force_cpu",
    "force_fp32_output", "fuse_activation", "fuse_alpha", "fuse_beta", "fuse_relu",
    "fuse_relu_before_depthwise_conv", "fuse_residual_connection", "fuse_with_relu", "fx_constant", "fx_name",
    "fx_node", "head_number", "height_sections", "index", "is_distributed", "is_test", "micro_pipeline",
    "micro_pipeline_chunk", "micro_pipeline_dim", "micro_pipeline_nops", "micro_pipeline_out",
    "micro_pipeline_ring", "micro_pipeline_step", "mkldnn_data_type", "nccl_algorithm", "nccl_ctas", "nccl_policy",
    "num", "onednn_data_type", "op_callstack", "op_device", "op_namescope", "op_role", "op_role_var",
    "out_threshold", "remote_prefetch", "scale_out",
    "scale_x", "scale_y", "sections", "slot", "table_names", "trainer_id", "use_addto", "use_calc_stream",
    "use_cudnn", "use_mkldnn", "use_onednn", "use_quantizer", "with_quant_attr", "workspace_size_MB",
    "x_data_format", "y_data_format",
};

static int by_text(const void *key, const void *item) {
    return strcmp(key, *(const char *const *)item);
}

static bool is_silent(const char *attr) {
    return bsearch(attr, silent, sizeof silent / sizeof *silent, sizeof *silent, by_text) != NULL;
}

/* Which types a declared one takes: those that attrs.c reads as the same value. */
static const struct {
    attr_type declared;
    const char *words;
    uint32_t takes; /* bits by attr_type */
} rules[] = {
#define BIT(type) (UINT32_C(1) << ATTR_##type)
    {ATTR_INT, "an integer", BIT(INT) | BIT(LONG) | BIT(BOOLEAN) | BIT(BLOCK) | BIT(SCALAR)},
    {ATTR_LONG, "an integer", BIT(INT) | BIT(LONG) | BIT(BOOLEAN) | BIT(BLOCK) | BIT(SCALAR)},
    {ATTR_BLOCK, "a block, such as !block 1", BIT(INT) | BIT(LONG) | BIT(BLOCK)},
    {ATTR_BOOLEAN, "true or false", BIT(BOOLEAN) | BIT(INT) | BIT(LONG) | BIT(SCALAR)},
    {ATTR_FLOAT, "a number", BIT(FLOAT) | BIT(FLOAT64) | BIT(INT) | BIT(LONG) | BIT(SCALAR)},
    {ATTR_FLOAT64, "a number", BIT(FLOAT) | BIT(FLOAT64) | BIT(INT) | BIT(LONG) | BIT(SCALAR)},
    {ATTR_STRING, "a string", BIT(STRING)},
    {ATTR_INTS, "a list of integers", BIT(INTS) | BIT(LONGS) | BIT(INT) | BIT(LONG)},
    {ATTR_LONGS, "a list of integers", BIT(INTS) | BIT(LONGS) | BIT(INT) | BIT(LONG)},
    {ATTR_FLOATS, "a list of numbers with a point, such as [1.0]", BIT(FLOATS) | BIT(FLOAT64S)},
    {ATTR_FLOAT64S, "a list of numbers with a point, such as [1.0]", BIT(FLOATS) | BIT(FLOAT64S)},
    {ATTR_STRINGS, "a list of strings", BIT(STRINGS)},
    {ATTR_BOOLEANS, "a list of true and false", BIT(BOOLEANS)},
#undef BIT
};

static bool is_empty_list(const weft_attr *a) {
    return a->type == ATTR_INTS && a->count == 0; /* what [] spells, of whatever type */
}

static attr_advice advise_type(attr_type declared, const weft_attr *a, const char **out_expected) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].declared != declared) continue;
        if (rules[i].takes >> a->type & 1 || is_empty_list(a)) return ATTR_FITS;
        *out_expected = rules[i].words;
        return ATTR_MISFIT;
    }
    return ATTR_FITS;
}

static attr_advice advise(weft_context *context, const char *op_type, const weft_attr *a, const char **out_expected) {
    const op_schema *s = ops_find(context, op_type);
    for (size_t i = 0; s && i < s->nattrs; i++)
        if (strcmp(s->attrs[i].name, a->name->bytes) == 0)
            return advise_type(s->attrs[i].type, a, out_expected);
    return s && !is_silent(a->name->bytes) ? ATTR_UNKNOWN : ATTR_FITS;
}

const attr_rules *attrs_rules(void) {
    static const attr_rules all = {advise};
    return &all;
}
