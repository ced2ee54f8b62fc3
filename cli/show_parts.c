/* show_parts.c: which ops weft show shows, and what it calls their roles. */
#include "cli/show_parts.h"

#include <string.h>

const char *role_word(int role) {
    if (role & WEFT_ROLE_LR_SCHED) return "lr_sched";
    if (role & WEFT_ROLE_OPTIMIZE) return "optimize";
    if (role & WEFT_ROLE_LOSS) return role & WEFT_ROLE_BACKWARD ? "loss-grad" : "loss";
    if (role & WEFT_ROLE_BACKWARD) return "backward";
    return role == WEFT_ROLE_FORWARD ? "forward" : "-";
}

bool op_mentions(const weft_op *op, const char *var) {
    for (int output = 0; output < 2; output++)
        for (size_t s = 0; s < weft_op_nslots(op, output); s++) {
            size_t nargs = 0;
            weft_op_slot(op, output, s, &nargs);
            for (size_t i = 0; i < nargs; i++)
                if (strcmp(weft_var_name(weft_op_arg(op, output, s, i)), var) == 0) return true;
        }
    return false;
}

bool op_is_shown(const cli_args *args, const weft_op *op) {
    const char *var = cli_value(args, "--var"), *type = cli_value(args, "--type");
    return (!type || strcmp(weft_op_type(op), type) == 0) && (!var || op_mentions(op, var));
}
