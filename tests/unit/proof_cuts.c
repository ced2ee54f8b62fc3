/* What the proof against a serial program says of ops whose inputs are in parts holds of the recorded kernels. */
#include "tests/support/ops_folders.h"

Test(proof_cuts, parts_give_parts_and_partial_sums) {
    ops_folders_check_all(ops_fixture_run_cuts);
}
