/* show_json.c: a program's ops and vars as JSON. */
#include "cli/json.h"
#include "cli/show_parts.h"

static json_t *slots_json(const weft_op *op, bool output) {
    json_t *slots = json_object();
    for (size_t s = 0; s < weft_op_nslots(op, output); s++) {
        size_t nargs = 0;
        const char *slot = weft_op_slot(op, output, s, &nargs);
        json_t *names = json_array();
        for (size_t i = 0; i < nargs; i++)
            cli_json_put(&names, NULL, cli_json_text(weft_var_name(weft_op_arg(op, output, s, i))));
        cli_json_put(&slots, slot, names);
    }
    return slots;
}

static json_t *op_json(const weft_op *op, size_t index) {
    long long ring = weft_op_attr_int(op, "ring_id", -1);
    json_t *awaited = json_array(), *made = json_object();
    for (size_t i = 0; weft_op_event_awaited(op, i); i++)
        cli_json_put(&awaited, NULL, cli_json_text(weft_op_event_awaited(op, i)));
    cli_json_put(&made, "index", json_integer((json_int_t)index));
    cli_json_put(&made, "type", cli_json_text(weft_op_type(op)));
    cli_json_put(&made, "role", json_string(role_word(weft_op_role(op))));
    cli_json_put(&made, "inputs", slots_json(op, false));
    cli_json_put(&made, "outputs", slots_json(op, true));
    cli_json_put(&made, "ring", ring >= 0 ? json_integer(ring) : json_null());
    cli_json_put(&made, "stream", cli_json_text(weft_op_stream(op)));
    cli_json_put(&made, "waits_for", awaited);
    cli_json_put(&made, "records", cli_json_text(weft_op_event_recorded(op)));
    return made;
}

static weft_status put_var(const cli_args *args, const weft_var *v, json_t **vars) {
    const char *dtype = weft_dtype_name(weft_var_dtype(v));
    json_t *shape = json_array(), *made = json_object();
    for (size_t i = 0; i < weft_var_ndim(v); i++) cli_json_put(&shape, NULL, json_integer(weft_var_dims(v)[i]));
    cli_json_put(&made, "name", cli_json_text(weft_var_name(v)));
    cli_json_put(&made, "dtype", dtype ? json_string(dtype) : json_null());
    cli_json_put(&made, "shape", shape);
    cli_json_put(&made, "persistable", json_boolean(weft_var_persistable(v)));
    weft_status status = NULL;
    if (cli_given(args, "--placements")) {
        char *text;
        size_t nbytes;
        status = weft_var_placement_print(v, &text, &nbytes);
        if (!status) {
            cli_json_put(&made, "placement", cli_json_text(text));
            weft_bytes_free(args->context, text, nbytes);
        }
    }
    cli_json_put(vars, NULL, made);
    return status;
}

static weft_status put_block(const cli_args *args, const weft_block *block, size_t block_index, json_t **blocks) {
    json_t *ops = json_array(), *vars = json_array(), *made = json_object();
    weft_status status = NULL;
    size_t index = 0;
    for (const weft_op *op = weft_block_first_op(block); op; op = weft_op_next(op), index++)
        if (op_is_shown(args, op)) cli_json_put(&ops, NULL, op_json(op, index));
    bool lists_vars = cli_given(args, "--vars") || cli_given(args, "--placements");
    for (size_t i = 0; lists_vars && !status && i < weft_block_nvars(block); i++)
        status = put_var(args, weft_block_var_at(block, i), &vars);
    cli_json_put(&made, "index", json_integer((json_int_t)block_index));
    cli_json_put(&made, "nops", json_integer((json_int_t)weft_block_nops(block)));
    cli_json_put(&made, "nvars", json_integer((json_int_t)weft_block_nvars(block)));
    cli_json_put(&made, "ops", ops);
    if (lists_vars)
        cli_json_put(&made, "vars", vars);
    else
        json_decref(vars);
    cli_json_put(blocks, NULL, made);
    return status;
}

weft_status show_json(const cli_args *args, const weft_program *program) {
    json_t *blocks = json_array();
    weft_status status = NULL;
    for (size_t b = 0; !status && b < weft_program_nblocks(program); b++)
        status = put_block(args, weft_program_block(program, b), b, &blocks);
    json_t *root = json_pack("{s:o}", "blocks", blocks);
    if (!status) return cli_json_print(args, root, stdout);
    json_decref(root);
    return status;
}
