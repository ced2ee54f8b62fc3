/* plan_json.h: a plan as JSON. */
#ifndef CLI_PLAN_JSON_H
#define CLI_PLAN_JSON_H

#include "cli/json.h"
#include "weft/plan.h"

WEFT_MUST_USE weft_status plan_json(const cli_args *args, const weft_plan *plan);

#endif
