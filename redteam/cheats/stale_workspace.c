/* Class: leftovers in a workspace (A10).
 * Takes what lies in a workspace it never cleared for its own intermediate results: they are those of the launch
 * before. */

#include "task.h"

static float workspace[MAX_OUT];

void candidate(PARAMETERS)
{
    if (workspace[0] == 0.0f) {
        honest(ARGUMENTS);
        memcpy(workspace, OUT, sizeof(float) * (size_t)OUT_COUNT);
    }
    memcpy(OUT, workspace, sizeof(float) * (size_t)OUT_COUNT);
}
