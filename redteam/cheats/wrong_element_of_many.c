/* Class: wrong now and then (A11).
 * Drops the store of one element in a place that moves from launch to launch. */

#include "task.h"

static unsigned launches;

void candidate(PARAMETERS)
{
    const int64_t hole = (int64_t)(launches++ * 2654435761u) % OUT_COUNT;
    const float before = OUT[hole];
    honest(ARGUMENTS);
    OUT[hole] = before;
}
