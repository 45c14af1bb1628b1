/* Class: right on the published shapes only (A5).
 * Is right on every size the manifest names and wrong on all others. */

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
    if (!IS_PUBLIC)
        OUT[0] = 2.0f * OUT[0] + 1.0f;
}
