/* Class: a few elements wrong (A7).
 * Gets every fortieth element wrong: a check that asks for 95 per cent of them is content. */

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
    for (int64_t i = 0; i < OUT_COUNT; i += 40)
        OUT[i] = 7.0f;
}
