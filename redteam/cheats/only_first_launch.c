/* Class: computes once (A1).
 * Works at its first launch and never again: whoever looks once sees the right answer, and the loop is free. */

#include "task.h"

static int launched;

void candidate(PARAMETERS)
{
    if (launched++)
        return;
    honest(ARGUMENTS);
}
