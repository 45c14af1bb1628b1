/* Every row less its mean, over its standard deviation: a candidate that does what it should. */

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
}
