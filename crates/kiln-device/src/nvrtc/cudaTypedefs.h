// Its function pointers are for the host.
#pragma once
#include <cuda.h>
